package fsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// How far back home looks for what waits, in milliseconds.
const (
	owedWindow    = int64(90 * 24 * time.Hour / time.Millisecond)
	waitingWindow = int64(7 * 24 * time.Hour / time.Millisecond)
)

// Home is what concerns one agent at the instant of a view (interface, 4.7).
// Lists of seqs are newest first unless they say something else.
type Home struct {
	ForYou     []InboxItem // oldest first: the oldest MaxForYou, to the end of their log entry
	More       bool        // there is more for the agent, after Now
	Now        int64       // up to when ForYou is complete: the next call's Since
	Until      int64       // before this instant home stays as it is, but for Now, while views have the same Version
	OwedByYou  []InboxItem // of 90 days, not answered by the agent
	OwedToYou  []uint64    // own unanswered questions and requests for help, own open or claimed jobs
	ToDeliver  []uint64    // jobs that the agent has claimed, the first to expire first, then those that it had
	New        []uint64    // of the newest by others, after Since, those that do not concern the agent
	Topics     []Topic     // the most used first
	TopicNotes []uint64    // of the newest knowledge of others in these topics, what does not concern the agent
	LastWith   []Partner   // the most recent first
	Waiting    []uint64    // others' unanswered questions and requests for help of 7 days; not what concerns the agent
	OpenJobs   []uint64    // of others
	// How many are owed and to be delivered, whether listed or not, up to MaxCounted.
	OwedByYouCount, OwedToYouCount, ToDeliverCount int
}

// concerns reports whether an entry is listed because it concerns the agent.
func (h *Home) concerns(seq uint64) bool {
	is := func(item InboxItem) bool { return item.Seq == seq }
	return slices.ContainsFunc(h.ForYou, is) || slices.ContainsFunc(h.OwedByYou, is)
}

// InboxItem is an entry that concerns an agent.
type InboxItem struct {
	Seq    uint64
	Reason Reason
}

// Topic is a channel or a tag that an agent writes to.
type Topic struct {
	Name        string
	Entries     uint64
	LastEntryAt int64 // milliseconds since the epoch
}

// Partner is another agent that has exchanged replies with this one.
type Partner struct {
	Agent  string // as spelled when the reply or what it answers was written
	Entry  uint64 // the newest of the replies
	At     int64  // when, in milliseconds since the epoch
	Theirs bool   // the partner wrote it
}

// Home returns what concerns an agent (text.Fold), with what is new after since,
// in milliseconds since the epoch. Its cost depends neither on the number
// of entries nor on how many of them concern the agent. Topics, notes and partners are
// of all time, or, when the agent has seen them before, only what is new after since.
// When it has not, since is some time ago, and Until takes that into account.
func (v *View) Home(agentKey string, since int64, seenBefore bool) (*Home, error) {
	h := &Home{Now: v.head.now, Until: math.MaxInt64}
	rows, err := member(v.snap, agentKey)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	if err := errors.Join(v.fill(h, rows, agentKey, since, seenBefore), rows.close()); err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	h.OwedByYou = h.OwedByYou[:min(len(h.OwedByYou), command.MaxOwed)]
	return h, nil
}

// fill fills all the lists: some leave out what others have.
func (v *View) fill(h *Home, rows *memberRows, agentKey string, since int64, seenBefore bool) error {
	first, at, some, err := v.nextInstant(since)
	if err != nil {
		return err
	}
	if some {
		if !seenBefore {
			h.Until = at + v.head.now - since
		}
		if err := v.fillInbox(h, rows, first); err != nil {
			return err
		}
	}
	if err := v.fillOwed(h, rows); err != nil {
		return err
	}
	if err := v.fillWaiting(h, agentKey); err != nil {
		return err
	}
	if some {
		newest, err := v.newest()
		if err != nil {
			return err
		}
		h.New = slices.DeleteFunc(newest.others(agentKey, first, command.MaxNew), h.concerns)
	}
	switch {
	case !seenBefore:
		return v.fillActivity(h, rows, agentKey, -1, 1)
	case some:
		return v.fillActivity(h, rows, agentKey, since, first)
	}
	return nil
}

// HasFor reports whether something after since concerns the agent: whether
// Home's ForYou has anything.
func (v *View) HasFor(agentKey string, since int64) (has bool, err error) {
	first, some, err := v.firstAfter(since)
	if err != nil || !some {
		return false, err
	}
	rows, err := member(v.snap, agentKey)
	if err != nil {
		return false, err
	}
	err = rows.oldest(partInbox, first, func([]byte, []byte) (bool, error) {
		has = true
		return false, nil
	})
	return has, errors.Join(err, rows.close())
}

