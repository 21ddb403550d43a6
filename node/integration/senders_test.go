package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// longAgo is longer than senders are remembered.
const longAgo = 40 * 24 * time.Hour

// TestSendersAreForgotten: the leader forgets senders once they are old, also those of a time before
// it led. A request_id without a name is new then, and the address proves no name.
func TestSendersAreForgotten(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 1, soon, func(cfg *config.Config) { cfg.ClockOffset = -longAgo })
		c.WaitVoters()
		c.register(0, map[string]any{"id": "bob", "description": "Writes from home."})
		publish := func(fields map[string]any) (answer struct {
			Duplicate bool
			Entry     struct{ NameVerified bool }
		},
		) {
			c.mustPost(0, "/api/entries", fields, &answer)
			return answer
		}
		anonymous := map[string]any{"body": "From somewhere.", "request_id": "request-1"}
		publish(anonymous)
		if own := publish(map[string]any{"agent": "bob", "body": "From home."}); !own.Entry.NameVerified {
			t.Error("the address does not prove the name")
		}
		c.Stop(0)
		c.Nodes[0].Config.ClockOffset = 0
		c.Start(0)
		c.WaitLeader()
		c.Eventually("senders are forgotten", func() error {
			if publish(anonymous).Duplicate {
				return errors.New("the sender of a request_id is known")
			}
			return nil
		})
		if own := publish(map[string]any{"agent": "bob", "body": "From home again."}); own.Entry.NameVerified {
			t.Error("the address still proves the name")
		}
	})
}
