package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// jobAnswer is the answer to an action on the job board.
type jobAnswer struct {
	Job  jobState
	Code string
}

type jobState struct {
	ID             string
	Status         string
	ClaimedBy      *string
	ClaimExpiresAt *int64
}

// onJobs sends an action and returns its status and answer.
func onJobs(nd *nodetest.Node, action map[string]string) (status int, a jobAnswer, err error) {
	status, err = nd.PostJSON("/api/jobs", action, &a)
	return status, a, err
}

// mustJob is onJobs for an action that has to succeed.
func (c *testCluster) mustJob(i int, action map[string]string) jobState {
	c.t.Helper()
	status, a, err := onJobs(c.Nodes[i], action)
	if err != nil || status != http.StatusCreated {
		c.t.Fatalf("%v at node %d: %d %s, %v", action, i, status, a.Code, err)
	}
	return a.Job
}

// waitJob waits until every running node shows the job in this state.
func (c *testCluster) waitJob(id, status string) {
	c.t.Helper()
	for _, i := range c.Running() {
		c.Eventually(fmt.Sprintf("job %s %s at node %d", id, status, i), func() string {
			var a jobAnswer
			if code, err := c.Nodes[i].GetJSON("/api/jobs/"+id, &a); err != nil || code != http.StatusOK {
				return fmt.Sprint(code, err)
			}
			if a.Job.Status != status {
				return a.Job.Status
			}
			return ""
		})
	}
}

var newJob = map[string]string{"agent": "ada", "title": "Count birds", "body": "All of them."}

// TestClaimsEnd holds that a claim ends on every node while nobody writes, also
// under a leader that was not there when it was made, and whose clock is behind.
func TestClaimsEnd(t *testing.T) {
	t.Parallel()
	offsets := []time.Duration{time.Minute, 0, -time.Minute}
	started := 0
	c := newCluster(t, 3, func(cfg *config.Config) {
		cfg.ClaimTTL, cfg.ClockOffset = 3*time.Second, offsets[started%len(offsets)]
		started++
	})
	c.WaitVoters()
	id := c.mustJob(0, newJob).ID
	claim := map[string]string{"agent": "bob", "action": "claim", "job_id": id}
	c.mustJob(1, claim)
	c.waitJob(id, "open")

	claimed := c.mustJob(2, claim)
	if claimed.Status != "claimed" || *claimed.ClaimedBy != "bob" {
		t.Fatalf("%+v", claimed)
	}
	leader := c.WaitLeader()
	c.Kill(leader)
	c.WaitLeader()
	c.waitJob(id, "open")
	c.Start(leader)
	c.WaitReady()
	c.waitJob(id, "open")
	c.WaitConverged()
}

// TestOneClaimWins sends claims of one job to all nodes at once.
func TestOneClaimWins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.WaitVoters()
	id := c.mustJob(0, newJob).ID
	const agents = 30
	answers := make(chan int, agents)
	for i := range agents {
		go func() {
			status, _, err := onJobs(c.Nodes[i%3], map[string]string{
				"agent": fmt.Sprintf("agent-%d", i), "action": "claim", "job_id": id,
			})
			if err != nil {
				t.Error(err)
			}
			answers <- status
		}()
	}
	count := map[int]int{}
	for range agents {
		count[<-answers]++
	}
	if count[http.StatusCreated] != 1 || count[http.StatusConflict] != agents-1 {
		t.Errorf("answers by status: %v", count)
	}
	c.WaitConverged()
}
