package view

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// How far back home looks for what waits, in milliseconds.
const (
	owedWindow    = int64(90 * 24 * time.Hour / time.Millisecond)
	waitingWindow = int64(7 * 24 * time.Hour / time.Millisecond)
)

// Home lists what concerns one agent at the instant of a view (interface, 4.7). Lists of
// seqs are newest first, except where noted.
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
	OpenJobs   []uint64    // of others; those that the reader wants, the last opened first
	NewJobs    int         // of the wanted OpenJobs, the first were opened after Since
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
	Reason home.Reason
}

// Topic is a channel or a tag that an agent writes to.
type Topic = home.Topic

// Partner is another agent that has exchanged replies with this one.
type Partner struct {
	Agent  string // as spelled in the reply or in its target
	Entry  uint64 // the newest of the replies
	At     int64  // when, in milliseconds since the epoch
	Theirs bool   // the partner wrote it
}

// Preferences describe an agent as a reader.
type Preferences struct {
	AgentKey   string // text.Fold of the name
	OnlyProven bool   // leaves out entries whose writer has not proven the name
	ByKey      bool   // the reader has the agent's key: leaves out own open items that others may have made in its name
	Jobs       *Wanted
}

// Wanted selects the open jobs that an agent wants. A nil pointer selects the newest of others.
type Wanted struct {
	TagKey string            // with this tag (text.FoldTag), or with one of several, see Or; empty means all
	By     command.Signature // takes only jobs that this signer can take
	Since  int64             // those that were opened after this instant are new
}

// wantedPages bounds the pages of open jobs that are searched for wanted ones: most pages are full.
const wantedPages = 8

// wanted returns the jobs that the reader wants and can take, the last opened first, at most limit,
// and how many of them are new. They were opened after one instant and not after the other. It looks
// at the newest MaxList open jobs with the tags.
func (v *View) wanted(p *Preferences, after, until int64, limit int) (seqs []uint64, fresh int, err error) {
	q := Query{JobStatus: state.JobOpen, TagKey: p.Jobs.TagKey, Limit: command.MaxList}
	type opened struct {
		seq uint64
		at  int64
	}
	var found []opened
	for range wantedPages {
		page, next, err := v.ListJobs(q)
		if err != nil {
			return nil, 0, err
		}
		for _, seq := range page {
			at, err := v.openedAt(seq)
			if err != nil {
				return nil, 0, err
			}
			if after < at && at <= until {
				found = append(found, opened{seq, at})
			}
		}
		q.Limit -= len(page)
		if q.Before = next; next == 0 || q.Limit == 0 {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b opened) int { return cmp.Compare(b.at, a.at) })
	w, s := v.writer(p.Jobs.By)
	for _, job := range found {
		can := canTake(s, job.seq, w)
		shown, err := v.shows(p, job.seq)
		if err := cmp.Or(err, s.err); err != nil {
			return nil, 0, err
		}
		if !can || !shown {
			continue
		}
		if seqs = append(seqs, job.seq); job.at > p.Jobs.Since {
			fresh++
		}
		if len(seqs) == limit {
			break
		}
	}
	return seqs, fresh, nil
}

// maxOwnRead is how many of its own open items are read to find those that an agent made with proof.
const maxOwnRead = 10 * command.MaxCounted

// shows returns whether the preferences let an entry through.
func (v *View) shows(p *Preferences, seq uint64) (bool, error) {
	if !p.OnlyProven {
		return true, nil
	}
	s := &viewState{v: v}
	e, known := s.Entry(seq)
	return !known || e.AgentKey == p.AgentKey || e.Verified(), s.err
}

// filtered keeps the items that keep accepts, or all after an error.
func filtered[T any](items []T, keep func(T) (bool, error)) (kept []T, err error) {
	kept = slices.DeleteFunc(items, func(item T) bool {
		is, failed := keep(item)
		err = cmp.Or(err, failed)
		return !is && err == nil
	})
	return kept, err
}

