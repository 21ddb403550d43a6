package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/subscription"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

func subscribe(agent string, way command.Way, f command.Filter) *command.Subscribe {
	return &command.Subscribe{AgentKey: agent, Way: way, Filter: f, Proof: command.Proof{Key: keyHash("key of " + agent)}}
}

func unsubscribe(agent string, number uint64) *command.Unsubscribe {
	return &command.Unsubscribe{AgentKey: agent, Number: number, Proof: command.Proof{Key: keyHash("key of " + agent)}}
}

func byAuthor(agent string) command.Filter { return command.Filter{AgentKey: agent} }
func inChannel(name string) command.Filter { return command.Filter{Channel: name} }
func ofThread(seq uint64) command.Filter   { return command.Filter{Thread: seq} }

// newSubscribers returns a rig with registered agents that may subscribe.
func newSubscribers(t testing.TB, agents ...string) *rig {
	r := newRig(t)
	for _, agent := range agents {
		r.run(hooked(agent, nil))
	}
	r.later(8 * command.DayMillis)
	return r
}

func (r *rig) preferences(agent string) *view.Preferences {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	p := must.Get(v.Preferences(agent))(r.t)
	return &p
}

// subscribed returns a page of an agent's entries as words: the seq and the subscription.
func (r *rig) subscribed(agent string, way command.Way, least, before uint64, limit int) (words string, next uint64) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	found, next, err := v.Subscribed(r.preferences(agent), way, least, before, limit, new(int))
	must.Do(r.t, err)
	for _, s := range found {
		words += fmt.Sprintf("e%d by %d, ", s.Seq, s.Subscription)
	}
	return strings.TrimSuffix(words, ", "), next
}

// checkSubscriptions compares the rows that are derived from subscriptions with these.
func checkSubscriptions(t tester, m *Machine) {
	t.Helper()
	v := m.View()
	defer v.Release()
	total, subscribers := uint64(0), map[string][]string{}
	digests := map[string]bool{}
	lower, upper := state.SpaceBounds(state.SpaceSubscribed)
	must.Do(t, state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
		if key[1] != subscription.Key("")[1] {
			return nil
		}
		agent := string(key[2:])
		subs, err := subscription.Decode(row)
		for i := range subs.All {
			one := &subs.All[i]
			if one.Way != command.WayMute {
				total++
			}
			if one.Way == command.WayDigest {
				digests[agent] = true
			}
			if one.Way == command.WayPush {
				at := string(subscription.SubscribersKey(one.Filter))
				subscribers[at] = append(subscribers[at], agent)
			}
		}
		return err
	}))
	must.Do(t, state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
		switch key[1] {
		case subscription.Key("")[1]:
		case subscription.PartDigest:
			check.Equal(t, digests[string(key[2:])], true, "a digest of %s", key[2:])
			delete(digests, string(key[2:]))
		default:
			names, err := subscription.DecodeSubscribers(row)
			slices.Sort(names)
			check.Equal(t, strings.Join(names, " "), strings.Join(subscribers[string(key)], " "), "subscribers at %q", key)
			delete(subscribers, string(key))
			return err
		}
		return nil
	}))
	check.Equal(t, len(digests)+len(subscribers), 0, "missing rows: %v %v", digests, subscribers)
	n := must.Get(state.LoadOrZero(v.Reader(), state.KeySubscriptions, state.DecodeNumber))(t)
	check.Equal(t, n, total, "count of subscriptions")
}

