package fsm

import (
	"fmt"

	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/text"
)

// indexVersion numbers how entries become terms. It must change with them; the
// index is then built anew.
const indexVersion = 3<<16 | text.Version

// openIndex opens the store's index and adds the entries that were not sealed.
// That also warms the memory of recent rows.
func (s *store) openIndex(lastSeq uint64) error {
	x, err := index.Open(s.db, index.Options{
		Prefix: []byte{spaceIndex}, Version: indexVersion, First: 1,
		Logger: s.m.opts.Logger, OnSealed: func(uint64) { s.m.republish(s) },
	})
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	s.index = x
	if x.Sealed() > lastSeq+1 {
		return fmt.Errorf("%w: the index is sealed up to %d, there are %d entries", ErrCorrupt, x.Sealed(), lastSeq)
	}
	next := x.Sealed()
	var tb termBuilder
	lower := makeSeqKey(spaceEntry, next)
	_, upper := spaceBounds(spaceEntry)
	err = scanSpace(s.db, lower[:], upper, func(key, value []byte) error {
		seq := seqOfKey(key)
		e, err := decodeEntryRow(seq, value)
		if err != nil {
			return err
		}
		if seq != next {
			return fmt.Errorf("%w: entry %d is missing", ErrCorrupt, next)
		}
		t, err := e.texts()
		if err != nil {
			return err
		}
		x.Add(seq, tb.terms(&e, t))
		s.recent.put(seq, append([]byte(nil), value...))
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index: %w", err)
	}
	if next != lastSeq+1 {
		return fmt.Errorf("%w: entry %d is missing", ErrCorrupt, next)
	}
	return nil
}

// republish replaces the newest view after a seal, so that the sealed block can
// leave memory even when nothing is applied. While something is applied or
// swapped that happens anyway.
func (m *Machine) republish(s *store) {
	if !m.applyMu.TryLock() {
		return
	}
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}
