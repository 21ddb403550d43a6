package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// A page shows rows that lie apart. A point read opens an iterator on each level
// of the LSM tree, which gets dearer as the store grows; one iterator that goes
// through all of a page's keys in their order does not.

// AppendEntries appends the JSON of entries to dst, with commas between them. It
// returns ErrNotFound when there is no such entry.
func (v *View) AppendEntries(dst []byte, seqs []uint64) ([]byte, error) {
	rows, err := v.entryRows(seqs)
	if err != nil {
		return dst, err
	}
	return appendEach(dst, seqs, func(dst []byte, i int) ([]byte, error) { return v.appendEntry(dst, seqs[i], rows[i]) })
}

// AppendJobs appends the JSON of jobs, as AppendJob does it, with commas between
// them.
func (v *View) AppendJobs(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, spaceJob, v.appendJob)
}

// AppendHelps appends the JSON of requests for human help, as AppendHelp does it,
// with commas between them.
func (v *View) AppendHelps(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, spaceHelp, v.appendHelp)
}

// appendStates appends entries that have a row of their own kind beside that of the
// entry.
func (v *View) appendStates(dst []byte, seqs []uint64, space byte, show func(dst []byte, seq uint64, entry, state []byte) ([]byte, error)) ([]byte, error) {
	entries, err := v.entryRows(seqs)
	if err != nil {
		return dst, err
	}
	states := make([][]byte, len(seqs))
	if err := v.readRows(space, seqs, states); err != nil {
		return dst, err
	}
	return appendEach(dst, seqs, func(dst []byte, i int) ([]byte, error) { return show(dst, seqs[i], entries[i], states[i]) })
}

func appendEach(dst []byte, seqs []uint64, show func(dst []byte, i int) ([]byte, error)) ([]byte, error) {
	start := len(dst)
	for i, seq := range seqs {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = show(dst, i); err != nil {
			return dst[:start], fmt.Errorf("show %d: %w", seq, err)
		}
	}
	return dst, nil
}

// entryRows returns the rows of entries; nil stands for an entry that is not there.
// The rows must not be changed.
func (v *View) entryRows(seqs []uint64) ([][]byte, error) {
	rows := make([][]byte, len(seqs))
	for i, seq := range seqs {
		if seq <= v.head.lastSeq {
			rows[i] = v.store.recent.get(seq)
		}
	}
	return rows, v.readRows(spaceEntry, seqs, rows)
}

// readRows reads the rows of a keyspace that are nil into rows, which has a place
// for each seq. Those that are not there stay nil.
func (v *View) readRows(space byte, seqs []uint64, rows [][]byte) (err error) {
	missing := make([]int, 0, len(seqs))
	for i := range seqs {
		if rows[i] == nil {
			missing = append(missing, i)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1: // an iterator has to find the row behind it, too
		key := makeSeqKey(space, seqs[missing[0]])
		rows[missing[0]], _, err = getRow(v.snap, key[:])
		return err
	}
	slices.SortFunc(missing, func(a, b int) int { return cmp.Compare(seqs[a], seqs[b]) })
	lower, last := makeSeqKey(space, seqs[missing[0]]), makeSeqKey(space, seqs[missing[len(missing)-1]])
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower[:], UpperBound: append(last[:], 0)})
	if err != nil {
		return fmt.Errorf("read a page: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	var arena []byte
	for _, i := range missing {
		key := makeSeqKey(space, seqs[i])
		if !iter.SeekGE(key[:]) {
			break
		}
		if seqOfKey(iter.Key()) != seqs[i] {
			continue
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		start := len(arena)
		arena = append(arena, value...)
		rows[i] = arena[start:len(arena):len(arena)]
	}
	if err := iter.Error(); err != nil {
		return fmt.Errorf("read a page: %w", err)
	}
	return nil
}
