package moderate

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
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
