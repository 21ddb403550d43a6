package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/subscription"
)

// Preferences describe an agent as a reader. An agent without any has only a name.
type Preferences struct {
	AgentKey      string // text.Fold of the name
	Subscriptions subscription.List
	OnlyProven    bool // leaves out entries whose writer has not proven the name
}

// Preferences returns those that an agent has stored.
func (v *View) Preferences(agentKey string) (Preferences, error) {
	s := &viewState{v: v}
	p := Preferences{AgentKey: agentKey, Subscriptions: subscription.Of(s, agentKey)}
	return p, s.err
}

// narrow reports whether the preferences leave entries out.
func (p *Preferences) narrow() bool {
	return p.OnlyProven || p.Subscriptions.Of(command.WayMute) > 0
}

// leftOut returns whether an entry is left out.
func (v *View) leftOut(p *Preferences, seq uint64) (bool, error) {
	s := &viewState{v: v}
	e, known := s.Entry(seq)
	own := e.AgentKey == p.AgentKey
	return known && !own && (p.OnlyProven && !e.Verified() || p.Subscriptions.Mutes(&e.Meta)), s.err
}

// withoutLeftOut removes what the preferences leave out.
func withoutLeftOut[T any](v *View, p *Preferences, items []T, seq func(T) uint64) (kept []T, err error) {
	return slices.DeleteFunc(items, func(item T) bool {
		out, failed := v.leftOut(p, seq(item))
		err = cmp.Or(err, failed)
		return out
	}), err
}

// SubscribeProblems returns everything against a Subscribe, as far as the view knows.
func (v *View) SubscribeProblems(c *command.Subscribe) ([]command.Problem, error) {
	s := &viewState{v: v}
	j := state.WriterOf(s, c.Signature())
	_, _, problems := subscription.Against(s, &j, c)
	return problems, s.err
}

// UnsubscribeProblems returns everything against an Unsubscribe, as far as the view knows.
func (v *View) UnsubscribeProblems(c *command.Unsubscribe) ([]command.Problem, error) {
	s := &viewState{v: v}
	j := state.WriterOf(s, c.Signature())
	return subscription.AgainstEnd(s, &j, c), s.err
}

// Subscribed is an entry of a subscription.
type Subscribed struct {
	Seq          uint64
	Subscription uint64 // the number of the oldest that selects the entry
}

// queryOf returns the query of a filter.
func queryOf(f command.Filter, work *int) Query {
	return Query{Kind: f.Kind, Channel: f.Channel, AgentKey: f.AgentKey, TagKey: f.TagKey, Thread: f.Thread, Q: f.Q, Since: -1, Work: work}
}

// Subscribed returns the newest entries of an agent's subscriptions of a way with
// least <= seq < before, newest first, and the before of the next page, or 0 after the last.
// Each subscription takes one search for limit entries, so a page may be short, and yet not be
// the last one. It has no entries of the agent itself.
func (v *View) Subscribed(p *Preferences, way command.Way, least, before uint64, limit int, work *int) (found []Subscribed, next uint64, err error) {
	for i := range p.Subscriptions.All {
		one := &p.Subscriptions.All[i]
		if one.Way != way {
			continue
		}
		search := index.Query{Min: max(least, 1), Before: before, Limit: limit, Work: work, Not: [][]string{{state.TermAgent + p.AgentKey}}}
		if way == command.WayDigest {
			search.Min = max(search.Min, one.After+1)
		}
		phrases, some, err := v.translate(queryOf(one.Filter, work), &search)
		if err != nil {
			return nil, 0, fmt.Errorf("subscription %d: %w", one.Number, err)
		}
		if !some {
			continue
		}
		hits, more, err := v.search(search)
		if hasPhrases := v.phraseCheck(phrases, work); err == nil && hasPhrases != nil {
			hits, err = hasPhrases(hits)
		}
		if err == nil && p.narrow() {
			hits, err = withoutLeftOut(v, p, hits, func(seq uint64) uint64 { return seq })
		}
		if err != nil {
			return nil, 0, fmt.Errorf("subscription %d: %w", one.Number, err)
		}
		next = max(next, more) // below it, this subscription was not searched
		for _, seq := range hits {
			found = append(found, Subscribed{seq, one.Number})
		}
	}
	slices.SortStableFunc(found, func(a, b Subscribed) int { return cmp.Compare(b.Seq, a.Seq) })
	found = slices.CompactFunc(found, func(a, b Subscribed) bool { return a.Seq == b.Seq })
	found = slices.DeleteFunc(found, func(s Subscribed) bool { return s.Seq < next })
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1].Seq
	}
	return found, next, nil
}

