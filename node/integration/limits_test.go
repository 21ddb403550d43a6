package integration

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// limited gives the nodes a burst, and a rate so low that a test earns no more. A new leader gives a fresh burst: Raft is so patient that a busy machine
// does not bring one about.
func limited(burst int) nodetest.Option {
	return func(cfg *config.Config) {
		cfg.WriteRate, cfg.WriteBurst = 1, burst
		patientRaft(cfg)
	}
}

// TestLimitHoldsAcrossNodes drives one agent through all nodes at once: the
// limit is the cluster's, not a node's.
func TestLimitHoldsAcrossNodes(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const burst, each = 20, 30
		c := newCluster(t, 3, limited(burst))
		first := c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "the first of many", RequestID: "limits-first"})

		var admitted, rejected atomic.Int64
		var writers sync.WaitGroup
		for i := range c.Nodes {
			writers.Go(func() {
				for n := range each {
					a, err := c.Nodes[i].Publish(context.Background(), nodetest.Post{Agent: "ada", Body: fmt.Sprintf("write %d at node %d", n, i)})
					switch {
					case err == nil && a.Status == http.StatusCreated:
						admitted.Add(1)
					case err == nil && a.Status == http.StatusTooManyRequests && a.Code == "rate_limited":
						rejected.Add(1)
					default:
						t.Errorf("write %d at node %d: %d %s, %v", n, i, a.Status, a.Code, err)
					}
				}
			})
		}
		writers.Wait()
		// The first write took one of the burst; a slow run may earn a token or two.
		if got := admitted.Load() + 1; got < burst || got > burst+burst/10 {
			t.Errorf("%d writes were admitted, %d rejected; want the burst of %d", got, rejected.Load(), burst)
		}

		// A replay is free, on whichever node it lands.
		for i := range c.Nodes {
			a, err := c.Nodes[i].Publish(context.Background(), nodetest.Post{Agent: "ada", Body: "the first of many", RequestID: "limits-first"})
			if err != nil || a.Status != http.StatusOK || a.Entry.ID != first.Entry.ID {
				t.Errorf("replay at node %d: %d %s %s, %v", i, a.Status, a.Code, a.Entry.ID, err)
			}
		}
	})
}
