package integration

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
)

// save takes a backup from a node, and says so as `snapshot save` does.
func (c *testCluster) save(i int) (file string, report backup.Report) {
	c.t.Helper()
	file, report = c.fetch(i)
	mustOperate[struct{}](c, i, admin.PathSaved, admin.SavedBackup{CreatedAt: report.CreatedAt})
	return file, report
}

// fetch reads a backup from a node to its end.
func (c *testCluster) fetch(i int) (file string, report backup.Report) {
	c.t.Helper()
	client := must.Get(admin.NewClient(c.Operators(), c.Nodes[i].Config.SecretFile, c.Nodes[i].ClusterAddr()))(c.t)
	defer client.Close()
	stream := must.Get(client.Stream(c.t.Context(), admin.PathSnapshot, nil))(c.t)
	defer stream.Close()
	file = filepath.Join(c.t.TempDir(), "backup")
	f := must.Get(os.Create(file))(c.t)
	report, err := backup.Inspect(io.TeeReader(stream, f))
	must.Do(c.t, errors.Join(err, f.Close()))
	return file, report
}

func TestBackupBecomesANewCluster(t *testing.T) {
	virtual(t, 3, func(t *testing.T, old *testCluster) {
		old.WaitVoters()
		first := old.MustPublish(0, nodetest.Post{Agent: "ada", Body: "before the backup", RequestID: "backup-0001"})
		load := old.StartLoad(2, 0, 1, 2)
		acked := old.MustPublish(old.WaitLeader(), nodetest.Post{Body: "acknowledged just before"})
		file, report := old.save(old.Follower())
		load.Stop()
		if report.Index < acked.Index || report.Entries == 0 {
			t.Errorf("the backup is of index %d, acknowledged was %d", report.Index, acked.Index)
		}

		c := emptyCluster(t)
		nd := c.Add(1)
		at := offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID}
		// A restore was cut short here, on a file system of its own: no node starts on
		// what is left of it, and it can be run again.
		for name, text := range map[string]string{
			"unfinished": "commons snapshot restore", "lock": "", "raft.db": "half a log", "server-id.json": "{", "state/MANIFEST": "half a state", "lost+found/1": "",
		} {
			path := filepath.Join(at.DataDir, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
		}
		quiet := slog.New(slog.DiscardHandler)
		if n, err := node.Start(t.Context(), nd.Config, quiet); err == nil || !strings.Contains(err.Error(), "commons snapshot restore") {
			t.Errorf("a node whose restore did not end: %v, %v", n, err)
		}
		if _, err := offline.Recover(at, quiet); err == nil || !strings.Contains(err.Error(), "commons snapshot restore") {
			t.Errorf("recovered what was not restored: %v", err)
		}
		founded := must.Get(offline.Restore(at, file))(t)
		if founded.Rows != report.Rows || founded.Digest != report.Digest || founded.Former != report.ClusterID || founded.ClusterID == report.ClusterID {
			t.Errorf("restored %+v from %+v", founded, report)
		}
		if _, err := offline.Restore(at, file); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("a state is restored over another one: %v", err)
		}
		c.startRestored()
		again := c.MustPublish(2, nodetest.Post{Agent: "grace", Body: "after the restore"})
		c.WaitConverged()
		for i := range c.Nodes {
			check.Equal(t, len(c.All(i, client.EntryQuery{})), int(report.Entries)+1, "node %d", i)
			if e, err := c.Nodes[i].Client().Entry(t.Context(), first.Entry.ID); err != nil || e.Body != first.Entry.Body {
				t.Errorf("node %d: entry %s is %+v, %v", i, first.Entry.ID, e, err)
			}
		}
		if again.Entry.ID == first.Entry.ID || again.Entry.CreatedAt <= first.Entry.CreatedAt {
			t.Errorf("a new entry after the restore: %+v", again.Entry)
		}
		// A request_id from before the backup is still known.
		a, err := c.Nodes[1].Publish(t.Context(), nodetest.Post{Agent: "ada", Body: "before the backup", RequestID: "backup-0001"})
		if err != nil || !a.Duplicate || a.Entry.ID != first.Entry.ID {
			t.Errorf("the request_id from before gives %+v, %v", a, err)
		}
	})
}

