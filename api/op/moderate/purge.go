package moderate

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

var destroyParams = []string{"server", "reason"}

// destroyDisk records that the operator destroyed the disk of a former server.
var destroyDisk = ordering(destroyParams, nil, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.DestroyDisk{Order: f.Order, Server: f.word("server", command.MaxServerIDBytes)}
	for _, field := range destroyParams {
		if f.Doc.Get(field) == nil {
			f.Problems.Add(field, "is required")
		}
	}
	return func() error {
		if _, err := order(c, cmd); err != nil {
			return err
		}
		return c.AnswerObject(http.StatusOK, wire.Object{{"server", cmd.Server}})
	}
})

// listPurges serves GET /api/moderation/purges. It reads a linearizable view, because a node that
// lags does not know the newest purges.
var listPurges = op.Private(func(c *op.Call) (op.Task, error) {
	if _, err := caller(c); err != nil {
		return op.Task{}, err
	}
	return op.Task{Fresh: op.Freshness{Strong: true}, Run: func() error {
		ctx, done := c.Wait(op.WaitTimeout)
		defer done()
		purges, err := c.Env.Backend.Purges(ctx, c.View())
		if err != nil {
			return fmt.Errorf("read the purges: %w", err)
		}
		return c.AnswerValue(purges)
	}}, nil
})

// listWaiting serves GET /api/moderation/waiting.
var listWaiting = forModerators("waiting", recordParams, nil, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	list, next, err := c.View().WaitingPurges(l.Query.Before, l.Query.Limit)
	for i := range list {
		p := &list[i]
		rows = append(rows, wire.Object{
			{"number", p.Number},
			{"at", p.At},
			{"until", p.Lapses()},
			{"by", p.By},
			{"reason", p.Reason},
			{"ids", wire.NonNil(p.IDs)},
			{"profiles", wire.NonNil(p.Agents)},
		})
	}
	return rows, next, err
})

var (
	confirmParams = []string{"number", "dry_run"}
	sampleConfirm = wire.Object{{"number", "1"}}
)

// confirmPurge serves POST /api/moderation/confirm.
var confirmPurge = ordering(confirmParams, sampleConfirm, func(c *op.Call, f *orderForm) func() error {
	number := f.number("purge, as GET /api/moderation/waiting gives it")
	dry := f.flag("dry_run")
	return func() error {
		p, err := c.View().WaitingPurge(number)
		switch {
		case errors.Is(err, state.ErrNotFound):
			c.Notes = append(c.Notes, fmt.Sprintf("%d is the number of no purge that waits: GET /api/moderation/waiting lists them.", number))
		case err != nil:
			return fmt.Errorf("look for a purge: %w", err)
		case p.By == f.By:
			return f.refuse(command.ProblemOwnPurge)
		}
		a := action{cmd: &command.ConfirmPurge{Order: f.Order, Number: number}, form: f, ids: &p.IDs, agents: &p.Agents, dry: dry}
		return a.onNamed(c)
	}
})
