package fsm

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// maxBudgetSenders is how many senders, networks and names of a day are counted
// individually. Later ones share overflowRows rows by their hash.
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
	set := command.Settings{DailyBytes: r.uint(), SenderBytes: r.uint(), ProvenOnly: r.byte() != 0, AlikeHourly: r.uint(), Retention: r.text(), SenderDays: r.uint()}
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
	if c.ProvenOnly != nil {
		set.ProvenOnly = *c.ProvenOnly
	}
	if c.AlikeHourly != nil {
		set.AlikeHourly = *c.AlikeHourly
	}
	if c.Retention != nil {
		set.Retention = *c.Retention
	}
	if c.SenderDays != nil {
		set.SenderDays = *c.SenderDays
	}
	if set == before {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	row := append(appendUints(nil, set.DailyBytes, set.SenderBytes), bit(set.ProvenOnly, 1))
	tx.keep(keySettings, appendUints(appendBlob(appendUints(row, set.AlikeHourly), set.Retention), set.SenderDays))
	if set.Retention != before.Retention {
		tx.restartSweep()
	}
	tx.record(&command.Order{By: command.Operator}, ActionSettings, set.ChangesFrom(before), false)
	return command.Result{Outcome: command.OutcomeDone}
}

// Budget is the used part of a day's budget: the row of spaceBudget.
type Budget struct {
	Day     command.Day // in UTC
	Bytes   uint64      // of commands
	Senders uint64      // networks and names that made them; from maxBudgetSenders on, they are not counted
}

func (b Budget) append(dst []byte) []byte { return appendUints(dst, uint64(b.Day), b.Bytes, b.Senders) }

func decodeBudget(row []byte) (Budget, error) {
	r := rowReader{rest: row}
	b := Budget{Day: command.Day(r.uint()), Bytes: r.uint(), Senders: r.uint()}
	return b, r.done("budget row")
}

// budgetOf returns the used part of a day's budget.
func budgetOf(s facts, day command.Day) Budget {
	if b, _ := read(s, keyBudget, decodeBudget); b.Day == day {
		return b
	}
	return Budget{Day: day}
}

// senderKey returns the row that counts a sender's bytes. After maxBudgetSenders, a
// sender without a row shares one with others.
func (b Budget) senderKey(s facts, sender string) (key []byte, known bool) {
	hash := binary.BigEndian.AppendUint64(nil, uint64(hashSender(sender)))
	key = append(dayKey(spaceBudget, b.Day), hash...)
	if _, known = s.get(key); known || b.Senders < maxBudgetSenders {
		return key, known
	}
	shared := binary.BigEndian.Uint64(hash) % overflowRows
	return binary.BigEndian.AppendUint16(dayKey(spaceBudget, b.Day), uint16(shared)), true
}

// share is a sender, network or name that a command counts against, and its limit as a
// multiple of a sender's.
type share struct {
	of    string
	was   string // in the last epoch, which may have ended today; "": there was none
	times uint64
}

// budgeted returns the shares that a command counts against: none for commands of the
// node or an operator. Established names are counted separately from other writes of an
// address.
func budgeted(p command.Payload, s command.Standing) (shares []share) {
	by, signed := command.SignatureOf(p)
	if !signed {
		return nil
	}
	prefix, times := "", uint64(1)
	if s.Established {
		prefix, times = "established ", command.EstablishedShare
		shares = append(shares, share{of: "name " + by.AgentKey, times: times})
	}
	return append(shares, sharesOf(by.Proof, prefix, times)...)
}

// sharesOf returns the shares of a write's sender and of its network.
func sharesOf(proof *command.Proof, prefix string, times uint64) (shares []share) {
	of := func(kind, sender, former string, times uint64) {
		sh := share{of: prefix + kind + sender, times: times}
		if former != "" {
			sh.was = prefix + kind + former
		}
		shares = append(shares, sh)
	}
	of("", proof.Sender, proof.Former, times)
	if network := command.NetworkOf(proof.Sender); network != "" {
		of("network ", network, command.NetworkOf(proof.Former), times*command.NetworkShare)
	}
	return shares
}

// counted is the use of a share on a day, and its row.
type counted struct {
	command.Use
	key   []byte
	known bool
}

// fits returns the use of a command's shares, and whether the command fits into the
// budget.
func (b Budget) fits(s facts, p command.Payload, standing command.Standing, bytes int) (uses []counted, fits bool) {
	shares := budgeted(p, standing)
	used := make([]command.Use, len(shares))
	for i, sh := range shares {
		key, known := b.senderKey(s, sh.of)
		n, _ := read(s, key, decodeNumber)
		uses = append(uses, counted{command.Use{Bytes: n, Times: sh.times}, key, known})
		used[i] = uses[i].Use
		if sh.was == "" {
			continue
		}
		if was, known := b.senderKey(s, sh.was); known {
			n, _ := read(s, was, decodeNumber)
			used[i].Bytes += n
		}
	}
	return uses, len(uses) == 0 || settings(s).Fits(uint64(bytes), b.Bytes, standing.Established, used...)
}

// takeBudget counts the bytes of a command, if they fit.
func (tx *txn) takeBudget(c command.Command, standing command.Standing) bool {
	b := budgetOf(tx, command.DayOf(tx.now))
	uses, fits := b.fits(tx, c.Payload, standing, len(c.Data))
	if fits && len(uses) > 0 {
		tx.useBudget(b, uses, uint64(len(c.Data)))
	}
	return fits
}

// useBudget counts the bytes of a command.
func (tx *txn) useBudget(b Budget, uses []counted, bytes uint64) {
	if b.Bytes == 0 { // the day's first
		tx.dropRange(dayKey(spaceBudget, 0), dayKey(spaceBudget, b.Day))
	}
	for _, u := range uses {
		if !u.known {
			b.Senders++
		}
		tx.keep(u.key, binary.AppendUvarint(nil, u.Bytes+bytes))
	}
	b.Bytes += bytes
	tx.keep(keyBudget, b.append(nil))
}

// Settings returns the replicated settings.
func (v *View) Settings() (command.Settings, error) {
	s := &viewState{v: v}
	set := settings(s)
	return set, s.err
}

// Budget returns the used budget of the day of an instant, in milliseconds since the
// epoch.
func (v *View) Budget(now int64) (Budget, error) {
	s := &viewState{v: v}
	b := budgetOf(s, command.DayOf(now))
	return b, s.err
}

// FitsBudget reports whether a command of this size and standing fits into the rest of
// the budget, as far as the view knows.
func (v *View) FitsBudget(p command.Payload, standing command.Standing, bytes int, now int64) (bool, error) {
	s := &viewState{v: v}
	_, fits := budgetOf(s, command.DayOf(max(now, s.instant()))).fits(s, p, standing, bytes)
	return fits, s.err
}
