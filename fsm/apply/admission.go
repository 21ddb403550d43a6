package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// idempotent carries out a write unless it is repeated, or a rule rejects it. nil rules mean only
// those of its name. write returns the entry of the result.
func (tx *Txn) idempotent(c command.Payload, rules func() []command.Problem, write func() uint64) command.Result {
	w, request := &tx.judged.Writer, &tx.judged.RequestAt
	if r, repeats := tx.judged.Repeat(tx, c); repeats {
		return r
	}
	problems := w.Problems()
	if rules != nil {
		problems = append(problems, rules()...)
	}
	if len(problems) > 0 {
		return rejected(problems...)
	}
	seq := write()
	if request.Key != nil {
		tx.putRequest(request.Key, w.Request, state.RequestRow{Entry: seq, Content: state.ContentOf(c)})
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: seq}
}

// putRequest stores a request_id under a key.
func (tx *Txn) putRequest(key []byte, k command.RequestKey, row state.RequestRow) {
	tx.set(key, state.Encode(&row))
	if k.IsAnonymous() { // its key names the sender
		tx.set(state.ForgetKey(tx.now, key), []byte{})
	}
}

// takeBudget counts the bytes of a command, unless they are over the budget.
func (tx *Txn) takeBudget(c command.Command, j *state.Admission) bool {
	b, bytes := state.BudgetOf(tx, command.DayOf(tx.now)), uint64(len(c.Data))
	uses, fits := b.Fits(tx, j, len(c.Data))
	if !fits || len(uses) == 0 {
		return fits
	}
	if b.Bytes == 0 { // the day's first
		today := state.DayKey(state.SpaceBudget, b.Day)
		tx.dropRange(state.DayKey(state.SpaceBudget, 0), today)
		tx.set(state.ForgetKey(tx.now, today), []byte{})
	}
	for _, u := range uses {
		if !u.Known {
			b.Senders++
		}
		tx.setNumber(u.Key, u.Bytes+bytes)
	}
	b.Bytes += bytes
	tx.set(state.KeyBudget, state.Encode(&b))
	return true
}