// TestIndexFromBeforeARestore holds that an index which the restored cluster has not reached is
// rejected by every node, that a client goes on without it, and what it is without a leader.
func TestIndexFromBeforeARestore(t *testing.T) {
	virtual(t, 1, func(t *testing.T, old *testCluster) {
		file, _ := old.save(0)
		var lost nodetest.Answer
		for range 100 {
			lost = old.MustPublish(0, nodetest.Post{Agent: "ada", Body: "not in the backup"})
		}

		c := emptyCluster(t, nodetest.Impatient)
		nd := c.Add(1)
		must.Get(offline.Restore(offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID}, file))(t)
		c.startRestored()
		header := []string{"X-Commons-Min-Index", strconv.FormatUint(lost.Index, 10)}
		for i, nd := range c.Nodes {
			var rejection nodetest.Answer
			if status, err := nd.GetJSON("/api/entries", &rejection, header...); err != nil || status != http.StatusServiceUnavailable || rejection.Code != "behind" {
				t.Errorf("node %d: %d %s, %v", i, status, rejection.Code, err)
			}
			returning := must.Get(client.New(client.Config{URLs: []string{nd.URL()}, HTTP: c.HTTP, Patience: -1, MinIndex: lost.Index}))(t)
			if home, err := returning.Home(t.Context(), client.HomeQuery{For: "ada"}); err != nil || home.Index >= lost.Index {
				t.Errorf("node %d: home of a returning client includes index %d: %v", i, home.Index, err)
			}
			written := must.Get(returning.Publish(t.Context(), nodetest.Post{Agent: "ada", Body: "after the restore"}))(t)
			check.Equal(t, returning.MinIndex(), written.Index, "node %d: a returning client writes at", i)
		}
		leader := c.WaitLeader()
		c.Kill(c.Others(leader)...)
		var rejection nodetest.Answer
		if status, err := c.Nodes[leader].GetJSON("/api/entries", &rejection, header...); err != nil || status != http.StatusServiceUnavailable || rejection.Code != "behind" {
			t.Errorf("without a majority: %d %s, %v", status, rejection.Code, err)
		}
	})
}

// TestRestoredReceivers: a receiver keeps its secret in a restored cluster. With another data key it is
// paused, and home and its deliveries say so, until it is set again.
func TestRestoredReceivers(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	old := newCluster(t, 1, h.reach)
	first := old.registerReceiver(h, "ada", 0)
	file, _ := old.save(0)
	old.Kill(0)
	for _, anew := range []bool{false, true} {
		c := emptyCluster(t, h.reach)
		nd := c.Add(1)
		must.Get(offline.Restore(offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID, NewDataKey: anew}, file))(t)
		c.Start(0)
		c.WaitReady()
		before := len(h.pushed(t, "ada"))
		c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "News for @ada."})
		secret := first.NotifySecret
		if anew {
			var list struct{ Paused *string }
			var home struct{ Notes []string }
			for path, into := range map[string]any{"/api/agents/ada/deliveries": &list, "/api/home?for=ada": &home} {
				must.Get(nd.GetJSON(path, into, "Authorization", "Bearer "+first.EditKey))(t)
			}
			if list.Paused == nil || *list.Paused != "secret_changed" || !slices.ContainsFunc(home.Notes, func(note string) bool { return strings.Contains(note, "set notify_url again") }) {
				t.Errorf("the deliveries are paused: %v; home has the notes %q", list.Paused, home.Notes)
			}
			check.Equal(t, len(h.pushed(t, "ada")), before, "events while paused")
			again, status := c.register(0, map[string]any{"id": "ada", "notify_url": h.url(0), "edit_key": first.EditKey})
			if status != http.StatusCreated || again.NotifySecret == "" || again.NotifySecret == secret {
				t.Fatalf("the receiver again: %d %+v", status, again)
			}
			secret = again.NotifySecret
		}
		c.waitPushed(h, before+1)
		if p := h.pushed(t, "ada")[before]; !signed(&p, secret) {
			t.Errorf("with a new data key %v: not signed with %s: %v", anew, secret, p.Header)
		}
		c.Kill(0)
	}
}

