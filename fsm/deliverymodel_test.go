package fsm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pushModel is what is pushed to whom again, in the plainest way: it keeps every
// delivery and every attempt that there ever was.
type pushModel struct {
	now     int64
	authors []string // of the entries
	agents  map[string]*pushAgent
}

type pushAgent struct {
	url    string // "": nothing is pushed
	change int    // counts changes of url
	all    []*pushed
	begun  []int64 // instants of all attempts
}

type pushed struct {
	number   uint64
	entry    uint64
	kind     DeliveryKind
	status   DeliveryStatus
	reason   string
	attempts uint64
	failures uint64
	ready    int64 // the next attempt is not before
	change   int   // pushAgent.change when the newest attempt began
}

func (p *pushed) waits() bool { return p.status == DeliveryWaiting || p.status == DeliverySending }

func (a *pushAgent) waiting() (list []*pushed) {
	for _, p := range a.all {
		if p.waits() {
			list = append(list, p)
		}
	}
	return list
}

// due returns what can be attempted at an instant.
func (a *pushAgent) due(now int64) *pushed {
	list := a.waiting()
	lately := 0
	for _, at := range a.begun {
		if at > now-60*minute {
			lately++
		}
	}
	if len(list) == 0 || now < list[0].ready || lately >= MaxHourlyDeliveries {
		return nil
	}
	return list[0]
}

func (a *pushAgent) end(reason string) {
	for _, p := range a.waiting() {
		p.status, p.reason = DeliveryDropped, reason
	}
}

func (m *pushModel) apply(b Body) {
	switch c := b.(type) {
	case *Publish:
		m.publish(c)
	case *Register:
		a := m.agents[c.AgentKey]
		if c.NotifyURL == a.url {
			return
		}
		a.url = c.NotifyURL
		a.change++
		if a.url == "" {
			a.end(ReasonHookOff)
		} else if list := a.waiting(); len(list) > 0 {
			list[0].failures = 0
			if list[0].status == DeliveryWaiting {
				list[0].ready = 0
			}
		}
	case *TestDelivery:
		if a := m.agents[c.AgentKey]; a.url != "" {
			m.push(c.AgentKey, DeliveryTest, 0)
		}
	case *BeginDeliveries:
		for _, t := range c.Attempts {
			a := m.agents[t.AgentKey]
			p := a.due(m.now)
			if p == nil || p.number != t.Delivery || p.attempts+1 != t.Number {
				continue
			}
			p.status, p.attempts, p.change, p.ready = DeliverySending, t.Number, a.change, m.now+DeliveryLease
			a.begun = append(a.begun, m.now)
		}
	case *AckDelivery:
		m.ack(c)
	}
}

func (m *pushModel) publish(c *Publish) {
	m.authors = append(m.authors, c.AgentKey)
	entry := uint64(len(m.authors))
	author := ""
	if c.Relation != RelationNone {
		_, seq, _ := ParseID(c.Target)
		author = m.authors[seq-1]
	}
	for name := range m.agents {
		switch {
		case name == c.AgentKey:
		case c.Relation == RelationReply && name == author:
			m.push(name, DeliveryReply, entry)
		case slices.Contains(c.Mentions, name):
			m.push(name, DeliveryMention, entry)
		}
	}
}

func (m *pushModel) push(agent string, kind DeliveryKind, entry uint64) {
	a := m.agents[agent]
	if a.url == "" {
		return
	}
	p := &pushed{number: uint64(len(a.all)) + 1, entry: entry, kind: kind, status: DeliveryWaiting}
	if len(a.waiting()) == MaxWaitingDeliveries {
		p.status, p.reason = DeliveryDropped, ReasonQueueFull
	}
	a.all = append(a.all, p)
}

func (m *pushModel) ack(c *AckDelivery) {
	a := m.agents[c.AgentKey]
	if c.Delivery > uint64(len(a.all)) {
		return
	}
	p := a.all[c.Delivery-1]
	if p.status != DeliverySending || p.attempts != c.Number {
		return
	}
	p.reason = c.Reason
	switch {
	case c.Outcome == AttemptDelivered:
		p.status = DeliveryDelivered
	case p.change != a.change:
		p.status, p.ready = DeliveryWaiting, 0
	case c.Outcome == AttemptGone:
		p.failures++
		p.status, a.url = DeliveryFailed, ""
		a.change++
		a.end(ReasonHookGone)
	default:
		p.failures++
		pauses := []int64{5 * second, 5 * minute, 30 * minute, 120 * minute, 300 * minute}
		if p.failures == 6 {
			p.status = DeliveryFailed
			return
		}
		p.status, p.ready = DeliveryWaiting, m.now+max(pauses[p.failures-1]+c.Jitter, c.RetryAfter)
	}
}

