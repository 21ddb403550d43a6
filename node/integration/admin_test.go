package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// operate makes one call of an operator to a node.
func operate[Answer any](c *testCluster, i int, path string, request any) (Answer, error) {
	c.t.Helper()
	return operateFor[Answer](c.t.Context(), c, i, path, request)
}

// mustOperate is operate for a call that has to succeed.
func mustOperate[Answer any](c *testCluster, i int, path string, request any) Answer {
	c.t.Helper()
	return must.Get(operate[Answer](c, i, path, request))(c.t)
}

// operateFor is operate for as long as a context lasts.
func operateFor[Answer any](ctx context.Context, c *testCluster, i int, path string, request any) (Answer, error) {
	c.t.Helper()
	client := must.Get(admin.NewClient(c.Operators(), c.Nodes[i].Config.SecretFile, c.Nodes[i].ClusterAddr()))(c.t)
	defer client.Close()
	return admin.Call[Answer](ctx, client, path, request)
}

// problems returns whether a node is ready, and what keeps it from that, as operators
// are told.
func (c *testCluster) problems(nd *nodetest.Node) (ready bool, text string) {
	c.t.Helper()
	r, err := operate[admin.NodeReport](c, nd.Index(), admin.PathNode, nil)
	if err != nil {
		return false, err.Error()
	}
	return r.Ready, strings.Join(r.Problems, "\n")
}

// rejected fails the test unless a call was rejected with the status and a text.
func rejected(t *testing.T, err error, status int, text string) {
	t.Helper()
	failed, ok := errors.AsType[*admin.CallError](err)
	if !ok || failed.Status != status || !strings.Contains(failed.Message, text) {
		t.Errorf("error %v, want status %d and %q", err, status, text)
	}
}

func TestOperatorsSeeTheCluster(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		leader := c.WaitLeader()
		id := c.MustPublish(leader, nodetest.Post{Body: "seen by operators"}).Entry.ID
		check.Equal(t, mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{Welcome: &id}}).Welcome, id, "the welcome")
		missing := "ezzzz"
		_, err := operate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{Welcome: &missing}})
		check.ErrText(t, err, "publish the welcome first", "a welcome that is not there")
		c.WaitConverged()
		for i := range c.Nodes {
			report := mustOperate[admin.ClusterReport](c, i, admin.PathCluster, nil)
			if report.AskedNode != c.Nodes[i].ServerID() || report.Leader != c.Nodes[leader].ServerID() || len(report.Servers) != 3 {
				t.Errorf("node %d reports %+v", i, report)
			}
			for _, s := range report.Servers {
				if s.Report == nil || !s.Alive || s.Part != admin.Voter || s.Report.ID != s.ID || s.Report.Entries != 1 || s.Report.DiskFree == 0 || s.Report.MemoryBytes == 0 {
					t.Errorf("node %d reports %+v of %s", i, s.Report, s.ID)
				}
				if r := s.Report; r != nil && (len(r.Secrets) != 1 || r.SealedUnder != r.Secrets[0]) {
					t.Errorf("%s accepts the secrets %v, the data key is under %q", s.ID, r.Secrets, r.SealedUnder)
				}
			}
		}
		c.Kill(leader)
		left := c.WaitLeader()
		c.Eventually("a report without the dead node", func() error {
			report, err := operate[admin.ClusterReport](c, left, admin.PathCluster, nil)
			if err != nil {
				return err
			}
			for _, s := range report.Servers {
				if s.Report == nil && s.Error != "" && s.Part == admin.Voter && !s.Alive {
					return nil
				}
			}
			return errors.New("every server answers")
		})
	})
}

func TestDigestsAreComparedAtOneIndex(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		load := c.StartLoad(3, 0, 1, 2)
		defer load.Stop()
		for range 5 {
			comparison := mustOperate[admin.Comparison](c, c.Follower(), admin.PathCompare, admin.CompareRequest{PatienceMillis: nodetest.Patience.Milliseconds()})
			if !comparison.Equal || !comparison.Complete() || len(comparison.Digests) != 3 || comparison.Digests[0].Digest == "" || comparison.Digests[0].Rows == "" {
				t.Fatalf("compared: %+v", comparison)
			}
		}
	})
}

