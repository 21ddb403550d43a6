// Package stats has the rows that count outside activity: what agents wrote in each hour, the
// calls of each day, and sketches of the senders of a day.
//
// It is imported by apply, view and node/usage.
package stats

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/axiomhq/hyperloglog"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// DayHours is the number of hours that the counts of a day cover.
	DayHours = 24
	// WeekDays is the number of days that the counts of a week cover.
	WeekDays = 7
	// HoursKept is the number of hours that have counts.
	HoursKept = WeekDays * DayHours
)

// HourRow is the row of state.SpaceHour: it counts the activity of outside agents in one hour.
type HourRow struct {
	// Agents are the names whose newest entry is of this hour. Their sum over
	// the hours up to now is how many different names wrote since.
	Agents  uint64 `json:"agents"`
	Posts   uint64 `json:"posts"`   // entries, replies among them
	Replies uint64 `json:"replies"` // entries with relation reply
}

// Add adds the counts of another hour.
func (h *HourRow) Add(o HourRow) {
	h.Agents += o.Agents
	h.Posts += o.Posts
	h.Replies += o.Replies
}

// Fields implements state.Row.
func (h *HourRow) Fields(c *state.Codec) { c.Fields(&h.Posts, &h.Replies, &h.Agents) }

// OldestHour is the oldest of the hours that are kept at an hour.
func OldestHour(hour uint64) uint64 { return hour - min(hour, HoursKept-1) }

// SketchChunk is how many registers of a sketch share a row of state.SpaceSenders.
const SketchChunk = 256

// HourKey is the key of an hour's counts.
func HourKey(hour uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{state.SpaceHour}, uint32(hour))
}

// PostedKey is the key of the hour of a name's newest entry.
func PostedKey(agentKey string) []byte { return append([]byte{state.SpacePosted}, agentKey...) }

// UsageDayKey is the row that counts a day's rows; the others of the day begin
// with its key.
func UsageDayKey(day command.Day) []byte { return state.DayKey(state.SpaceUsage, day) }

const (
	// UsageDayKeyBytes is how long it is.
	UsageDayKeyBytes = 1 + 4
	// labelEnd ends an action in a key; no label holds it.
	labelEnd = 0
)

// UsageKey is the key of a day's calls of an action by a client.
func UsageKey(day command.Day, surface command.Surface, action, client string) []byte {
	key := append(append(UsageDayKey(day), byte(surface)), action...)
	return append(append(key, labelEnd), client...)
}

// ParseUsageKey reads a UsageKey.
func ParseUsageKey(key []byte) (command.UsageRow, error) {
	action, client, ok := bytes.Cut(key[min(len(key), UsageDayKeyBytes+1):], []byte{labelEnd})
	if !ok {
		return command.UsageRow{}, fmt.Errorf("%w: usage key", state.ErrCorrupt)
	}
	return command.UsageRow{
		Day: command.Day(binary.BigEndian.Uint32(key[1:])), Surface: command.Surface(key[UsageDayKeyBytes]),
		Action: string(action), Client: string(client),
	}, nil
}

// SendersKey is the key of a part of a day's sketch of senders.
func SendersKey(day command.Day, surface command.Surface, chunk byte) []byte {
	return append(state.DayKey(state.SpaceSenders, day), byte(surface), chunk)
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

// Estimate returns how many senders were added to all the sketches whose
// registers were merged into these. It is for readers: apply never asks.
func Estimate(registers []byte) (uint64, error) {
	dense := make([]byte, 0, sketchHeader+command.SketchRegisters)
	dense = append(dense, sketchFormat, command.SketchPrecision, noRegisterBias, denseFormat)
	dense = binary.BigEndian.AppendUint32(dense, command.SketchRegisters)
	dense = append(dense, registers...)
	var sketch hyperloglog.Sketch
	if err := sketch.UnmarshalBinary(dense); err != nil {
		return 0, fmt.Errorf("%w: sketch: %w", state.ErrCorrupt, err)
	}
	return sketch.Estimate(), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
