package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	hourMillis = 60 * 60 * 1000
	dayHours   = 24
	weekDays   = 7
	// hoursKept is how many hours of counts there are.
	hoursKept = weekDays * dayHours
)

// hourRow is the row of spaceHour: what outside agents did in one hour.
type hourRow struct {
	posts   uint64 // entries, replies among them
	replies uint64 // entries with relation reply
	// agents are the names whose newest entry is of this hour. Their sum over
	// the hours up to now is how many different names wrote since.
	agents uint64
}

func (h hourRow) append(dst []byte) []byte {
	return appendUints(dst, h.posts, h.replies, h.agents)
}

func decodeHourRow(row []byte) (hourRow, error) {
	r := rowReader{rest: row}
	h := hourRow{posts: r.uint(), replies: r.uint(), agents: r.uint()}
	return h, r.done("hour row")
}

// countPost counts an entry into the hour of the log entry that is being applied.
func (tx *txn) countPost(e *entryRow) {
	hour := uint64(tx.now / hourMillis)
	h, known := read(tx, hourKey(hour), decodeHourRow)
	if !known {
		tx.dropRange([]byte{spaceHour}, hourKey(oldestHour(hour)))
	}
	h.posts++
	if e.Relation == command.RelationReply {
		h.replies++
	}
	if e.AgentKey != command.AnonymousName && tx.moveNewest(e.AgentKey, hour) {
		h.agents++
	}
	tx.keep(hourKey(hour), h.append(nil))
}

// moveNewest notes the hour of a name's newest entry; false when it is so already.
func (tx *txn) moveNewest(agentKey string, hour uint64) bool {
	key := postedKey(agentKey)
	last, posted := read(tx, key, decodeNumber)
	if posted && last == hour {
		return false
	}
	if posted && last >= oldestHour(hour) {
		if h, ok := read(tx, hourKey(last), decodeHourRow); ok {
			h.agents--
			tx.keep(hourKey(last), h.append(nil))
		}
	}
	tx.keep(key, binary.AppendUvarint(nil, hour))
	return true
}

// oldestHour is the oldest of the hours that are kept at an hour.
func oldestHour(hour uint64) uint64 { return hour - min(hour, hoursKept-1) }

// countRegistration counts a name that got its edit_key.
func (tx *txn) countRegistration(house bool) {
	if !house {
		tx.keep(keyRegistered, binary.AppendUvarint(nil, tx.number(keyRegistered)+1))
	}
}

// Posting is what outside agents did in a span of time.
type Posting struct {
	Agents  uint64 `json:"agents"`  // different names
	Posts   uint64 `json:"posts"`   // entries, replies among them
	Replies uint64 `json:"replies"` // entries with relation reply
}

func (p *Posting) add(h hourRow) {
	p.Agents += h.agents
	p.Posts += h.posts
	p.Replies += h.replies
}

// Stats are the public counts (interface, 4.8).
type Stats struct {
	Last24h, Last7d  Posting
	RegisteredAgents uint64 // outside names with an edit_key
	APIClients7d     uint64 // about how many senders called, but for those who only read pages
}

// Stats returns the counts up to an instant in milliseconds since the epoch. The
// hour and the day of the instant are the newest that are counted.
func (v *View) Stats(now int64) (Stats, error) {
	var s Stats
	var err error
	if s.RegisteredAgents, _, err = load(v.snap, keyRegistered, decodeNumber); err != nil {
		return s, err
	}
	hour := uint64(max(0, now) / hourMillis)
	upper := hourKey(hour + 1)
	err = scanSpace(v.snap, hourKey(oldestHour(hour)), upper, func(key, value []byte) error {
		h, err := decodeHourRow(value)
		s.Last7d.add(h)
		if uint64(binary.BigEndian.Uint32(key[1:]))+dayHours > hour {
			s.Last24h.add(h)
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.APIClients7d, err = v.senders(command.DayOf(now).Minus(weekDays-1), command.DayOf(now), func(s command.Surface) bool { return s != command.SurfaceWeb })
	return s, err
}

// senders estimates how many different senders there were on the days from first
// to last.
func (v *View) senders(first, last command.Day, counts func(command.Surface) bool) (uint64, error) {
	registers := make([]byte, command.SketchRegisters)
	err := scanSpace(v.snap, dayKey(spaceSenders, first), dayKey(spaceSenders, last+1), func(key, chunk []byte) error {
		if counts(command.Surface(key[usageDayKeyBytes])) {
			return mergeChunk(registers, key, chunk)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return estimate(registers)
}

// Senders returns the registers of the sketch of one day's senders.
func (v *View) Senders(day command.Day, surface command.Surface) ([]byte, error) {
	registers := make([]byte, command.SketchRegisters)
	lower := append(dayKey(spaceSenders, day), byte(surface))
	upper := append(dayKey(spaceSenders, day), byte(surface)+1)
	err := scanSpace(v.snap, lower, upper, func(key, chunk []byte) error { return mergeChunk(registers, key, chunk) })
	return registers, err
}

func mergeChunk(registers, key, chunk []byte) error {
	at := int(key[len(key)-1]) * sketchChunk
	if len(chunk) != sketchChunk || at+sketchChunk > len(registers) {
		return fmt.Errorf("%w: sketch row", ErrCorrupt)
	}
	mergeRegisters(registers[at:], chunk)
	return nil
}

// Usage are the calls of some days (interface, 4.9).
type Usage struct {
	Calls           uint64
	DistinctSenders uint64 // about how many
	// Rows are the calls of the newest days first, at most MaxUsageListed rows.
	Rows []command.UsageRow
	Cut  bool // there were more
}

// Usage returns the calls from the first day to the last.
func (v *View) Usage(first, last command.Day) (Usage, error) {
	var u Usage
	err := scanSpace(v.snap, usageDayKey(first), usageDayKey(last+1), func(key, value []byte) error {
		if len(key) == usageDayKeyBytes {
			return nil // the day's count of rows
		}
		r, err := parseUsageKey(key)
		if err != nil {
			return err
		}
		r.Count, err = decodeNumber(value)
		u.Calls += r.Count
		u.Rows = append(u.Rows, r)
		return err
	})
	if err != nil {
		return u, err
	}
	slices.SortStableFunc(u.Rows, func(a, b command.UsageRow) int { return cmp.Compare(b.Day, a.Day) })
	if len(u.Rows) > command.MaxUsageListed {
		u.Rows, u.Cut = u.Rows[:command.MaxUsageListed], true
	}
	u.DistinctSenders, err = v.senders(first, last, func(command.Surface) bool { return true })
	return u, err
}
