package state

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// The letters of SpaceSubscribed.
const (
	partSubscriptions = 'n' // agent key: the agent's subscriptions and mutes
	PartDigest        = 'd' // agent key: the progress of its digests, see DigestRow
	partAuthor        = 'a' // agent key: who gets this author's entries at once
	partThread        = 't' // seq8: who gets the entries of this thread at once
)

// SubscriptionsKey is the key of an agent's subscriptions.
func SubscriptionsKey(agentKey string) []byte {
	return append([]byte{SpaceSubscribed, partSubscriptions}, agentKey...)
}

// DigestKey is the key of the progress of an agent's digests.
func DigestKey(agentKey string) []byte {
	return append([]byte{SpaceSubscribed, PartDigest}, agentKey...)
}

// SubscribersKey is the key of the subscribers of the one thread or author of a filter.
func SubscribersKey(f command.Filter) []byte {
	if f.Thread != 0 {
		return binary.BigEndian.AppendUint64([]byte{SpaceSubscribed, partThread}, f.Thread)
	}
	return append([]byte{SpaceSubscribed, partAuthor}, f.AgentKey...)
}

// Subscribers are the folded names of agents, in the order in which they subscribed.
type Subscribers []string

// Encode returns the row.
func (s Subscribers) Encode() (dst []byte) {
	for _, name := range s {
		dst = AppendBlob(dst, name)
	}
	return dst
}

// DecodeSubscribers decodes the row.
func DecodeSubscribers(row []byte) (s Subscribers, err error) {
	r := RowReader{Rest: row}
	for len(r.Rest) > 0 && !r.Bad {
		s = append(s, r.Text())
	}
	return s, r.Done("subscribers row")
}

// DigestRow is the progress of an agent's digests. It exists while the agent has
// subscriptions of that way.
type DigestRow struct {
	Read uint64 // the seq up to which entries were looked at
	At   int64  // of the last digest, milliseconds since the epoch; 0 before the first
}

// Encode returns the row.
func (d DigestRow) Encode() []byte { return AppendUints(nil, d.Read, uint64(d.At)) }

// DecodeDigest decodes the row.
func DecodeDigest(row []byte) (DigestRow, error) {
	r := RowReader{Rest: row}
	d := DigestRow{Read: r.Uint(), At: int64(r.Uint())}
	return d, r.Done("digest row")
}

// Subscription is a subscription of an agent, or a thread or an author that it mutes.
type Subscription struct {
	Number    uint64 // among the agent's, from 1
	Way       command.Way
	Filter    command.Filter // its thread is that of a first entry
	After     uint64         // the newest entry when it was made
	CreatedAt int64          // milliseconds since the epoch
	Counted   string         // the rows of SpaceClaims that count it: their keys without the space
}

// Subscriptions are those of one agent, oldest first. The row is kept without any, so that no
// number is used again.
type Subscriptions struct {
	Last uint64 // the number of the newest
	List []Subscription
}

const subscriptionsVersion = 1

// Encode returns the row:
//
//	version1 last (number way1 thread after createdAt kind channel agentKey tagKey q counted)...
func (s *Subscriptions) Encode() []byte {
	dst := binary.AppendUvarint([]byte{subscriptionsVersion}, s.Last)
	for i := range s.List {
		one := &s.List[i]
		dst = append(binary.AppendUvarint(dst, one.Number), byte(one.Way))
		dst = AppendUints(dst, one.Filter.Thread, one.After, uint64(one.CreatedAt))
		for _, text := range [...]string{one.Filter.Kind, one.Filter.Channel, one.Filter.AgentKey, one.Filter.TagKey, one.Filter.Q, one.Counted} {
			dst = AppendBlob(dst, text)
		}
	}
	return dst
}

// DecodeSubscriptions decodes the row.
func DecodeSubscriptions(row []byte) (s Subscriptions, err error) {
	r := RowReader{Rest: row}
	r.Version(subscriptionsVersion)
	s.Last = r.Uint()
	for len(r.Rest) > 0 && !r.Bad {
		one := Subscription{Number: r.Uint(), Way: command.Way(r.Byte())}
		one.Filter.Thread, one.After, one.CreatedAt = r.Uint(), r.Uint(), int64(r.Uint())
		for _, text := range [...]*string{&one.Filter.Kind, &one.Filter.Channel, &one.Filter.AgentKey, &one.Filter.TagKey, &one.Filter.Q, &one.Counted} {
			*text = r.Text()
		}
		s.List = append(s.List, one)
	}
	return s, r.Done("subscriptions row")
}