// drawPush draws something that concerns deliveries.
func drawPush(t *rapid.T, m *pushModel) Body {
	agent := rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "agent")
	a := m.agents[agent]
	attempt := Attempt{
		AgentKey: agent,
		Delivery: rapid.Uint64Range(1, uint64(len(a.all))+1).Draw(t, "delivery"), Number: rapid.Uint64Range(1, 3).Draw(t, "attempt"),
	}
	if list := a.waiting(); len(list) > 0 && rapid.IntRange(0, 4).Draw(t, "stale") > 0 {
		attempt.Delivery, attempt.Number = list[0].number, list[0].attempts-min(list[0].attempts, rapid.Uint64Range(0, 1).Draw(t, "late"))
	}
	switch rapid.SampledFrom([]Op{OpPublish, OpPublish, OpBeginDeliveries, OpBeginDeliveries, OpAckDelivery, OpAckDelivery, OpTestDelivery, OpRegister, OpTick}).Draw(t, "op") {
	case OpPublish:
		return drawEntryFor(t, m)
	case OpBeginDeliveries:
		attempt.Number++
		return &BeginDeliveries{Holder: rapid.SampledFrom(someBoots).Draw(t, "holder"), Attempts: []Attempt{attempt, {"bob", 1, 1}}}
	case OpAckDelivery:
		attempt.Number = max(attempt.Number, 1)
		c := &AckDelivery{Attempt: attempt, Outcome: AttemptDelivered}
		if c.Outcome = rapid.SampledFrom([]DeliveryOutcome{AttemptDelivered, AttemptFailed, AttemptFailed, AttemptGone}).Draw(t, "outcome"); c.Outcome != AttemptDelivered {
			c.Reason = "timeout"
			c.Jitter = rapid.SampledFrom([]int64{0, 700}).Draw(t, "jitter")
			c.RetryAfter = rapid.SampledFrom([]int64{0, minute}).Draw(t, "retry after")
		}
		return c
	case OpTestDelivery:
		return &TestDelivery{AgentKey: agent, Proof: Proof{Key: keyHash("key of " + agent)}}
	case OpRegister:
		return rehook(agent, rapid.SampledFrom([]string{"", "https://one.example.org/", "https://two.example.org/"}).Draw(t, "url"))
	default:
		return &Tick{}
	}
}

