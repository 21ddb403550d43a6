package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/axiomhq/hyperloglog"
)

// Surface is a way into the service.
type Surface uint8

// The surfaces. The numbers stand in logs.
const (
	SurfaceAPI Surface = 1
	SurfaceA2A Surface = 2
	SurfaceMCP Surface = 3
	SurfaceWeb Surface = 4
)

var surfaceNames = [...]string{SurfaceAPI: "api", SurfaceA2A: "a2a", SurfaceMCP: "mcp", SurfaceWeb: "web"}

// String returns the surface's name in the interface.
func (s Surface) String() string {
	if s < SurfaceAPI || int(s) >= len(surfaceNames) {
		return fmt.Sprintf("surface(%d)", uint8(s))
	}
	return surfaceNames[s]
}

// OtherCalls is the action and the client of calls on a day that has too many of
// both to tell them apart.
const OtherCalls = "other"

// dayMillis is a day in milliseconds.
const dayMillis = 24 * hourMillis

// Day numbers the days since the epoch, in UTC.
type Day uint32

// DayOf returns the day of an instant in milliseconds since the epoch.
func DayOf(millis int64) Day { return Day(max(0, millis) / dayMillis) }

// Start is the day's first instant, in milliseconds since the epoch.
func (d Day) Start() int64 { return int64(d) * dayMillis }

// String returns the day as 2006-01-02.
func (d Day) String() string { return time.UnixMilli(d.Start()).UTC().Format(time.DateOnly) }

// minus is the day n days earlier.
func (d Day) minus(n int) Day { return d - min(d, Day(n)) }

// UsageRow counts the calls of one day that one kind of client made of one action.
type UsageRow struct {
	Day     Day     `cbor:"1,keyasint"`
	Surface Surface `cbor:"2,keyasint"`
	Action  string  `cbor:"3,keyasint"`
	Client  string  `cbor:"4,keyasint"`
	Count   uint64  `cbor:"5,keyasint"`
}

// SenderRow tells of registers of the sketch of one day's senders.
type SenderRow struct {
	Day     Day     `cbor:"1,keyasint"`
	Surface Surface `cbor:"2,keyasint"`
	// Registers holds three bytes for each: its number, big endian, and its rank.
	Registers []byte `cbor:"3,keyasint"`
}

// RegisterBytes is how much of SenderRow.Registers belongs to one register.
const RegisterBytes = 2 + 1

// AppendRegister adds a register to SenderRow.Registers.
func AppendRegister(dst []byte, number int, rank byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(number)), rank)
}

// AddUsage folds what a node has counted into the state. Sent again under the
// same number, it counts nothing.
type AddUsage struct {
	// Boot is the run of the node that counted.
	Boot BootID `cbor:"1,keyasint"`
	// Number is that of the fold in the run: each is larger than the one before.
	Number  uint64      `cbor:"2,keyasint"`
	Rows    []UsageRow  `cbor:"3,keyasint,omitempty"`
	Senders []SenderRow `cbor:"4,keyasint,omitempty"`
}

func (*AddUsage) op() Op { return OpAddUsage }

func (c *AddUsage) check() error {
	var errs []error
	if c.Boot == (BootID{}) || c.Number == 0 {
		errs = append(errs, errors.New("usage of no run, or without a number"))
	}
	errs = append(errs,
		checkRange("usage", len(c.Rows), 0, MaxUsageRows, "rows"),
		checkRange("senders", len(c.Senders), 0, MaxSenderRows, "rows"))
	for i := range c.Rows {
		r := &c.Rows[i]
		errs = append(errs, r.Surface.check(), checkLabel("action", r.Action), checkLabel("client", r.Client))
		if r.Count == 0 || r.Count > maxUsageCount {
			errs = append(errs, fmt.Errorf("count %d", r.Count))
		}
	}
	registers := 0
	for i := range c.Senders {
		r := &c.Senders[i]
		registers += len(r.Registers) / RegisterBytes
		errs = append(errs, r.Surface.check(), r.checkRegisters())
	}
	return errors.Join(append(errs, checkRange("registers", registers, 0, MaxSenderRegisters, ""))...)
}

const (
	// maxDayRows is how many rows a day has at most; what goes beyond is counted
	// as OtherCalls.
	maxDayRows = 500
	// foldDays is for how many days the number of a run's newest fold is kept. A
	// fold is sent again within a day or not at all.
	foldDays = 7
)

// maxUsageCount bounds the calls that one row may tell of, so that sums do not
// run over.
const maxUsageCount = 1 << 40

func (s Surface) check() error {
	return checkRange("surface", int(s), int(SurfaceAPI), len(surfaceNames)-1, "")
}

// checkLabel insists on a short word of letters, digits and some marks.
func checkLabel(field, label string) error {
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return fmt.Errorf("%s: byte %q", field, c)
		}
	}
	return checkRange(field, len(label), 1, MaxUsageLabel, "bytes")
}