// TestSubscribeRules breaks each rule.
func TestSubscribeRules(t *testing.T) {
	r := newSubscribers(t, "ada", "bob")
	r.run(hooked("new", nil), register("deaf", "key of deaf", nil))
	one := r.publish(nil)
	r.run(&command.Hide{Order: byOperator, IDs: []string{state.EntryID(r.publish(nil))}})
	for name, tt := range map[string]struct {
		c    command.Payload
		want command.Problem
	}{
		"no key":        {&command.Subscribe{AgentKey: "ada", Way: command.WayHome, Filter: inChannel("x")}, command.ProblemNoKey},
		"a wrong key":   {&command.Subscribe{AgentKey: "ada", Way: command.WayHome, Filter: inChannel("x"), Proof: command.Proof{Key: keyHash("another")}}, command.ProblemWrongKey},
		"no profile":    {subscribe("eve", command.WayHome, inChannel("x")), command.ProblemNoKey},
		"a new name":    {subscribe("new", command.WayHome, inChannel("x")), command.ProblemNewName},
		"no thread":     {subscribe("ada", command.WayPush, ofThread(99)), command.ProblemUnknownTarget},
		"hidden thread": {subscribe("ada", command.WayPush, ofThread(one+1)), command.ProblemHidden},
		"no such one":   {unsubscribe("ada", 1), command.ProblemUnknownSubscription},
		"not theirs":    {&command.Unsubscribe{AgentKey: "ada", Number: 1}, command.ProblemNoKey},
	} {
		t.Run(name, func(t *testing.T) {
			var found []command.Problem
			v := r.View()
			defer v.Release()
			switch c := tt.c.(type) {
			case *command.Subscribe:
				found = must.Get(v.SubscribeProblems(c))(t)
			case *command.Unsubscribe:
				found = must.Get(v.UnsubscribeProblems(c))(t)
			}
			expectProblem(t, command.Result{Problems: found}, tt.want, "the view")
			expectProblem(t, r.run(tt.c)[0], tt.want, "apply")
		})
	}
	expect(t, r.run(subscribe("new", command.WayMute, byAuthor("bob")))[0], command.OutcomeDone, "a new name mutes")
	r.later(8 * command.DayMillis)
	expectProblem(t, r.run(subscribe("deaf", command.WayDigest, inChannel("x")))[0], command.ProblemNoHook, "without a receiver")
	checkSubscriptions(t, r.Machine)
}

// TestSubscriptionLimits fills each limit.
func TestSubscriptionLimits(t *testing.T) {
	r := newSubscribers(t, "ada", "bob", "cy", "dan", "eve")
	subscribeAll := func(agent string, n int, from string) (results []command.Result) {
		for i := range n {
			c := subscribe(agent, command.WayHome, inChannel(fmt.Sprint("channel-", i)))
			c.Proof.Sender = from
			results = append(results, r.run(c)...)
		}
		return results
	}
	last := func(results []command.Result) command.Result { return results[len(results)-1] }
	expect(t, last(subscribeAll("ada", command.MaxSubscriptions, "s1")), command.OutcomeDone, "the last of a name")
	expect(t, subscribeAll("ada", 1, "s1")[0], command.OutcomeDuplicate, "a repetition")
	expectProblem(t, r.run(subscribe("ada", command.WayHome, inChannel("more")))[0], command.ProblemTooManySubscriptions, "one more")
	for i := range command.MaxMutes {
		expect(t, r.run(subscribe("ada", command.WayMute, byAuthor(fmt.Sprint("spam-", i))))[0], command.OutcomeDone, "mute %d", i)
	}
	expectProblem(t, r.run(subscribe("ada", command.WayMute, byAuthor("more")))[0], command.ProblemTooManySubscriptions, "one more mute")
	subscribeAll("bob", command.MaxSubscriptions, "s1")
	subscribeAll("cy", command.MaxSubscriptions, "s1")
	rest := command.MaxSenderSubscriptions - 3*command.MaxSubscriptions
	results := subscribeAll("dan", rest+1, "s1")
	expect(t, results[rest-1], command.OutcomeDone, "the last of a sender")
	expectProblem(t, results[rest], command.ProblemSenderSubscriptions, "one more of the sender")
	expect(t, r.run(unsubscribe("bob", 1))[0], command.OutcomeDone, "unsubscribe")
	expect(t, last(subscribeAll("dan", rest+1, "s1")), command.OutcomeDone, "in its place")
	checkSubscriptions(t, r.Machine)
	checkClaimCounts(t, r.Machine)
	r.run(&command.Register{Agent: "cy", AgentKey: "cy", NewKey: keyHash("unused"), Delete: true, Proof: command.Proof{Key: keyHash("key of cy")}})
	check.Equal(t, len(r.preferences("cy").Subscriptions.All), 0, "subscriptions of a deleted profile")
	checkSubscriptions(t, r.Machine)
	checkClaimCounts(t, r.Machine)
}

