package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Head is the progress of a state. Its row is in the same write as the changes.
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

// Append encodes the row.
func (h *Head) Append(dst []byte) []byte {
	return append(AppendUints(dst, h.Applied, h.Term, uint64(h.Now), h.LastSeq, h.EventRows, h.LastEvent.Index, h.LastEvent.Number), h.Rolling[:]...)
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
	buf = buf[:0]
	for _, r := range results {
		buf = AppendResult(buf, r)
	}
	sum.Write(buf)
	sum.Sum(h.Rolling[:0])
}

// Resident is the part of a state that is held in memory for views, too.
type Resident struct {
	Head    Head
	Version uint64 // of views; see View.Version
	Cluster Cluster
	Format  int    // replicated format number
	Hidden  uint64 // entries that are hidden
	Policy  *Policy
	Reports *ReportQueue
}

// Cluster is the cluster's id and data key, from Init or from the founding of a new
// cluster.
type Cluster struct {
	ID        string
	SealedKey []byte
	Founding  string // to be recorded by the first leader: action, space, clusters; else ""
}

// Encode returns the row of KeyCluster.
func (c *Cluster) Encode() []byte {
	return AppendBlob(AppendBlob(AppendBlob(nil, c.ID), c.SealedKey), c.Founding)
}

// Configuration is the newest Raft configuration, in Raft's own encoding.
type Configuration struct {
	Index uint64
	Data  []byte
}

// Append encodes the row.
func (c *Configuration) Append(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, c.Index), c.Data...)
}

// LoadHead reads the progress of a state; zero for an empty state.
func LoadHead(r pebble.Reader) (Head, error) {
	return LoadOrZero(r, KeyHead, func(row []byte) (h Head, err error) {
		rr := RowReader{Rest: row}
		h.Applied, h.Term, h.Now, h.LastSeq = rr.Uint(), rr.Uint(), int64(rr.Uint()), rr.Uint()
		h.EventRows, h.LastEvent = rr.Uint(), EventPlace{rr.Uint(), rr.Uint()}
		rr.Fill(h.Rolling[:])
		return h, rr.Done("head row")
	})
}

// LoadCluster reads the identity of the cluster; zero before Init.
func LoadCluster(r pebble.Reader) (Cluster, error) {
	return LoadOrZero(r, KeyCluster, func(row []byte) (Cluster, error) {
		rr := RowReader{Rest: row}
		c := Cluster{ID: rr.Text(), SealedKey: []byte(rr.Text()), Founding: rr.Text()}
		return c, rr.Done("cluster row")
	})
}

// LoadConfiguration reads the newest configuration; zero before the first.
func LoadConfiguration(r pebble.Reader) (Configuration, error) {
	return LoadOrZero(r, KeyConfig, func(row []byte) (Configuration, error) {
		rr := RowReader{Rest: row}
		c := Configuration{Index: rr.Uint(), Data: rr.rest()}
		return c, rr.Done("configuration row")
	})
}

// LoadFormat reads the replicated format number.
func LoadFormat(r pebble.Reader) (int, error) {
	n, ok, err := Load(r, KeyFormat, DecodeNumber)
	if err != nil || !ok {
		return command.InitialFormat, err
	}
	return int(n), nil //nolint:gosec // bounded when it was set
}

// The flags of a result's row.
const (
	flagDiffers        = 1 << 0
	flagKeyIssued      = 1 << 1
	flagRecoveryIssued = 1 << 2
)

// AppendResult encodes a result for its row and for the digest.
func AppendResult(dst []byte, r command.Result) []byte {
	dst = append(dst, byte(r.Outcome), Bit(r.Differs, flagDiffers)|Bit(r.KeyIssued, flagKeyIssued)|Bit(r.RecoveryIssued, flagRecoveryIssued))
	dst = AppendUints(dst, r.Entry, uint64(len(r.Problems)))
	for _, p := range r.Problems {
		dst = append(dst, byte(p))
	}
	return dst
}

// DecodeResult decodes a row of spaceAnswer.
func DecodeResult(row []byte) (command.Result, error) {
	r := RowReader{Rest: row}
	res := command.Result{Outcome: command.Outcome(r.Byte())}
	flags := r.Byte()
	res.Entry, res.Differs = r.Uint(), flags&flagDiffers != 0
	res.KeyIssued, res.RecoveryIssued = flags&flagKeyIssued != 0, flags&flagRecoveryIssued != 0
	for _, p := range r.bytes(r.Uint()) {
		res.Problems = append(res.Problems, command.Problem(p))
	}
	return res, r.Done("answer row")
}