// TestDigestSeesRowsThatDiffer: two nodes with the same log whose states differ in
// a row are found out.
func TestDigestSeesRowsThatDiffer(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		victim := c.Follower()
		c.MustPublish(victim, nodetest.Post{Body: "What everybody has read."})
		c.WaitConverged()
		c.Stop(victim)
		rows, err := fsmtest.ReplaceText(filepath.Join(c.Nodes[victim].DataDir(), "state"), "What everybody has read.", "What nobody ever wrote..")
		if err != nil || rows == 0 {
			t.Fatalf("the text was replaced in %d rows: %v", rows, err)
		}
		c.Start(victim)
		c.WaitReady()
		comparison := mustOperate[admin.Comparison](c, victim, admin.PathCompare, nil)
		if comparison.Equal || !comparison.Complete() {
			t.Fatalf("compared: %+v", comparison)
		}
		differ := 0
		for _, d := range comparison.Digests {
			check.Equal(t, d.Digest, comparison.Digests[0].Digest, "the logs differ: %+v", comparison)
			for _, other := range comparison.Digests {
				if d.Rows != other.Rows {
					differ++
				}
			}
		}
		if differ != 4 { // the one from both others, and they from it
			t.Errorf("compared: %+v", comparison)
		}
	})
}

func TestLeadershipIsTransferred(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, patientRaft) // an election between two transfers would change the leader, too
		c.WaitVoters()
		leader := c.WaitLeader()
		next := c.Follower()
		// The call goes to a node that does not lead.
		answer := c.transfer(next, c.Nodes[next].ServerID())
		if answer.ID != c.Nodes[next].ServerID() || c.WaitLeader() != next {
			t.Errorf("%s leads, wanted was %s", answer.ID, c.Nodes[next].ServerID())
		}
		_, err := operate[admin.ServerRef](c, leader, admin.PathTransfer, admin.ServerRef{ID: "nobody-0"})
		rejected(t, err, http.StatusConflict, "has no vote")
		c.transfer(leader, c.Nodes[next].ServerID())
		check.Equal(t, c.WaitLeader(), next, "the leader that was asked to lead")
		if answer := c.transfer(leader, ""); answer.ID == c.Nodes[next].ServerID() {
			t.Errorf("%s still leads", answer.ID)
		}
	})
}

// transfer asks a node to have a server lead, any other one if it is not named, until
// that succeeds: a follower may be too busy to take over within one election timeout.
func (c *testCluster) transfer(asked int, serverID string) (answer admin.ServerRef) {
	c.t.Helper()
	c.Eventually("a transfer of leadership", func() error {
		var err error
		answer, err = operate[admin.ServerRef](c, asked, admin.PathTransfer, admin.ServerRef{ID: serverID})
		return err
	})
	return answer
}

func TestServersLeaveAndAreRemoved(t *testing.T) {
	virtual(t, 4, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		leader := c.WaitLeader()
		follower := c.Follower()
		_, err := operate[admin.ServerRef](c, leader, admin.PathRemove, admin.Removal{ID: c.Nodes[follower].ServerID()})
		rejected(t, err, http.StatusConflict, "commons leave")
		_, err = operate[admin.ServerRef](c, follower, admin.PathRemove, admin.Removal{ID: "nobody-0"})
		rejected(t, err, http.StatusNotFound, "not in the configuration")

		// The leader leaves: it hands leadership over first.
		gone := c.Nodes[leader].ServerID()
		answer := must.Get(operate[admin.ServerRef](c, leader, admin.PathLeave, nil))(t)
		check.Equal(t, answer.ID, gone, "left: %+v", answer)
		check.Err(t, c.Nodes[leader].Wait(), nil, "the node that left ended")
		c.WaitVoters()
		check.ErrText(t, c.TryStart(leader), "has left its cluster", "a node that has left starts again")

		// A dead one is removed by hand.
		victim := c.Follower()
		dead := c.Nodes[victim].ServerID()
		c.Kill(victim)
		left := c.WaitLeader()
		c.Eventually("the removal of a dead server", func() error {
			_, err := operate[admin.ServerRef](c, left, admin.PathRemove, admin.Removal{ID: dead})
			switch {
			case err == nil:
				return nil
			case strings.Contains(err.Error(), "commons leave"):
				t.Fatalf("a dead server is said to run: %v", err)
			}
			return err // it counts as alive until gossip has noticed
		})
		c.WaitVoters()
		c.checkEvents(c.Follower(), gone, dead)
	})
}

