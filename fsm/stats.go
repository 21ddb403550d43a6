package fsm

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/axiomhq/hyperloglog"

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

const (
	// maxDayRows is how many rows a day has at most; what goes beyond is counted
	// as OtherCalls.
	maxDayRows = 500
	// foldDays is for how many days the number of a run's newest fold is kept. A
	// fold is repeated within a day or never.
	foldDays = 7
)

func (tx *txn) applyAddUsage(c *command.AddUsage) command.Result {
	today := command.DayOf(tx.now)
	key := foldKey(c.Boot)
	if last, ok := read(tx, key, decodeFoldRow); ok && c.Number <= last.number {
		return command.Result{Outcome: command.OutcomeDuplicate}
	}
	tx.pruneUsage(today)
	tx.keep(key, foldRow{c.Number, today}.append(nil))
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
	return command.Result{Outcome: command.OutcomeDone}
}

// addUsage adds a row to that of its day.
func (tx *txn) addUsage(r *command.UsageRow) {
	key := usageKey(r.Day, r.Surface, r.Action, r.Client)
	calls, known := read(tx, key, decodeNumber)
	if !known {
		rows := tx.number(usageDayKey(r.Day))
		if rows >= maxDayRows && (r.Action != command.OtherCalls || r.Client != command.OtherCalls) {
			other := *r
			other.Action, other.Client = command.OtherCalls, command.OtherCalls
			tx.addUsage(&other)
			return
		}
		tx.keep(usageDayKey(r.Day), binary.AppendUvarint(nil, rows+1))
	}
	tx.keep(key, binary.AppendUvarint(nil, calls+r.Count))
}

// addSenders merges the registers of a row into the sketch of a day.
func (tx *txn) addSenders(r *command.SenderRow) {
	for b := r.Registers; len(b) > 0; b = b[command.RegisterBytes:] {
		number, rank := binary.BigEndian.Uint16(b), b[2]
		key := sendersKey(r.Day, r.Surface, byte(number/sketchChunk))
		chunk, known := tx.get(key)
		switch {
		case !known:
			chunk = make([]byte, sketchChunk)
		case len(chunk) != sketchChunk:
			tx.must(fmt.Errorf("%w: sketch row", ErrCorrupt))
		}
		if at := number % sketchChunk; chunk[at] < rank {
			chunk = append([]byte(nil), chunk...)
			chunk[at] = rank
			tx.keep(key, chunk)
		}
	}
}

// pruneUsage drops the days that are too old, once a day.
func (tx *txn) pruneUsage(today command.Day) {
	if tx.number(keyUsagePruned) == uint64(today) {
		return
	}
	tx.keep(keyUsagePruned, binary.AppendUvarint(nil, uint64(today)))
	oldest := today.Minus(command.MaxUsageDays - 1)
	for _, space := range []byte{spaceUsage, spaceSenders} {
		tx.dropRange([]byte{space}, binary.BigEndian.AppendUint32([]byte{space}, uint32(oldest)))
	}
	for _, key := range tx.keysOf(spaceFold) {
		if f, ok := read(tx, key, decodeFoldRow); ok && f.day < today.Minus(foldDays) {
			tx.keep(key, nil)
		}
	}
}

// number returns the number that a row holds; 0 when there is none.
func (tx *txn) number(key []byte) uint64 {
	n, _ := read(tx, key, decodeNumber)
	return n
}

// decodeNumber reads a row of one number.
func decodeNumber(row []byte) (uint64, error) {
	r := rowReader{rest: row}
	n := r.uint()
	return n, r.done("row of a number")
}

// foldRow is the row of spaceFold.
type foldRow struct {
	number uint64      // of the newest fold of the run
	day    command.Day // when it was applied
}

func (f foldRow) append(dst []byte) []byte {
	return appendUints(dst, f.number, uint64(f.day))
}

func decodeFoldRow(row []byte) (foldRow, error) {
	r := rowReader{rest: row}
	f := foldRow{number: r.uint(), day: command.Day(r.uint())}
	return f, r.done("fold row")
}

// A sketch estimates how many different senders there were without holding any of
// them. The state holds its plain registers, each the largest rank that was ever
// seen for it. A merge takes the larger rank, so the bytes depend neither on the
// order of the merges nor on the library below.
const (

	// sketchHeader is the length of what precedes the registers in the library's dense
	// form: version, precision, bias, form, and their number.
	sketchHeader        = 4 + 4
	sketchFormat   byte = 2
	denseFormat    byte = 0
	noRegisterBias byte = 0
)

// Senders is a sketch that grows by senders. It is not safe for concurrent use.
type Senders struct{ sketch *hyperloglog.Sketch }

// NewSenders returns an empty sketch.
func NewSenders() *Senders {
	return &Senders{must(hyperloglog.NewSketch(command.SketchPrecision, false))}
}

// Insert adds a sender by its fingerprint, of which only a hash is looked at.
func (s *Senders) Insert(fingerprint string) {
	sum := sha256.Sum256([]byte(fingerprint))
	s.sketch.InsertHash(binary.BigEndian.Uint64(sum[:]))
}

// Registers returns the registers.
func (s *Senders) Registers() []byte {
	return must(s.sketch.MarshalBinary())[sketchHeader:]
}

// mergeRegisters merges others into registers.
func mergeRegisters(registers, others []byte) {
	for i, rank := range others {
		registers[i] = max(registers[i], rank)
	}
}

// estimate returns how many senders were added to all the sketches whose
// registers were merged into these. It is for readers: apply never asks.
func estimate(registers []byte) (uint64, error) {
	dense := make([]byte, 0, sketchHeader+command.SketchRegisters)
	dense = append(dense, sketchFormat, command.SketchPrecision, noRegisterBias, denseFormat)
	dense = binary.BigEndian.AppendUint32(dense, command.SketchRegisters)
	dense = append(dense, registers...)
	var sketch hyperloglog.Sketch
	if err := sketch.UnmarshalBinary(dense); err != nil {
		return 0, fmt.Errorf("%w: sketch: %w", ErrCorrupt, err)
	}
	return sketch.Estimate(), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
