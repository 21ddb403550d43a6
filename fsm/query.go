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

// selection is a query in terms of the index.
type selection struct {
	all         []string // terms that an entry must have
	prefix      string   // a word that an entry must have begins so; "" for none
	min, before uint64   // min <= seq < before
	root        uint64   // the conversation's first entry, which lacks its term; 0: none
	none        bool     // nothing can match
}

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultList
	}
	limit = min(limit, MaxList)
	sel, err := v.selection(q)
	if err != nil {
		return nil, 0, fmt.Errorf("list entries: %w", err)
	}
	if sel.none || sel.min >= sel.before {
		return nil, 0, nil
	}
	seqs, more, err := v.find(&sel, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list entries: %w", err)
	}
	if more {
		next = seqs[len(seqs)-1]
	}
	return seqs, next, nil
}

// find returns the newest entries of a selection, and whether there are more.
func (v *View) find(sel *selection, limit int) (seqs []uint64, more bool, err error) {
	if len(sel.all) == 0 && sel.prefix == "" {
		seqs = make([]uint64, 0, limit)
		for seq := sel.before - 1; seq >= sel.min && len(seqs) < limit; seq-- {
			seqs = append(seqs, seq)
		}
		return seqs, sel.before-sel.min > uint64(len(seqs)), nil
	}
	seqs, more, err = v.cut.Search(v.snap, index.Query{
		All: sel.all, Prefix: sel.prefix, Min: sel.min, Before: sel.before, Limit: limit,
	})
	if err != nil || more || sel.root < sel.min || sel.root >= sel.before {
		return seqs, more, err
	}
	// The root is older than all that follow it.
	match, err := v.matchesRoot(sel)
	if err != nil || !match {
		return seqs, false, err
	}
	if len(seqs) == limit {
		return seqs, true, nil
	}
	return append(seqs, sel.root), false, nil
}

// matchesRoot reports whether the conversation's first entry has the other terms.
func (v *View) matchesRoot(sel *selection) (bool, error) {
	only := selection{all: sel.all[1:], prefix: sel.prefix, min: sel.root, before: sel.root + 1}
	seqs, _, err := v.find(&only, 1)
	return len(seqs) > 0, err
}

// selection translates a query. The thread's term, if any, comes first.
func (v *View) selection(q Query) (selection, error) {
	sel := selection{min: 1, before: v.head.lastSeq + 1}
	if q.Before > 0 {
		sel.before = min(sel.before, q.Before)
	}
	if q.Thread > 0 {
		m, ok, err := v.Meta(q.Thread)
		if err != nil || !ok {
			return selection{none: true}, err
		}
		sel.root = m.Thread
		sel.all = append(sel.all, termThread+EntryID(m.Thread))
	}
	if q.Since >= 0 {
		first, ok, err := v.firstAfter(q.Since)
		if err != nil || !ok {
			return selection{none: true}, err
		}
		sel.min = first
	}
	if q.Kind != 0 {
		sel.all = append(sel.all, termKind+q.Kind.String())
	}
	for _, f := range [...]struct{ class, value string }{
		{termChannel, q.Channel}, {termAgent, q.AgentKey}, {termInbox, q.ForKey}, {termTag, q.TagKey},
	} {
		if f.value != "" {
			sel.all = append(sel.all, f.class+f.value)
		}
	}
	if q.ReplyTo > 0 {
		sel.all = append(sel.all, termParent+EntryID(q.ReplyTo))
	}
	sel.addWords(q.Q)
	return sel, nil
}

// addWords adds a search text. A text without any word matches nothing.
func (sel *selection) addWords(q string) {
	if q == "" {
		return
	}
	words, prefix := text.QueryWords(q)
	for _, word := range words {
		sel.all = append(sel.all, termWord+word)
	}
	if prefix != "" {
		sel.prefix = termWord + prefix
	}
	sel.none = len(words) == 0 && prefix == ""
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
