package view

import (
	"encoding/binary"
	"errors"

	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// maxSelected is how many entries one selection returns at most.
	maxSelected = 1000
	// maxSelectScan is how many it looks at.
	maxSelectScan = 20_000
)

// Selection selects entries for a moderator. Every field narrows.
type Selection struct {
	Query           // Before and Limit say which part is returned
	SenderOf uint64 // by the sender of this entry, unless 0
	Until    int64  // CreatedAt <= Until, in milliseconds; see View.Instant for negative values
	Hidden   bool   // those that are hidden, in place of those that are not
	All      bool   // both
}

// Select returns entries of a selection, newest first, and the Before of the next part, or
// 0 after the last. A part may be short, and yet not the last one.
func (v *View) Select(sel *Selection) (seqs []uint64, next uint64, err error) {
	limit := min(max(sel.Limit, 1), maxSelected)
	search := index.Query{Min: 1, Before: sel.Before, Limit: limit}
	addTerm(&search, state.TermChannel, sel.Channel) // hidden or not
	query := sel.Query
	query.Channel = ""
	phrases, some, err := v.translate(query, &search)
	if err != nil || !some {
		return nil, 0, err
	}
	if until := v.Instant(sel.Until); until >= 0 {
		after, some, err := v.FirstAfter(until)
		if err != nil {
			return nil, 0, err
		}
		if some && (search.Before == 0 || search.Before > after) {
			search.Before = after
		}
	}
	find := v.search
	if sel.Hidden || sel.All {
		find = v.searchAll
	}
	sender := ""
	if sel.SenderOf != 0 {
		if sender, err = v.SenderFingerprint(sel.SenderOf); err != nil || sender == "" {
			return nil, 0, err
		}
	}
	for scanned := 0; scanned < maxSelectScan; scanned += limit {
		found, more, err := find(search)
		if err != nil {
			return nil, 0, err
		}
		for _, seq := range found {
			if len(seqs) == limit {
				return seqs, seq + 1, nil
			}
			if keep, err := v.selected(sel, seq, sender, phrases); err != nil {
				return nil, 0, err
			} else if keep {
				seqs = append(seqs, seq)
			}
		}
		if next = more; next == 0 {
			break
		}
		search.Before = next
	}
	return seqs, next, nil
}

// selected reports whether an entry that a search found is selected.
func (v *View) selected(sel *Selection, seq uint64, sender string, phrases [][]string) (has bool, err error) {
	if len(phrases) > 0 {
		err := v.originalRow(seq, func(row []byte) (err error) {
			has, err = hasPhrases(row, phrases)
			return err
		})
		if err != nil || !has {
			return false, err
		}
	}
	if sel.Hidden {
		bits, err := v.hiddenIn(seq / state.HiddenEntries)
		if err != nil || !bits.Has(seq) {
			return false, err
		}
	}
	if sender == "" {
		return true, nil
	}
	from, err := v.SenderFingerprint(seq)
	return from == sender, err
}

// HiddenBy returns at most limit entries that an order hides, newest first and below before, unless
// that is 0. next is the before of the next part, which may be short, or 0 after the last one.
func (v *View) HiddenBy(order, before uint64, limit int) (seqs []uint64, next uint64, err error) {
	return v.newestRows(state.SpaceHidden, before, limit, maxSelectScan, func(row []byte) (bool, error) {
		h, err := state.Decode[state.HiddenEntry](row)
		return h.Order == order, err
	})
}

// ProfilesHiddenBy returns the folded names of the profiles that an order hides.
func (v *View) ProfilesHiddenBy(order uint64) (names []string, err error) {
	err = state.ScanAll(v.snap, state.SpaceProfile, func(key, row []byte) error {
		p, err := state.Decode[state.ProfileRow](row)
		if p.HiddenBy == order {
			names = append(names, string(key[1:]))
		}
		return err
	})
	return names, err
}

// HiddenOf returns the newest entries, at most limit, that an agent wrote by key and that are hidden.
func (v *View) HiddenOf(agentKey string, limit int) (seqs []uint64, err error) {
	rows, err := home.Open(v.snap, agentKey)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return seqs, rows.Newest(home.PartHidden, 0, endless, limit, func(key, _ []byte) error {
		seqs = append(seqs, binary.BigEndian.Uint64(key))
		return nil
	})
}
