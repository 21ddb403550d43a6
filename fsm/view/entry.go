package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/state"
)

// Resolve returns the seq of the entry of any type with a public id, and false without one.
func (v *View) Resolve(id string) (seq uint64, ok bool) {
	s := &viewState{v: v}
	e, ok := state.Resolve(s, id)
	v.must(s.err)
	return e.Seq, ok && s.err == nil
}

// A page shows distant rows. A point read opens an iterator on each level of the LSM tree,
// so one iterator goes through all of a page's keys in their order.

// AppendEntries appends the JSON of entries to dst, with commas between them. It
// returns ErrNotFound when there is no such entry.
func (v *View) AppendEntries(dst []byte, seqs []uint64) ([]byte, error) {
	rows, err := v.entryRows(seqs)
	if err != nil {
		return dst, err
	}
	return appendEach(dst, seqs, func(dst []byte, i int) ([]byte, error) { return v.appendEntry(dst, seqs[i], rows[i]) })
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

// entryRows returns the rows of entries, nil for a missing one. They must not be changed.
func (v *View) entryRows(seqs []uint64) ([][]byte, error) {
	rows, err := v.readRows(state.SpaceEntry, seqs, func(seq uint64) []byte {
		if seq > v.at.Head.LastSeq {
			return nil
		}
		return v.rows.Recent.Get(seq)
	})
	for i, row := range rows {
		if err == nil && row != nil {
			rows[i], err = v.complete(seqs[i], row)
		}
	}
	return rows, err
}

// readRows returns the rows of a keyspace, nil for a missing row. known may be nil, or have
// some.
func (v *View) readRows(space byte, seqs []uint64, known func(seq uint64) []byte) (rows [][]byte, err error) {
	rows = make([][]byte, len(seqs))
	missing := make([]int, 0, len(seqs))
	for i, seq := range seqs {
		if known != nil {
			rows[i] = known(seq)
		}
		if rows[i] == nil {
			missing = append(missing, i)
		}
	}
	switch len(missing) {
	case 0:
		return rows, nil
	case 1: // an iterator has to find the row behind it, too
		rows[missing[0]], _, err = state.GetRow(v.snap, state.SeqKey(space, seqs[missing[0]]))
		return rows, err
	}
	slices.SortFunc(missing, func(a, b int) int { return cmp.Compare(seqs[a], seqs[b]) })
	lower, last := state.SeqKey(space, seqs[missing[0]]), state.SeqKey(space, seqs[missing[len(missing)-1]])
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: append(last, 0)})
	if err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	var arena []byte
	for _, i := range missing {
		if !iter.SeekGE(state.SeqKey(space, seqs[i])) {
			break
		}
		if state.SeqOfKey(iter.Key()) != seqs[i] {
			continue
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("read a page: %w", err)
		}
		start := len(arena)
		arena = append(arena, value...)
		rows[i] = arena[start:len(arena):len(arena)]
	}
	if err := iter.Error(); err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	return rows, nil
}

// AppendEntry appends the entry's JSON to dst, or returns ErrNotFound.
func (v *View) AppendEntry(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendEntries(dst, []uint64{seq})
}

// appendEntry appends the JSON of an entry with a row, which is nil if the entry is missing.
func (v *View) appendEntry(dst []byte, seq uint64, row []byte) ([]byte, error) {
	dst, counts, err := v.appendOpenEntry(dst, seq, row)
	if err != nil {
		return dst, err
	}
	if status := counts.Status(); status != "" {
		dst = append(append(append(dst, `,"status":"`...), status...), '"')
	}
	return append(dst, '}'), nil
}

// appendOpenEntry is appendEntry without the entry's status and the closing brace.
func (v *View) appendOpenEntry(dst []byte, seq uint64, row []byte) (_ []byte, counts state.LaterCounts, err error) {
	if row == nil || seq > v.at.Head.LastSeq {
		return dst, counts, state.ErrNotFound
	}
	start := len(dst)
	text, err := state.EntryJSON(row)
	if err != nil {
		return dst, counts, fmt.Errorf("read entry %d: %w", seq, err)
	}
	dst = append(dst, text...)
	if counts, err = v.counts(seq); err != nil {
		return dst[:start], counts, err
	}
	dst = append(dst, `,"supersededBy":[`...)
	if counts.Listed > 0 {
		list, err := state.LoadOrZero(v.snap, state.SeqKey(state.SpaceLater, seq), state.Decode[state.Successors])
		if err != nil {
			return dst[:start], counts, fmt.Errorf("successors of entry %d: %w", seq, err)
		}
		dst = list.AppendJSON(dst)
	}
	dst = append(dst, `],"supersededByCount":`...)
	return state.AppendInt(dst, int64(counts.Total)), counts, nil
}

// counts returns how many entries relate to an entry.
func (v *View) counts(seq uint64) (state.LaterCounts, error) {
	if has, err := v.rows.Later.Has(seq); err != nil || !has {
		return state.LaterCounts{}, err
	}
	return state.LoadOrZero(v.snap, state.SeqKey(state.SpaceCounts, seq), state.Decode[state.LaterCounts])
}

// AppendIDs appends the ids of entries as JSON, with commas between them.
func (v *View) AppendIDs(dst []byte, seqs []uint64) ([]byte, error) {
	for i, seq := range seqs {
		row, err := v.storedRow(seq)
		if err != nil {
			return dst, fmt.Errorf("read entry %d: %w", seq, err)
		}
		o, err := state.OutlineOf(row)
		if err != nil {
			return dst, fmt.Errorf("read entry %d: %w", seq, err)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(state.AppendID(append(dst, '"'), o.Type, seq), '"')
	}
	return dst, nil
}

// Meta returns an entry's head; false when there is no such entry.
func (v *View) Meta(seq uint64) (state.Meta, bool, error) {
	s := &viewState{v: v}
	e, known := s.Entry(seq)
	if !known || s.err != nil {
		return state.Meta{}, false, s.err
	}
	err := v.addCounts(&e.Meta)
	return e.Meta, err == nil, err
}

// addCounts adds what later entries say of an entry.
func (v *View) addCounts(m *state.Meta) error {
	counts, err := v.counts(m.Seq)
	m.Replies, m.Status = counts.Replies, counts.Status()
	return err
}

// Tags returns the tags of an entry.
func (v *View) Tags(seq uint64) (tags []string, err error) {
	err = v.outline(seq, func(o *state.Outline) (err error) {
		tags, err = o.Tags()
		return err
	})
	return tags, err
}

// Proven reports whether the author of an entry has proven the name.
func (v *View) Proven(seq uint64) (bool, error) {
	s := &viewState{v: v}
	e, _ := s.Entry(seq)
	return e.Verified(), s.err
}

// SenderFingerprint returns the pseudonym of the sender of an entry, or "".
func (v *View) SenderFingerprint(seq uint64) (string, error) {
	s := &viewState{v: v}
	e, known := s.Entry(seq)
	if !known || s.err != nil {
		return "", s.err
	}
	from := state.SenderOf(s, &e)
	return from.Fingerprint, s.err
}

// FirstEntry returns when the first entry was published, in milliseconds since the epoch,
// or 0.
func (v *View) FirstEntry() (at int64, err error) {
	err = state.ScanAll(v.snap, state.SpaceInstant, func(key, _ []byte) error {
		at = int64(state.SeqOfKey(key)) //nolint:gosec // an instant
		return state.ErrEnough
	})
	return at, err
}
