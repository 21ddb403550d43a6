package apply

import (
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// record adds a row to the record of moderators and operators, and returns its number.
func (tx *Txn) record(o *command.Order, action, what string) uint64 {
	return tx.journal(state.ModerationRecord, state.Record{By: o.By, Action: action, What: what, Reason: o.Reason})
}

// journal adds a row to a record and returns its number.
func (tx *Txn) journal(to state.Journal, r state.Record) uint64 {
	r.At, r.What = tx.now, r.What[:min(len(r.What), state.MaxRecordedBytes)]
	r.Number = tx.count(to.Newest)
	tx.set(state.SeqKey(to.Space, r.Number), state.Encode(&r))
	if r.Number > to.Keeps {
		tx.del(state.SeqKey(to.Space, r.Number-to.Keeps))
	}
	return r.Number
}

// recordChanged records the ids that an order has changed, and returns its result. of is the order
// that it is about, as in command.Hide.
func (tx *Txn) recordChanged(o *command.Order, of uint64, action string, ids []string) command.Result {
	if len(ids) == 0 {
		return unchanged
	}
	row := state.Record{By: o.By, Action: action, What: strings.Join(ids, " "), Reason: o.Reason, Order: of}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.journal(state.ModerationRecord, row)}
}

func (tx *Txn) applySetModerator(c *command.SetModerator) command.Result {
	key, action := state.ModeratorKey(c.Name), state.ActionSetModerator
	_, known := tx.Get(key)
	switch {
	case len(c.Token) > 0 && !known && len(tx.keysOf(state.SpaceModerator)) >= command.MaxModerators:
		return rejected(command.ProblemTooManyModerators)
	case len(c.Token) > 0:
		m := state.Moderator{Token: c.Token, Until: tx.now + c.For}
		tx.set(key, state.Encode(&m))
	case known:
		action = state.ActionRemoveModerator
		tx.del(key)
	default:
		return rejected(command.ProblemUnknownModerator)
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, action, c.Name)}
}
