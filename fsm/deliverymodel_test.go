package fsm

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// pushModel models deliveries in the plainest way: it keeps every delivery and every
// attempt.
type pushModel struct {
	now     int64
	authors []string // of the entries
	proven  []bool   // which of them were written by key
	agents  map[string]*pushAgent
}

type pushAgent struct {
	url     string // empty without a receiver
	change  int    // counts changes of url
	all     []*pushed
	begun   []int64 // all attempts
	quiet   int64   // no attempt begins before
	failing int     // failures since the last success, of each delivery its first until there are three
	sending *pushed
}

type pushed struct {
	number   uint64
	entry    uint64
	kind     outbox.DeliveryKind
	status   outbox.DeliveryStatus
	reason   string
	attempts uint64
	failures uint64
	ready    int64 // the earliest time of the next attempt; 0 before the first failure
	change   int   // pushAgent.change when the newest attempt began
	proven   bool
}

func (p *pushed) waits() bool {
	return p.status == outbox.DeliveryWaiting || p.status == outbox.DeliverySending
}

func (a *pushAgent) waiting() (list []*pushed) {
	for _, p := range a.all {
		if p.waits() {
			list = append(list, p)
		}
	}
	return list
}

func (a *pushAgent) down() bool { return a.failing >= 3 }

// due returns what is to be attempted at an instant.
func (a *pushAgent) due(now int64) (best *pushed) {
	hour := slices.DeleteFunc(slices.Clone(a.begun), func(at int64) bool { return at <= now-60*fsmtest.Minute })
	if now < a.quiet || len(hour) >= command.MaxHourlyDeliveries {
		return nil
	}
	for _, p := range a.waiting() {
		if p.ready <= now && (best == nil || p.proven && !best.proven || p.proven == best.proven && a.down() && p.ready < best.ready) {
			best = p
		}
	}
	return best
}

func (a *pushAgent) end(reason string) {
	for _, p := range a.waiting() {
		p.status, p.reason = outbox.DeliveryDropped, reason
	}
	a.sending = nil
}

// crowdedOut returns what has no place when too many wait.
func (a *pushAgent) crowdedOut() (out *pushed) {
	for _, p := range a.waiting() {
		if p != a.sending && (out == nil || out.proven || !p.proven) {
			out = p
		}
	}
	return out
}

// turnOfAll lets everything go to another receiver.
func (a *pushAgent) turnOfAll(now int64) {
	for _, p := range a.waiting() {
		p.ready = 0
	}
	a.failing = 0
	if a.sending == nil {
		a.quiet = now
	}
}

func (m *pushModel) apply(b command.Payload) {
	switch c := b.(type) {
	case *command.Publish:
		m.publish(c)
	case *command.Register:
		a := m.agents[c.AgentKey]
		if c.NotifyURL == a.url {
			return
		}
		a.url = c.NotifyURL
		a.change++
		if a.url == "" {
			a.end(outbox.ReasonHookOff)
		} else {
			a.turnOfAll(m.now)
		}
	case *command.TestDelivery:
		if a := m.agents[c.AgentKey]; a.url != "" {
			m.push(c.AgentKey, outbox.DeliveryTest, 0, true)
			if a.sending == nil {
				a.quiet = m.now
			}
		}
	case *command.BeginDeliveries:
		for _, t := range c.Attempts {
			a := m.agents[t.AgentKey]
			p := a.due(m.now)
			if p == nil || p.number != t.Delivery || p.attempts+1 != t.Number {
				continue
			}
			if a.sending != nil {
				a.sending.status = outbox.DeliveryWaiting
			}
			if p.change != a.change {
				p.failures = 0
			}
			a.sending, a.quiet = p, m.now+outbox.DeliveryLease
			p.status, p.attempts, p.change = outbox.DeliverySending, t.Number, a.change
			a.begun = append(a.begun, m.now)
		}
	case *command.AckDelivery:
		m.ack(c)
	}
}

func (m *pushModel) publish(c *command.Publish) {
	proven := m.agents[c.AgentKey] != nil && len(c.Proof.Key) > 0
	author := ""
	if c.Relation != command.RelationNone {
		_, seq, _ := state.ParseID(c.Target)
		author = m.authors[seq-1]
		if c.Relation == command.RelationCorrection && author == c.AgentKey && m.proven[seq-1] && !proven {
			return // rejected: what was written with proof is corrected with proof alone
		}
	}
	m.authors, m.proven = append(m.authors, c.AgentKey), append(m.proven, proven)
	entry := uint64(len(m.authors))
	for name := range m.agents {
		switch {
		case name == c.AgentKey:
		case c.Relation == command.RelationReply && name == author:
			m.push(name, outbox.DeliveryReply, entry, proven)
		case slices.Contains(c.Mentions, name):
			m.push(name, outbox.DeliveryMention, entry, proven)
		}
	}
}

