package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Head is the progress of a state. Its row is written with the changes.
type Head struct {
	Applied uint64 // index of the newest log entry that was applied
	Term    uint64 // its term
	Now     int64  // instant of the newest batch, milliseconds since the epoch
	LastSeq uint64 // seq of the newest entry
	Rolling [sha256.Size]byte
	// EventRows is how many rows of events were written, LastEvent the place of the newest
	// event.
	EventRows uint64
	LastEvent EventPlace
}

// Fields implements Row.
func (h *Head) Fields(c *Codec) {
	c.Fields(&h.Applied, &h.Term, &h.Now, &h.LastSeq, &h.EventRows, &h.LastEvent.Index, &h.LastEvent.Number, h.Rolling[:])
}

// CheckApplied returns an error if a log entry is known to differ from the applied one.
func (h *Head) CheckApplied(index, term uint64) error {
	if index == h.Applied && term != h.Term {
		return fmt.Errorf("log entry %d has the term %d, the state was made with one of term %d: wipe this node's data, the others bring it up to date",
			index, term, h.Term)
	}
	return nil
}

// Roll adds an applied log entry to the running digest: its index, its data and its results.
func (h *Head) Roll(index uint64, data []byte, results []command.Result) {
	sum := sha256.New()
	sum.Write(h.Rolling[:])
	buf := binary.BigEndian.AppendUint64(make([]byte, 0, 16), index)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(data)))
	sum.Write(buf)
	sum.Write(data)
	for i := range results {
		sum.Write(Encode((*ResultRow)(&results[i])))
	}
	sum.Sum(h.Rolling[:0])
}

// Resident is the part of a state that transactions and views hold in memory.
type Resident struct {
	Head    Head
	Version uint64 // of views; see View.Version
	Cluster Cluster
	Format  int    // replicated format number
	Hidden  uint64 // entries that are hidden
	Policy  *Policy
	Reports *ReportQueue
}

// LoadHead reads the progress of a state; zero for an empty state.
func LoadHead(r pebble.Reader) (Head, error) { return LoadOrZero(r, KeyHead, Decode[Head]) }
