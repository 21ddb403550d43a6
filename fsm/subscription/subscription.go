// Package subscription has the rows and the rules of subscriptions: filters by which an agent gets
// entries, and the authors and threads that it mutes (interface, 4.15).
package subscription

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// The letters of the keyspace.
const (
	partSubscriptions = 'n' // agent key: the agent's subscriptions and mutes
	PartDigest        = 'd' // agent key: the progress of its digests, see Digest
	partAuthor        = 'a' // agent key: who gets this author's entries at once
	partThread        = 't' // seq8: who gets the entries of this thread at once
)

// Key is the key of an agent's subscriptions.
func Key(agentKey string) []byte {
	return append([]byte{state.SpaceSubscribed, partSubscriptions}, agentKey...)
}

// DigestKey is the key of the progress of an agent's digests.
func DigestKey(agentKey string) []byte {
	return append([]byte{state.SpaceSubscribed, PartDigest}, agentKey...)
}

// SubscribersKey is the key of the subscribers of the one thread or author of a filter.
func SubscribersKey(f command.Filter) []byte {
	if f.Thread != 0 {
		return binary.BigEndian.AppendUint64([]byte{state.SpaceSubscribed, partThread}, f.Thread)
	}
	return append([]byte{state.SpaceSubscribed, partAuthor}, f.AgentKey...)
}

// Subscribers are the folded names of agents, in the order in which they subscribed.
type Subscribers []string

// Encode returns the row.
func (s Subscribers) Encode() (dst []byte) {
	for _, name := range s {
		dst = state.AppendBlob(dst, name)
	}
	return dst
}

// DecodeSubscribers decodes the row.
func DecodeSubscribers(row []byte) (s Subscribers, err error) {
	r := state.RowReader{Rest: row}
	for len(r.Rest) > 0 && !r.Bad {
		s = append(s, r.Text())
	}
	return s, r.Done("subscribers row")
}

// Digest is the progress of an agent's digests. It exists while the agent has
// subscriptions of that way.
type Digest struct {
	Read uint64 // the seq up to which entries were looked at
	At   int64  // of the last digest, milliseconds since the epoch; 0 before the first
}

// Encode returns the row.
func (d Digest) Encode() []byte { return state.AppendUints(nil, d.Read, uint64(d.At)) }

// DecodeDigest decodes the row.
func DecodeDigest(row []byte) (Digest, error) {
	r := state.RowReader{Rest: row}
	d := Digest{Read: r.Uint(), At: int64(r.Uint())}
	return d, r.Done("digest row")
}

// Subscription is a subscription of an agent, or a thread or an author that it mutes.
type Subscription struct {
	Number    uint64 // among the agent's, from 1
	Way       command.Way
	Filter    command.Filter // its thread is that of a first entry
	After     uint64         // the newest entry when it was made
	CreatedAt int64          // milliseconds since the epoch
	Counted   string         // the rows of state.SpaceClaims that count it: their keys without the space
}

// List are those of one agent, oldest first. The row is kept without any, so that no
// number is used again.
type List struct {
	Last uint64 // the number of the newest
	All  []Subscription
}

const version = 1

// Encode returns the row:
//
//	version1 last (number way1 thread after createdAt kind channel agentKey tagKey q counted)...
func (s *List) Encode() []byte {
	dst := binary.AppendUvarint([]byte{version}, s.Last)
	for i := range s.All {
		one := &s.All[i]
		dst = append(binary.AppendUvarint(dst, one.Number), byte(one.Way))
		dst = state.AppendUints(dst, one.Filter.Thread, one.After, uint64(one.CreatedAt))
		for _, text := range [...]string{one.Filter.Kind, one.Filter.Channel, one.Filter.AgentKey, one.Filter.TagKey, one.Filter.Q, one.Counted} {
			dst = state.AppendBlob(dst, text)
		}
	}
	return dst
}

// Decode decodes the row.
func Decode(row []byte) (s List, err error) {
	r := state.RowReader{Rest: row}
	r.Version(version)
	s.Last = r.Uint()
	for len(r.Rest) > 0 && !r.Bad {
		one := Subscription{Number: r.Uint(), Way: command.Way(r.Byte())}
		one.Filter.Thread, one.After, one.CreatedAt = r.Uint(), r.Uint(), int64(r.Uint())
		for _, text := range [...]*string{&one.Filter.Kind, &one.Filter.Channel, &one.Filter.AgentKey, &one.Filter.TagKey, &one.Filter.Q, &one.Counted} {
			*text = r.Text()
		}
		s.All = append(s.All, one)
	}
	return s, r.Done("subscriptions row")
}

