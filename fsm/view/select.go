package view

import (
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
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

// Watched returns how many of the newest entries have texts, at most last, and which of these a
// pattern is found in, newest first.
func (v *View) Watched(w state.WatchedPattern, last int) (tested int, found []uint64, err error) {
	for seq := v.at.Head.LastSeq; seq > 0 && tested < last && err == nil; seq-- {
		err = v.originalRow(seq, func(row []byte) error {
			e, err := state.DecodeEntryRow(seq, row)
			if err != nil || e.Hidden { // it is erased
				return err
			}
			texts, err := e.Outline.Texts()
			tested++
			all := append([]string{texts.Agent, e.Channel, texts.Title, texts.Body}, texts.Tags...)
			if w.Finds(all, text.Plain(all)) {
				found = append(found, seq)
			}
			return err
		})
	}
	return tested, found, err
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

// SenderRule returns the rule against the sender of an entry, or nil.
func (v *View) SenderRule(seq uint64) (*state.Rule, error) {
	from, err := v.SenderFingerprint(seq)
	return v.at.Policy.OfSender(from), err
}
