package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
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

var surfaceNames = Names{0: "surface", SurfaceAPI: "api", SurfaceA2A: "a2a", SurfaceMCP: "mcp", SurfaceWeb: "web"}

// String returns the surface's name in the interface.
func (s Surface) String() string { return surfaceNames.Name(uint8(s)) }

// OtherCalls is the action and the client of calls on a day with too many of both.
const OtherCalls = "other"

// Day numbers the days since the epoch, in UTC.
type Day uint32

// DayOf returns the day of an instant in milliseconds since the epoch.
func DayOf(millis int64) Day { return Day(max(0, millis) / DayMillis) }

// Start is the day's first instant, in milliseconds since the epoch.
func (d Day) Start() int64 { return int64(d) * DayMillis }

// String returns the day as 2006-01-02.
func (d Day) String() string { return time.UnixMilli(d.Start()).UTC().Format(time.DateOnly) }

// Minus is the day n days earlier.
func (d Day) Minus(n int) Day { return d - min(d, Day(n)) }

// UsageRow counts the calls of one day that one kind of client made of one action.
type UsageRow struct {
	Day     Day     `cbor:"1,keyasint"`
	Surface Surface `cbor:"2,keyasint"`
	Action  string  `cbor:"3,keyasint"`
	Client  string  `cbor:"4,keyasint"`
	Count   uint64  `cbor:"5,keyasint"`
}

// SenderRow holds registers of the sketch of one day's senders.
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

// AddUsage adds the counts of a node to the state. A repeated number has no effect.
type AddUsage struct {
	// Boot is the run of the node that counted.
	Boot BootID `cbor:"1,keyasint"`
	// Number is that of the fold in the run: each is larger than the one before.
	Number  uint64      `cbor:"2,keyasint"`
	Rows    []UsageRow  `cbor:"3,keyasint,omitempty"`
	Senders []SenderRow `cbor:"4,keyasint,omitempty"`
}

func (c *AddUsage) check() error {
	errs := []error{
		refuse(c.Boot == BootID{} || c.Number == 0, "usage of no run, or without a number"),
		checkRange("usage", len(c.Rows), 0, MaxUsageRows, "rows"),
		checkRange("senders", len(c.Senders), 0, MaxSenderRows, "rows"),
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		errs = append(errs, r.Surface.check(), checkLabel("action", r.Action), checkLabel("client", r.Client),
			refuse(r.Count == 0 || r.Count > MaxUsageCount, "a count out of its range"))
	}
	registers := 0
	for i := range c.Senders {
		r := &c.Senders[i]
		registers += len(r.Registers) / RegisterBytes
		errs = append(errs, r.Surface.check(), r.checkRegisters())
	}
	return errors.Join(append(errs, checkRange("registers", registers, 0, MaxSenderRegisters, ""))...)
}

// MaxUsageCount bounds the calls of one row, so that sums do not overflow.
const MaxUsageCount = 1 << 40

func (s Surface) check() error { return surfaceNames.check("surface", uint8(s)) }

func (r *SenderRow) checkRegisters() error {
	if len(r.Registers)%RegisterBytes != 0 {
		return fmt.Errorf("registers: %d bytes", len(r.Registers))
	}
	for b := r.Registers; len(b) > 0; b = b[RegisterBytes:] {
		if n, rank := binary.BigEndian.Uint16(b), b[2]; n >= SketchRegisters || rank == 0 || rank > MaxRank {
			return fmt.Errorf("register %d: rank %d", n, rank)
		}
	}
	return nil
}

// The shape of a sketch of senders (see SenderRow).
const (
	SketchPrecision = 14
	// SketchRegisters is the number of registers: estimates are right to about one percent.
	SketchRegisters = 1 << SketchPrecision
	MaxRank         = 64 - SketchPrecision + 1
)
