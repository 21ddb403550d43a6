package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// openIndex opens the store's index and adds the entries that were not sealed.
// That also warms the memory of recent rows.
func (s *store) openIndex(lastSeq uint64) error {
	gone := func(block uint64) (index.Bitmap, error) { return state.GoneIn(s.DB, block) }
	x, err := s.openIndexIn(state.SpaceIndex, lastSeq, index.Options{Version: state.IndexVersion, Erased: gone, Lasting: state.IsLastingTerm})
	if s.index = x; err != nil {
		return err
	}
	next := x.Sealed()
	var tb state.TermBuilder
	_, upper := state.SpaceBounds(state.SpaceEntry)
	err = state.ScanSpace(s.DB, state.SeqKey(state.SpaceEntry, next), upper, func(key, value []byte) error {
		seq := state.SeqOfKey(key)
		e, err := state.DecodeEntryRow(seq, value)
		if err != nil {
			return err
		}
		if seq != next {
			return fmt.Errorf("%w: entry %d is missing", state.ErrCorrupt, next)
		}
		original, err := state.Unhidden(s.DB, &e)
		if err != nil {
			return err
		}
		t, err := original.Outline.Texts()
		if err != nil {
			return err
		}
		terms, words := tb.Terms(&e, t)
		x.Add(seq, terms, words...)
		s.Recent.Put(seq, append([]byte(nil), value...))
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index: %w", err)
	}
	if next != lastSeq+1 {
		return fmt.Errorf("%w: entry %d is missing", state.ErrCorrupt, next)
	}
	return nil
}

// openIndexIn opens the index in a keyspace, of numbers from 1 to last.
func (s *store) openIndexIn(space byte, last uint64, opts index.Options) (*index.Index, error) {
	opts.Prefix, opts.First, opts.Logger, opts.Pace = []byte{space}, 1, s.m.opts.Logger, s.m.opts.Pace
	opts.OnSealed = func(uint64) { s.m.republish(s) }
	x, err := index.Open(s.DB, opts)
	if err != nil {
		return nil, fmt.Errorf("open index %c: %w", space, err)
	}
	if x.Sealed() > last+1 {
		err = fmt.Errorf("%w: index %c is sealed up to %d, the newest number is %d", state.ErrCorrupt, space, x.Sealed(), last)
	}
	return x, err
}

// republish replaces the newest view after a seal, so that the sealed block can leave
// memory even while no entry is applied. It does not wait: whoever holds applyMu publishes
// a view.
func (m *Machine) republish(s *store) {
	if !m.applyMu.TryLock() {
		return
	}
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}

// openProfileIndex opens the store's index of profiles and adds the revisions
// that were not sealed. Those that were replaced since have no words any more.
func (s *store) openProfileIndex(last uint64) error {
	x, err := s.openIndexIn(state.SpaceProfileIndex, last, index.Options{Version: state.ProfileIndexVersion, Erased: s.replacedIn})
	if s.profiles = x; err != nil {
		return err
	}
	next := x.Sealed()
	var tb state.TermBuilder
	_, upper := state.SpaceBounds(state.SpaceRevision)
	err = state.ScanSpace(s.DB, state.SeqKey(state.SpaceRevision, next), upper, func(key, agentKey []byte) error {
		revision := state.SeqOfKey(key)
		p, ok, err := state.Load(s.DB, state.ProfileKey(strings.TrimPrefix(string(agentKey), state.HiddenRevision)), state.Decode[state.ProfileRow])
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: profile %d is missing", state.ErrCorrupt, revision)
		}
		for ; next < revision; next++ {
			x.Add(next, nil)
		}
		x.Add(revision, nil, tb.Words(p.Texts())...)
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index of profiles: %w", err)
	}
	return nil
}

// replacedIn returns the replaced revisions of a block, whose words the index drops.
func (s *store) replacedIn(block uint64) (index.Bitmap, error) {
	first := block * index.BlockEntries
	replaced := index.Bitmap(slices.Repeat([]byte{0xff}, index.BlockEntries/8))
	err := state.ScanSpace(s.DB, state.SeqKey(state.SpaceRevision, first), state.SeqKey(state.SpaceRevision, first+index.BlockEntries), func(key, _ []byte) error {
		at := state.SeqOfKey(key) - first
		replaced[at/8] &^= 1 << (at % 8)
		return nil
	})
	return replaced, err
}
