package fsm

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// maxBudgetSenders is how many senders of a day are counted one by one. Those that
// come later share overflowRows rows by their hash.
const (
	maxBudgetSenders = 1 << 16
	overflowRows     = 1 << 16
)

// settings returns what an operator has set.
func settings(s facts) command.Settings {
	set, ok := read(s, keySettings, decodeSettings)
	if !ok {
		return command.DefaultSettings
	}
	return set
}

func decodeSettings(row []byte) (command.Settings, error) {
	r := rowReader{rest: row}
	set := command.Settings{DailyBytes: r.uint(), SenderBytes: r.uint()}
	return set, r.done("settings row")
}

func (tx *txn) applySetSettings(c *command.SetSettings) command.Result {
	before := settings(tx)
	set := before
	if c.DailyBytes != nil {
		set.DailyBytes = *c.DailyBytes
	}
	if c.SenderBytes != nil {
		set.SenderBytes = *c.SenderBytes
	}
	if set == before {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.keep(keySettings, appendUints(nil, set.DailyBytes, set.SenderBytes))
	return command.Result{Outcome: command.OutcomeDone}
}

// Budget is what is used of a day's budget: the row of spaceBudget.
type Budget struct {
	Day     command.Day // in UTC
	Bytes   uint64      // of commands that were made without a key
	Senders uint64      // that made them; from maxBudgetSenders on, they are not counted
}

func (b Budget) append(dst []byte) []byte { return appendUints(dst, uint64(b.Day), b.Bytes, b.Senders) }

func decodeBudget(row []byte) (Budget, error) {
	r := rowReader{rest: row}
	b := Budget{Day: command.Day(r.uint()), Bytes: r.uint(), Senders: r.uint()}
	return b, r.done("budget row")
}

// budgetOf returns what is used of a day's budget.
func budgetOf(s facts, day command.Day) Budget {
	if b, _ := read(s, keyBudget, decodeBudget); b.Day == day {
		return b
	}
	return Budget{Day: day}
}

// senderKey returns the row of what a sender has used of the budget. Of more than
// maxBudgetSenders, those without a row of their own share one with others.
func (b Budget) senderKey(s facts, sender string) (key []byte, known bool) {
	hash := binary.BigEndian.AppendUint64(nil, uint64(hashSender(sender)))
	key = append(dayKey(spaceBudget, b.Day), hash...)
	if _, known = s.get(key); known || b.Senders < maxBudgetSenders {
		return key, known
	}
	shared := binary.BigEndian.Uint64(hash) % overflowRows
	return binary.BigEndian.AppendUint16(dayKey(spaceBudget, b.Day), uint16(shared)), true
}

// budgeted returns who makes a command that counts against the budget; false for one
// by key, and for one of the node or of an operator.
func budgeted(p command.Payload, s command.Standing) (sender string, ok bool) {
	by, signed := command.SignatureOf(p)
	if !signed || s.Strength == command.ByKey {
		return "", false
	}
	return by.Proof.Sender, true
}

// carryOutWithinBudget carries a command out, unless its sender has used up the day's
// bytes. What a request_id wrote before costs nothing.
func (tx *txn) carryOutWithinBudget(c command.Command) command.Result {
	standing, repeated := assess(tx, c.Payload)
	sender, counts := budgeted(c.Payload, standing)
	if !counts || repeated {
		return tx.carryOut(c.Payload)
	}
	b, bytes := budgetOf(tx, command.DayOf(tx.now)), uint64(len(c.Data))
	key, known := b.senderKey(tx, sender)
	used := tx.number(key)
	if !settings(tx).Fits(bytes, used, b.Bytes) {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemOverBudget}}
	}
	if b.Bytes == 0 { // the day's first
		tx.dropRange(dayKey(spaceBudget, 0), dayKey(spaceBudget, b.Day))
	}
	if !known {
		b.Senders++
	}
	b.Bytes += bytes
	tx.keep(keyBudget, b.append(nil))
	tx.keep(key, binary.AppendUvarint(nil, used+bytes))
	return tx.carryOut(c.Payload)
}

// Settings returns the replicated settings.
func (v *View) Settings() (command.Settings, error) {
	s := &viewState{v: v}
	set := settings(s)
	return set, s.err
}

// Budget returns what is used of the budget of the day of an instant, in milliseconds
// since the epoch.
func (v *View) Budget(now int64) (Budget, error) {
	s := &viewState{v: v}
	b := budgetOf(s, command.DayOf(now))
	return b, s.err
}

// FitsBudget reports whether a command of so many bytes with this standing fits into
// what is left of its sender's budget, as far as the view knows.
func (v *View) FitsBudget(p command.Payload, standing command.Standing, bytes int, now int64) (bool, error) {
	sender, counts := budgeted(p, standing)
	if !counts {
		return true, nil
	}
	s := &viewState{v: v}
	b := budgetOf(s, command.DayOf(max(now, s.instant())))
	key, _ := b.senderKey(s, sender)
	used, _ := read(s, key, decodeNumber)
	return settings(s).Fits(uint64(bytes), used, b.Bytes), s.err
}