// Of returns the subscriptions of an agent.
func Of(s state.Facts, agentKey string) List {
	subs, _ := state.Read(s, Key(agentKey), Decode)
	return subs
}

// Mutes reports whether the agent has muted an entry's author or thread.
func (s *List) Mutes(e *state.Meta) bool {
	return slices.ContainsFunc(s.All, func(one Subscription) bool {
		f := &one.Filter
		return one.Way == command.WayMute && (f.Thread != 0 && f.Thread == e.Thread || f.AgentKey != "" && f.AgentKey == e.AgentKey)
	})
}

// Of returns how many there are of a way.
func (s *List) Of(way command.Way) (n int) {
	for i := range s.All {
		if s.All[i].Way == way {
			n++
		}
	}
	return n
}

// Index returns the place of a subscription, or -1.
func (s *List) Index(number uint64) int {
	return slices.IndexFunc(s.All, func(one Subscription) bool { return one.Number == number })
}

// Against returns every rule against a Subscribe, the filter to store, and the number
// of the same subscription if the agent has it already.
func Against(s state.Facts, j *state.Judgement, c *command.Subscribe) (f command.Filter, earlier uint64, problems []command.Problem) {
	f = c.Filter
	if problems = j.MarkSeenProblems(); len(problems) > 0 {
		return f, 0, problems
	}
	if f.Thread != 0 {
		switch e, known := s.Entry(f.Thread); {
		case !known:
			problems = append(problems, command.ProblemUnknownTarget)
		case e.Hidden:
			problems = append(problems, command.ProblemHidden)
		default:
			f.Thread = e.Thread
		}
	}
	subs := Of(s, c.AgentKey)
	if i := slices.IndexFunc(subs.All, func(one Subscription) bool { return one.Way == c.Way && one.Filter == f }); i >= 0 && len(problems) == 0 {
		return f, subs.All[i].Number, nil
	}
	full := subs.Of(command.WayMute) >= command.MaxMutes
	if c.Way != command.WayMute {
		full = len(subs.All)-subs.Of(command.WayMute) >= command.MaxSubscriptions
		if !j.Established {
			problems = append(problems, command.ProblemNewName)
		}
		if c.Way != command.WayHome && !j.Profile.Hooked() {
			problems = append(problems, command.ProblemNoHook)
		}
		if !state.HaveRoom(s, shares(j), j.Proof) {
			problems = append(problems, command.ProblemSenderSubscriptions)
		}
		if n, _ := state.Read(s, state.KeySubscriptions, state.DecodeNumber); n >= command.MaxAllSubscriptions {
			problems = append(problems, command.ProblemSubscriptionsFull)
		}
	}
	if full {
		problems = append(problems, command.ProblemTooManySubscriptions)
	}
	if c.Way == command.WayPush {
		if others, _ := state.Read(s, SubscribersKey(f), DecodeSubscribers); len(others) >= command.MaxSubscribers {
			problems = append(problems, command.ProblemTooManySubscribers)
		}
	}
	return f, 0, problems
}

// shares returns the shares that a subscription counts against. Their rows are apart from
// those of claims.
func shares(j *state.Judgement) []state.Share {
	if j.Proof.Sender == "" {
		return nil
	}
	return state.SharesOf(j.Proof, "subscriptions ", command.MaxSenderSubscriptions)
}

// Counting returns the keys of the rows that count a new subscription, without the space.
func Counting(j *state.Judgement) string {
	counted := shares(j)
	keys := make([]byte, 0, state.ClaimsKeyBytes*len(counted))
	for _, sh := range counted {
		keys = append(keys, state.ClaimsKey(sh.Of)[1:]...)
	}
	return string(keys)
}

// AgainstEnd returns every rule against an Unsubscribe.
func AgainstEnd(s state.Facts, j *state.Judgement, c *command.Unsubscribe) []command.Problem {
	problems := j.MarkSeenProblems()
	if subs := Of(s, c.AgentKey); len(problems) == 0 && subs.Index(c.Number) < 0 {
		problems = append(problems, command.ProblemUnknownSubscription)
	}
	return problems
}