// Home returns what concerns an agent (text.Fold), with new entries after since, in
// milliseconds since the epoch. Its cost does not depend on the number of entries. Topics,
// notes and partners are of all time, or, if the agent has seen them before, only new ones.
// Otherwise since is some time ago, and Until takes that into account. Entries that the
// preferences leave out are removed at the end, so that Now does not depend on them.
func (v *View) Home(p *Preferences, since int64, seenBefore bool) (*Home, error) {
	h := &Home{Now: v.at.Head.Now, Until: math.MaxInt64}
	rows, err := home.Open(v.snap, p.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	err = errors.Join(v.fill(h, rows, p, since, seenBefore), rows.Close())
	if err == nil && p.OnlyProven {
		err = v.leaveOut(h, p)
	}
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	h.OwedByYou = h.OwedByYou[:min(len(h.OwedByYou), command.MaxOwed)]
	return h, nil
}

// leaveOut removes the entries of others that the preferences leave out.
func (v *View) leaveOut(h *Home, p *Preferences) (err error) {
	for _, list := range [...]*[]uint64{&h.New, &h.TopicNotes, &h.Waiting, &h.OpenJobs} {
		if *list, err = filtered(*list, func(seq uint64) (bool, error) { return v.shows(p, seq) }); err != nil {
			return err
		}
	}
	for _, list := range [...]*[]InboxItem{&h.ForYou, &h.OwedByYou} {
		if *list, err = filtered(*list, func(item InboxItem) (bool, error) { return v.shows(p, item.Seq) }); err != nil {
			return err
		}
	}
	h.OwedByYouCount = len(h.OwedByYou)
	return nil
}

// fill fills all the lists: some leave out what others have.
func (v *View) fill(h *Home, rows *home.Lists, p *Preferences, since int64, seenBefore bool) error {
	agentKey := p.AgentKey
	first, at, some, err := v.nextInstant(since)
	if err != nil {
		return err
	}
	if some {
		if !seenBefore {
			h.Until = at + v.at.Head.Now - since
		}
		if err := v.fillInbox(h, rows, first); err != nil {
			return err
		}
	}
	if err := v.fillOwed(h, rows, p.ByKey || p.OnlyProven); err != nil {
		return err
	}
	if err := v.fillWaiting(h, p); err != nil {
		return err
	}
	if some {
		newest, err := v.newestOfOthers(agentKey, first)
		if err != nil {
			return err
		}
		h.New = slices.DeleteFunc(newest, h.concerns)
	}
	switch {
	case !seenBefore:
		return v.fillActivity(h, rows, agentKey, -1, 1)
	case some:
		return v.fillActivity(h, rows, agentKey, since, first)
	}
	return nil
}

// newestOfOthers returns the newest entries by others than an agent from a seq on, newest first.
// Hidden entries leave gaps in the list that all homes share. If there is a gap, the newest
// MaxFiltered entries are searched, too.
func (v *View) newestOfOthers(agentKey string, first uint64) ([]uint64, error) {
	every, err := v.everyHome()
	if err != nil {
		return nil, err
	}
	seqs, last := every.newest.Others(agentKey, first, command.MaxNew), v.at.Head.LastSeq
	if len(seqs) == command.MaxNew || every.newest.Holds(first, last) {
		return seqs, nil
	}
	search := index.Query{Min: max(first, last-min(last, MaxFiltered)), Limit: command.MaxNew, Not: [][]string{{state.TermAgent + agentKey}}}
	found, _, err := v.search(search)
	return newestOf(append(seqs, found...), command.MaxNew), err
}

// HasFor reports whether Home has news: a wanted job that is new, an entry after since in ForYou,
// or more than a page of them, whether left out or not.
func (v *View) HasFor(p *Preferences, since int64) (has bool, err error) {
	if p.Jobs != nil {
		if _, fresh, err := v.wanted(p, p.Jobs.Since, math.MaxInt64, 1); err != nil || fresh > 0 {
			return err == nil, err
		}
	}
	first, some, err := v.FirstAfter(since)
	if err != nil || !some {
		return false, err
	}
	rows, err := home.Open(v.snap, p.AgentKey)
	if err != nil {
		return false, err
	}
	left := 0
	err = rows.Oldest(home.PartInbox, first, func(key, value []byte) (bool, error) {
		seq := binary.BigEndian.Uint64(key)
		if hidden, _, err := v.hiddenClaim(seq, value); hidden || err != nil {
			return err == nil, err
		}
		is, err := v.shows(p, seq)
		left++
		has = is || left == command.MaxForYou
		return !has, err
	})
	return has, errors.Join(err, rows.Close())
}

// within returns the first entry of a span of time that ends with the view, if there is
// one. Home changes when that entry gets too old.
func (v *View) within(h *Home, span int64) (seq uint64, some bool, err error) {
	seq, at, some, err := v.nextInstant(max(0, v.at.Head.Now-span))
	if some {
		h.Until = min(h.Until, at+span)
	}
	return seq, some, err
}

// fillInbox lists what concerns the agent, from an entry on.
func (v *View) fillInbox(h *Home, rows *home.Lists, first uint64) error {
	end := uint64(0) // the first seq after the log entry of the last item
	return rows.Oldest(home.PartInbox, first, func(key, value []byte) (bool, error) {
		seq := binary.BigEndian.Uint64(key)
		hidden, reason, err := v.hiddenClaim(seq, value)
		if hidden || err != nil {
			return err == nil, err
		}
		if end != 0 && seq >= end {
			h.More = true
			last, _, err := v.Meta(h.ForYou[len(h.ForYou)-1].Seq)
			h.Now = last.CreatedAt
			return false, err
		}
		h.ForYou = append(h.ForYou, InboxItem{seq, reason})
		if len(h.ForYou) == command.MaxForYou {
			end, err = v.nextCommit(seq)
		}
		return true, err
	})
}

// hiddenClaim returns the reason in a row of an inbox, and reports whether the row is about the
// hidden claim of a job that the agent had claimed before. Hiding an entry removes its other rows
// from inboxes; the row of a claim does not name the former claimant.
func (v *View) hiddenClaim(seq uint64, row []byte) (hidden bool, reason home.Reason, err error) {
	reason, err = home.DecodeReason(row)
	if err != nil || reason != home.ReasonClaimLost {
		return false, reason, err
	}
	m, _, err := v.Meta(seq)
	return m.Hidden, reason, err
}

// nextCommit returns the first seq after the log entry that an entry is in.
func (v *View) nextCommit(seq uint64) (uint64, error) {
	m, _, err := v.Meta(seq)
	if err != nil {
		return 0, err
	}
	return v.firstAt(m.CreatedAt)
}

// fillOwed lists the open items. Of the agent's own, proven leaves out those that others may have
// made in its name.
func (v *View) fillOwed(h *Home, rows *home.Lists, proven bool) error {
	least, some, err := v.within(h, owedWindow)
	if err != nil {
		return err
	}
	if some {
		err = rows.Newest(home.PartOwed, least, endless, command.MaxCounted, func(key, value []byte) error {
			reason, err := home.DecodeReason(value)
			h.OwedByYou = append(h.OwedByYou, InboxItem{binary.BigEndian.Uint64(key), reason})
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := v.fillOwn(h, rows, proven); err != nil {
		return err
	}
	h.OwedByYouCount, h.OwedToYouCount, h.ToDeliverCount = len(h.OwedByYou), len(h.OwedToYou), len(h.ToDeliver)
	h.OwedToYou = h.OwedToYou[:min(len(h.OwedToYou), command.MaxOwed)]
	h.ToDeliver = h.ToDeliver[:min(len(h.ToDeliver), command.MaxOwed)]
	return nil
}

// fillOwn lists the agent's own open items, or those that it made with proof.
func (v *View) fillOwn(h *Home, rows *home.Lists, proven bool) (err error) {
	limit := command.MaxCounted
	if proven {
		limit = maxOwnRead
	}
	for _, p := range [...]home.Part{home.PartAsked, home.PartOpen, home.PartTaken} {
		err := rows.Newest(p, 0, endless, limit, func(key, _ []byte) error {
			h.OwedToYou = append(h.OwedToYou, binary.BigEndian.Uint64(key))
			return nil
		})
		if err != nil {
			return err
		}
	}
	h.ToDeliver, err = rows.Held(v.at.Head.Now, limit)
	if err == nil {
		err = rows.Newest(home.PartHeld, 0, uint64(v.at.Head.Now)+1, limit-len(h.ToDeliver), func(key, _ []byte) error {
			return home.AppendHeld(&h.ToDeliver, key)
		})
	}
	if err == nil && proven {
		h.OwedToYou, err = filtered(h.OwedToYou, v.Proven)
	}
	if err == nil && proven {
		h.ToDeliver, err = filtered(h.ToDeliver, v.ProvenClaim)
	}
	h.OwedToYou = newestOf(h.OwedToYou, command.MaxCounted)
	h.ToDeliver = h.ToDeliver[:min(len(h.ToDeliver), command.MaxCounted)]
	return err
}

// fillWaiting lists what waits for anybody but the agent.
func (v *View) fillWaiting(h *Home, p *Preferences) error {
	least, some, err := v.within(h, waitingWindow)
	if err != nil {
		return err
	}
	if some {
		if h.Waiting, err = v.waitingList(home.PartAsked, p.AgentKey, least, command.MaxWaiting, h.concerns); err != nil {
			return err
		}
	}
	if p.Jobs != nil {
		h.OpenJobs, h.NewJobs, err = v.wanted(p, -1, h.Now, command.MaxOpenJobs)
		return err
	}
	h.OpenJobs, err = v.waitingList(home.PartOpen, p.AgentKey, 0, command.MaxOpenJobs, func(uint64) bool { return false })
	return err
}

// waitingList returns the newest unlisted seqs of others from a waiting list, down to
// least.
func (v *View) waitingList(p home.Part, agentKey string, least uint64, limit int, listed func(uint64) bool) (seqs []uint64, err error) {
	pick := func(e home.Authored) (more bool) {
		if e.Seq < least {
			return false
		}
		if e.Author != agentKey && !listed(e.Seq) {
			seqs = append(seqs, e.Seq)
		}
		return len(seqs) < limit
	}
	every, err := v.everyHome()
	if err != nil {
		return nil, err
	}
	list, _ := home.WaitingListOf(p)
	head := every.waiting[list]
	for _, e := range head {
		if !pick(e) {
			return seqs, nil
		}
	}
	if len(head) == WaitingKept {
		err = v.scanWaiting(p, home.WaitingKey(p, head[len(head)-1].Seq), pick)
	}
	return seqs, err
}

// fillActivity lists the agent's topics, their notes by others, and its partners, as far as
// they are newer than after. first is the first entry after that instant.
func (v *View) fillActivity(h *Home, rows *home.Lists, agentKey string, after int64, first uint64) error {
	a, err := rows.Activity()
	if err != nil {
		return err
	}
	a.Topics = slices.DeleteFunc(a.Topics, func(t home.Topic) bool { return t.Entries == 0 })
	slices.SortFunc(a.Topics, func(t, u home.Topic) int { return t.Compare(&u) })
	for _, t := range a.Topics[:min(len(a.Topics), command.MaxYourTopics)] {
		if t.LastAt > after {
			h.Topics = append(h.Topics, t)
		}
		notes, err := v.Notes(t.Name)
		if err != nil {
			return err
		}
		h.TopicNotes = append(h.TopicNotes, notes.Others(agentKey, first, command.MaxTopicNotes)...)
	}
	h.TopicNotes = slices.DeleteFunc(newestOf(h.TopicNotes, command.MaxTopicNotes), h.concerns)
	for _, p := range a.Partners {
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

// partner completes a partner from its entries. It has no name if one of them is hidden.
func (v *View) partner(p home.Partner) (Partner, error) {
	m, _, err := v.Meta(p.Entry)
	if err != nil || m.Hidden {
		return Partner{}, err
	}
	theirs := p.Entry
	if !p.Theirs {
		theirs = m.Parent
	}
	partner := Partner{Entry: p.Entry, At: m.CreatedAt, Theirs: p.Theirs}
	err = v.outline(theirs, func(o *state.Outline) (err error) {
		partner.Agent, err = o.Text(state.PartAgent)
		return err
	})
	return partner, err
}

// endless is above every number in a part.
const endless = math.MaxUint64

// WaitingKept bounds the rows of a waiting list that a view keeps: enough for nearly every
// reader.
const WaitingKept = 64

// NoteTopics bounds the topics whose notes a view keeps. Many agents share them.
const NoteTopics = 256

// everyHome returns the rows that all homes share. Its read fields must not be changed.
func (v *View) everyHome() (*EveryHome, error) {
	h := &v.EveryHome
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read {
		return h, nil
	}
	newest, _, err := state.Load(v.snap, home.KeyNewest, state.Decode[home.RecentByAuthor])
	if err != nil {
		return nil, err
	}
	var waiting [home.WaitingLists][]home.Authored
	for _, p := range [...]home.Part{home.PartAsked, home.PartOpen} {
		n, _ := home.WaitingListOf(p)
		err := v.scanWaiting(p, home.WaitingKey(p, math.MaxUint64), func(e home.Authored) (more bool) {
			waiting[n] = append(waiting[n], e)
			return len(waiting[n]) < WaitingKept
		})
		if err != nil {
			return nil, err
		}
	}
	h.newest, h.waiting, h.read = newest, waiting, true
	return h, nil
}

// Notes returns the notes of a topic, which must not be changed.
func (v *View) Notes(topic string) (home.RecentByAuthor, error) {
	h := &v.EveryHome
	h.mu.Lock()
	notes, kept := h.Notes[topic]
	h.mu.Unlock()
	if kept {
		return notes, nil
	}
	notes, _, err := state.Load(v.snap, home.NotesKey(topic), state.Decode[home.RecentByAuthor])
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Notes == nil {
		h.Notes = make(map[string]home.RecentByAuthor)
	}
	if len(h.Notes) < NoteTopics {
		h.Notes[topic] = notes
	}
	return notes, nil
}

// scanWaiting calls f with the entries of a waiting list before a key, newest first.
func (v *View) scanWaiting(p home.Part, upper []byte, f func(home.Authored) (more bool)) error {
	return state.ScanBack(v.snap, home.WaitingKey(p, 0), upper, func(key, author []byte) error {
		if !f(home.Authored{Seq: binary.BigEndian.Uint64(key[2:]), Author: string(author)}) {
			return state.ErrEnough
		}
		return nil
	})
}