// SubscriptionsOf returns the subscriptions of an agent.
func SubscriptionsOf(s Facts, agentKey string) Subscriptions {
	subs, _ := Read(s, SubscriptionsKey(agentKey), DecodeSubscriptions)
	return subs
}

// Mutes reports whether the agent has muted an entry's author or thread.
func (s *Subscriptions) Mutes(e *Meta) bool {
	return slices.ContainsFunc(s.List, func(one Subscription) bool {
		f := &one.Filter
		return one.Way == command.WayMute && (f.Thread != 0 && f.Thread == e.Thread || f.AgentKey != "" && f.AgentKey == e.AgentKey)
	})
}

// Of returns how many there are of a way.
func (s *Subscriptions) Of(way command.Way) (n int) {
	for i := range s.List {
		if s.List[i].Way == way {
			n++
		}
	}
	return n
}

// Index returns the place of a subscription, or -1.
func (s *Subscriptions) Index(number uint64) int {
	return slices.IndexFunc(s.List, func(one Subscription) bool { return one.Number == number })
}

// AgainstSubscribe returns every rule against a Subscribe, the filter to store, and the number
// of the same subscription if the agent has it already.
func (j *Judgement) AgainstSubscribe(s Facts, c *command.Subscribe) (f command.Filter, earlier uint64, problems []command.Problem) {
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
	subs := SubscriptionsOf(s, c.AgentKey)
	if i := slices.IndexFunc(subs.List, func(one Subscription) bool { return one.Way == c.Way && one.Filter == f }); i >= 0 && len(problems) == 0 {
		return f, subs.List[i].Number, nil
	}
	full := subs.Of(command.WayMute) >= command.MaxMutes
	if c.Way != command.WayMute {
		full = len(subs.List)-subs.Of(command.WayMute) >= command.MaxSubscriptions
		if !j.Established {
			problems = append(problems, command.ProblemNewName)
		}
		if c.Way != command.WayHome && !j.Profile.Hooked() {
			problems = append(problems, command.ProblemNoHook)
		}
		if slices.ContainsFunc(j.subscribing(), func(sh Share) bool { return sh.counted(s, ClaimsKey) >= sh.times }) && !unlimited(s, j.Proof) {
			problems = append(problems, command.ProblemSenderSubscriptions)
		}
		if n, _ := Read(s, KeySubscriptions, DecodeNumber); n >= command.MaxAllSubscriptions {
			problems = append(problems, command.ProblemSubscriptionsFull)
		}
	}
	if full {
		problems = append(problems, command.ProblemTooManySubscriptions)
	}
	if c.Way == command.WayPush {
		if others, _ := Read(s, SubscribersKey(f), DecodeSubscribers); len(others) >= command.MaxSubscribers {
			problems = append(problems, command.ProblemTooManySubscribers)
		}
	}
	return f, 0, problems
}

// subscribing returns the shares that a subscription counts against. Their rows are apart from
// those of claims.
func (j *Judgement) subscribing() []Share {
	if j.Proof.Sender == "" {
		return nil
	}
	return SharesOf(j.Proof, "subscriptions ", command.MaxSenderSubscriptions)
}

// Counting returns the keys of the rows that count a new subscription, without the space.
func (j *Judgement) Counting() string {
	shares := j.subscribing()
	keys := make([]byte, 0, ClaimsKeyBytes*len(shares))
	for _, sh := range shares {
		keys = append(keys, ClaimsKey(sh.Of)[1:]...)
	}
	return string(keys)
}

// AgainstUnsubscribe returns every rule against an Unsubscribe.
func (j *Judgement) AgainstUnsubscribe(s Facts, c *command.Unsubscribe) []command.Problem {
	problems := j.MarkSeenProblems()
	if subs := SubscriptionsOf(s, c.AgentKey); len(problems) == 0 && subs.Index(c.Number) < 0 {
		problems = append(problems, command.ProblemUnknownSubscription)
	}
	return problems
}