func (r *SenderRow) checkRegisters() error {
	if len(r.Registers)%RegisterBytes != 0 {
		return fmt.Errorf("registers: %d bytes", len(r.Registers))
	}
	for b := r.Registers; len(b) > 0; b = b[RegisterBytes:] {
		if n, rank := binary.BigEndian.Uint16(b), b[2]; n >= SketchRegisters || rank == 0 || rank > maxRank {
			return fmt.Errorf("register %d: rank %d", n, rank)
		}
	}
	return nil
}

func (c *AddUsage) apply(tx *txn) Result {
	today := DayOf(tx.now)
	key := foldKey(c.Boot)
	if row, ok := tx.get(key); ok {
		last, err := decodeFoldRow(row)
		tx.must(err)
		if c.Number <= last.number {
			return Result{Outcome: OutcomeDuplicate}
		}
	}
	tx.pruneUsage(today)
	tx.keep(key, foldRow{c.Number, today}.append(nil))
	oldest := today.minus(MaxUsageDays - 1)
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
	return Result{Outcome: OutcomeDone}
}

// addUsage adds a row to that of its day.
func (tx *txn) addUsage(r *UsageRow) {
	key := usageKey(r.Day, r.Surface, r.Action, r.Client)
	row, known := tx.get(key)
	if !known {
		rows := tx.number(usageDayKey(r.Day))
		if rows >= maxDayRows && (r.Action != OtherCalls || r.Client != OtherCalls) {
			other := *r
			other.Action, other.Client = OtherCalls, OtherCalls
			tx.addUsage(&other)
			return
		}
		tx.keep(usageDayKey(r.Day), binary.AppendUvarint(nil, rows+1))
	}
	tx.keep(key, binary.AppendUvarint(nil, tx.decodeNumber(row)+r.Count))
}

// addSenders brings the sketch of a day up to the registers of a row.
func (tx *txn) addSenders(r *SenderRow) {
	for b := r.Registers; len(b) > 0; b = b[RegisterBytes:] {
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
func (tx *txn) pruneUsage(today Day) {
	if tx.number(keyUsagePruned) == uint64(today) {
		return
	}
	tx.keep(keyUsagePruned, binary.AppendUvarint(nil, uint64(today)))
	oldest := today.minus(MaxUsageDays - 1)
	for _, space := range []byte{spaceUsage, spaceSenders} {
		tx.dropRange([]byte{space}, binary.BigEndian.AppendUint32([]byte{space}, uint32(oldest)))
	}
	for _, key := range tx.keysOf(spaceFold) {
		row, ok := tx.get(key)
		if !ok {
			continue
		}
		f, err := decodeFoldRow(row)
		tx.must(err)
		if f.day < today.minus(foldDays) {
			tx.keep(key, nil)
		}
	}
}

// number returns the number that a row holds; 0 when there is none.
func (tx *txn) number(key []byte) uint64 {
	row, _ := tx.get(key)
	return tx.decodeNumber(row)
}

func (tx *txn) decodeNumber(row []byte) uint64 {
	n, err := decodeNumber(row)
	tx.must(err)
	return n
}

// decodeNumber reads a row of one number; 0 from no row.
func decodeNumber(row []byte) (uint64, error) {
	if len(row) == 0 {
		return 0, nil
	}
	r := rowReader{rest: row}
	n := r.uint()
	return n, r.done("row of a number")
}

// foldRow is the row of spaceFold.
type foldRow struct {
	number uint64 // of the newest fold of the run
	day    Day    // when it was applied
}

func (f foldRow) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, f.number), uint64(f.day))
}

func decodeFoldRow(row []byte) (foldRow, error) {
	r := rowReader{rest: row}
	f := foldRow{number: r.uint(), day: Day(r.uint())}
	return f, r.done("fold row")
}

// A sketch tells how many different senders there were without knowing any of
// them. In the state it is its plain registers, each the largest rank that was
// ever seen for it: merging is taking the larger one, so that the bytes depend
// neither on the order of the merges nor on the library below.
const (
	sketchPrecision = 14
	// SketchRegisters is how many registers a sketch has: estimates are right to
	// within about one in a hundred.
	SketchRegisters = 1 << sketchPrecision
	maxRank         = 64 - sketchPrecision + 1

	// sketchHeader is what stands before the registers in the library's dense
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
	return &Senders{must(hyperloglog.NewSketch(sketchPrecision, false))}
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

// mergeRegisters brings registers up to others.
func mergeRegisters(registers, others []byte) {
	for i, rank := range others {
		registers[i] = max(registers[i], rank)
	}
}

// estimate returns how many senders were added to all the sketches whose
// registers were merged into these. It is for readers: apply never asks.
func estimate(registers []byte) (uint64, error) {
	dense := make([]byte, 0, sketchHeader+SketchRegisters)
	dense = append(dense, sketchFormat, sketchPrecision, noRegisterBias, denseFormat)
	dense = binary.BigEndian.AppendUint32(dense, SketchRegisters)
	dense = append(dense, registers...)
	var sketch hyperloglog.Sketch
	if err := sketch.UnmarshalBinary(dense); err != nil {
		return 0, fmt.Errorf("%w: sketch: %w", ErrCorrupt, err)
	}
	return sketch.Estimate(), nil
}