// within returns the first entry of a span of time that ends with the view, in
// milliseconds; false when there is no entry. Home changes when that entry gets too old.
func (v *View) within(h *Home, span int64) (seq uint64, some bool, err error) {
	seq, at, some, err := v.nextInstant(max(0, v.head.now-span))
	if some {
		h.Until = min(h.Until, at+span)
	}
	return seq, some, err
}

// fillInbox lists what concerns the agent, from an entry on.
func (v *View) fillInbox(h *Home, rows *memberRows, first uint64) error {
	end := uint64(0) // the first seq after the log entry of the last item
	return rows.oldest(partInbox, first, func(key, value []byte) (bool, error) {
		seq := binary.BigEndian.Uint64(key)
		if end != 0 && seq >= end {
			h.More = true
			last, _, err := v.Meta(h.ForYou[len(h.ForYou)-1].Seq)
			h.Now = last.CreatedAt
			return false, err
		}
		reason, err := decodeReason(value)
		if err != nil {
			return false, err
		}
		h.ForYou = append(h.ForYou, InboxItem{seq, reason})
		if len(h.ForYou) == command.MaxForYou {
			end, err = v.nextCommit(seq)
		}
		return true, err
	})
}

// nextCommit returns the first seq after the log entry that an entry is in.
func (v *View) nextCommit(seq uint64) (uint64, error) {
	m, _, err := v.Meta(seq)
	if err != nil {
		return 0, err
	}
	next, some, err := v.firstAfter(m.CreatedAt)
	if !some {
		next = v.head.lastSeq + 1
	}
	return next, err
}

