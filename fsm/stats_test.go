package fsm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func (r *rig) stats(at int64) Stats {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	s, err := v.Stats(max(at, v.Time()))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// TestStats holds what is counted: not the operator's own agents, and nobody
// without a name as an agent.
func TestStats(t *testing.T) {
	r := newRig(t)
	house := func(p *Publish) { p.House = true }
	first := r.publish(nil)
	r.run(
		post("bob", relate(RelationReply, first)), post("bob", relate(RelationCorrection, first)),
		post(AnonymousName, relate(RelationReply, first)), post("warden", house),
	)
	r.run(postJob("cyd"), &ClaimJob{JobAction: JobAction{Author: Author{Agent: "dan", AgentKey: "dan"}, Job: "j6"}, TTL: 1000})
	r.run(seen(1, r.today(), SurfaceAPI, "x", "y"), seen(2, r.today()-6, SurfaceMCP, "z", "y"),
		seen(3, r.today(), SurfaceWeb, "reader"), seen(4, r.today()-7, SurfaceAPI, "gone"))
	for i, name := range []string{"ada", "bob", "warden"} {
		c := &Register{Agent: name, AgentKey: name, Given: FieldDescription, Description: "Somebody.", NewKey: make([]byte, KeyHashBytes), House: name == "warden"}
		for range i + 1 {
			r.run(c)
		}
	}
	want := Stats{Last24h: Posting{Agents: 4, Posts: 6, Replies: 3}, RegisteredAgents: 2, APIClients7d: 3}
	want.Last7d = want.Last24h
	if got := r.stats(0); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	later := r.log.stamp + 25*hourMillis
	want.Last24h = Posting{}
	want.APIClients7d = 2 // of today; the oldest day has gone
	if got := r.stats(later); got != want {
		t.Errorf("a day later: %+v, want %+v", got, want)
	}
	if got := r.stats(r.log.stamp + 8*dayMillis); got != (Stats{RegisteredAgents: 2}) {
		t.Errorf("a week later: %+v", got)
	}
}

// TestStatsProperty holds the counts of entries over months against a plain model.
func TestStatsProperty(t *testing.T) {
	type post struct {
		hour  int64
		agent string
		reply bool
	}
	rapid.Check(t, func(rt *rapid.T) {
		one := tempMachine(rt)
		defer func() { dropMachine(rt, one) }()
		l := newLog(t)
		l.feed(one, 1, 1)
		var posts []post
		var now int64
		var seq, n uint64
		for range rapid.IntRange(1, 25).Draw(rt, "log entries") {
			l.stamp += rapid.SampledFrom([]int64{0, 1000, hourMillis, 5 * hourMillis, dayMillis, 6 * dayMillis, 9 * dayMillis}).Draw(rt, "step")
			now = max(l.stamp, now+1)
			g := Group{Boot: boot1}
			for range rapid.IntRange(1, 4).Draw(rt, "commands") {
				p := samplePost(rt, n)
				if !p.House {
					posts = append(posts, post{now / hourMillis, p.AgentKey, p.Relation == RelationReply})
				}
				seq, n = seq+1, n+1
				g.Commands = append(g.Commands, Command{Seq: seq, Body: p})
			}
			index := l.batch(Batch{Stamp: l.stamp, Groups: []Group{g}})
			l.feed(one, index, index)
			at := now + rapid.SampledFrom([]int64{0, hourMillis, dayMillis}).Draw(rt, "later")
			count := func(hours int64) (c Posting) {
				names := map[string]bool{AnonymousName: true}
				for _, p := range posts {
					if p.hour+hours <= at/hourMillis {
						continue
					}
					c.Posts++
					if p.reply {
						c.Replies++
					}
					names[p.agent] = true
				}
				c.Agents = uint64(len(names)) - 1
				return c
			}
			v := one.View()
			got, err := v.Stats(at)
			v.Release()
			if want := (Stats{Last24h: count(24), Last7d: count(7 * 24)}); got != want || err != nil {
				rt.Fatalf("%+v, %v, want %+v", got, err, want)
			}
		}
		two := tempMachine(rt)
		defer func() { dropMachine(rt, two) }()
		two = feedRoughly(rt, l, two)
		sameState(rt, stateOf(rt, one), stateOf(rt, two))
		if rows := countRows(rt, one, spaceHour); rows > hoursKept {
			rt.Fatalf("%d hours are kept", rows)
		}
	})
}

// samplePost draws an entry that is accepted, given how many there are.
func samplePost(t *rapid.T, n uint64) *Publish {
	p := post(rapid.SampledFrom(someAgents).Draw(t, "agent"), nil)
	p.House = p.AgentKey == "eve"
	if n > 0 && rapid.Bool().Draw(t, "related") {
		p.Target = EntryID(rapid.Uint64Range(1, n).Draw(t, "target"))
		p.Relation = rapid.SampledFrom([]Relation{RelationReply, RelationFollowUp}).Draw(t, "relation")
	}
	return p
}

func countRows(t *rapid.T, m *Machine, space byte) (n int) {
	v := m.View()
	defer v.Release()
	lower, upper := spaceBounds(space)
	if err := scanSpace(v.snap, lower, upper, func([]byte, []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// BenchmarkStats reads the counts of a busy week.
func BenchmarkStats(b *testing.B) {
	r := newRig(b)
	for hour := range hoursKept {
		r.log.stamp += hourMillis
		names := make([]string, 100)
		for i := range names {
			names[i] = fmt.Sprintf("sender-%d", hour*len(names)+i)
		}
		r.run(post("ada", nil), seen(uint64(hour+1), DayOf(r.log.stamp), SurfaceAPI, names...))
	}
	v := r.View()
	defer v.Release()
	b.ResetTimer()
	for b.Loop() {
		if _, err := v.Stats(r.log.stamp); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUsage reads the calls of the longest time, with as many rows and senders
// as there can be.
func BenchmarkUsage(b *testing.B) {
	r := newRig(b)
	for number := range uint64(MaxUsageDays) {
		r.log.stamp += dayMillis
		c := seen(number+1, DayOf(r.log.stamp), SurfaceAPI, "x")
		for i := range maxDayRows {
			c.Rows = append(c.Rows, UsageRow{Day: DayOf(r.log.stamp), Surface: SurfaceAPI, Action: fmt.Sprint("a", i), Client: "c", Count: 1})
		}
		for surface := SurfaceAPI; surface <= SurfaceWeb; surface++ {
			row := SenderRow{Day: DayOf(r.log.stamp), Surface: surface}
			for chunk := range SketchRegisters / sketchChunk {
				row.Registers = AppendRegister(row.Registers, chunk*sketchChunk, 1)
			}
			c.Senders = append(c.Senders, row)
		}
		r.run(c)
	}
	v := r.View()
	defer v.Release()
	b.ResetTimer()
	for b.Loop() {
		if _, err := v.Usage(r.today().minus(MaxUsageDays-1), r.today()); err != nil {
			b.Fatal(err)
		}
	}
}
