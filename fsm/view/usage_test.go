package view_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

func (r *rig) stats(at int64) view.Stats {
	r.T.Helper()
	return fsmtest.InView(r.T, r, func(v *view.View) (view.Stats, error) { return v.Stats(max(at, v.Time())) })
}

// TestStats holds which writes are counted: not those of the operator's own agents, and no
// agent without a name.
func TestStats(t *testing.T) {
	r := newRig(t)
	house := func(p *command.Publish) { p.House = true }
	first := r.Publish(nil)
	r.Run(
		fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, first)), fsmtest.Post("bob", fsmtest.Relate(command.RelationCorrection, first)),
		fsmtest.Post(command.AnonymousName, fsmtest.Relate(command.RelationReply, first)), fsmtest.Post("warden", house),
	)
	r.Run(fsmtest.PostJob("cyd"), &command.ClaimJob{JobAction: command.JobAction{Author: command.Author{Agent: "dan", AgentKey: "dan"}, Job: "j6"}, TTL: 1000})
	r.Run(fsmtest.AddSenders(1, r.Today(), command.SurfaceAPI, "x", "y"), fsmtest.AddSenders(2, r.Today()-6, command.SurfaceMCP, "z", "y"),
		fsmtest.AddSenders(3, r.Today(), command.SurfaceWeb, "reader"), fsmtest.AddSenders(4, r.Today()-7, command.SurfaceAPI, "gone"))
	for i, name := range []string{"ada", "bob", "warden"} {
		c := &command.Register{Agent: name, AgentKey: name, Given: command.FieldDescription, Description: "Somebody.", NewKey: make([]byte, command.KeyHashBytes), NewRecovery: make([]byte, command.KeyHashBytes), House: name == "warden"}
		for range i + 1 {
			r.Run(c)
		}
	}
	want := view.Stats{Last24h: stats.HourRow{Agents: 4, Posts: 6, Replies: 3}, RegisteredAgents: 2, APIClients7d: 3}
	want.Last7d = want.Last24h
	check.Equal(t, r.stats(0), want, "stats")
	later := r.Stamp + 25*command.HourMillis
	want.Last24h = stats.HourRow{}
	want.APIClients7d = 2 // of today; the oldest day has gone
	check.Equal(t, r.stats(later), want, "a day later")
	check.Equal(t, r.stats(r.Stamp+8*command.DayMillis), (view.Stats{RegisteredAgents: 2}), "a week later")
}
