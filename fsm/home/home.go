// Package home has the rows that homes are made of: the lists and the activity of each
// agent, the waiting lists, and the newest entries in all and by topic.
//
// It is imported by apply and view.
package home

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// RecentByAuthor is a list of the newest entries that holds, for every reader, the newest
// n that are not the reader's own: 2n entries, at most n of one author.
type RecentByAuthor []Authored

// Authored is an entry and who wrote it.
type Authored struct {
	Seq    uint64
	Author string // folded
}

// Add adds an entry that is newer than all others.
func (s *RecentByAuthor) Add(e Authored, n int) {
	same, oldest := 0, 0
	for i, old := range slices.Backward(*s) {
		if old.Author == e.Author {
			same++
			oldest = i
		}
	}
	switch {
	case same == n:
		*s = slices.Delete(*s, oldest, oldest+1)
	case len(*s) == 2*n:
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, e)
}

// Insert puts an entry back that was there before.
func (s *RecentByAuthor) Insert(e Authored, n int) {
	at, _ := slices.BinarySearchFunc(*s, e.Seq, func(o Authored, seq uint64) int { return cmp.Compare(o.Seq, seq) })
	newer := slices.Clone((*s)[at:])
	*s = (*s)[:at]
	for _, e := range append([]Authored{e}, newer...) {
		s.Add(e, n)
	}
}

// Remove takes an entry out, if it is there.
func (s *RecentByAuthor) Remove(seq uint64) (there bool) {
	before := len(*s)
	*s = slices.DeleteFunc(*s, func(e Authored) bool { return e.Seq == seq })
	return len(*s) < before
}

