package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestLogWhileNodesAreDead: nodes that are dead leave room for other lines in the log
// of a node that lives.
func TestLogWhileNodesAreDead(t *testing.T) {
	for _, test := range []struct {
		name    string
		dead    int
		minutes int
		most    int // lines a minute
	}{
		{"one of three, seen by the leader", 1, 5, 4},
		{"two of three, seen by the last one", 2, 5, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			nodetest.Virtual(t, func(t *testing.T) {
				c := newCluster(t, 3)
				leader := c.WaitLeader()
				c.Kill(c.Others(leader)[:test.dead]...)
				time.Sleep(time.Minute) // the first of each kind, and what the others do about it
				before := strings.Count(c.Nodes[leader].Log(), "\n")
				time.Sleep(time.Duration(test.minutes) * time.Minute)
				log := c.Nodes[leader].Log()
				if lines := strings.Count(log, "\n") - before; lines > test.minutes*test.most {
					t.Errorf("%d lines in %d minutes:\n%s", lines, test.minutes, log)
				}
				check.Contains(t, log, "suppressed=", "the line that counts those that were left out")
			})
		})
	}
}