// drawEntryFor draws an entry that relates to others and mentions some.
func drawEntryFor(t *rapid.T, m *pushModel) *Publish {
	author := rapid.SampledFrom([]string{"ada", "bob", "eve"}).Draw(t, "author")
	p := post(author, mention(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ada", "bob", "zoe"}), 0, 2, rapid.ID).Draw(t, "mentions")...))
	if len(m.authors) > 0 && rapid.Bool().Draw(t, "related") {
		p.Relation = rapid.SampledFrom([]Relation{RelationReply, RelationReply, RelationCorrection}).Draw(t, "relation")
		p.Target = EntryID(rapid.Uint64Range(1, uint64(len(m.authors))).Draw(t, "target"))
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
func (r *pushRun) commit(later int64, bodies ...Body) {
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
		a := Attempt{agent, p.number, p.attempts + 1}
		r.commit(pace, &BeginDeliveries{Holder: boot1, Attempts: []Attempt{a}}, &AckDelivery{Attempt: a, Outcome: AttemptDelivered})
	}
}

// fail lets attempts for an agent fail as soon as each is due.
func (r *pushRun) fail(agent string, most int) {
	for range most {
		list := r.model.agents[agent].waiting()
		if len(list) == 0 {
			return
		}
		a := Attempt{agent, list[0].number, list[0].attempts + 1}
		r.commit(max(0, list[0].ready-r.log.stamp),
			&BeginDeliveries{Holder: boot1, Attempts: []Attempt{a}}, &AckDelivery{Attempt: a, Outcome: AttemptFailed, Reason: "timeout"})
	}
}

// check holds the machine against the model.
func (r *pushRun) check() {
	v := r.m.View()
	defer v.Release()
	if v.Time() != r.model.now {
		r.Fatalf("log time %d, want %d", v.Time(), r.model.now)
	}
	total := 0
	for name, a := range r.model.agents {
		o, err := v.Outbox(name)
		list := a.waiting()
		total += len(list)
		if err != nil || o.Active != (a.url != "") || o.Waiting != len(list) || (o.First != nil) != (len(list) > 0) {
			r.Fatalf("%s: %+v, %v, want %d waiting for %q", name, o, err, len(list), a.url)
		}
		seen := map[uint64]bool{}
		want := a.all[len(a.all)-min(len(a.all), MaxListedDeliveries):]
		for i, d := range o.Newest {
			p := want[len(want)-1-i]
			got := pushed{
				number: d.Number, entry: d.Entry, kind: d.Kind, status: d.Status, reason: d.Reason,
				attempts: d.Attempts, failures: d.Failures, ready: p.ready, change: p.change,
			}
			if got != *p {
				r.Fatalf("%s: delivery %+v, want %+v", name, got, *p)
			}
			if d.Entry != 0 && (seen[d.Entry] || r.model.authors[d.Entry-1] == name) {
				r.Fatalf("%s: entry %d is pushed twice, or to its author", name, d.Entry)
			}
			seen[d.Entry] = true
		}
		if len(o.Newest) != len(want) {
			r.Fatalf("%s: %d deliveries listed, want %d", name, len(o.Newest), len(want))
		}
	}
	if n, err := v.WaitingDeliveries(); err != nil || n != total {
		r.Fatalf("%d wait, %v, want %d", n, err, total)
	}
	for _, later := range []int64{0, 1, 5 * second, DeliveryLease, 5 * minute, 60 * minute} {
		r.checkDue(v, r.model.now+later)
	}
}

// checkDue holds what is due at an instant against the model.
func (r *pushRun) checkDue(v *View, at int64) {
	want := map[string]string{}
	for name, a := range r.model.agents {
		if p := a.due(max(at, r.model.now+1)); p != nil {
			want[name] = fmt.Sprint(p.number, p.attempts, a.url)
		}
	}
	got := map[string]string{}
	err := v.DueDeliveries(at, nobody, func(d Delivery) bool {
		got[d.AgentKey] = fmt.Sprint(d.Number, d.Attempts, d.URL)
		return true
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		r.Fatalf("due at %d: %v, %v, want %v", at, got, err, want)
	}
}

// feedBySnapshot hands a machine a drawn part of a log by a snapshot of another
// one, and then the rest.
func feedBySnapshot(rt *rapid.T, l *raftLog, m *Machine) {
	from := tempMachine(rt)
	defer dropMachine(rt, from)
	at := rapid.Uint64Range(1, l.last()).Draw(rt, "snapshot at")
	l.feed(from, 1, at)
	if err := takeSnapshot(from, at, 99); err != nil {
		rt.Fatal(err)
	}
	meta, data, err := send(from)
	if err == nil {
		err = receive(m, meta, data)
	}
	if err != nil {
		rt.Fatal(err)
	}
	if at < l.last() {
		l.feed(m, at+1, l.last())
	}
}

// TestDeliveriesAgainstModel draws entries, changes of receivers, attempts and
// their outcomes, those of leaders that are none any more among them, and clock
// steps; now and then so many that the limits are reached. A second machine
// applies the log in pieces, with restarts and crashes, or takes a part of it by a
// snapshot, and must agree.
func TestDeliveriesAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &pushRun{T: rt, log: newLog(t), m: tempMachine(rt), model: &pushModel{agents: map[string]*pushAgent{"ada": {}, "bob": {}}}}
		defer func() { dropMachine(rt, r.m) }()
		r.log.feed(r.m, 1, 1)
		r.model.now = r.log.stamp
		r.commit(1000, hooked("ada", nil), hooked("bob", nil))
		for name, a := range r.model.agents {
			a.url = "https://" + name + ".example.org/hook"
		}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				n := rapid.SampledFrom([]int{35, 210}).Draw(rt, "entries")
				r.commit(1000, slices.Repeat([]Body{post("eve", mention("ada"))}, n)...)
			case 1:
				r.drain("ada", MaxHourlyDeliveries+1, rapid.SampledFrom([]int64{0, 20 * second, 3 * minute}).Draw(rt, "pace"))
			case 2:
				r.fail("ada", 7)
			default:
				bodies := make([]Body, rapid.IntRange(1, 4).Draw(rt, "commands"))
				for i := range bodies {
					bodies[i] = drawPush(rt, r.model)
				}
				r.commit(rapid.SampledFrom([]int64{-10 * second, 0, 1, 5 * second, DeliveryLease, 5 * minute, 60 * minute}).Draw(rt, "later"), bodies...)
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