// Others returns the newest n entries by others than the reader, down to least, newest
// first.
func (s RecentByAuthor) Others(reader string, least uint64, n int) []uint64 {
	var seqs []uint64
	for _, e := range slices.Backward(s) {
		if len(seqs) == n || e.Seq < least {
			break
		}
		if e.Author != reader {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

// Holds reports whether the list has all entries from the first to the last seq.
func (s RecentByAuthor) Holds(first, last uint64) bool {
	i, _ := slices.BinarySearchFunc(s, first, func(e Authored, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	return uint64(len(s)-i) == last+1-first //nolint:gosec // not negative
}

// Fields implements state.Row.
func (s *RecentByAuthor) Fields(c *state.Codec) {
	state.List(c, (*[]Authored)(s), func(e *Authored) { c.Fields(&e.Seq, &e.Author) })
}

// A waiting list holds entries that any agent can answer or take: unanswered questions
// and requests for help, or open jobs. It has only the newest WaitingPerAuthor of each
// author, so that readers skip few of their own. The author's full list is in a part of
// its own, from which the waiting list is refilled.
const (
	WaitingLists     = 2
	WaitingPerAuthor = 10
)

// WaitingListOf returns the number of the waiting list that is filled from a part.
func WaitingListOf(p Part) (n int, waiting bool) {
	switch p {
	case PartAsked:
		return 0, true
	case PartOpen:
		return 1, true
	}
	return 0, false
}

// Activity reads the agent's activity.
func (r *Lists) Activity() (*Activity, error) {
	a := new(Activity)
	err := r.from(partActivity, nil, func(_, value []byte) (bool, error) { return false, state.DecodeInto(a, value) })
	return a, err
}

const (
	// MaxTopics bounds the counted topics of an agent, maxPartners its partners.
	MaxTopics   = 32
	maxPartners = command.MaxPartners
)

// Activity is where an agent writes and who it talks with: the row of partActivity.
type Activity struct {
	Topics   []Topic   // at most MaxTopics
	Partners []Partner // the most recent first
	// Waiting are the agent's seqs in each waiting list, lowest first.
	Waiting [WaitingLists][]uint64

	Changed bool // in the call
}

// Topic is a channel or a tag that an agent writes to, in lower case as far as
// ASCII goes: apply must not depend on Unicode tables.
type Topic struct {
	Name    string
	Entries uint64
	LastAt  int64 // milliseconds since the epoch
}

// Partner is another agent that has exchanged replies with this one.
type Partner struct {
	Agent  string // folded
	Entry  uint64 // the newest of these replies
	Theirs bool   // they wrote it
}

// Count counts an entry in a topic. If there are too many, it drops the topic with the
// fewest entries, of these the least recently written one.
func (a *Activity) Count(name string, at int64) {
	a.Changed = true
	for i := range a.Topics {
		if a.Topics[i].Name == name {
			a.Topics[i].Entries++
			a.Topics[i].LastAt = max(a.Topics[i].LastAt, at)
			return
		}
	}
	next := Topic{Name: name, Entries: 1, LastAt: at}
	if len(a.Topics) < MaxTopics {
		a.Topics = append(a.Topics, next)
		return
	}
	least := 0
	for i := range a.Topics {
		if a.Topics[i].Compare(&a.Topics[least]) > 0 {
			least = i
		}
	}
	a.Topics[least] = next
}

// Uncount removes an entry from a topic's count, if it is counted. A topic without entries
// keeps its place, and is not shown.
func (a *Activity) Uncount(name string) bool {
	i := slices.IndexFunc(a.Topics, func(t Topic) bool { return t.Name == name })
	if i < 0 || a.Topics[i].Entries == 0 { // it was dropped since, and came anew
		return false
	}
	a.Topics[i].Entries--
	a.Changed = true
	return true
}

// Compare orders topics: those with the most entries come first.
func (t *Topic) Compare(u *Topic) int {
	return cmp.Or(cmp.Compare(u.Entries, t.Entries), cmp.Compare(u.LastAt, t.LastAt), cmp.Compare(t.Name, u.Name))
}

// Exchange records a reply between the agent and another one.
func (a *Activity) Exchange(p Partner) {
	i := slices.IndexFunc(a.Partners, func(o Partner) bool { return o.Agent == p.Agent })
	if i < 0 && len(a.Partners) < maxPartners {
		a.Partners = append(a.Partners, Partner{})
	}
	if i < 0 {
		i = len(a.Partners) - 1
	}
	copy(a.Partners[1:i+1], a.Partners)
	a.Partners[0] = p
	a.Changed = true
}

// Fields implements state.Row.
func (a *Activity) Fields(c *state.Codec) {
	state.List(c, &a.Topics, func(t *Topic) { c.Fields(&t.Name, &t.Entries, &t.LastAt) })
	state.List(c, &a.Partners, func(p *Partner) { c.Fields(&p.Agent, &p.Entry, &p.Theirs) })
	for i := range a.Waiting {
		state.List(c, &a.Waiting[i], func(seq *uint64) { c.Fields(seq) })
	}
}

// Write passes the row to set if the call has changed it.
func (a *Activity) Write(agent string, set func(key, row []byte)) {
	if a.Changed {
		set(ListKey(agent, partActivity), state.Encode(a))
		a.Changed = false
	}
}

// Forget removes a topic without counted entries.
func (a *Activity) Forget(name string) {
	i := slices.IndexFunc(a.Topics, func(t Topic) bool { return t.Name == name && t.Entries == 0 })
	if i >= 0 {
		a.Topics, a.Changed = slices.Delete(a.Topics, i, i+1), true
	}
}

// Part is one of the lists that are kept for an agent, so that the cost of home depends
// only on its length. Seqs follow the part in the key; a list is in their order.
type Part byte

// The parts. The letters are stored.
const (
	partActivity Part = 'a' // the agent's topics and partners, and its entries in the waiting lists, see Activity
	PartInbox    Part = 'i' // seq8: Reason; entries that concern the agent
	PartOwed     Part = 'w' // seq8: Reason; those of them that the agent has not answered
	PartAsked    Part = 'q' // seq8: empty; own unanswered questions and requests for help
	PartOpen     Part = 'o' // seq8: empty; own open jobs
	PartTaken    Part = 'c' // seq8: empty; own claimed jobs
	PartHad      Part = 'd' // seq8: empty; others' jobs that the agent has ever claimed
	PartHidden   Part = 'x' // seq8: empty; own entries that were written by key and are hidden
	PartHeld     Part = 'h' // expires8 seq8: empty; others' jobs that the agent has claimed, or had claimed and that are open since
)

// TakeProblems returns everything against taking a job as the next one, and the job's entry and
// stored row. One that the agent has held before is as unavailable as a claimed one.
func TakeProblems(s state.Reader, id string, w *state.Writer) (job state.EntryRow, stored state.JobRow, problems []command.Problem) {
	job, stored, problems = state.JobProblems(s, command.OpClaimJob, id, w)
	if _, had := s.Get(ItemKey(w.AgentKey, PartHad, job.Seq)); had {
		problems = []command.Problem{command.ProblemJobClaimed}
	}
	return job, stored, problems
}

// Reason is the reason why an entry is in an agent's inbox.
type Reason byte

// The reasons. The numbers are stored.
const (
	ReasonReply   Reason = 1 // it relates to an entry of the agent
	ReasonMention Reason = 2 // it mentions the agent
	// ReasonClaimLost: it claims a job that the agent's claim ran out on.
	ReasonClaimLost Reason = 3
)

var reasonNames = [...]string{ReasonReply: "reply", ReasonMention: "mention", ReasonClaimLost: "claim_lost"}

// String returns the reason's name in the interface.
func (r Reason) String() string { return reasonNames[r] }

// DecodeReason decodes a row of partInbox or partOwed.
func DecodeReason(row []byte) (Reason, error) {
	if len(row) != 1 || row[0] == 0 || int(row[0]) >= len(reasonNames) {
		return 0, fmt.Errorf("%w: inbox row", state.ErrCorrupt)
	}
	return Reason(row[0]), nil
}

// listsPrefix returns the prefix of all keys of an agent.
func listsPrefix(agent string) []byte {
	const roomForPart = 1 + 8 + 8
	key := append(make([]byte, 0, 1+2+len(agent)+roomForPart), state.SpaceMember)
	key = binary.BigEndian.AppendUint16(key, uint16(len(agent)))
	return append(key, agent...)
}

// ListKey is the prefix of the keys of an agent's list.
func ListKey(agent string, p Part) []byte { return append(listsPrefix(agent), byte(p)) }

// ItemKey is the key of an entry in an agent's list.
func ItemKey(agent string, p Part, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ListKey(agent, p), seq)
}

// HeldKey is the key of a job in the list of those that an agent has claimed.
func HeldKey(agent string, expires int64, seq uint64) []byte {
	key := binary.BigEndian.AppendUint64(ListKey(agent, PartHeld), uint64(expires))
	return binary.BigEndian.AppendUint64(key, seq)
}

// WaitingKey is the key of an entry in a waiting list.
func WaitingKey(p Part, seq uint64) []byte {
	key := append(make([]byte, 0, 2+8), state.SpaceWaitingList, byte(p))
	return binary.BigEndian.AppendUint64(key, seq)
}

// NotesKey is the key of the newest knowledge under a topic.
func NotesKey(topic string) []byte { return append([]byte{state.SpaceNotes}, topic...) }

// KeyNewest is the key of the list of the newest entries.
var KeyNewest = []byte{state.SpaceNewest}

// Held lists the claims of the agent that have not run out at an instant.
func (r *Lists) Held(now int64, limit int) (seqs []uint64, err error) {
	err = r.Oldest(PartHeld, uint64(now)+1, func(key, _ []byte) (bool, error) {
		err := AppendHeld(&seqs, key)
		return len(seqs) < limit, err
	})
	return seqs, err
}

// AppendHeld appends the job that a key of PartHeld names.
func AppendHeld(seqs *[]uint64, key []byte) error {
	if len(key) != 8+8 {
		return fmt.Errorf("%w: key of a claim", state.ErrCorrupt)
	}
	*seqs = append(*seqs, binary.BigEndian.Uint64(key[8:]))
	return nil
}

// Lists reads the lists of one agent.
type Lists struct {
	iter   *pebble.Iterator
	prefix []byte
}

// Open returns a reader of the lists of an agent, which must be closed.
func Open(reader pebble.Reader, agentKey string) (*Lists, error) {
	prefix := listsPrefix(agentKey)
	// No part is as high as this byte.
	upper := append(bytes.Clone(prefix), 0xff)
	iter, err := reader.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("read lists of an agent: %w", err)
	}
	return &Lists{iter: iter, prefix: prefix}, nil
}

// Close ends the reading.
func (r *Lists) Close() error { return r.iter.Close() }

// Oldest calls f with rows of a part from a number on, the lowest first, while f returns
// true. Keys are without the prefix of the part.
func (r *Lists) Oldest(p Part, from uint64, f func(key, value []byte) (more bool, err error)) error {
	return r.from(p, binary.BigEndian.AppendUint64(nil, from), f)
}

// from is Oldest from a key without the prefix of the part on.
func (r *Lists) from(p Part, from []byte, f func(key, value []byte) (more bool, err error)) error {
	list := append(slices.Clip(r.prefix), byte(p))
	end := append(slices.Clip(r.prefix), byte(p)+1) // deleted rows of the next part may be many
	for at := r.iter.SeekGEWithLimit(append(slices.Clip(list), from...), end); at == pebble.IterValid; at = r.iter.NextWithLimit(end) {
		key, in := bytes.CutPrefix(r.iter.Key(), list)
		if !in {
			return nil
		}
		value, err := r.iter.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := f(key, value); err != nil || !more {
			return err
		}
	}
	return r.iter.Error()
}

// Newest calls f with the rows of a part from least to below end, the highest first,
// and with at most limit. The key is without the prefix of the part.
func (r *Lists) Newest(p Part, least, end uint64, limit int, f func(key, value []byte) error) error {
	list := append(slices.Clip(r.prefix), byte(p))
	for ok := r.iter.SeekLT(binary.BigEndian.AppendUint64(slices.Clip(list), end)); ok && limit > 0; ok = r.iter.Prev() {
		key, in := bytes.CutPrefix(r.iter.Key(), list)
		if !in || binary.BigEndian.Uint64(key) < least {
			return nil
		}
		value, err := r.iter.ValueAndErr()
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
		limit--
	}
	return r.iter.Error()
}
