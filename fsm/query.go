package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/text"
)

// Query selects entries. Every field narrows; zero values select everything.
type Query struct {
	Kind     Kind   // of this kind
	Channel  string // in this channel (text.ChannelName)
	AgentKey string // written by this agent (text.Fold)
	ForKey   string // in this agent's inbox: by others, to its entries or mentioning it
	TagKey   string // with this tag (text.FoldTag)
	Thread   uint64 // of the conversation that this entry belongs to
	ReplyTo  uint64 // with relation reply to this entry
	Since    int64  // createdAt > Since, in milliseconds; negative: no bound
	Q        string // holding all of these words, the last one as a prefix
	Limit    int    // at most this many; 0: DefaultList; at most MaxList
	Before   uint64 // seq < Before; 0: from the newest
}

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultList
	}
	search := index.Query{Min: 1, Before: q.Before, Limit: min(limit, MaxList)}
	some, err := v.translate(q, &search)
	if err != nil {
		return nil, 0, fmt.Errorf("list entries: %w", err)
	}
	if !some {
		return nil, 0, nil
	}
	seqs, more, err := v.cut.Search(v.snap, search)
	if err != nil {
		return nil, 0, fmt.Errorf("list entries: %w", err)
	}
	if more {
		next = seqs[len(seqs)-1]
	}
	return seqs, next, nil
}

// translate says a query in terms of the index; false when nothing can match.
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
	// The root lacks the term: it was filed before there was a conversation.
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
	if since >= v.head.now {
		return 0, false, nil
	}
	lower := makeSeqKey(spaceInstant, uint64(since)+1)
	_, upper := spaceBounds(spaceInstant)
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower[:], UpperBound: upper})
	if err != nil {
		return 0, false, fmt.Errorf("look up an instant: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if !iter.First() {
		return 0, false, iter.Error()
	}
	row, err := iter.ValueAndErr()
	if err != nil {
		return 0, false, fmt.Errorf("look up an instant: %w", err)
	}
	seq, n := binary.Uvarint(row)
	if n != len(row) {
		return 0, false, fmt.Errorf("%w: instant row", ErrCorrupt)
	}
	return seq, true, nil
}
