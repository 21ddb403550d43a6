package fsm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
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
	return append(appendUints(dst, h.applied, h.term, uint64(h.now), h.lastSeq), h.rolling[:]...)
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

// roll adds an applied log entry to the running digest: its index, its data and its
// results.
func (h *head) roll(index uint64, data []byte, results []command.Result) {
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

// RowDigest returns a hash over the logical rows of the state: equal on every
// node at an equal index, however the node came by its rows. It reads everything
// and takes as long, unless ctx ends before.
func (v *View) RowDigest(ctx context.Context) (digest [32]byte, err error) {
	return digestRows(ctx, v.snap, &v.head)
}

// Digest returns the running hash over everything applied up to the view's index.
func (v *View) Digest() [32]byte { return v.head.rolling }

func digestRows(ctx context.Context, r pebble.Reader, h *head) (digest [32]byte, err error) {
	sum := sha256.New()
	var buf []byte
	for _, space := range logicalSpaces {
		lower, upper := spaceBounds(space)
		err := scanSpace(r, lower, upper, func(key, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf = appendBlob(appendBlob(buf[:0], key), value)
			sum.Write(buf)
			return nil
		})
		if err != nil {
			return digest, fmt.Errorf("digest rows: %w", err)
		}
	}
	var n [24]byte
	binary.BigEndian.PutUint64(n[:], h.applied)
	binary.BigEndian.PutUint64(n[8:], uint64(h.now))
	binary.BigEndian.PutUint64(n[16:], h.lastSeq)
	sum.Write(n[:])
	sum.Sum(digest[:0])
	return digest, nil
}

// keptDigests is how many of the newest running digests are remembered, so that
// nodes which are not at the same index can still be compared at one: seconds of
// log under full load.
const keptDigests = 4096

// rolled is the running digest after one log entry of ours.
type rolled struct {
	index  uint64
	digest [sha256.Size]byte
}

// digests are the newest running digests, oldest first.
type digests struct {
	mu   sync.Mutex
	list []rolled
}

// add appends the digests of one call.
func (d *digests) add(newest []rolled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, newest...)
	if len(d.list) >= 2*keptDigests {
		d.list = append(d.list[:0], d.list[len(d.list)-keptDigests:]...)
	}
}

// reset forgets all but the digest of a state that was just loaded.
func (d *digests) reset(h *head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list[:0], rolled{h.applied, h.rolling})
}

// at returns the digest of the newest log entry that is not above index.
func (d *digests) at(index uint64) ([sha256.Size]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, exact := slices.BinarySearchFunc(d.list, index, func(r rolled, index uint64) int { return cmp.Compare(r.index, index) })
	if exact {
		return d.list[i].digest, true
	}
	if i == 0 {
		return [sha256.Size]byte{}, false
	}
	return d.list[i-1].digest, true
}

// DigestAt is Digest at an earlier index. It returns false for an index that is
// not applied yet, or too far back.
func (m *Machine) DigestAt(index uint64) (rolling [sha256.Size]byte, ok bool) {
	if index > m.Applied() {
		return rolling, false
	}
	return m.digests.at(index)
}
