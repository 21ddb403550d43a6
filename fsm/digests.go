package fsm

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"sync"
)

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
