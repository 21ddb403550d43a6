package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestMinorityPartition(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "waits for writes to give up")
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, nodetest.Impatient)
		leader := c.WaitLeader()
		c.MustPublish(leader, nodetest.Post{Body: "before"})
		majority := c.Others(leader)
		c.Isolate(leader)
		type outcome struct {
			nodetest.Answer
			body string
			err  error
		}
		const lost = 4
		outcomes := make(chan outcome, lost)
		for k := range lost {
			go func() {
				body := fmt.Sprintf("minority %d", k)
				a, err := c.Nodes[leader].Publish(context.Background(), nodetest.Post{Body: body})
				outcomes <- outcome{a, body, err}
			}()
		}
		c.WaitLeader(majority...)
		c.MustPublish(majority[0], nodetest.Post{Body: "majority goes on"})
		c.MustPublish(majority[1], nodetest.Post{Body: "majority goes on too"})
		_, err := c.Nodes[leader].Client().Strong().EntryPage(t.Context(), client.EntryQuery{})
		if rejection, is := errors.AsType[*client.Error](err); !is || rejection.Code != "no_leader" {
			t.Errorf("strong read in the minority: %v; want 503 no_leader", err)
		}
		if page, err := c.Nodes[leader].Client().EntryPage(t.Context(), client.EntryQuery{}); err != nil || len(page.Items) != 1 {
			t.Errorf("local read in the minority: %v, %v", page.Items, err)
		}
		never := map[string]bool{}
		for range lost {
			o := <-outcomes
			if o.err != nil || o.Status != http.StatusServiceUnavailable || (o.Code != "not_enqueued" && o.Code != "outcome_unknown") {
				t.Errorf("write in the minority: %+v, %v; want 503", o.Answer, o.err)
			}
			if o.Code == "not_enqueued" {
				never[o.body] = true
			}
		}
		c.Heal()
		c.WaitReady()
		c.WaitConverged()
		for _, e := range c.All(leader, client.EntryQuery{}) {
			if never[e.Body] {
				t.Errorf("%q was reported as certainly not written, and is there", e.Body)
			}
		}
		c.MustPublish(leader, nodetest.Post{Body: "healed"})
		c.WaitVoters()
	})
}

// patientRaft keeps a busy machine from causing elections.
func patientRaft(cfg *config.Config) {
	cfg.Heartbeat = 2 * time.Second
}
