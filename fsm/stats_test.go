package fsm

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func (r *rig) stats(at int64) view.Stats {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	s := must.Get(v.Stats(max(at, v.Time())))(r.t)
	return s
}

// TestStats holds which writes are counted: not those of the operator's own agents, and no
// agent without a name.
func TestStats(t *testing.T) {
	r := newRig(t)
	house := func(p *command.Publish) { p.House = true }
	first := r.publish(nil)
	r.run(
		post("bob", relate(command.RelationReply, first)), post("bob", relate(command.RelationCorrection, first)),
		post(command.AnonymousName, relate(command.RelationReply, first)), post("warden", house),
	)
	r.run(postJob("cyd"), &command.ClaimJob{JobAction: command.JobAction{Author: command.Author{Agent: "dan", AgentKey: "dan"}, Job: "j6"}, TTL: 1000})
	r.run(seen(1, r.today(), command.SurfaceAPI, "x", "y"), seen(2, r.today()-6, command.SurfaceMCP, "z", "y"),
		seen(3, r.today(), command.SurfaceWeb, "reader"), seen(4, r.today()-7, command.SurfaceAPI, "gone"))
	for i, name := range []string{"ada", "bob", "warden"} {
		c := &command.Register{Agent: name, AgentKey: name, Given: command.FieldDescription, Description: "Somebody.", NewKey: make([]byte, command.KeyHashBytes), NewRecovery: make([]byte, command.KeyHashBytes), House: name == "warden"}
		for range i + 1 {
			r.run(c)
		}
	}
	want := view.Stats{Last24h: stats.HourRow{Agents: 4, Posts: 6, Replies: 3}, RegisteredAgents: 2, APIClients7d: 3}
	want.Last7d = want.Last24h
	check.Equal(t, r.stats(0), want, "stats")
	later := r.log.stamp + 25*command.HourMillis
	want.Last24h = stats.HourRow{}
	want.APIClients7d = 2 // of today; the oldest day has gone
	check.Equal(t, r.stats(later), want, "a day later")
	check.Equal(t, r.stats(r.log.stamp+8*command.DayMillis), (view.Stats{RegisteredAgents: 2}), "a week later")
}

// TestStatsProperty holds the counts of entries over months against a plain model.
func TestStatsProperty(t *testing.T) {
	t.Parallel()
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
			l.stamp += rapid.SampledFrom([]int64{0, 1000, command.HourMillis, 5 * command.HourMillis, command.DayMillis, 6 * command.DayMillis, 9 * command.DayMillis}).Draw(rt, "step")
			now = max(l.stamp, now+1)
			g := command.Group{Boot: boot1}
			for range rapid.IntRange(1, 4).Draw(rt, "commands") {
				p := samplePost(rt, n)
				if !p.House {
					posts = append(posts, post{now / command.HourMillis, p.AgentKey, p.Relation == command.RelationReply})
				}
				seq, n = seq+1, n+1
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: p})
			}
			index := l.batch(command.Batch{Stamp: l.stamp, Groups: []command.Group{g}})
			l.feed(one, index, index)
			at := now + rapid.SampledFrom([]int64{0, command.HourMillis, command.DayMillis}).Draw(rt, "later")
			count := func(hours int64) (c stats.HourRow) {
				names := map[string]bool{command.AnonymousName: true}
				for _, p := range posts {
					if p.hour+hours <= at/command.HourMillis {
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
			if want := (view.Stats{Last24h: count(24), Last7d: count(7 * 24)}); got != want || err != nil {
				rt.Fatalf("%+v, %v, want %+v", got, err, want)
			}
		}
		if rows := countRows(rt, one, state.SpaceHour); rows > stats.HoursKept {
			rt.Fatalf("%d hours are kept", rows)
		}
	})
}

// samplePost draws an entry that is accepted, given how many there are.
func samplePost(t *rapid.T, n uint64) *command.Publish {
	p := post(rapid.SampledFrom(someAgents).Draw(t, "agent"), nil)
	p.House = p.AgentKey == "eve"
	if n > 0 && rapid.Bool().Draw(t, "related") {
		p.Target = state.EntryID(rapid.Uint64Range(1, n).Draw(t, "target"))
		p.Relation = rapid.SampledFrom([]command.Relation{command.RelationReply, command.RelationFollowUp}).Draw(t, "relation")
	}
	return p
}

func countRows(t *rapid.T, m *Machine, space byte) (n int) {
	v := m.View()
	defer v.Release()
	lower, upper := state.SpaceBounds(space)
	must.Do(t, state.ScanSpace(v.Reader(), lower, upper, func([]byte, []byte) error { n++; return nil }))
	return n
}