func TestOneNodeIsRecovered(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		first := c.MustPublish(0, nodetest.Post{Body: "before the loss"})
		c.WaitConverged()
		c.Kill(0, 1, 2)
		nd := c.Nodes[0]
		held, err := offline.Survey(offline.Offline{DataDir: nd.DataDir()})
		if err != nil || held.LastLog < first.Index || held.LastTerm == 0 || !strings.HasPrefix(held.ServerID, nd.Config.NodeID+"-") {
			t.Errorf("the node holds %+v, %v, and %d was acknowledged", held, err, first.Index)
		}
		// A recovery that was cut short leaves a node that does not start: it would lead
		// the others alone, under the id of the cluster that they know.
		quiet := slog.New(slog.DiscardHandler)
		marker := filepath.Join(nd.DataDir(), "unfinished")
		must.Do(t, os.WriteFile(marker, []byte("commons recover --confirm"), 0o600))
		if n, err := node.Start(t.Context(), nd.Config, quiet); err == nil || !strings.Contains(err.Error(), "commons recover --confirm") {
			t.Errorf("a node whose recovery did not end: %v, %v", n, err)
		}
		founded := must.Get(offline.Recover(offline.Offline{DataDir: nd.DataDir()}, quiet))(t)
		if founded.ClusterID == founded.Former || founded.Entries != 1 {
			t.Errorf("recovered %+v", founded)
		}
		c.StartReady(0)
		// One of the others comes back after all: it is rejected.
		c.Start(1)
		c.Eventually("a stranger to be rejected", func() error {
			if nd.Logged("belongs to cluster "+founded.Former) || c.Nodes[1].Logged("belongs to cluster "+founded.ClusterID) {
				return nil
			}
			return errors.New("nobody complains")
		})
		c.Kill(1)
		c.Wipe(1)
		c.Wipe(2)
		c.Start(1)
		c.Start(2)
		c.WaitReady()
		c.WaitVoters()
		c.MustPublish(2, nodetest.Post{Body: "after the loss"})
		c.WaitConverged()
		for i := range c.Nodes {
			if all := c.All(i, client.EntryQuery{}); len(all) != 2 || all[1].ID != first.Entry.ID {
				t.Errorf("node %d has %+v", i, all)
			}
		}
		check.Fails(offline.Recover(offline.Offline{DataDir: nd.DataDir()}, slog.New(slog.DiscardHandler)))(t, "a node was recovered that runs")
		check.Fails(offline.Recover(offline.Offline{DataDir: t.TempDir()}, slog.New(slog.DiscardHandler)))(t, "an empty directory was recovered")
	})
}

// TestRecoveryAsksForTheSecretFirst holds that a recovery with another secret leaves the
// directory unchanged.
func TestRecoveryAsksForTheSecretFirst(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *testCluster) {
		c.WaitReady(0)
		c.MustPublish(0, nodetest.Post{Body: "before the loss"})
		c.Kill(0)
		quiet := slog.New(slog.DiscardHandler)
		without := offline.Offline{DataDir: c.Nodes[0].DataDir()}
		secret := filepath.Join(t.TempDir(), "secret")
		must.Do(t, os.WriteFile(secret, []byte(strings.Repeat("another secret ", 4)), 0o600))
		with := without
		with.SecretFile = secret
		// The well-known secret of nodes without a file opens with any.
		first := must.Get(offline.Recover(with, quiet))(t)
		if _, err := offline.Recover(without, quiet); err == nil || !strings.Contains(err.Error(), "sealed under") {
			t.Errorf("recovered without the secret: %v", err)
		}
		check.Err(t, check.Last(os.Stat(filepath.Join(without.DataDir, "unfinished"))), fs.ErrNotExist, "the recovery began")
		lost := without
		lost.NewDataKey = true
		if anew, err := offline.Recover(lost, quiet); err != nil || !anew.NewDataKey || anew.Former != first.ClusterID || anew.Entries != 1 {
			t.Errorf("recovered without the secret, with a new data key: %+v, %v", anew, err)
		} else {
			first = anew
		}
		// It may be done again.
		if again, err := offline.Recover(with, quiet); err != nil || again.Former != first.ClusterID || again.Entries != 1 {
			t.Errorf("%+v after %+v: %v", again, first, err)
		}
	})
}

// TestRecoveryAfterTheSecretWasReplaced recovers a node whose state on disk still has
// the data key as the former secret sealed it: that it was sealed anew is in the log
// alone.
func TestRecoveryAfterTheSecretWasReplaced(t *testing.T) {
	t.Parallel()
	const former, next = "the former secret of this cluster, long enough", "the next secret of this cluster, long enough"
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(secrets ...string) {
		t.Helper()
		must.Do(t, os.WriteFile(secret, []byte(strings.Join(secrets, "\n")+"\n"), 0o600))
	}
	write(former)
	c := newCluster(t, 1, func(cfg *config.Config) { cfg.SecretFile = secret })
	c.WaitReady(0)
	c.MustPublish(0, nodetest.Post{Body: "before the loss"})
	c.Stop(0) // writes the state
	write(next, former)
	c.Start(0)
	c.WaitLogged(0, "sealed the data key under another secret")
	c.Kill(0)
	write(next)
	founded, err := offline.Recover(offline.Offline{DataDir: c.Nodes[0].DataDir(), SecretFile: secret}, slog.New(slog.DiscardHandler))
	if err != nil || founded.Entries != 1 {
		t.Fatalf("%+v, %v", founded, err)
	}
	c.StartReady(0)
}

// startRestored starts the node with the restored state, and has two others join it.
func (c *testCluster) startRestored() {
	c.Start(0)
	c.WaitReady()
	c.Join()
	c.Join()
	c.WaitReady()
	c.WaitVoters()
}