// TestSubscribersAreBounded fills the subscribers of one author.
func TestSubscribersAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	name := func(i int) string { return fmt.Sprint("agent-", i) }
	var all []command.Payload
	for i := range command.MaxSubscribers + 1 {
		all = append(all, hooked(name(i), nil))
	}
	for part := range slices.Chunk(all, 100) {
		r.run(part...)
	}
	r.later(8 * command.DayMillis)
	var results []command.Result
	for i := range command.MaxSubscribers + 1 {
		results = append(results, r.run(subscribe(name(i), command.WayPush, byAuthor("ada")))...)
	}
	expect(t, results[command.MaxSubscribers-1], command.OutcomeDone, "the last")
	expectProblem(t, results[command.MaxSubscribers], command.ProblemTooManySubscribers, "one more")
	r.run(post("ada", nil))
	check.Equal(t, r.summary(name(0)), "subscription e1 waiting", "the first")
	check.Equal(t, r.summary(name(command.MaxSubscribers-1)), "subscription e1 waiting", "the last")
}

// TestSubscriptionPush holds which entries of a thread or an author are pushed to a subscriber.
func TestSubscriptionPush(t *testing.T) {
	for name, tt := range map[string]struct {
		subs []command.Payload
		do   []command.Payload // entry 1 is of bob, entry 2 a reply of eve
		want string
	}{
		"an author":            {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob"))}, []command.Payload{post("bob", nil), post("eve", nil)}, "subscription e3 waiting"},
		"a thread":             {[]command.Payload{subscribe("ada", command.WayPush, ofThread(2))}, []command.Payload{post("bob", relate(command.RelationReply, 2)), post("bob", nil)}, "subscription e3 waiting"},
		"both":                 {[]command.Payload{subscribe("ada", command.WayPush, ofThread(1)), subscribe("ada", command.WayPush, byAuthor("bob"))}, []command.Payload{post("bob", relate(command.RelationReply, 2))}, "subscription e3 waiting"},
		"a mention":            {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob"))}, []command.Payload{post("bob", mention("ada"))}, "mention e3 waiting"},
		"a reply to one's own": {[]command.Payload{subscribe("ada", command.WayPush, ofThread(1)), post("ada", relate(command.RelationReply, 1))}, []command.Payload{post("bob", relate(command.RelationReply, 3))}, "reply e4 waiting"},
		"a follow-up to it":    {[]command.Payload{subscribe("ada", command.WayPush, ofThread(1)), post("ada", relate(command.RelationReply, 1))}, []command.Payload{post("bob", relate(command.RelationFollowUp, 3))}, "subscription e4 waiting"},
		"one's own":            {[]command.Payload{subscribe("ada", command.WayPush, ofThread(1))}, []command.Payload{post("ada", relate(command.RelationReply, 1))}, ""},
		"a muted author":       {[]command.Payload{subscribe("ada", command.WayPush, ofThread(1)), subscribe("ada", command.WayMute, byAuthor("bob"))}, []command.Payload{post("bob", relate(command.RelationReply, 1)), post("bob", mention("ada"))}, ""},
		"a muted thread":       {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob")), subscribe("ada", command.WayMute, ofThread(2))}, []command.Payload{post("bob", relate(command.RelationReply, 1)), post("bob", nil)}, "subscription e4 waiting"},
		"hidden":               {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob"))}, []command.Payload{post("bob", nil), &command.Hide{Order: byOperator, IDs: []string{"e3"}}}, "subscription e3 dropped hidden"},
		"unsubscribed":         {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob")), unsubscribe("ada", 1)}, []command.Payload{post("bob", nil)}, ""},
		"without a receiver":   {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob")), rehook("ada", "")}, []command.Payload{post("bob", nil)}, ""},
		"only proven":          {[]command.Payload{subscribe("ada", command.WayPush, byAuthor("bob")), onlyProven("ada")}, []command.Payload{post("bob", nil), post("bob", func(p *command.Publish) { p.Proof.Key = keyHash("key of bob") })}, "subscription e4 waiting"},
		"the subscription ran": {[]command.Payload{subscribe("ada", command.WayHome, byAuthor("bob"))}, []command.Payload{post("bob", nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSubscribers(t, "ada", "bob")
			r.run(post("bob", nil), post("eve", relate(command.RelationReply, 1)))
			for _, c := range append(tt.subs, tt.do...) {
				expect(t, r.run(c)[0], command.OutcomeDone, "%T", c)
			}
			check.Equal(t, r.summary("ada"), tt.want, "pushed")
			checkSubscriptions(t, r.Machine)
		})
	}
}

func onlyProven(agent string) *command.Register {
	return register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description, c.Notify = command.FieldNotify, "", command.OnlyProven
		c.Proof.Key = keyHash("key of " + agent)
	})
}

// TestSubscribed pages through the entries of several subscriptions.
func TestSubscribed(t *testing.T) {
	r := newSubscribers(t, "ada")
	r.run(post("bob", in("one")), post("bob", in("two")), post("ada", in("one")), post("eve", in("one")), post("eve", in("two")), post("eve", in("three")))
	for _, c := range []command.Payload{
		subscribe("ada", command.WayHome, inChannel("one")), subscribe("ada", command.WayHome, byAuthor("eve")),
		subscribe("ada", command.WayDigest, inChannel("three")),
	} {
		expect(t, r.run(c)[0], command.OutcomeDone, "%T", c)
	}
	expectPage := func(least, before uint64, limit int, want string, wantNext uint64) {
		t.Helper()
		words, next := r.subscribed("ada", command.WayHome, least, before, limit)
		check.Equal(t, words, want, "page from %d before %d", least, before)
		check.Equal(t, next, wantNext, "next of the page from %d before %d", least, before)
	}
	expectPage(0, 0, 10, "e6 by 2, e5 by 2, e4 by 1, e1 by 1", 0)
	expectPage(5, 0, 10, "e6 by 2, e5 by 2", 0)
	expectPage(0, 0, 2, "e6 by 2, e5 by 2", 5)
	expectPage(0, 5, 2, "e4 by 1, e1 by 1", 0)
	expectPage(0, 0, 1, "e6 by 2", 6)
	words, _ := r.subscribed("ada", command.WayDigest, 0, 0, 10)
	check.Equal(t, words, "", "of before the subscription")

	r.run(&command.Hide{Order: byOperator, IDs: []string{"e5"}})
	expectPage(0, 0, 10, "e6 by 2, e4 by 1, e1 by 1", 0)
	r.run(subscribe("ada", command.WayMute, byAuthor("eve")))
	expectPage(0, 0, 10, "e1 by 1", 0)
	expectPage(0, 0, 1, "", 6)
	r.run(subscribe("ada", command.WayMute, ofThread(1)))
	expectPage(0, 0, 10, "", 0)
}

// TestSubscribedPhrase looks for the phrase and for the words of a subscription.
func TestSubscribedPhrase(t *testing.T) {
	r := newSubscribers(t, "ada")
	with := func(body string) func(*command.Publish) { return func(p *command.Publish) { p.Body = body } }
	r.run(post("bob", with("a raft log")), post("bob", with("the log of a raft")), post("bob", with("a tree log")))
	expect(t, r.run(subscribe("ada", command.WayHome, command.Filter{Q: `"raft log"`}))[0], command.OutcomeDone, "subscribe")
	words, _ := r.subscribed("ada", command.WayHome, 0, 0, 10)
	check.Equal(t, words, "e1 by 1", "the phrase")
	expect(t, r.run(subscribe("ada", command.WayHome, command.Filter{Q: "raft log"}))[0], command.OutcomeDone, "subscribe")
	words, _ = r.subscribed("ada", command.WayHome, 0, 0, 10)
	check.Equal(t, words, "e2 by 2, e1 by 1", "the words")
}

// TestDigests steps the clock around the pause between two digests.
func TestDigests(t *testing.T) {
	r := newSubscribers(t, "ada")
	expect(t, r.run(subscribe("ada", command.WayDigest, inChannel("one")))[0], command.OutcomeDone, "subscribe")
	sendDigest := func() *command.SendDigests {
		v := r.View()
		defer v.Release()
		c := &command.SendDigests{}
		must.Do(t, v.DigestsAfter("", func(name string, at subscription.Digest) error {
			if d := must.Get(v.DueDigest(name, at, 0))(t); len(d.Entries) > 0 {
				c.Digests = append(c.Digests, d)
			}
			return nil
		}))
		return c
	}
	listed := func() (seqs []uint64) {
		for _, d := range slices.Backward(r.outbox("ada").Newest) {
			seqs = append(seqs, d.Listed...)
		}
		return seqs
	}
	check.Equal(t, len(sendDigest().Digests), 0, "without entries")
	r.run(post("bob", in("one")), post("bob", in("two")), post("ada", in("one")), post("eve", in("one")))
	first := sendDigest()
	r.run(first, first)
	check.Equal(t, fmt.Sprint(listed()), "[1 4]", "the first digest, sent once")
	r.run(post("bob", in("one")))
	r.run(sendDigest())
	check.Equal(t, fmt.Sprint(listed()), "[1 4]", "a second one too early")
	r.later(command.DigestMillis)
	r.run(first)
	check.Equal(t, fmt.Sprint(listed()), "[1 4]", "the first one again, late")
	r.run(sendDigest())
	check.Equal(t, fmt.Sprint(listed()), "[1 4 5]", "a second one in time")
	r.run(post("bob", in("one")), rehook("ada", ""))
	r.later(command.DigestMillis)
	check.Equal(t, len(sendDigest().Digests), 0, "without a receiver")
	checkSubscriptions(t, r.Machine)
}

// TestDigestPastMutedEntries: a digest lists the entries before a page of muted ones.
func TestDigestPastMutedEntries(t *testing.T) {
	r := newSubscribers(t, "ada")
	for _, c := range []command.Payload{subscribe("ada", command.WayDigest, inChannel("one")), subscribe("ada", command.WayMute, byAuthor("eve"))} {
		expect(t, r.run(c)[0], command.OutcomeDone, "%T", c)
	}
	due := func() []uint64 {
		v := r.View()
		defer v.Release()
		return must.Get(v.DueDigest("ada", subscription.Digest{}, 0))(t).Entries
	}
	r.run(post("bob", in("one")), post("bob", in("one")))
	for range command.MaxDigestEntries {
		r.run(post("eve", in("one")))
	}
	r.run(post("bob", in("one")))
	check.Equal(t, fmt.Sprint(due()), "[1 2 53]", "entries of the digest")
	for range command.MaxDigestEntries {
		r.run(post("bob", in("one")))
	}
	listed := due()
	check.Equal(t, len(listed), command.MaxDigestEntries, "entries of the next digest")
	check.Equal(t, listed[0], 54, "the first of them")
}

// TestMutedHome holds what home leaves out, and that its now does not depend on it.
func TestMutedHome(t *testing.T) {
	r := newSubscribers(t, "ada")
	r.run(post("ada", nil))
	r.run(post("bob", relate(command.RelationReply, 1)))
	r.run(post("eve", mention("ada")))
	r.run(post("eve", asking))
	r.run(&command.PostJob{Author: author("bob"), Title: "A job", Body: "The text of a job."})
	home := func(change func(*view.Preferences)) (words string, now int64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		p := *r.preferences("ada")
		if change != nil {
			change(&p)
		}
		h := must.Get(v.Home(&p, 0, false))(t)
		has := must.Get(v.HasFor(&p, 0))(t)
		return fmt.Sprintf("for %v owed %d new %v waiting %v jobs %v with %d has %v", h.ForYou, h.OwedByYouCount, h.New, h.Waiting, h.OpenJobs, len(h.LastWith), has), h.Now
	}
	all, now := home(nil)
	check.Equal(t, all, "for [{2 reply} {3 mention}] owed 2 new [5 4] waiting [4] jobs [5] with 1 has true", "everything")
	r.run(subscribe("ada", command.WayMute, byAuthor("bob")))
	some, _ := home(nil)
	check.Equal(t, some, "for [{3 mention}] owed 1 new [4] waiting [4] jobs [] with 0 has true", "without bob")
	r.run(subscribe("ada", command.WayMute, ofThread(3)))
	some, later := home(nil)
	check.Equal(t, some, "for [] owed 0 new [4] waiting [4] jobs [] with 0 has false", "without a thread")
	if later < now {
		t.Errorf("now %d after %d", later, now)
	}
	r.run(unsubscribe("ada", 1), unsubscribe("ada", 2))
	proven, _ := home(func(p *view.Preferences) { p.OnlyProven = true })
	check.Equal(t, proven, "for [] owed 0 new [] waiting [] jobs [] with 1 has false", "only proven")
}

// TestSubscriptionCommandsAreChecked breaks one bound at a time.
func TestSubscriptionCommandsAreChecked(t *testing.T) {
	valid := []command.Payload{
		subscribe("ada", command.WayHome, command.Filter{Kind: "message", Channel: "one", AgentKey: "bob", TagKey: "go", Thread: 1, Q: "raft"}),
		subscribe("ada", command.WayMute, ofThread(1)), unsubscribe("ada", 1),
		&command.SendDigests{Digests: []command.SentDigest{{AgentKey: "ada", After: 1, To: 4, Entries: []uint64{2, 4}}}},
	}
	checkRoundTrip(t, valid...)
	for _, c := range valid {
		check.Err(t, command.Check(c), nil, "%T", c)
	}
	digest := func(after, to uint64, entries ...uint64) command.Payload {
		return &command.SendDigests{Digests: []command.SentDigest{{AgentKey: "ada", After: after, To: to, Entries: entries}}}
	}
	for name, c := range map[string]command.Payload{
		"no name":        subscribe("", command.WayHome, inChannel("x")),
		"no way":         subscribe("ada", 0, inChannel("x")),
		"another way":    subscribe("ada", 5, inChannel("x")),
		"everything":     subscribe("ada", command.WayHome, command.Filter{}),
		"too long":       subscribe("ada", command.WayHome, inChannel(strings.Repeat("x", command.MaxFilterBytes+1))),
		"not UTF-8":      subscribe("ada", command.WayHome, inChannel("\xff")),
		"pushed channel": subscribe("ada", command.WayPush, inChannel("x")),
		"two authors":    subscribe("ada", command.WayPush, byAuthor("bob"+command.Or+"eve")),
		"two conditions": subscribe("ada", command.WayMute, command.Filter{AgentKey: "bob", Thread: 1}),
		"no number":      unsubscribe("ada", 0),
		"no digests":     &command.SendDigests{},
		"no entries":     digest(1, 2),
		"old entries":    digest(2, 4, 2),
		"new entries":    digest(2, 4, 5),
		"unordered":      digest(2, 6, 5, 4),
	} {
		t.Run(name, func(t *testing.T) {
			if command.Check(c) == nil {
				t.Errorf("%+v is accepted", c)
			}
		})
	}
}
