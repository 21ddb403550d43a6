package fsm

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/state"
)

func TestDigestAtEarlierIndexes(t *testing.T) {
	r := newRig(t)
	type at struct {
		index  uint64
		digest [32]byte
	}
	var seen []at
	for range 5 {
		r.run(post("ada", nil))
		index, digest := r.Digest()
		seen = append(seen, at{index, digest})
	}
	for _, want := range seen {
		if got, ok := r.DigestAt(want.index); !ok || got != want.digest {
			t.Errorf("digest at %d: %x, %v, want %x", want.index, got, ok, want.digest)
		}
	}
	if seen[0].digest == seen[1].digest {
		t.Error("the digest does not change")
	}
	newest := seen[len(seen)-1]
	if _, ok := r.DigestAt(newest.index + 1); ok {
		t.Error("there is a digest for an index that is not applied")
	}
	// A configuration moves the index and leaves the digest.
	index := r.log.add(raft.LogConfiguration, r.log.entries[0].Data)
	r.log.feed(r.Machine, index, index)
	if got, ok := r.DigestAt(newest.index + 1); !ok || got != newest.digest {
		t.Errorf("digest after a configuration: %x, %v", got, ok)
	}
}

func TestDigestOfALoadedState(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	l := newLog(t)
	l.commands(post("ada", nil))
	l.feed(m, 1, l.last())
	index, digest := m.Digest()
	closeMachine(t, m)
	m = openAt(t, dir)
	defer closeMachine(t, m)
	if got, ok := m.DigestAt(index); !ok || got != digest {
		t.Errorf("digest at %d: %x, %v, want %x", index, got, ok, digest)
	}
	if _, ok := m.DigestAt(index - 1); ok {
		t.Error("there is a digest from before the state was opened")
	}
}

func TestDigestsAreBounded(t *testing.T) {
	var d digests
	d.reset(&state.Head{Applied: 10})
	if _, ok := d.at(9); ok {
		t.Error("there is a digest from before the state was loaded")
	}
	for i := range uint64(3 * keptDigests) {
		d.add([]apply.Rolled{{Index: 11 + i, Digest: [32]byte{byte(i)}}})
	}
	if n := len(d.list); n < keptDigests || n >= 2*keptDigests {
		t.Errorf("%d digests are kept", n)
	}
	newest := uint64(10 + 3*keptDigests)
	for _, index := range []uint64{newest, newest - keptDigests + 1} {
		if got, ok := d.at(index); !ok || got[0] != byte(index-11) {
			t.Errorf("digest at %d: %x, %v", index, got[0], ok)
		}
	}
	if _, ok := d.at(11); ok {
		t.Error("a digest that was dropped is found")
	}
}