func (m *pushModel) push(agent string, kind outbox.DeliveryKind, entry uint64, proven bool) {
	a := m.agents[agent]
	if a.url == "" {
		return
	}
	if len(a.waiting()) == 0 {
		a.quiet = max(a.quiet, m.now)
	}
	a.all = append(a.all, &pushed{number: uint64(len(a.all)) + 1, entry: entry, kind: kind, status: outbox.DeliveryWaiting, proven: proven})
	if len(a.waiting()) > command.MaxWaitingDeliveries {
		p := a.crowdedOut()
		p.status, p.reason = outbox.DeliveryDropped, outbox.ReasonQueueFull
	}
}

func (m *pushModel) ack(c *command.AckDelivery) {
	a := m.agents[c.AgentKey]
	p := a.sending
	if p == nil || p.number != c.Delivery || p.attempts != c.Number {
		return
	}
	p.reason, a.sending, a.quiet = c.Reason, nil, m.now
	switch {
	case c.Outcome == command.AttemptDelivered:
		p.status = outbox.DeliveryDelivered
		for _, q := range a.waiting() {
			if a.down() {
				q.ready = 0
			}
		}
		a.failing = 0
	case p.change != a.change:
		p.status = outbox.DeliveryWaiting
	case c.Outcome == command.AttemptGone:
		p.failures++
		p.status, a.url = outbox.DeliveryFailed, ""
		a.change++
		a.end(outbox.ReasonHookGone)
	default:
		m.fail(c, a, p)
	}
}

func (m *pushModel) fail(c *command.AckDelivery, a *pushAgent, p *pushed) {
	wait := func(pause int64) int64 { return max(pause*(1000+c.Jitter)/1000, c.RetryAfter) }
	p.status = outbox.DeliveryWaiting
	if p.failures == 0 || a.down() {
		a.failing++
	}
	if a.down() {
		pauses := []int64{5, 10, 20, 40, 80, 160, 320, 600}
		a.quiet = m.now + wait(pauses[min(a.failing-3, len(pauses)-1)]*fsmtest.Second)
	}
	p.failures++
	if p.failures == 6 {
		p.status = outbox.DeliveryFailed
		return
	}
	pauses := []int64{5 * fsmtest.Second, 5 * fsmtest.Minute, 30 * fsmtest.Minute, 120 * fsmtest.Minute, 300 * fsmtest.Minute}
	p.ready = m.now + wait(pauses[p.failures-1])
}

// drawPush draws something that concerns deliveries.
func drawPush(t *rapid.T, m *pushModel) command.Payload {
	agent := rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "agent")
	a := m.agents[agent]
	attempt := command.Attempt{
		AgentKey: agent,
		Delivery: rapid.Uint64Range(1, uint64(len(a.all))+1).Draw(t, "delivery"), Number: rapid.Uint64Range(1, 3).Draw(t, "attempt"),
	}
	likely := a.sending
	if due := a.due(m.now + 1); due != nil {
		likely = due
	}
	if likely != nil && rapid.IntRange(0, 4).Draw(t, "stale") > 0 {
		attempt.Delivery, attempt.Number = likely.number, likely.attempts-min(likely.attempts, rapid.Uint64Range(0, 1).Draw(t, "late"))
	}
	switch rapid.SampledFrom([]command.Op{command.OpPublish, command.OpPublish, command.OpBeginDeliveries, command.OpBeginDeliveries, command.OpAckDelivery, command.OpAckDelivery, command.OpTestDelivery, command.OpRegister, command.OpRegister, command.OpTick}).Draw(t, "op") {
	case command.OpPublish:
		return drawEntryFor(t, m)
	case command.OpBeginDeliveries:
		attempt.Number++
		return &command.BeginDeliveries{Holder: rapid.SampledFrom(someBoots).Draw(t, "holder"), Attempts: []command.Attempt{attempt, {AgentKey: "bob", Delivery: 1, Number: 1}}}
	case command.OpAckDelivery:
		attempt.Number = max(attempt.Number, 1)
		c := &command.AckDelivery{Attempt: attempt, Outcome: command.AttemptDelivered}
		if c.Outcome = rapid.SampledFrom([]command.DeliveryOutcome{command.AttemptDelivered, command.AttemptFailed, command.AttemptFailed, command.AttemptGone}).Draw(t, "outcome"); c.Outcome != command.AttemptDelivered {
			c.Reason = "timeout"
			c.Jitter = rapid.SampledFrom([]int64{0, 70}).Draw(t, "jitter")
			c.RetryAfter = rapid.SampledFrom([]int64{0, fsmtest.Minute}).Draw(t, "retry after")
		}
		return c
	case command.OpTestDelivery:
		return &command.TestDelivery{AgentKey: agent, Proof: command.Proof{Key: fsmtest.KeyHash("key of " + agent)}}
	case command.OpRegister:
		return fsmtest.ChangeReceiver(agent, rapid.SampledFrom([]string{"", "https://one.example.org/", "https://two.example.org/"}).Draw(t, "url"))
	default:
		return &command.Tick{}
	}
}