// checkEvents holds that every node knows who formed the cluster, who led it, and who
// removed which server, and tells as much of it as it is asked for.
func (c *testCluster) checkEvents(at int, removed ...string) {
	c.t.Helper()
	daily := uint64(1 << 30)
	mustOperate[admin.SettingsReport](c, at, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{DailyBytes: &daily}})
	var all admin.Events
	c.Eventually("the last event", func() error {
		var err error
		if all, err = operate[admin.Events](c, at, admin.PathEvents, admin.EventsRequest{}); err != nil {
			return err
		}
		n := len(all.Events)
		return nodetest.ErrorIf(n == 0 || all.Events[n-1].Action != state.ActionSettings || all.Events[n-1].By != command.Operator, "%+v", all.Events)
	})
	found := map[string]int{}
	for _, e := range all.Events {
		found[e.Action]++
		if e.Action == command.ChangeRemove {
			found[e.What]++
			if e.Reason == "" || e.By == "" || e.At == 0 {
				c.t.Errorf("%+v", e)
			}
		}
	}
	for _, id := range removed {
		check.Equal(c.t, found[id], 1, "removals of %s in %+v", id, all.Events)
	}
	if found[state.ActionForm] != 1 || found[state.ActionLead] < 2 || all.More {
		c.t.Errorf("%+v", all)
	}
	last, err := operate[admin.Events](c, at, admin.PathEvents, admin.EventsRequest{Limit: 1})
	if err != nil || len(last.Events) != 1 || last.Events[0].Action != state.ActionSettings || !last.More {
		c.t.Errorf("the newest: %+v, %v", last, err)
	}
	for i, e := range all.Events {
		check.Equal(c.t, e.Number, uint64(i+1), "the number of event %d", i)
	}
	second, err := operate[admin.Events](c, at, admin.PathEvents, admin.EventsRequest{From: 2, Limit: 1})
	if err != nil || !second.More || !slices.Equal(second.Events, all.Events[1:2]) {
		c.t.Errorf("one event from the second on: %+v, %v", second, err)
	}
	check.Equal(c.t, last.Events[0].Number, uint64(len(all.Events)), "the number of the newest event alone")
	later, err := operate[admin.Events](c, at, admin.PathEvents, admin.EventsRequest{From: last.Events[0].Number + 1})
	if err != nil || len(later.Events) != 0 || later.More {
		c.t.Errorf("after the newest: %+v, %v", later, err)
	}
	none, err := operate[admin.Events](c, at, admin.PathEvents, admin.EventsRequest{Since: last.Events[0].At + 1})
	if err != nil || len(none.Events) != 0 || none.More {
		c.t.Errorf("since then: %+v, %v", none, err)
	}
}

func TestTheLastMajorityIsNotTakenApart(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.WaitVoters()
		follower := c.Follower()
		dead := c.Nodes[follower].ServerID()
		c.Kill(follower)
		leader := c.WaitLeader()
		_, err := operate[admin.ServerRef](c, leader, admin.PathLeave, nil)
		rejected(t, err, http.StatusConflict, "no majority")
		// The report on the dead server gives the advice for its own case.
		report := mustOperate[admin.ClusterReport](c, leader, admin.PathCluster, nil)
		if s, _ := report.Find(dead); !strings.HasPrefix(s.Error, s.ID+" ") || !strings.Contains(s.Error, "see whether its node runs") {
			t.Errorf("of the dead server: %q", s.Error)
		}
	})
}

