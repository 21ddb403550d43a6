package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/axiomhq/hyperloglog"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// maxDayRows is how many rows a day has at most; what goes beyond is counted
	// as OtherCalls.
	maxDayRows = 500
	// foldDays is for how many days the number of a run's newest fold is kept. A
	// fold is sent again within a day or not at all.
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
// them. In the state it is its plain registers, each the largest rank that was
// ever seen for it: merging is taking the larger one, so that the bytes depend
// neither on the order of the merges nor on the library below.
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
