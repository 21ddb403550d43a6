package membership

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/node/admin"
)

// TestRate rates three servers, of which the last one is as the row says.
func TestRate(t *testing.T) {
	const maxContact = time.Second
	leader := statsAnswer{LastTerm: 7, LastLog: 1000}
	well := admin.ServerHealth{ID: "c", Voter: true, Alive: true, LastContactMs: 1000, LastTerm: 7, LastIndex: 1000 - maxTrailing}
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		is       func(s *admin.ServerHealth)
		leader   statsAnswer
		healthy  bool
		tolerate int
	}{
		"at every limit":       {func(*admin.ServerHealth) {}, leader, true, 1},
		"without a vote":       {func(s *admin.ServerHealth) { s.Voter = false }, leader, true, 0},
		"not in gossip":        {func(s *admin.ServerHealth) { s.Alive = false }, leader, false, 0},
		"no answer":            {func(s *admin.ServerHealth) { s.LastContactMs = -1 }, leader, false, 0},
		"no contact for long":  {func(s *admin.ServerHealth) { s.LastContactMs++ }, leader, false, 0},
		"an older term":        {func(s *admin.ServerHealth) { s.LastTerm-- }, leader, false, 0},
		"a newer term":         {func(s *admin.ServerHealth) { s.LastTerm++ }, leader, false, 0},
		"too far behind":       {func(s *admin.ServerHealth) { s.LastIndex-- }, leader, false, 0},
		"nothing is known yet": {func(s *admin.ServerHealth) { s.LastTerm = 0 }, statsAnswer{}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found := func() []admin.ServerHealth {
				a, b, c := well, well, well
				a.ID, b.ID = "a", "b"
				tt.is(&c)
				return []admin.ServerHealth{c, a, b}
			}
			first := rate(found(), admin.Health{}, tt.leader, maxContact, start)
			c, _ := first.Server("c")
			if c.Healthy != tt.healthy || first.FailureTolerance != tt.tolerate {
				t.Errorf("healthy %v, tolerates %d; want %v, %d", c.Healthy, first.FailureTolerance, tt.healthy, tt.tolerate)
			}
			if c.Alive != (name != "not in gossip") || !c.Alive && c.LastContactMs != -1 {
				t.Errorf("alive %v, contact %d", c.Alive, c.LastContactMs)
			}
			if all := tt.healthy && tt.leader == leader; first.Healthy != all {
				t.Errorf("all healthy %v, want %v", first.Healthy, all)
			}
			// The same result changes no time; another one does.
			if diff := cmp.Diff(first, rate(found(), first, tt.leader, maxContact, start.Add(time.Minute))); diff != "" {
				t.Errorf("a minute later (-first +second):\n%s", diff)
			}
			changed := found()
			changed[0].Alive, changed[0].LastContactMs = !tt.healthy, 0
			changed[0].LastTerm, changed[0].LastIndex = leader.LastTerm, leader.LastLog
			second, _ := rate(changed, first, leader, maxContact, start.Add(time.Minute)).Server("c")
			if second.Healthy == tt.healthy || !second.StableSince.Equal(start.Add(time.Minute)) {
				t.Errorf("changed: healthy %v since %v", second.Healthy, second.StableSince)
			}
		})
	}
}
