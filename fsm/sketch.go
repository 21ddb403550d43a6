package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/axiomhq/hyperloglog"
)

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
