package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
)

// doomed is the word in what is purged.
const doomed = "Zyzzyvaquark"

// soon has purges leave the disk at once.
func soon(cfg *config.Config) { cfg.Tuning.PurgeGather = 100 * time.Millisecond }

// publishDoomed publishes an entry, a job that is claimed, and a request for help with
// the word, among others, and returns their ids.
func (c *testCluster) publishDoomed() []string {
	c.t.Helper()
	for i := range 100 {
		c.MustPublish(i%len(c.Nodes), nodetest.Post{Agent: "ada", Body: fmt.Sprintf("An honest entry, number %d.", i)})
	}
	ids := []string{c.MustPublish(0, nodetest.Post{Agent: "eve", Body: strings.Repeat("Buy "+doomed+" now. ", 9), RequestID: "request-1"}).Entry.ID}
	post := func(path string, body map[string]any) string {
		var answer struct{ Entry, Job, Request nodetest.Entry }
		c.mustPost(0, path, body, &answer)
		return answer.Entry.ID + answer.Job.ID
	}
	job := post("/api/jobs", map[string]any{"agent": "eve", "title": "Sell " + doomed, "body": "Sell " + doomed + " to all."})
	post("/api/jobs", map[string]any{"agent": "bob", "action": "claim", "job_id": job})
	help := post("/api/human-requests", map[string]any{"agent": "eve", "goal": "Buy " + doomed, "requested_action": "Pay for " + doomed})
	for i := range 100 {
		c.MustPublish(i%len(c.Nodes), nodetest.Post{Agent: "ada", Body: fmt.Sprintf("Another honest entry, number %d.", i)})
	}
	return append(ids, job, help)
}

// doomedFiles returns the files of a node's data directory that hold the word.
func (c *testCluster) doomedFiles(i int) ([]string, error) {
	return fsmtest.FindText(c.Nodes[i].DataDir(), doomed)
}

// purge purges entries by way of a node.
func (c *testCluster) purge(i int, ids ...string) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{"ids": ids, "reason": "a test"})
	answer, err := operate[struct{ Changed int }](c, i, admin.PathModerate, admin.Moderation{Operation: "purge", Body: body})
	if err != nil || answer.Changed != len(ids) {
		c.t.Fatalf("purge: %+v, %v", answer, err)
	}
}

// noneOf returns an error that lists the files, if there are any.
func noneOf(files []string) error {
	return nodetest.ErrorIf(len(files) > 0, "%s", files)
}

// waitErased waits until the word is in no file of nodes.
func (c *testCluster) waitErased(nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		c.Eventually(fmt.Sprintf("node %d has erased it", i), func() error {
			found, err := c.doomedFiles(i)
			if err != nil {
				return err // a table that is being written
			}
			return noneOf(found)
		})
	}
}

// TestPurgeLeavesNoBytes: what is purged is in tables, manifests and logs before, and
// in no byte of any node's directory afterwards: not of one that was killed meanwhile
// and started again, of one that was away and is sent the state, or of a new one.
func TestPurgeLeavesNoBytes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, soon)
	c.WaitVoters()
	ids := c.publishDoomed()
	c.WaitConverged()
	for i := range c.Nodes { // a stop writes the memory to tables
		c.Stop(i)
		c.Start(i)
		c.WaitReady()
	}
	c.WaitLeader()
	for i := range c.Nodes {
		found := must.Get(c.doomedFiles(i))(t)
		table := slices.ContainsFunc(found, func(name string) bool { return strings.HasSuffix(name, ".sst") })
		if !table || !slices.Contains(found, "raft.db") {
			t.Fatalf("node %d: the word is in %s before it is purged: the test finds too little", i, found)
		}
	}
	away := c.Follower()
	c.Kill(away)
	here := c.Others(away)
	leader := c.WaitLeader(here...)
	c.purge(here[0], ids...)
	c.Kill(leader) // in the middle of it, or before
	c.Start(leader)
	c.waitErased(here...)
	if found, err := c.doomedFiles(away); err != nil || len(found) == 0 {
		t.Errorf("the one that is away has it in %s, %v", found, err)
	}
	c.Start(away)
	c.waitErased(away)
	joined := c.Join().Index()
	c.WaitConverged()
	c.waitErased(0, 1, 2, joined)
	for i := range c.Nodes {
		for _, id := range ids {
			_, body, err := c.Nodes[i].GetText("/api/entries/" + id)
			if err != nil || !strings.Contains(body, `"purged":true`) || strings.Contains(body, doomed) {
				t.Errorf("node %d shows %s, %v", i, body, err)
			}
		}
	}
}

