package membership

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

// TestRate rates three servers, of which the last one is as the row says.
func TestRate(t *testing.T) {
	const maxContact = time.Second
	leader := peerAnswer{LastTerm: 7, LastLog: 1000}
	well := ServerHealth{ID: "c", Voter: true, Alive: true, LastContactMs: 1000, LastTerm: 7, LastIndex: 1000 - maxTrailing}
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		is      func(s *ServerHealth)
		leader  peerAnswer
		healthy bool
	}{
		"at every limit":       {func(*ServerHealth) {}, leader, true},
		"without a vote":       {func(s *ServerHealth) { s.Voter = false }, leader, true},
		"not in gossip":        {func(s *ServerHealth) { s.Alive = false }, leader, false},
		"no answer":            {func(s *ServerHealth) { s.LastContactMs = -1 }, leader, false},
		"no contact for long":  {func(s *ServerHealth) { s.LastContactMs++ }, leader, false},
		"an older term":        {func(s *ServerHealth) { s.LastTerm-- }, leader, false},
		"a newer term":         {func(s *ServerHealth) { s.LastTerm++ }, leader, false},
		"too far behind":       {func(s *ServerHealth) { s.LastIndex-- }, leader, false},
		"nothing is known yet": {func(s *ServerHealth) { s.LastTerm = 0 }, peerAnswer{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := func() Health {
				a, b, c := well, well, well
				a.ID, b.ID = "a", "b"
				tt.is(&c)
				return Health{c, a, b}
			}
			first := rate(found(), nil, tt.leader, maxContact, start)
			c, _ := first.Server("c")
			check.Equal(t, c.Healthy, tt.healthy, "healthy")
			if c.Alive != (name != "not in gossip") || !c.Alive && c.LastContactMs != -1 {
				t.Errorf("alive %v, contact %d", c.Alive, c.LastContactMs)
			}
			// The same result changes no time; another one does.
			check.Diff(t, rate(found(), first, tt.leader, maxContact, start.Add(time.Minute)), first, "a minute later")
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
