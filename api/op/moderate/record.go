package moderate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// recordTexts describe the actions of records: with their subject, and with one that is not public.
var recordTexts = map[string]struct{ to, toSome string }{
	state.ActionHide:            {"Hid %", ""},
	state.ActionUnhide:          {"Showed % again", ""},
	state.ActionPurge:           {"Erased % for good", ""},
	state.ActionAskPurge:        {"Hid %, to be erased if another moderator confirms it within a day", ""},
	state.ActionLapsePurge:      {"No other moderator confirmed within a day that % is to be erased: the texts are kept", ""},
	state.ActionDestroyDisk:     {"Said that the disk of the former server % was destroyed", "Said that the disk of a former server was destroyed"},
	state.ActionSetModerator:    {"Gave the moderator % a token", "Gave a moderator a token"},
	state.ActionRemoveModerator: {"Ended the token of the moderator %", "Ended the token of a moderator"},
	state.ActionSettings:        {"Changed settings: %", ""},
	state.ActionSetWebhook:      {"", "Set the receiver of news for moderators"},
	state.ActionRemoveWebhook:   {"", "Removed the receiver of news for moderators"},
	state.ActionResolve:         {"Settled reports of %", ""},
	state.ActionHold:            {"Holds texts with the %, for review", "Holds texts with certain words, for review"},
	state.ActionHoldWriter:      {"Holds writes of the %, for review", "Holds writes of a sender or a name, for review"},
	"watch":                     {"Rejects texts with the %", "Rejects texts with certain words"},
	"unwatch":                   {"No longer looks for the %", "No longer looks for certain words"},
	"block":                     {"Blocked the %", "Blocked a sender or a name"},
	"unblock":                   {"Unblocked the %", "Unblocked a sender or a name"},
	"freeze":                    {"Froze writes: %", "Froze writes to a channel"},
	"unfreeze":                  {"Ended the freeze of writes: %", "Ended the freeze of a channel"},
	"hide_channel":              {"Hid the name of the %", "Hid the name of a channel"},
	"unhide_channel":            {"Showed the name of the % again", "Showed the name of a channel again"},
}

// listedIDs is how many ids a text about a record lists. More of them are counted.
const listedIDs = 10

// RecordWhat returns the subject of a record, state.Record.What, as text.
func RecordWhat(action, what string) string {
	switch action {
	case state.ActionHide, state.ActionUnhide, state.ActionPurge, state.ActionAskPurge, state.ActionLapsePurge:
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

// selectedText returns the public subject of a record with a private one: the size of a selection,
// whose ids together would link the names of a sender. Other private subjects are empty.
func selectedText(r *state.Record) string {
	switch r.Action {
	case state.ActionHide, state.ActionUnhide, state.ActionPurge, state.ActionAskPurge, state.ActionLapsePurge:
		return fmt.Sprintf("a selection of %d entries", len(strings.Fields(r.What)))
	}
	return ""
}

// withoutChannels returns the subject of a record of settled reports without the names of channels.
func withoutChannels(what string) string {
	words := strings.Fields(what)
	for i, word := range words {
		if strings.HasPrefix(word, command.ChannelMark) {
			words[i] = "(channel)"
		}
	}
	return strings.Join(words, " ")
}

// hidesChannel reports whether a public record names a channel whose name is hidden.
func hidesChannel(v *view.View, r *state.Record) bool {
	words := strings.Fields(r.What)
	return len(words) > 1 && words[0] == command.RuleChannel.String() && v.Policy().HiddenChannel(words[1]) != nil
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

// recordText describes a record in a line. Its subject is empty if it is not public.
func recordText(action, what string) string {
	texts, known := recordTexts[action]
	switch {
	case !known:
		return strings.TrimSpace(action + " " + what)
	case what == "":
		return texts.toSome
	}
	return strings.Replace(texts.to, "%", RecordWhat(action, what), 1)
}