// purges returns which disks still hold what was purged, as a node answers the operator.
func (c *testCluster) purges(node int) (op.Purges, error) {
	c.t.Helper()
	return operate[op.Purges](c, node, admin.PathModerate, admin.Moderation{Operation: "listPurges"})
}

// TestRefusedTextsLeaveTheLog: a reply and a report that are rejected because their target is
// hidden or unknown enter no log. A rejection by apply has the log rewritten.
func TestRefusedTextsLeaveTheLog(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		id := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "This will be hidden."}).Entry.ID
		c.WaitConverged()
		body, _ := json.Marshal(map[string]any{"ids": []string{id}, "reason": "a test"})
		mustOperate[json.RawMessage](c, 0, admin.PathModerate, admin.Moderation{Operation: "hide", Body: body})
		for i := range c.Nodes {
			for _, target := range []string{id, "e999"} {
				for path, body := range map[string]map[string]any{
					"/api/entries": {"agent": "bob", "body": "About " + doomed, "reply_to": target},
					"/api/reports": {"entry_id": target, "reason": "spam", "text": "It sells " + doomed},
				} {
					var rejection struct{ Code string }
					if code, err := c.Nodes[i].PostJSON(path, body, &rejection); err != nil || code != http.StatusUnprocessableEntity {
						t.Errorf("%s about %s at %d: %d, %v", path, target, i, code, err)
					}
				}
			}
		}
		c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "What follows in the log."})
		c.WaitConverged()
		for i := range c.Nodes {
			check.Empty(t, must.Get(c.doomedFiles(i))(t), "node %d has the word in", i)
		}
	})
}

// TestPurgeStatus: every node is listed with its pending purges, and the time since which the disks
// of removed servers may have the texts; and a node that was away does not answer before it has the
// purges.
func TestPurgeStatus(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		earlier := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Buy more " + doomed}).Entry
		time.Sleep(time.Minute)
		id := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Buy " + doomed}).Entry.ID
		c.WaitConverged()
		away := c.Follower()
		c.Stop(away)
		here := c.Others(away)
		c.WaitLeader(here...)
		c.purge(here[0], id)
		status := func() map[string]uint64 {
			report := must.Get(c.purges(here[0]))(t)
			pending := map[string]uint64{}
			for _, s := range report.Servers {
				pending[fmt.Sprintf("%s %s", strings.Split(s.ID, "-")[0], s.Part)] = s.Pending
			}
			return pending
		}
		name := func(i int) string { return c.Nodes[i].Config.NodeID + " voter" }
		c.Eventually("two disks are done, the third is not", func() error {
			got := status()
			if got[name(here[0])] == 0 && got[name(here[1])] == 0 && got[name(away)] == 1 && len(got) == 3 {
				return nil
			}
			return fmt.Errorf("%v", got)
		})
		// Alone, the one that was away hears from no leader.
		c.Stop(here[0])
		c.Stop(here[1])
		nodetest.Impatient(&c.Nodes[away].Config)
		c.Start(away)
		var page struct{ Code string }
		if code, err := c.Nodes[away].GetJSON("/api/entries/"+id, &page); err != nil || code != http.StatusServiceUnavailable || page.Code != "behind" {
			t.Errorf("a node that knows of no purge answers %d %s, %v", code, page.Code, err)
		}
		c.Stop(away)
		c.Nodes[away].Config.AnswerBehind = true
		c.Start(away)
		check.Err(t, check.Last(c.Nodes[away].Client().Entry(t.Context(), id)), nil, "with --answer-behind it answers")
		c.Start(here[0])
		c.Start(here[1])
		c.WaitReady()
		c.Eventually("all disks are done", func() error {
			got := status()
			if got[name(0)]+got[name(1)]+got[name(2)] == 0 && len(got) == 3 {
				return nil
			}
			return fmt.Errorf("%v", got)
		})
		removed := c.Nodes[away].ServerID()
		c.Stop(away)
		c.WaitLeader(here...)
		c.Eventually("the server is removed", func() error {
			_, err := operate[admin.ServerRef](c, here[0], admin.PathRemove, admin.Removal{ID: removed})
			return err
		})
		c.purge(here[0], earlier.ID)
		check.Diff(t, slices.Sorted(maps.Keys(status())), slices.Sorted(slices.Values([]string{name(here[0]), name(here[1])})), "listed disks after the removal")
		check.Equal(t, must.Get(c.purges(here[0]))(t).RemovedSince, time.UnixMilli(earlier.CreatedAt).UTC().Format(time.RFC3339), "the time of the oldest text that removed servers may have")
	})
}

