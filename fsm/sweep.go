package fsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/state"
)

// EraseSwept removes what was swept since the last time from the files of the state, except
// for what Pebble has not deleted yet. It removes its words from the index, and rewrites
// the tables that hold its rows and the index. Before each part of the work it stops if due
// says that something else waits: done is false then, and the next call continues.
// It is called again after an error. One goroutine calls it and Erase.
func (m *Machine) EraseSwept(ctx context.Context, due func() bool) (done bool, err error) {
	v := m.acquire()
	s := v.store
	row, _, err := state.Load(v.Reader(), state.KeySweep, state.Decode[state.SweepRow])
	blocks, errBlocks := sweptBlocks(v.Reader())
	if err = errors.Join(err, errBlocks); err != nil || len(blocks) == 0 {
		v.Release()
		return err == nil, err
	}
	s.ref() // or a snapshot that is installed closes it
	v.Release()
	defer s.unref()
	if done, err = s.eraseSwept(ctx, row.Swept, blocks, due); err != nil {
		return false, fmt.Errorf("erase what was swept: %w", err)
	}
	if err := s.Flush(); err != nil {
		return false, err
	}
	m.republish(s)
	return done, nil
}

// eraseSwept erases what was swept in blocks, when so many entries were swept in all.
func (s *store) eraseSwept(ctx context.Context, swept uint64, blocks []sweptBlock, due func() bool) (done bool, err error) {
	if s.indexSwept != swept {
		if due() {
			return false, nil
		}
		if err := s.index.Erase(ctx); err != nil {
			return false, err
		}
		s.m.renewView(s) // Pebble keeps what a snapshot can see
		if err := s.compact(ctx, quotingRanges()); err != nil {
			return false, err
		}
		s.indexSwept = swept
	}
	for _, b := range blocks {
		if due() {
			return false, nil
		}
		if err := s.compact(ctx, textRanges(max(1, b.number*state.HiddenEntries), (b.number+1)*state.HiddenEntries)); err != nil {
			return false, err
		}
		if err := s.DB.Set(sweptOutKey(b.number), b.bits, pebble.NoSync); err != nil {
			return false, err
		}
	}
	return true, nil
}

func sweptOutKey(block uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{state.SpaceErased, 's'}, block)
}

// sweptBlock are HiddenEntries entries, and which of them were swept.
type sweptBlock struct {
	number uint64
	bits   []byte
}

// sweptBlocks returns the blocks in which entries were swept since EraseSwept was done
// with them.
func sweptBlocks(r pebble.Reader) (blocks []sweptBlock, err error) {
	err = state.ScanAll(r, state.SpaceSweptBits, func(key, bits []byte) error {
		block := state.SeqOfKey(key)
		done, _, err := state.GetRow(r, sweptOutKey(block))
		if err == nil && !bytes.Equal(done, bits) {
			blocks = append(blocks, sweptBlock{block, slices.Clone(bits)})
		}
		return err
	})
	return blocks, err
}