// drawEntryFor draws an entry that relates to others and mentions some.
func drawEntryFor(t *rapid.T, m *pushModel) *command.Publish {
	author := rapid.SampledFrom([]string{"ada", "bob", "eve"}).Draw(t, "author")
	p := fsmtest.Post(author, fsmtest.Mention(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ada", "bob", "zoe"}), 0, 2, rapid.ID).Draw(t, "mentions")...))
	if drawn := rapid.IntRange(0, 3).Draw(t, "sender"); drawn > 0 {
		p.Proof.Sender = fmt.Sprint("address-", drawn)
	} else if author != "eve" {
		p.Proof.Key = fsmtest.KeyHash("key of " + author)
	}
	if len(m.authors) > 0 && rapid.Bool().Draw(t, "related") {
		p.Relation = rapid.SampledFrom([]command.Relation{command.RelationReply, command.RelationReply, command.RelationCorrection}).Draw(t, "relation")
		p.Target = state.EntryID(rapid.Uint64Range(1, uint64(len(m.authors))).Draw(t, "target"))
	}
	return p
}

// pushRun applies drawn commands to a machine and to the model.
type pushRun struct {
	*rapid.T
	log   *raftLog
	m     *Machine
	model *pushModel
}

// commit applies one log entry, so much later than the one before.
func (r *pushRun) commit(later int64, bodies ...command.Payload) {
	r.log.stamp += later - 1000 // commands adds a second
	r.model.now = max(r.log.stamp+1000, r.model.now+1)
	at := r.log.commands(bodies...)
	r.log.feed(r.m, at, at)
	for _, b := range bodies {
		r.model.apply(b)
	}
}

// drain delivers what is due for an agent, one by one.
func (r *pushRun) drain(agent string, most int, pace int64) {
	for range most {
		p := r.model.agents[agent].due(max(r.log.stamp+pace, r.model.now+1))
		if p == nil {
			return
		}
		a := command.Attempt{AgentKey: agent, Delivery: p.number, Number: p.attempts + 1}
		r.commit(pace, &command.BeginDeliveries{Holder: fsmtest.Boot1, Attempts: []command.Attempt{a}}, &command.AckDelivery{Attempt: a, Outcome: command.AttemptDelivered})
	}
}

// fail lets attempts for an agent fail as soon as each is due.
func (r *pushRun) fail(agent string, most int) {
	a := r.model.agents[agent]
	for range most {
		due := a.quiet
		if list := a.waiting(); len(list) > 0 {
			due = max(due, slices.MinFunc(list, func(p, q *pushed) int { return cmp.Compare(p.ready, q.ready) }).ready)
		}
		later := max(0, due-r.log.stamp)
		p := a.due(max(r.log.stamp+later, r.model.now+1))
		if p == nil {
			return
		}
		t := command.Attempt{AgentKey: agent, Delivery: p.number, Number: p.attempts + 1}
		r.commit(later, &command.BeginDeliveries{Holder: fsmtest.Boot1, Attempts: []command.Attempt{t}}, &command.AckDelivery{Attempt: t, Outcome: command.AttemptFailed, Reason: "timeout"})
	}
}

// crowd has many senders mention an agent, some more often than others.
func (r *pushRun) crowd(agent string, n int) {
	var bodies []command.Payload
	for i := range n {
		p := fsmtest.Post("eve", fsmtest.Mention(agent))
		p.Proof.Sender = fmt.Sprint("crowd-", i%max(1, i/7))
		bodies = append(bodies, p)
	}
	r.commit(1000, bodies...)
}

// check holds the machine against the model.
func (r *pushRun) check() {
	v := r.m.View()
	defer v.Release()
	must.Equal(r, v.Time(), r.model.now, "log time")
	total := 0
	for name, a := range r.model.agents {
		o, err := v.Outbox(name)
		list := a.waiting()
		total += len(list)
		if err != nil || o.Active != (a.url != "") || o.Waiting != len(list) || (o.First != nil) != (len(list) > 0) {
			r.Fatalf("%s: %+v, %v, want %d waiting for %q", name, o, err, len(list), a.url)
		}
		seen := map[uint64]bool{}
		want := a.all[len(a.all)-min(len(a.all), command.MaxListedDeliveries):]
		for i, d := range o.Newest {
			p := want[len(want)-1-i]
			got := pushed{
				number: d.Number, entry: d.Entry, kind: d.Kind, status: d.Status, reason: d.Reason,
				attempts: d.Attempts, failures: d.Failures, ready: p.ready, change: p.change, proven: p.proven,
			}
			if !reflect.DeepEqual(got, *p) {
				r.Fatalf("%s: delivery %+v, want %+v", name, got, *p)
			}
			if d.Entry != 0 && (seen[d.Entry] || r.model.authors[d.Entry-1] == name) {
				r.Fatalf("%s: entry %d is pushed twice, or to its author", name, d.Entry)
			}
			seen[d.Entry] = true
		}
		must.Equal(r, len(o.Newest), len(want), "%s: deliveries listed", name)
	}
	if n, err := v.WaitingDeliveries(); err != nil || n != total {
		r.Fatalf("%d wait, %v, want %d", n, err, total)
	}
	for _, later := range []int64{0, 1, 5 * fsmtest.Second, outbox.DeliveryLease, 5 * fsmtest.Minute, 60 * fsmtest.Minute} {
		r.checkDue(v, r.model.now+later)
	}
}

// checkDue holds what is due at an instant against the model.
func (r *pushRun) checkDue(v *view.View, at int64) {
	want := map[string]string{}
	for name, a := range r.model.agents {
		if p := a.due(max(at, r.model.now+1)); p != nil {
			want[name] = fmt.Sprint(p.number, p.attempts, a.url)
		}
	}
	got := map[string]string{}
	err := v.DueDeliveries(at, func(string) bool { return false }, func(d outbox.Delivery) bool {
		got[d.AgentKey] = fmt.Sprint(d.Number, d.Attempts, d.URL)
		return true
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		r.Fatalf("due at %d: %v, %v, want %v", at, got, err, want)
	}
	if next, ok, err := v.NextDelivery(); err != nil || (ok && next <= at) != (len(want) > 0) {
		r.Fatalf("the next delivery is due at %d, %v, %v, but at %d there are %d", next, ok, err, at, len(want))
	}
}

// feedBySnapshot hands a machine a drawn part of a log by a snapshot of another
// one, and then the rest.
func feedBySnapshot(rt *rapid.T, l *raftLog, m *Machine) {
	from := tempMachine(rt)
	defer dropMachine(rt, from)
	at := rapid.Uint64Range(1, l.last()).Draw(rt, "snapshot at")
	l.feed(from, 1, at)
	must.Do(rt, takeSnapshot(from, at, 99))
	meta, data, err := send(from)
	if err == nil {
		err = receive(m, meta, data)
	}
	must.Do(rt, err)
	if at < l.last() {
		l.feed(m, at+1, l.last())
	}
}

// TestDeliveriesAgainstModel draws entries, changes of receivers, attempts and their
// outcomes, also those of former leaders, and clock steps; now and then so many that the
// limits are reached. A second machine applies the log in pieces, with restarts and
// crashes, or takes a part of it by a snapshot, and must agree.
func TestDeliveriesAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := &pushRun{T: rt, log: newLog(t), m: tempMachine(rt), model: &pushModel{agents: map[string]*pushAgent{"ada": {}, "bob": {}}}}
		defer func() { dropMachine(rt, r.m) }()
		r.log.feed(r.m, 1, 1)
		r.model.now = r.log.stamp
		r.commit(1000, fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil))
		for name, a := range r.model.agents {
			a.url = "https://" + name + ".example.org/hook"
		}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				n := rapid.SampledFrom([]int{35, 210}).Draw(rt, "entries")
				r.commit(1000, slices.Repeat([]command.Payload{fsmtest.Post("eve", fsmtest.Mention("ada"))}, n)...)
			case 1:
				r.drain("ada", command.MaxHourlyDeliveries+1, rapid.SampledFrom([]int64{0, 20 * fsmtest.Second, 3 * fsmtest.Minute}).Draw(rt, "pace"))
			case 2:
				r.fail("ada", rapid.SampledFrom([]int{2, 7, 14}).Draw(rt, "failures"))
			case 3:
				r.crowd("ada", rapid.SampledFrom([]int{20, 205}).Draw(rt, "crowd"))
			default:
				bodies := make([]command.Payload, rapid.IntRange(1, 4).Draw(rt, "commands"))
				for i := range bodies {
					bodies[i] = drawPush(rt, r.model)
				}
				r.commit(rapid.SampledFrom([]int64{-10 * fsmtest.Second, 0, 1, 5 * fsmtest.Second, outbox.DeliveryLease, 5 * fsmtest.Minute, 60 * fsmtest.Minute}).Draw(rt, "later"), bodies...)
			}
			r.check()
		}
		other := tempMachine(rt)
		defer func() { dropMachine(rt, other) }()
		if rapid.Bool().Draw(rt, "roughly") {
			other = feedRoughly(rt, r.log, other)
		} else {
			feedBySnapshot(rt, r.log, other)
		}
		sameState(rt, stateOf(rt, r.m), stateOf(rt, other))
	})
}
