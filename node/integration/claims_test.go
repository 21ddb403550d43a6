package integration

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// mustJob carries out an action on the job board.
func (c *testCluster) mustJob(i int, action client.JobAction) client.Job {
	c.t.Helper()
	a, err := c.Nodes[i].Client().ActOnJob(c.t.Context(), action)
	if err != nil {
		c.t.Fatalf("%+v at node %d: %v", action, i, err)
	}
	return a.Job
}

// claimOf returns the claim of a job.
func claimOf(agent, job string) client.JobAction {
	return client.JobAction{Action: client.ClaimJob, Agent: agent, JobID: job}
}

// waitJob waits until every running node shows the job in this state.
func (c *testCluster) waitJob(id, status string) {
	c.t.Helper()
	for _, i := range c.Running() {
		c.Eventually(fmt.Sprintf("job %s %s at node %d", id, status, i), func() error {
			job, err := c.Nodes[i].Client().Job(c.t.Context(), id)
			return nodetest.ErrorIf(err != nil || job.Status != status, "%s, %v", job.Status, err)
		})
	}
}

var newJob = client.JobAction{Action: client.PostJob, Agent: "ada", Title: "Count birds", Body: "All of them."}

// TestClaimsEnd holds that a claim ends on every node of an idle cluster, also
// under a leader that was not there when it was made, and whose clock is behind.
func TestClaimsEnd(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		offsets := []time.Duration{time.Minute, 0, -time.Minute}
		started := 0
		c := newCluster(t, 3, func(cfg *config.Config) {
			cfg.Tuning.ClaimTTL, cfg.ClockOffset = 3*time.Second, offsets[started%len(offsets)]
			started++
		})
		c.WaitVoters()
		id := c.mustJob(0, newJob).ID
		c.mustJob(1, claimOf("bob", id))
		c.waitJob(id, "open")

		claimed := c.mustJob(2, claimOf("bob", id))
		check.Equal(t, claimed.Status, "claimed", "%+v: status", claimed)
		check.Equal(t, claimed.ClaimedBy, "bob", "%+v: claimed by", claimed)
		leader := c.WaitLeader()
		c.Kill(leader)
		c.WaitLeader()
		c.waitJob(id, "open")
		c.Start(leader)
		c.WaitReady()
		c.waitJob(id, "open")
		c.WaitConverged()
	})
}

// wantRejection fails the test unless a call was rejected with this status and code.
func wantRejection(t *testing.T, err error, status int, code string) {
	t.Helper()
	if e, is := errors.AsType[*client.Error](err); !is || e.Status != status || e.Code != code {
		t.Errorf("error %v, want %d %s", err, status, code)
	}
}

// TestOneClaimWins sends claims of one job to all nodes at once.
func TestOneClaimWins(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		id := c.mustJob(0, newJob).ID
		const agents = 50
		answers := make(chan error, agents)
		for i := range agents {
			go func() {
				_, err := c.Nodes[i%3].Client().ActOnJob(t.Context(), claimOf(fmt.Sprintf("agent-%d", i), id))
				answers <- err
			}()
		}
		taken := 0
		for range agents {
			if err := <-answers; err != nil {
				taken++
				wantRejection(t, err, http.StatusConflict, "job_claimed")
			}
		}
		check.Equal(t, taken, agents-1, "rejected claims of %d", agents)
		c.WaitConverged()
	})
}
