package moderate

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

var recordParams = []string{"limit", "cursor", "consistency", "min_index"}

// moderationLog serves GET /api/moderation/log.
var moderationLog = forModerators("records", recordParams, nil, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	records, next, err := c.View().Records(l.Query.Before, l.Query.Limit)
	for _, r := range records {
		rows = append(rows, wire.Object{{"number", r.Number}, {"at", r.At}, {"by", r.By}, {"action", r.Action}, {"what", r.What}, {"reason", r.Reason}, {"order", cmp.Or(r.Order, r.Number)}})
	}
	return rows, next, err
})

// setModerator creates or revokes the token of a moderator.
var setModerator = ordering([]string{"name", "revoke", "for"}, nil, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.SetModerator{Order: f.Order, Name: f.word("name", command.MaxName)}
	revoke, token := f.flag("revoke"), ""
	if !revoke {
		token, cmd.Token = op.NewSecret(op.ModeratorTokenPrefix)
		cmd.For = cmp.Or(f.duration("for", false), command.TokenMillis)
	}
	if err := command.Check(cmd); err != nil && !f.Problems.Any() {
		f.Problems.Add("name", "cannot be this: letters of a to z, digits and . _ - are allowed, and %s is none", command.Operator)
	}
	return func() error {
		if _, err := f.propose(c, cmd); err != nil {
			return err
		}
		answer := wire.Object{{"name", cmd.Name}, {"token", token}}
		if !revoke {
			view, err := write.ReadBack(c)
			if err != nil {
				return err
			}
			m, _, err := view.Moderator(cmd.Token)
			if err != nil {
				return fmt.Errorf("look for the token: %w", err)
			}
			answer = append(answer, wire.Field{"until", m.Until})
		}
		return c.AnswerObject(http.StatusOK, answer)
	}
})

func listModerators(c *op.Call) error {
	list, err := c.View().Moderators()
	if err != nil {
		return fmt.Errorf("list moderators: %w", err)
	}
	rows := make([]wire.Object, len(list))
	for i, m := range list {
		rows[i] = wire.Object{{"name", m.Name}, {"until", m.Until}}
	}
	return c.AnswerObject(http.StatusOK, wire.Object{{"moderators", rows}})
}

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
