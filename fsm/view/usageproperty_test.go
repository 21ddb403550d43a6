package view_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
)

// TestStatsProperty holds the counts of entries over months against a plain model.
func TestStatsProperty(t *testing.T) {
	t.Parallel()
	type post struct {
		hour  int64
		agent string
		reply bool
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		defer r.Close()
		var posts []post
		var now int64
		var seq, n uint64
		for range rapid.IntRange(1, 25).Draw(rt, "log entries") {
			step := rapid.SampledFrom([]int64{0, 1000, command.HourMillis, 5 * command.HourMillis, command.DayMillis, 6 * command.DayMillis, 9 * command.DayMillis}).Draw(rt, "step")
			r.Later(step)
			now = r.Now() + fsmtest.StampStep
			g := command.Group{Boot: fsmtest.Boot1}
			for range rapid.IntRange(1, 4).Draw(rt, "commands") {
				p := samplePost(rt, n)
				if !p.House {
					posts = append(posts, post{now / command.HourMillis, p.AgentKey, p.Relation == command.RelationReply})
				}
				seq, n = seq+1, n+1
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: p})
			}
			r.RunGroups(g)
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
			v := r.View()
			got, err := v.Stats(at)
			v.Release()
			if want := (view.Stats{Last24h: count(24), Last7d: count(7 * 24)}); got != want || err != nil {
				rt.Fatalf("%+v, %v, want %+v", got, err, want)
			}
		}
		if rows := fsmtest.RowsIn(rt, r, state.SpaceHour); rows > stats.HoursKept {
			rt.Fatalf("%d hours are kept", rows)
		}
	})
}

// samplePost draws an entry that is accepted, given how many there are.
func samplePost(t *rapid.T, n uint64) *command.Publish {
	p := fsmtest.Post(rapid.SampledFrom([]string{"ada", "bob", "eve", command.AnonymousName}).Draw(t, "agent"), nil)
	p.House = p.AgentKey == "eve"
	if n > 0 && rapid.Bool().Draw(t, "related") {
		p.Target = state.EntryID(rapid.Uint64Range(1, n).Draw(t, "target"))
		p.Relation = rapid.SampledFrom([]command.Relation{command.RelationReply, command.RelationFollowUp}).Draw(t, "relation")
	}
	return p
}