// SubscribedEvents returns the events about entries that a subscription of the agent selects,
// and that are neither hidden nor left out.
func (v *View) SubscribedEvents(events []Event, p *Preferences, work *int) ([]Event, error) {
	var seqs []uint64
	for i := range events {
		seqs = append(seqs, events[i].Entry)
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	listed := make(map[uint64]bool)
	for i := range p.Subscriptions.All {
		one := &p.Subscriptions.All[i]
		if one.Way == command.WayMute || len(seqs) == 0 {
			continue
		}
		found, err := v.listed(seqs, queryOf(one.Filter, work))
		if err != nil {
			return nil, fmt.Errorf("subscription %d: %w", one.Number, err)
		}
		for seq := range found {
			listed[seq] = true
		}
	}
	var err error
	events = slices.DeleteFunc(events, func(e Event) bool {
		if !listed[e.Entry] {
			return true
		}
		m, _, failed := v.Meta(e.Entry)
		out, failedToo := v.leftOut(p, e.Entry)
		err = cmp.Or(err, failed, failedToo)
		return out || m.Hidden || m.AgentKey == p.AgentKey
	})
	return events, err
}

// DueDigest returns the next digest of an agent, given the row of its progress. seen is a seq
// up to which the caller has found no entry before. A digest without entries is not due; its To
// is the seq up to which the view was searched.
func (v *View) DueDigest(agentKey string, at subscription.Digest, seen uint64) (command.SentDigest, error) {
	d := command.SentDigest{AgentKey: agentKey, After: at.Read, To: v.at.Head.LastSeq}
	p, err := v.Preferences(agentKey)
	if err != nil {
		return d, err
	}
	profile, known, err := v.profile(agentKey)
	if err != nil || !known || !profile.Hooked() {
		return d, err
	}
	p.OnlyProven = profile.Filter&command.OnlyProven != 0
	before := d.To + 1
	for range maxDigestPages {
		found, next, err := v.Subscribed(&p, command.WayDigest, max(at.Read, seen)+1, before, command.MaxDigestEntries, nil)
		if err != nil {
			return d, err
		}
		for _, s := range found {
			d.Entries = append(d.Entries, s.Seq)
		}
		if before = next; next == 0 || len(d.Entries) >= command.MaxDigestEntries {
			break
		}
	}
	d.Entries = d.Entries[:min(len(d.Entries), command.MaxDigestEntries)]
	slices.Reverse(d.Entries)
	return d, nil
}

// maxDigestPages bounds the pages that are read for a digest. Muted entries make pages short.
const maxDigestPages = 8

// DigestsAfter calls f with the agents that have digests and their progress, in the order of
// their names, after one of them, until f returns an error.
func (v *View) DigestsAfter(agentKey string, f func(agentKey string, at subscription.Digest) error) error {
	first := append(subscription.DigestKey(agentKey), 0)
	if agentKey == "" {
		first = subscription.DigestKey("")
	}
	return state.ScanSpace(v.snap, first, []byte{state.SpaceSubscribed, subscription.PartDigest + 1}, func(key, row []byte) error {
		at, err := subscription.DecodeDigest(row)
		if err != nil {
			return err
		}
		return f(string(key[2:]), at)
	})
}