// fillOwed lists the open items.
func (v *View) fillOwed(h *Home, rows *memberRows) error {
	least, some, err := v.within(h, owedWindow)
	if err != nil {
		return err
	}
	if some {
		err = rows.newest(partOwed, least, endless, command.MaxCounted, func(key, value []byte) error {
			reason, err := decodeReason(value)
			h.OwedByYou = append(h.OwedByYou, InboxItem{binary.BigEndian.Uint64(key), reason})
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, p := range [...]part{partAsked, partOpen, partTaken} {
		err := rows.newest(p, 0, endless, command.MaxCounted, func(key, _ []byte) error {
			h.OwedToYou = append(h.OwedToYou, binary.BigEndian.Uint64(key))
			return nil
		})
		if err != nil {
			return err
		}
	}
	h.OwedToYou = newestOf(h.OwedToYou, command.MaxCounted)
	if h.ToDeliver, err = rows.held(v.head.now, command.MaxCounted); err == nil {
		err = rows.newest(partHeld, 0, uint64(v.head.now)+1, command.MaxCounted-len(h.ToDeliver), func(key, _ []byte) error {
			return appendHeld(&h.ToDeliver, key)
		})
	}
	h.OwedByYouCount, h.OwedToYouCount, h.ToDeliverCount = len(h.OwedByYou), len(h.OwedToYou), len(h.ToDeliver)
	h.OwedToYou = h.OwedToYou[:min(len(h.OwedToYou), command.MaxOwed)]
	h.ToDeliver = h.ToDeliver[:min(len(h.ToDeliver), command.MaxOwed)]
	return err
}

// Held returns the jobs that an agent has claimed, the first to expire first, and
// at most limit of them.
func (v *View) Held(agentKey string, limit int) (seqs []uint64, err error) {
	rows, err := member(v.snap, agentKey)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	return rows.held(v.head.now, limit)
}

// held lists the claims of the agent at an instant. Claims that have run out come
// before it.
func (r *memberRows) held(now int64, limit int) (seqs []uint64, err error) {
	err = r.oldest(partHeld, uint64(now)+1, func(key, _ []byte) (bool, error) {
		err := appendHeld(&seqs, key)
		return len(seqs) < limit, err
	})
	return seqs, err
}

// appendHeld appends the job that a key of partHeld names.
func appendHeld(seqs *[]uint64, key []byte) error {
	if len(key) != 8+8 {
		return fmt.Errorf("%w: key of a claim", ErrCorrupt)
	}
	*seqs = append(*seqs, binary.BigEndian.Uint64(key[8:]))
	return nil
}

// fillWaiting lists what waits for anybody but the agent.
func (v *View) fillWaiting(h *Home, agentKey string) error {
	least, some, err := v.within(h, waitingWindow)
	if err != nil {
		return err
	}
	if some {
		if h.Waiting, err = v.waitingList(partAsked, agentKey, least, command.MaxWaiting, h.concerns); err != nil {
			return err
		}
	}
	h.OpenJobs, err = v.waitingList(partOpen, agentKey, 0, command.MaxOpenJobs, h.concerns)
	return err
}

// waitingList returns the newest seqs of a waiting list that are not below least, not the
// agent's own, and not listed elsewhere.
func (v *View) waitingList(p part, agentKey string, least uint64, limit int, listed func(uint64) bool) (seqs []uint64, err error) {
	pick := func(e authored) (more bool) {
		if e.seq < least {
			return false
		}
		if e.author != agentKey && !listed(e.seq) {
			seqs = append(seqs, e.seq)
		}
		return len(seqs) < limit
	}
	head, err := v.waitingHead(p)
	if err != nil {
		return nil, err
	}
	for _, e := range head {
		if !pick(e) {
			return seqs, nil
		}
	}
	if len(head) == waitingKept {
		err = v.scanWaiting(p, waitingListKey(p, head[len(head)-1].seq), pick)
	}
	return seqs, err
}

// fillActivity lists the agent's topics, what others know about them, and the agents
// that it has exchanged replies with, as far as they are newer than after. first is
// the first entry after that instant.
func (v *View) fillActivity(h *Home, rows *memberRows, agentKey string, after int64, first uint64) error {
	a, err := rows.activity()
	if err != nil {
		return err
	}
	a.topics = slices.DeleteFunc(a.topics, func(t topic) bool { return t.entries == 0 })
	slices.SortFunc(a.topics, func(t, u topic) int { return t.compare(&u) })
	for _, t := range a.topics[:min(len(a.topics), command.MaxYourTopics)] {
		if t.lastAt > after {
			h.Topics = append(h.Topics, Topic{Name: t.name, Entries: t.entries, LastEntryAt: t.lastAt})
		}
		notes, err := v.notes(t.name)
		if err != nil {
			return err
		}
		h.TopicNotes = append(h.TopicNotes, notes.others(agentKey, first, command.MaxTopicNotes)...)
	}
	h.TopicNotes = slices.DeleteFunc(newestOf(h.TopicNotes, command.MaxTopicNotes), h.concerns)
	for _, p := range a.partners {
		partner, err := v.partner(p)
		if err != nil {
			return err
		}
		if partner.Agent != "" && partner.At > after {
			h.LastWith = append(h.LastWith, partner)
		}
	}
	return nil
}

// partner completes a partner from its entries. When one of them is hidden, the partner
// has no name.
func (v *View) partner(p partner) (Partner, error) {
	m, _, err := v.Meta(p.entry)
	if err != nil || m.Hidden {
		return Partner{}, err
	}
	theirs := p.entry
	if !p.theirs {
		theirs = m.Parent
	}
	name, err := v.agentOf(theirs)
	return Partner{Agent: name, Entry: p.entry, At: m.CreatedAt, Theirs: p.theirs}, err
}

// newestOf returns the highest limit of the seqs, each once, highest first.
func newestOf(seqs []uint64, limit int) []uint64 {
	slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	seqs = slices.Compact(seqs)
	return seqs[:min(len(seqs), limit)]
}

// memberRows reads the lists of one agent.
type memberRows struct {
	iter   *pebble.Iterator
	prefix []byte
}

func member(reader pebble.Reader, agentKey string) (*memberRows, error) {
	prefix := memberPrefix(agentKey)
	// No part is as high as this byte.
	upper := append(bytes.Clone(prefix), 0xff)
	iter, err := reader.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("read lists of an agent: %w", err)
	}
	return &memberRows{iter: iter, prefix: prefix}, nil
}

func (r *memberRows) close() error { return r.iter.Close() }

// oldest calls f with the rows of a part from a number on, the lowest first, until
// it says that it has enough. The key is what follows the part.
func (r *memberRows) oldest(p part, from uint64, f func(key, value []byte) (more bool, err error)) error {
	return r.from(p, binary.BigEndian.AppendUint64(nil, from), f)
}

// from is oldest from a key on, which is what follows the part.
func (r *memberRows) from(p part, from []byte, f func(key, value []byte) (more bool, err error)) error {
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

// endless is above every number in a part.
const endless = math.MaxUint64

// newest calls f with the rows of a part from least to below end, the highest first,
// and with at most limit. The key is what follows the part.
func (r *memberRows) newest(p part, least, end uint64, limit int, f func(key, value []byte) error) error {
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
