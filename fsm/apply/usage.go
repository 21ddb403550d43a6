package apply

import (
	"encoding/binary"
	"fmt"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
)

// countPost counts an entry into the hour of the log entry that is being applied.
func (tx *Txn) countPost(e *state.EntryRow) {
	hour := uint64(tx.now / command.HourMillis)
	h, known := state.Read(tx, stats.HourKey(hour), state.Decode[stats.HourRow])
	if !known {
		tx.dropRange([]byte{state.SpaceHour}, stats.HourKey(stats.OldestHour(hour)))
	}
	h.Posts++
	if e.Relation == command.RelationReply {
		h.Replies++
	}
	if e.AgentKey != command.AnonymousName && tx.moveNewest(e.AgentKey, hour) {
		h.Agents++
	}
	tx.set(stats.HourKey(hour), state.Encode(&h))
}

// moveNewest stores the hour of a name's newest entry. It returns false if that hour is stored
// already.
func (tx *Txn) moveNewest(agentKey string, hour uint64) bool {
	key := stats.PostedKey(agentKey)
	last, posted := state.Read(tx, key, state.DecodeNumber)
	if posted && last == hour {
		return false
	}
	if posted && last >= stats.OldestHour(hour) {
		if h, ok := state.Read(tx, stats.HourKey(last), state.Decode[stats.HourRow]); ok {
			h.Agents--
			tx.set(stats.HourKey(last), state.Encode(&h))
		}
	}
	tx.setNumber(key, hour)
	return true
}

const (
	// MaxDayRows bounds the rows of a day. Further calls are counted as OtherCalls.
	MaxDayRows = 500
	// FoldDays is for how many days the number of a run's newest fold is kept. A
	// fold is repeated within a day or never.
	FoldDays = 7
)

func (tx *Txn) applyAddUsage(c *command.AddUsage) command.Result {
	today := command.DayOf(tx.now)
	key := FoldKey(c.Boot)
	if last, ok := state.Read(tx, key, state.Decode[FoldRow]); ok && c.Number <= last.Number {
		return command.Result{Outcome: command.OutcomeDuplicate}
	}
	tx.pruneUsage(today)
	tx.set(key, state.Encode(&FoldRow{c.Number, today}))
	oldest := today.Minus(command.MaxUsageDays - 1)
	for _, r := range c.Rows {
		// A node's clock may be ahead of the log's.
		if r.Day = min(r.Day, today); r.Day >= oldest {
			tx.addUsage(&r)
		}
	}
	for _, r := range c.Senders {
		if r.Day = min(r.Day, today); r.Day >= oldest {
			tx.addSenders(&r)
		}
	}
	return done
}

// addUsage adds a row to that of its day.
func (tx *Txn) addUsage(r *command.UsageRow) {
	key := stats.UsageKey(r.Day, r.Surface, r.Action, r.Client)
	calls, known := state.Read(tx, key, state.DecodeNumber)
	if !known {
		rows := tx.number(stats.UsageDayKey(r.Day))
		if rows >= MaxDayRows && (r.Action != command.OtherCalls || r.Client != command.OtherCalls) {
			other := *r
			other.Action, other.Client = command.OtherCalls, command.OtherCalls
			tx.addUsage(&other)
			return
		}
		tx.setNumber(stats.UsageDayKey(r.Day), rows+1)
	}
	tx.setNumber(key, calls+r.Count)
}

// addSenders merges the registers of a row into the sketch of a day.
func (tx *Txn) addSenders(r *command.SenderRow) {
	for b := r.Registers; len(b) > 0; b = b[command.RegisterBytes:] {
		number, rank := binary.BigEndian.Uint16(b), b[2]
		key := stats.SendersKey(r.Day, r.Surface, byte(number/stats.SketchChunk))
		chunk, known := tx.Get(key)
		switch {
		case !known:
			chunk = make([]byte, stats.SketchChunk)
		case len(chunk) != stats.SketchChunk:
			tx.Must(fmt.Errorf("%w: sketch row", state.ErrCorrupt))
		}
		if at := number % stats.SketchChunk; chunk[at] < rank {
			chunk = append([]byte(nil), chunk...)
			chunk[at] = rank
			tx.set(key, chunk)
		}
	}
}

// pruneUsage drops the days that are too old, once a day.
func (tx *Txn) pruneUsage(today command.Day) {
	if tx.number(state.KeyUsagePruned) == uint64(today) {
		return
	}
	tx.setNumber(state.KeyUsagePruned, uint64(today))
	oldest := today.Minus(command.MaxUsageDays - 1)
	for _, space := range []byte{state.SpaceUsage, state.SpaceSenders} {
		tx.dropRange([]byte{space}, binary.BigEndian.AppendUint32([]byte{space}, uint32(oldest)))
	}
	for _, key := range tx.keysOf(state.SpaceFold) {
		if f, ok := state.Read(tx, key, state.Decode[FoldRow]); ok && f.Day < today.Minus(FoldDays) {
			tx.del(key)
		}
	}
}

// FoldRow is the row of SpaceFold.
type FoldRow struct {
	Number uint64      // of the newest fold of the run
	Day    command.Day // when it was applied
}

// Fields implements state.Row.
func (f *FoldRow) Fields(c *state.Codec) { c.Fields(&f.Number, &f.Day) }

// FoldKey is the key of the newest count of calls of a node's run.
func FoldKey(boot command.BootID) []byte { return append([]byte{state.SpaceFold}, boot[:]...) }
