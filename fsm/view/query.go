package view

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

// Query selects entries. Every field narrows; zero values select everything.
type Query struct {
	Kind     command.Kind // of this kind
	Channel  string       // in this channel (text.ChannelName)
	AgentKey string       // written by this agent (text.Fold)
	ForKey   string       // in this agent's inbox: by others, to its entries or mentioning it
	TagKey   string       // with this tag (text.FoldTag)
	Thread   uint64       // of the conversation that this entry belongs to
	ReplyTo  uint64       // with relation reply to this entry
	Since    int64        // CreatedAt > Since, in milliseconds; negative: no bound
	Q        string       // holding all of these words, the last one as a prefix
	Limit    int          // at most MaxList; 0 means DefaultList
	Before   uint64       // seq < Before; 0 means from the newest
	Work     *int         // grows by the steps of the search, unless nil
}

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: state.PageLimit(q.Limit), Work: q.Work}
	some, err := v.translate(q, &search)
	if err == nil && some {
		if q.ShowsStubs() {
			seqs, next, err = v.searchAll(search)
		} else {
			seqs, next, err = v.search(search)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list entries: %w", err)
	}
	return seqs, next, nil
}

// ShowsStubs reports whether the list includes hidden entries, as stubs in a thread.
func (q *Query) ShowsStubs() bool { return q.Thread != 0 && q.NamesNothingHidden() }

// NamesNothingHidden reports whether a query uses no field that hiding removes.
func (q *Query) NamesNothingHidden() bool {
	return q.Kind == 0 && q.AgentKey == "" && q.ForKey == "" && q.TagKey == "" && q.Q == ""
}

// search returns matching entries that are not hidden, and the Before of the next page, or
// 0.
func (v *View) search(q index.Query) (seqs []uint64, next uint64, err error) {
	if v.at.Hidden > 0 {
		q.Without = v.hiddenIn
	}
	return v.searchAll(q)
}

// searchAll is search with the hidden entries.
func (v *View) searchAll(q index.Query) (seqs []uint64, next uint64, err error) {
	seqs, more, err := v.cut.Search(v.snap, q)
	if err == nil && more {
		next = seqs[len(seqs)-1]
	}
	return seqs, next, err
}

const (
	// MaxFiltered is how many hits of a search filter looks at for one page.
	MaxFiltered = 4096
	// FilterStep is how many of them it looks at in one step.
	FilterStep = 32
)

// filter lists the hits of a search for which wanted accepts the row in a space. It looks
// at a bounded number of hits: a page may be short, and yet not be the last page. skip may
// be nil. Given a Before, it returns the Before of the newest hit that could be wanted, or
// 0 at the end.
func (v *View) filter(search index.Query, space byte, skip func(before uint64) (uint64, error), wanted func(row []byte) (bool, error)) (found []uint64, next uint64, err error) {
	limit := search.Limit
	search.Limit = FilterStep
	for looked := 0; looked < MaxFiltered; {
		if skip != nil {
			if search.Before, err = skip(search.Before); err != nil || search.Before == 0 {
				return found, 0, err
			}
		}
		hits, more, err := v.search(search)
		if err != nil {
			return nil, 0, err
		}
		rows, err := v.readRows(space, hits, nil)
		if err != nil {
			return nil, 0, err
		}
		for i, seq := range hits {
			if rows[i] == nil {
				return nil, 0, fmt.Errorf("%w: row %c of entry %d is missing", state.ErrCorrupt, space, seq)
			}
			ok, err := wanted(rows[i])
			if err != nil {
				return nil, 0, err
			}
			if ok && len(found) == limit {
				return found, found[limit-1], nil
			}
			if ok {
				found = append(found, seq)
			}
		}
		looked += len(hits)
		if search.Work != nil {
			*search.Work += len(hits)
		}
		if search.Before = more; more == 0 {
			break
		}
	}
	return found, search.Before, nil
}

// searchOf returns the search for entries of a type, by an author and with words if given.
func searchOf(t state.EntryType, agentKey, words string) (search index.Query, some bool) {
	search = index.Query{All: []string{state.TermType + string(rune(t))}, Min: 1}
	if agentKey != "" {
		search.All = append(search.All, state.TermAgent+agentKey)
	}
	some = addWords(words, &search)
	return search, some
}

