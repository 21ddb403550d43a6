package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
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
	Since    int64        // createdAt > Since, in milliseconds; negative: no bound
	Q        string       // holding all of these words, the last one as a prefix
	Limit    int          // at most this many; 0: DefaultList; at most MaxList
	Before   uint64       // seq < Before; 0: from the newest
	Work     *int         // grows by the steps that the search takes; nil: not counted
}

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: pageLimit(q.Limit), Work: q.Work}
	some, err := v.translate(q, &search)
	if err == nil && some {
		if q.showsStubs() {
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

// pageLimit is how many items a page holds, given the limit in the request; 0: no limit given.
func pageLimit(limit int) int {
	if limit <= 0 {
		return command.DefaultList
	}
	return min(limit, command.MaxList)
}

// showsStubs reports whether hidden entries stand in the list, as stubs: in a thread
// that is asked for by nothing that they no longer show.
func (q *Query) showsStubs() bool { return q.Thread != 0 && q.namesNothingHidden() }

// namesNothingHidden reports whether a query asks for nothing that a hidden entry no
// longer shows.
func (q *Query) namesNothingHidden() bool {
	return q.Kind == 0 && q.AgentKey == "" && q.ForKey == "" && q.TagKey == "" && q.Q == ""
}

// search returns what the index finds that is not hidden, and the Before of the next
// page; 0 on the last page.
func (v *View) search(q index.Query) (seqs []uint64, next uint64, err error) {
	if v.hidden > 0 {
		q.Without = v.hiddenIn
	}
	return v.searchAll(q)
}

// searchAll is search with what is hidden.
func (v *View) searchAll(q index.Query) (seqs []uint64, next uint64, err error) {
	seqs, more, err := v.cut.Search(v.snap, q)
	if err == nil && more {
		next = seqs[len(seqs)-1]
	}
	return seqs, next, err
}

const (
	// maxFiltered is how many hits of a search filter looks at for one page,
	// filterStep how many of them in one step.
	maxFiltered = 4096
	filterStep  = 32
)

// filter lists the hits of a search for which wanted accepts the row in a space. It looks
// at a bounded number of hits: a page may be short, or even empty, and yet not be the last
// page. skip, which may be nil, takes a Before and returns the Before of the newest hit
// below it that could be wanted; 0: there are no more.
func (v *View) filter(search index.Query, space byte, skip func(before uint64) (uint64, error), wanted func(row []byte) (bool, error)) (found []uint64, next uint64, err error) {
	limit := search.Limit
	search.Limit = filterStep
	for looked := 0; looked < maxFiltered; {
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
				return nil, 0, fmt.Errorf("%w: row %c of entry %d is missing", ErrCorrupt, space, seq)
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

// searchOf is the search for entries of a type, by an author and with words where those
// are given; false when nothing can match.
func searchOf(t EntryType, agentKey, words string) (search index.Query, some bool) {
	search = index.Query{All: []string{termType + string(rune(t))}, Min: 1}
	if agentKey != "" {
		search.All = append(search.All, termAgent+agentKey)
	}
	some = addWords(words, &search)
	return search, some
}

// translate turns a query into one of the index; false when nothing can match.
func (v *View) translate(q Query, search *index.Query) (some bool, err error) {
	if q.Since >= 0 {
		var ok bool
		if search.Min, ok, err = v.firstAfter(q.Since); err != nil || !ok {
			return false, err
		}
	}
	if q.Kind != 0 {
		search.All = append(search.All, termKind+q.Kind.String())
	}
	for _, f := range [...]struct{ class, value string }{
		{termChannel, q.Channel}, {termAgent, q.AgentKey}, {termInbox, q.ForKey}, {termTag, q.TagKey},
	} {
		if f.value != "" {
			search.All = append(search.All, f.class+f.value)
		}
	}
	if q.ReplyTo > 0 {
		search.All = append(search.All, termParent+EntryID(q.ReplyTo))
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
	search.All = append(search.All, termThread+EntryID(m.Thread))
	search.Also = m.Thread
	return true, nil
}

// addWords adds a search text; false when it holds no word, which matches nothing.
func addWords(q string, search *index.Query) bool {
	if q == "" {
		return true
	}
	words, prefix := text.QueryWords(q)
	for _, word := range words {
		search.All = append(search.All, termWord+word)
	}
	search.Prefix = prefix
	return len(words) > 0 || prefix != ""
}

// firstAfter returns the first entry that is newer than an instant; false when
// there is none.
func (v *View) firstAfter(since int64) (seq uint64, ok bool, err error) {
	seq, _, ok, err = v.nextInstant(since)
	return seq, ok, err
}

// nextInstant returns the first instant after since that has entries, and the first of
// these entries; false when there is no such instant.
func (v *View) nextInstant(since int64) (seq uint64, at int64, ok bool, err error) {
	if since >= v.head.now {
		return 0, 0, false, nil
	}
	if g := v.store.gaps.around(since); g != nil {
		if g.seq > v.head.lastSeq { // the view is older
			return 0, 0, false, nil
		}
		return g.seq, g.end, true, nil
	}
	_, upper := spaceBounds(spaceInstant)
	err = scanSpace(v.snap, seqKey(spaceInstant, uint64(since)+1), upper, func(key, row []byte) (err error) {
		if seq, err = decodeNumber(row); err != nil {
			return err
		}
		at, ok = int64(seqOfKey(key)), true
		return errEnough
	})
	if err == nil && ok {
		v.store.gaps.put(&gap{since, at, seq})
	}
	return seq, at, ok, err
}

// A page shows rows that are not next to each other. A point read opens an iterator
// on each level of the LSM tree, which costs more as the store grows; one iterator
// that goes through all of a page's keys in their order does not.

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

// appendStates appends entries that have a second row, of their own kind, beside the
// entry's row.
func (v *View) appendStates(dst []byte, seqs []uint64, space byte, show func(dst []byte, seq uint64, entry, state []byte) ([]byte, error)) ([]byte, error) {
	entries, err := v.entryRows(seqs)
	if err != nil {
		return dst, err
	}
	states, err := v.readRows(space, seqs, nil)
	if err != nil {
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

// entryRows returns the rows of entries; nil for an entry that is not there.
// The rows must not be changed.
func (v *View) entryRows(seqs []uint64) ([][]byte, error) {
	rows, err := v.readRows(spaceEntry, seqs, func(seq uint64) []byte {
		if seq > v.head.lastSeq {
			return nil
		}
		return v.store.recent.get(seq)
	})
	for i, row := range rows {
		if err == nil && row != nil {
			rows[i], err = v.shown(seqs[i], row)
		}
	}
	return rows, err
}

// readRows returns the rows of a keyspace, nil for a missing row. Rows that known
// returns are not read; known may be nil.
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
		rows[missing[0]], _, err = getRow(v.snap, seqKey(space, seqs[missing[0]]))
		return rows, err
	}
	slices.SortFunc(missing, func(a, b int) int { return cmp.Compare(seqs[a], seqs[b]) })
	lower, last := seqKey(space, seqs[missing[0]]), seqKey(space, seqs[missing[len(missing)-1]])
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: append(last, 0)})
	if err != nil {
		return nil, fmt.Errorf("read a page: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	var arena []byte
	for _, i := range missing {
		if !iter.SeekGE(seqKey(space, seqs[i])) {
			break
		}
		if seqOfKey(iter.Key()) != seqs[i] {
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
