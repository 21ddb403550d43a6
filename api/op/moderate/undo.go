package moderate

import (
	"cmp"
	"fmt"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

var (
	undoParams = []string{"number", "reason", "dry_run", "before"}
	sampleUndo = wire.Object{{"number", "1"}, {"reason", "A mistake"}}
)

// nothingHolds is the problem of an order that has no effect any more.
const nothingHolds = "is that of an order of which nothing holds any more: it was taken back, or has ended"

// lasting explains why orders with other actions than hide and those of rules are not taken back.
var lasting = map[string]string{
	state.ActionUnhide:          "shows something again: hide it",
	state.ActionPurge:           "is a purge: nothing is left of the texts",
	state.ActionResolve:         "resolves reports: that is for good",
	state.ActionSettings:        "changes settings: change them again with commons settings set",
	state.ActionSetModerator:    "gives a token: revoke it with commons mod token revoke",
	state.ActionRemoveModerator: "revokes a token: give another one with commons mod token create",
	"unblock":                   "ends a block: block again",
	"unfreeze":                  "ends a freeze: freeze again",
	"unwatch":                   "ends a watch: watch again",
}

// undo serves POST /api/moderation/undo: it takes an order back. Of a selection, each call shows a
// part of what the order still hides.
var undo = ordering(undoParams, sampleUndo, func(c *op.Call, f *orderForm) func() error {
	number, before, dry := f.order("number"), f.entry(c.View(), "before"), f.flag("dry_run")
	if number == 0 && !f.Problems.Has("number") {
		f.Problems.Add("number", "is required: that of an order, as GET /api/moderation/log lists them")
	}
	return func() error { return f.takeBack(c, number, before, dry) }
})

// takeBack takes back the order with a number in the record, unless the call is dry.
func (f *orderForm) takeBack(c *op.Call, number, before uint64, dry bool) error {
	v := c.View()
	if _, holds := v.Policy().Rule(number); holds {
		a := &action{form: f, dry: dry}
		return a.act(c, &command.LiftRule{Order: f.Order, Number: number}, nil, nil, nil, 1, 0)
	}
	r, known, err := v.Record(number)
	if err != nil {
		return fmt.Errorf("read record %d: %w", number, err)
	}
	a := &action{verb: unhides, form: f, of: cmp.Or(r.Order, number), dry: dry}
	var seqs []uint64
	next, why := uint64(0), cmp.Or(lasting[r.Action], nothingHolds)
	switch {
	case !known:
		why = "is that of no order: GET /api/moderation/log lists them"
	case r.Action == state.ActionHide:
		if seqs, next, err = v.HiddenBy(a.of, before, command.MaxHidden); err != nil {
			return fmt.Errorf("look for what order %d hides: %w", number, err)
		}
		if next == 0 { // an order of profiles has one part
			if a.agents, err = v.ProfilesHiddenBy(a.of); err != nil {
				return fmt.Errorf("look for profiles that order %d hides: %w", number, err)
			}
		}
	}
	for _, seq := range seqs {
		a.ids = append(a.ids, c.ShownID(v, seq))
	}
	due := len(a.ids) + len(a.agents)
	if next == 0 && due == 0 && before == 0 {
		if !dry {
			f.Problems.Add("number", "%s", why)
			return f.reject()
		}
		c.Notes = append(c.Notes, "It would be refused: number "+why+".")
	}
	return a.act(c, a.command(), seqs, nil, a.agents, due, next)
}