// TestPurgeOneAfterAnother: the servers erase in the order of their ids, the leader last.
func TestPurgeOneAfterAnother(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		ids := c.publishDoomed()
		c.WaitConverged()
		leader := c.WaitLeader()
		order := c.Others(leader)
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(c.Nodes[a].ServerID(), c.Nodes[b].ServerID()) })
		var want, got []string
		for _, i := range append(order, leader) {
			want = append(want, c.Nodes[i].ServerID())
		}
		c.purge(leader, ids...)
		c.Eventually("all disks are done", func() error {
			report, err := c.purges(leader)
			for _, s := range report.Servers {
				if s.Pending == 0 && s.Done > 0 && !slices.Contains(got, s.ID) {
					got = append(got, s.ID)
				}
			}
			return errors.Join(err, nodetest.ErrorIf(len(got) < len(want), "%v", got))
		})
		check.Diff(t, got, want, "servers in the order of their erasures")
	})
}

// TestTimeOfPurgeList: the time of a list of purges is that of the call, also if the node has to
// wait before it reads the purges.
func TestTimeOfPurgeList(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const cut = 2 * time.Second
		c := newCluster(t, 3)
		follower := c.Follower()
		c.Isolate(follower)
		begun := time.Now()
		time.AfterFunc(cut, c.Heal)
		list := mustOperate[backup.PurgeList](c, follower, admin.PathPurged, nil)
		if took := time.Since(begun); took < cut {
			t.Fatalf("the node did not wait for a leader: it took %v", took)
		}
		if late := time.UnixMilli(list.CreatedAt).Sub(begun); late > cut/2 {
			t.Errorf("the list is of %v after the call", late)
		}
	})
}

// TestRestorePurgesAgain: what was purged after a backup is purged in what is restored
// from it, as the list says, and is in no file there.
func TestRestorePurgesAgain(t *testing.T) {
	virtual(t, 1, func(t *testing.T, old *testCluster) {
		ids := old.publishDoomed()
		file, _ := old.save(0)
		old.purge(0, ids...)
		purged := mustOperate[backup.PurgeList](old, 0, admin.PathPurged, nil)
		path := file + backup.PurgeListSuffix
		must.Do(t, purged.Write(path))

		c := emptyCluster(t)
		nd := c.Add(1)
		at := offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID}
		at.DataDir = t.TempDir()
		must.Equal(t, must.Get(offline.Restore(at, file))(t).Purged, 0, "without a list")
		if found, err := fsmtest.FindText(at.DataDir, doomed); err != nil || len(found) == 0 {
			t.Fatalf("the backup has the word in %s, %v: the test shows nothing", found, err)
		}
		at.DataDir, at.Purged = nd.DataDir(), must.Get(backup.ReadPurgeList(path))(t)
		founded, err := offline.Restore(at, file)
		if err != nil || founded.Purged != len(ids) {
			t.Fatalf("restored %+v, %v", founded, err)
		}
		check.Empty(t, must.Get(c.doomedFiles(0))(t), "the word is in")
		c.Start(0)
		c.WaitReady()
		for _, id := range ids {
			if _, body, err := nd.GetText("/api/entries/" + id); err != nil || !strings.Contains(body, `"purged":true`) {
				t.Errorf("shown is %s, %v", body, err)
			}
		}
		// The servers of the former cluster are not this one's.
		c.Eventually("the disk is done", func() error {
			report, err := c.purges(0)
			if err != nil {
				return err
			}
			if len(report.Servers) != 1 || report.Servers[0].ID != nd.ServerID() {
				t.Fatalf("listed are %+v", report.Servers)
			}
			s := report.Servers[0]
			return nodetest.ErrorIf(s.Pending > 0 || s.Done != report.Purged, "%+v", s)
		})
		// The list goes on in the new cluster.
		if again, err := operate[backup.PurgeList](c, 0, admin.PathPurged, nil); err != nil || len(again.Purged) != len(ids) || again.Purged[0].ClusterID != founded.Former {
			t.Errorf("the list of the new cluster is %+v, %v", again, err)
		}
		if _, err := backup.ReadPurgeList(file); err == nil || !strings.Contains(err.Error(), "is not whole") {
			t.Errorf("a backup as a list: %v", err)
		}
	})
}
