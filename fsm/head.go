package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/snapshot"
)

// head is how far a state has come. Its row is in the same write as what it
// describes.
type head struct {
	applied uint64 // index of the newest log entry that was applied
	term    uint64 // its term
	now     int64  // instant of the newest batch, milliseconds since the epoch
	lastSeq uint64 // seq of the newest entry
	rolling [sha256.Size]byte
}

func (h *head) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.applied)
	dst = binary.AppendUvarint(dst, h.term)
	dst = binary.AppendUvarint(dst, uint64(h.now))
	dst = binary.AppendUvarint(dst, h.lastSeq)
	return append(dst, h.rolling[:]...)
}

func loadHead(r pebble.Reader) (head, error) {
	row, ok, err := getRow(r, keyHead)
	if err != nil || !ok {
		return head{}, err
	}
	rr := rowReader{rest: row}
	h := head{applied: rr.uint(), term: rr.uint(), now: int64(rr.uint()), lastSeq: rr.uint()}
	if copy(h.rolling[:], rr.bytes(sha256.Size)) != sha256.Size {
		rr.bad = true
	}
	return h, rr.done("head row")
}

// checkApplied returns an error when a log entry is not the one that was applied
// at its index, as far as that is known.
func (h *head) checkApplied(e *logEntry) error {
	if e.index == h.applied && e.term != h.term {
		return fmt.Errorf("log entry %d has the term %d, the state was made with one of term %d: wipe this node's data, the others bring it up to date",
			e.index, e.term, h.term)
	}
	return nil
}

// roll adds an applied log entry to the running digest: its index, what it said
// and what came of it.
func (h *head) roll(index uint64, data []byte, results []Result) {
	sum := sha256.New()
	sum.Write(h.rolling[:])
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], index)
	binary.BigEndian.PutUint64(n[8:], uint64(len(data)))
	sum.Write(n[:])
	sum.Write(data)
	var buf []byte
	for _, r := range results {
		buf = appendResult(buf, r)
	}
	sum.Write(buf)
	sum.Sum(h.rolling[:0])
}

// cluster is what Init said.
type cluster struct {
	id        string
	sealedKey []byte
}

func (c *cluster) append(dst []byte) []byte {
	return appendBlob(appendBlob(dst, c.id), c.sealedKey)
}

func loadCluster(r pebble.Reader) (cluster, error) {
	row, ok, err := getRow(r, keyCluster)
	if err != nil || !ok {
		return cluster{}, err
	}
	rr := rowReader{rest: row}
	c := cluster{id: rr.text(), sealedKey: []byte(rr.text())}
	return c, rr.done("cluster row")
}

// appendPosition appends the row of a position.
func appendPosition(dst []byte, p snapshot.Position) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, p.Index), p.Term)
}

// covers returns the position in the Raft log up to which the state holds
// everything. The position of the newest snapshot can be ahead of the newest
// applied log entry, because Raft's own entries never reach the state machine.
func covers(r pebble.Reader) (snapshot.Position, error) {
	h, err := loadHead(r)
	if err != nil {
		return snapshot.Position{}, err
	}
	row, ok, err := getRow(r, keyCovered)
	if err != nil {
		return snapshot.Position{}, err
	}
	applied := snapshot.Position{Index: h.applied, Term: h.term}
	if !ok {
		return applied, nil
	}
	rr := rowReader{rest: row}
	covered := snapshot.Position{Index: rr.uint(), Term: rr.uint()}
	if err := rr.done("covered row"); err != nil || covered.Index > h.applied {
		return covered, err
	}
	return applied, nil
}

// configuration is the newest Raft configuration, in Raft's own encoding.
type configuration struct {
	index uint64
	data  []byte
}

func (c *configuration) append(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, c.index), c.data...)
}

func loadConfiguration(r pebble.Reader) (configuration, error) {
	row, ok, err := getRow(r, keyConfig)
	if err != nil || !ok {
		return configuration{}, err
	}
	rr := rowReader{rest: row}
	c := configuration{index: rr.uint()}
	if rr.bad {
		return configuration{}, fmt.Errorf("%w: configuration row", ErrCorrupt)
	}
	c.data = rr.rest
	return c, nil
}
