package view

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// MaxExcerpt is the number of code points of a first entry's body in a list of conversations.
	MaxExcerpt = 160
	// MaxMoved is how many conversations may become active while a list of them is read.
	MaxMoved = 1000
)

// ErrMoved means that more than MaxMoved conversations became active since the first page of
// a list.
var ErrMoved = errors.New("too many conversations became active since the first page")

// ThreadQuery selects conversations. Zero values select everything.
type ThreadQuery struct {
	Newest     bool   // by their first entries; else by their newest ones
	Discussed  bool   // in which at least two agents wrote; not with Newest
	Channel    string // with the first entry in this channel, or in one of several, see Or
	Unanswered bool   // whose first entry waits for an answer; needs Newest
	Limit      int    // at most MaxList; 0 means DefaultList
	Before     uint64 // the entry that the order is by has a seq < Before; 0 means from the newest
	// Until is the newest entry that the order considers, so that later entries move no
	// conversation from page to page; 0 on the first page, and with Newest.
	Until uint64
	Work  *int // grows by the steps of the search, unless nil
}

// ListThreads returns the first entries of the conversations that match q, the newest or most
// recently active one first, and the Before of the next page; 0 on the last page. A page may
// be short, and yet not be the last one.
func (v *View) ListThreads(q ThreadQuery) (firsts []uint64, next uint64, err error) {
	q.Limit = state.PageLimit(q.Limit)
	if q.Newest {
		return v.newestThreads(q)
	}
	return v.activeThreads(q)
}

func (v *View) newestThreads(q ThreadQuery) (firsts []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: q.Limit, Work: q.Work}
	addTerm(&search, state.TermChannel, q.Channel)
	first := v.rowCheck(state.SpaceEntry, func(row []byte) (bool, error) {
		o, err := state.OutlineOf(row)
		return o.Relation == command.RelationNone, err
	})
	unanswered := v.unansweredCheck(q.Unanswered)
	return v.filter(search, nil, nil, func(seqs []uint64) ([]uint64, error) {
		firsts, err := first(seqs)
		if err != nil || unanswered == nil {
			return firsts, err
		}
		return unanswered(firsts)
	})
}

// placed is a conversation with the entry that decides its place in a list.
type placed struct{ last, first uint64 }

func (v *View) activeThreads(q ThreadQuery) (firsts []uint64, next uint64, err error) {
	until := cmp.Or(q.Until, v.at.Head.LastSeq)
	before := cmp.Or(q.Before, until+1)
	var found []placed
	add := func(t *state.ThreadRow, last uint64) {
		if q.Discussed && len(t.Agents) < 2 {
			return
		}
		if q.Channel == "" || slices.Contains(strings.Split(q.Channel, Or), t.Channel) {
			found = append(found, placed{last, t.First})
		}
	}
	looked, reached := 0, uint64(0) // all places from reached on were looked at
	err = v.scanActive(0, before, func(t *state.ThreadRow, last uint64) error {
		if looked++; looked > MaxFiltered || len(found) > q.Limit {
			reached = last + 1
			return state.ErrEnough
		}
		add(t, last)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	moved := 0
	err = v.scanActive(until+1, v.at.Head.LastSeq+1, func(t *state.ThreadRow, _ uint64) error {
		if moved++; moved > MaxMoved {
			return ErrMoved
		}
		if t.First > until { // it is newer than the list
			return nil
		}
		last, err := v.lastIn(t.First, until)
		if err == nil && last < before && last >= reached {
			add(t, last)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if q.Work != nil {
		*q.Work += looked + FilterStep*moved
	}
	slices.SortFunc(found, func(a, b placed) int { return cmp.Compare(b.last, a.last) })
	if next = reached; len(found) > q.Limit {
		found = found[:q.Limit]
		next = found[q.Limit-1].last
	}
	for _, p := range found {
		firsts = append(firsts, p.first)
	}
	return firsts, next, nil
}

// scanActive calls f for the listed conversations with a newest shown entry from lower to
// before upper, the most recently active one first.
func (v *View) scanActive(lower, upper uint64, f func(t *state.ThreadRow, last uint64) error) error {
	return state.ScanBack(v.snap, state.ActiveKey(lower, false), state.ActiveKey(upper, false), func(key, row []byte) error {
		t, err := state.Decode[state.ThreadRow](row)
		if err != nil {
			return err
		}
		return f(&t, state.LastOfActiveKey(key))
	})
}

// lastIn returns the newest shown entry of a conversation up to an entry.
func (v *View) lastIn(first, until uint64) (uint64, error) {
	search := index.Query{Min: 1, Before: until + 1, Limit: 1, All: []string{state.TermThread + state.EntryID(first)}, Also: first}
	seqs, _, err := v.search(search)
	if err != nil || len(seqs) == 0 {
		return first, err
	}
	return seqs[0], nil
}

// AppendThreads appends the JSON of conversations, given their first entries, with commas
// between them.
func (v *View) AppendThreads(dst []byte, firsts []uint64) ([]byte, error) {
	rows, err := v.entryRows(firsts)
	if err != nil {
		return dst, err
	}
	return appendEach(dst, firsts, func(dst []byte, i int) ([]byte, error) { return v.appendThread(dst, firsts[i], rows[i]) })
}

// appendThread appends the JSON of a conversation, given the row of its first entry.
func (v *View) appendThread(dst []byte, first uint64, row []byte) ([]byte, error) {
	t, _, _, err := state.LoadThread(func(key []byte) ([]byte, bool, error) { return state.GetRow(v.snap, key) }, first)
	if err != nil {
		return dst, err
	}
	e, err := state.DecodeEntryRow(first, row)
	if err == nil {
		err = v.addCounts(&e.Meta)
	}
	if err != nil {
		return dst, err
	}
	o := &e.Outline
	dst = state.AppendID(append(dst, `{"id":"`...), e.Type, first)
	dst = append(append(append(dst, `","kind":"`...), e.Kind.String()...), '"')
	dst = append(append(dst, `,"channel":`...), o.Part(state.PartChannel)...)
	dst = append(append(dst, `,"agent":`...), o.Part(state.PartAgent)...)
	dst = append(append(dst, `,"title":`...), o.Part(state.PartTitle)...)
	body := o.Part(state.PartBody)
	if bytes.Equal(o.Part(state.PartTitle), body) {
		body = []byte(`""`)
	}
	dst = appendCut(append(dst, `,"excerpt":`...), body, MaxExcerpt)
	dst = state.AppendInt(append(dst, `,"createdAt":`...), e.CreatedAt)
	dst = strconv.AppendBool(append(dst, `,"nameVerified":`...), e.Verified())
	if e.Status != "" {
		dst = state.AppendString(append(dst, `,"status":`...), e.Status)
	}
	dst = state.AppendInt(append(dst, `,"replies":`...), int64(t.Replies)) //nolint:gosec // a count of entries
	dst = append(dst, `,"agents":[`...)
	for i, a := range t.Agents {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = state.AppendString(dst, a.Name)
	}
	dst = state.AppendInt(append(dst, `],"lastAt":`...), t.LastAt)
	return append(state.AppendString(append(dst, `,"lastAgent":`...), t.LastAgent), '}'), nil
}