// translate adds a query to one of the index. It returns false if no entry can match.
func (v *View) translate(q Query, search *index.Query) (some bool, err error) {
	if q.Since >= 0 {
		var ok bool
		if search.Min, ok, err = v.FirstAfter(q.Since); err != nil || !ok {
			return false, err
		}
	}
	if q.Kind != 0 {
		search.All = append(search.All, state.TermKind+q.Kind.String())
	}
	for _, f := range [...]struct{ class, value string }{
		{state.TermChannel, q.Channel}, {state.TermAgent, q.AgentKey}, {state.TermInbox, q.ForKey}, {state.TermTag, q.TagKey},
	} {
		if f.value != "" {
			search.All = append(search.All, f.class+f.value)
		}
	}
	if q.ReplyTo > 0 {
		search.All = append(search.All, state.TermParent+state.EntryID(q.ReplyTo))
	}
	if !addWords(q.Q, search) {
		return false, nil
	}
	if q.Thread == 0 {
		return true, nil
	}
	m, ok, err := v.Meta(q.Thread)
	if err != nil || !ok {
		return false, err
	}
	// The root lacks the term: it was indexed before there was a conversation.
	search.All = append(search.All, state.TermThread+state.EntryID(m.Thread))
	search.Also = m.Thread
	return true, nil
}

// FirstAfter returns the first entry that is newer than an instant, if there is one.
func (v *View) FirstAfter(since int64) (seq uint64, ok bool, err error) {
	seq, _, ok, err = v.nextInstant(since)
	return seq, ok, err
}

// nextInstant returns the first instant after since with entries, and the first of these.
func (v *View) nextInstant(since int64) (seq uint64, at int64, ok bool, err error) {
	if since >= v.at.Head.Now {
		return 0, 0, false, nil
	}
	if g := v.rows.Gaps.Around(since); g != nil {
		if g.Seq > v.at.Head.LastSeq { // the view is older
			return 0, 0, false, nil
		}
		return g.Seq, g.End, true, nil
	}
	_, upper := state.SpaceBounds(state.SpaceInstant)
	err = state.ScanSpace(v.snap, state.SeqKey(state.SpaceInstant, uint64(since)+1), upper, func(key, row []byte) (err error) {
		if seq, err = state.DecodeNumber(row); err != nil {
			return err
		}
		at, ok = int64(state.SeqOfKey(key)), true
		return state.ErrEnough
	})
	if err == nil && ok {
		v.rows.Gaps.Put(&state.Gap{After: since, End: at, Seq: seq})
	}
	return seq, at, ok, err
}

// addWords adds a search text. It returns false for a text without words, which matches no entry.
func addWords(q string, search *index.Query) bool {
	if q == "" {
		return true
	}
	words, prefix := text.QueryWords(q)
	for _, word := range words {
		search.All = append(search.All, state.TermWord+word)
	}
	search.Prefix = prefix
	return len(words) > 0 || prefix != ""
}

// hiddenIn returns the hidden entries of a block.
func (v *View) hiddenIn(block uint64) (index.Bitmap, error) {
	bits, _, err := state.GetRow(v.snap, state.SeqKey(state.SpaceHiddenBits, block))
	return bits, err
}

// newestOf returns the highest limit of the seqs, each once, highest first.
func newestOf(seqs []uint64, limit int) []uint64 {
	slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	seqs = slices.Compact(seqs)
	return seqs[:min(len(seqs), limit)]
}

// cutPage takes one seq more than a page holds as the sign that there is another.
func cutPage(seqs []uint64, limit int) (page []uint64, next uint64) {
	if len(seqs) <= limit {
		return seqs, 0
	}
	return seqs[:limit], seqs[limit-1]
}

// SeqsBefore returns at most limit seqs behind a prefix of keys, highest first, below
// before.
func (v *View) SeqsBefore(prefix []byte, before uint64, limit int) (seqs []uint64, err error) {
	upper := slices.Clone(prefix)
	if before > 0 {
		upper = binary.BigEndian.AppendUint64(upper, before)
	} else {
		upper[len(upper)-1]++
	}
	err = state.ScanBack(v.snap, prefix, upper, func(key, _ []byte) error {
		if len(seqs) == limit {
			return state.ErrEnough
		}
		seqs = append(seqs, binary.BigEndian.Uint64(key[len(prefix):]))
		return nil
	})
	return seqs, err
}
