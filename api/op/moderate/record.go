package moderate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// listedIDs is how many ids a text about a record lists. More of them are counted.
const listedIDs = 10

// RecordWhat returns the subject of a record, state.Record.What, as text.
func RecordWhat(action, what string) string {
	switch action {
	case state.ActionHide, state.ActionUnhide, state.ActionPurge:
		if !strings.HasPrefix(what, "a ") { // ids, and no purge list or selection
			return idsText(what)
		}
	case state.ActionResolve:
		outcome, ids, _ := strings.Cut(what, " ")
		if n := len(strings.Fields(ids)); n > listedIDs || strings.ContainsAny(ids, command.ProfileMark+command.ChannelMark) {
			return idsText(ids) + " as " + outcome
		} else if n > 1 {
			return fmt.Sprintf("%d entries as %s: %s", n, outcome, idsText(ids))
		}
		return "1 entry as " + outcome + ": " + ids
	}
	return what
}

// idsText lists the ids of entries and profiles if they are few. Otherwise it returns the
// number of entries with the oldest and the newest one, and the number of profiles.
func idsText(what string) string {
	ids := strings.Fields(what)
	if len(ids) <= listedIDs {
		return strings.Join(ids, ", ")
	}
	names, entries, profiles := map[uint64]string{}, []uint64(nil), []string(nil)
	for _, id := range ids {
		if _, seq, is := state.ParseID(id); is {
			entries, names[seq] = append(entries, seq), id
		} else {
			profiles = append(profiles, id)
		}
	}
	var texts []string
	if len(entries) > 0 {
		texts = append(texts, fmt.Sprintf("%d entries, %s to %s", len(entries), names[slices.Min(entries)], names[slices.Max(entries)]))
	}
	switch len(profiles) {
	case 0:
	case 1:
		texts = append(texts, profiles[0])
	default:
		texts = append(texts, fmt.Sprintf("%d profiles", len(profiles)))
	}
	return strings.Join(texts, " and ")
}
