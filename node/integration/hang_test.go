package integration

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestHangingDisk: a leader whose log or state does not come back ends by itself,
// and the others go on without an error for their clients.
func TestHangingDisk(t *testing.T) {
	t.Parallel()
	const state = "a write of the state"
	for name, hung := range map[string]struct {
		write string
		lines bool // nor do lines about what happens come back
	}{
		"log": {write: logstore.Storing}, "state": {write: state}, "log, with the lines on its disk": {write: logstore.Storing, lines: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && hung.write == state {
				t.Skip("takes several seconds, and the log's case is much the same")
			}
			var victim atomic.Pointer[string]
			c := newCluster(t, 3, func(cfg *config.Config) {
				id := cfg.NodeID
				cfg.HangTimeout = 5 * time.Second
				cfg.Tuning.AroundWrite = func(what string, do func() error) error {
					if v := victim.Load(); v != nil && *v == id && what == hung.write {
						select {} // for good, as a dead disk would
					}
					return do()
				}
			})
			leader := c.WaitLeader()
			others := c.Others(leader)
			load := c.StartLoad(2, others...)
			load.WaitMore(10)
			if hung.lines {
				c.Nodes[leader].StallLog()
			}
			victim.Store(&c.Nodes[leader].Config.NodeID)
			ended := make(chan error, 1)
			go func() { ended <- c.Nodes[leader].Run.Wait() }()
			select {
			case err := <-ended:
				check.ErrText(t, err, hung.write+" has not come back", "it ended")
			case <-time.After(nodetest.Patience):
				t.Fatal("the node with the hanging disk goes on")
			}
			check.Fails(c.Nodes[leader].GetText("/livez"))(t, "it still answers")
			c.Nodes[leader].Run = nil
			c.WaitLeader()
			load.WaitMore(10)
			load.Stop()
			load.Check()
		})
	}
}