// TestRollingUpgrade: while one node runs an old program the format stays, and
// it is raised by itself when the last one is upgraded. The old program does not
// start on the newer state, and is not taken in as a new node.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const before, after = 1, 2
		c := newCluster(t, 3, func(cfg *config.Config) { cfg.Tuning.Format = before })
		for i := range c.Nodes {
			for _, nd := range c.Nodes {
				check.Equal(t, nd.Status().Format, before, "before node %d is upgraded node %d says format", i, nd.Index())
			}
			c.Stop(i)
			c.Nodes[i].Config.Tuning.Format = after
			c.Start(i)
			c.WaitReady()
			c.MustPublish(i, nodetest.Post{Body: fmt.Sprintf("after the upgrade of node %d", i)})
		}
		c.Eventually("the format is raised", func() error {
			for _, nd := range c.Nodes {
				if s := nd.Status(); s.Format != after {
					return fmt.Errorf("node %d says format %d", nd.Index(), s.Format)
				}
			}
			return nil
		})
		c.WaitConverged()
		c.Stop(0)
		c.Nodes[0].Config.Tuning.Format = before
		check.ErrText(t, c.TryStart(0), "newer format", "the old program on the newer state")
		late := c.Add(1)
		late.Config.Join = []string{c.Nodes[1].Config.GossipAddr}
		c.Start(late.Index())
		leader := c.WaitLeader(1, 2)
		c.Eventually("the old program says why it does not join, and the leader does", func() error {
			const want = "run a newer version of this program: format 2, and this one knows up to 1"
			if ready, text := c.problems(late); ready || !strings.Contains(text, want) || !late.Logged(want) {
				return errors.New(text)
			}
			return nodetest.ErrorIf(!c.Nodes[leader].Logged("its program is too old"), "the leader's log does not")
		})
		if s := c.Nodes[leader].Status(); slices.Contains(s.Voters, late.ServerID()) {
			t.Errorf("the servers are %+v", s)
		}
	})
}

// TestUnregisteredHouseNames: a node says which of the operator's names anybody could take.
func TestUnregisteredHouseNames(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 1, func(cfg *config.Config) { cfg.HouseAgents = []string{"Front Desk", "porter"} })
		warned := func() string {
			r := mustOperate[admin.NodeReport](c, 0, admin.PathNode, nil)
			return strings.Join(r.Warnings, "\n")
		}
		if text := warned(); !strings.Contains(text, ": Front Desk, porter; register each") || !c.Nodes[0].Logged("Front Desk, porter") {
			t.Errorf("warnings %q, log:\n%s", text, c.Nodes[0].Log())
		}
		for _, name := range []string{"front-desk", "Porter"} {
			c.mustPost(0, "/api/agents", map[string]any{"id": name, "description": "Helps."}, &struct{}{})
		}
		check.Lacks(t, warned(), "--house-agents", "the warning while all are registered")
	})
}

// TestUntrustedProxy: a node says that a proxy outside --trusted-proxies passes requests, and
// takes the proxy's address for no proof.
func TestUntrustedProxy(t *testing.T) {
	t.Parallel()
	for _, proof := range []string{"on", "off"} {
		t.Run("address proof "+proof, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, func(cfg *config.Config) { cfg.AddressProof = proof })
			verified := func(headers ...string) bool {
				t.Helper()
				var answer struct{ Entry struct{ NameVerified bool } }
				body := map[string]any{"agent": "ada", "body": fmt.Sprint("Hello ", headers)}
				c.mustPost(0, "/api/entries", body, &answer, headers...)
				return answer.Entry.NameVerified
			}
			c.mustPost(0, "/api/agents", map[string]any{"id": "ada", "note": "Here."}, &struct{}{})
			check.Equal(t, verified(), proof == "on", "from the address: verified")
			if c.Nodes[0].Logged("a proxy is not trusted") {
				t.Errorf("it warns of a request without a proxy:\n%s", c.Nodes[0].Log())
			}
			check.Equal(t, verified("X-Forwarded-For", "192.0.2.1"), false, "through the proxy: verified")
			r, err := operate[admin.NodeReport](c, 0, admin.PathNode, nil)
			if err != nil || r.Proxy != "127.0.0.1" || !contains(r.Warnings, "127.0.0.1 passes requests") || !c.Nodes[0].Logged("a proxy is not trusted") {
				t.Errorf("%v, warnings %q, log:\n%s", err, r.Warnings, c.Nodes[0].Log())
			}
		})
	}
}
