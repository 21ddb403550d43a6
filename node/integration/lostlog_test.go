package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
)

// rejected tries to start a node that has lost its log.
func (c *testCluster) rejected(i int, reason string) {
	c.t.Helper()
	err := c.TryStart(i)
	var lost *offline.LostLogError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), reason) {
		c.t.Fatalf("node %d: %v, want a lost log: %s", i, err, reason)
	}
	for _, advice := range []string{"empty the whole directory", "commons snapshot restore", "commons recover"} {
		check.ErrText(c.t, err, advice, "the error")
	}
}

// logPath is the file of a node's Raft log.
func logPath(nd *nodetest.Node) string { return filepath.Join(nd.DataDir(), "raft.db") }

// TestVoterWithoutItsLogIsRejected lets the only other server that has the newest
// entries lose its log while the third is behind. Together with that one it would be
// a majority without them.
func TestVoterWithoutItsLogIsRejected(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(path string) error
		end  func(c *testCluster, i int) // of the one that has the entries
	}{
		"cut to zero, the other killed": {func(path string) error { return os.Truncate(path, 0) }, func(c *testCluster, i int) { c.Kill(i) }},
		"removed, the other stopped":    {os.Remove, func(c *testCluster, i int) { c.Stop(i) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.WaitVoters()
			const a, b, behind = 0, 1, 2
			c.Kill(behind)
			c.WaitLeader(a, b)
			var acked []nodetest.Answer
			for range 5 {
				acked = append(acked, c.MustPublish(a, nodetest.Post{Body: "acknowledged by a majority"}))
			}
			c.Kill(b)
			tt.end(c, a)
			must.Do(t, tt.lose(logPath(c.Nodes[b])))
			c.rejected(b, "missing or empty")
			c.rejected(b, "missing or empty") // the first attempt did not make a log
			c.Wipe(b)
			for _, i := range []int{b, behind, a} {
				c.Start(i)
			}
			c.WaitReady()
			c.WaitVoters()
			c.WaitConverged()
			for i := range c.Nodes {
				check.Equal(t, len(c.All(i, client.EntryQuery{})), len(acked), "node %d lists entries", i)
			}
		})
	}
}

// TestLastDiskWithoutItsLog loses the log of a cluster of one: it must not found
// another over the old state, and the state goes on alone when that is asked for.
func TestLastDiskWithoutItsLog(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *testCluster) {
		first := c.MustPublish(0, nodetest.Post{Body: "before the loss"})
		c.Stop(0)
		nd := c.Nodes[0]
		must.Do(t, os.Remove(logPath(nd)))
		c.rejected(0, "missing or empty")
		recoverAlone(t, c, first)
	})
}

// recoverAlone recovers a node whose log is lost, twice, and uses it.
func recoverAlone(t *testing.T, c *testCluster, first nodetest.Answer) {
	t.Helper()
	quiet, at := slog.New(slog.DiscardHandler), offline.Offline{DataDir: c.Nodes[0].DataDir()}
	held, err := offline.Survey(at)
	if err != nil || held.LostLog == nil || held.LastLog < first.Index || held.LastTerm == 0 {
		t.Errorf("the node holds %+v, %v; %d was acknowledged", held, err, first.Index)
	}
	for range 2 {
		if founded, err := offline.Recover(at, quiet); err != nil || founded.Entries != 1 || founded.Index < first.Index {
			t.Fatalf("recovered %+v, %v", founded, err)
		}
	}
	for i := range 2 {
		c.Start(0)
		c.WaitReady()
		if after := c.MustPublish(0, nodetest.Post{Body: "after the loss"}); after.Index <= first.Index {
			t.Errorf("index %d was given out again after %d", after.Index, first.Index)
		}
		if all := c.All(0, client.EntryQuery{}); len(all) != i+2 || all[i+1].ID != first.Entry.ID {
			t.Errorf("the node lists %+v", all)
		}
		c.Kill(0)
	}
}

// TestLogOfAnotherIsRejected puts logs in place that are not the state's: another
// server's, one that was made anew, and an older one of its own.
func TestLogOfAnotherIsRejected(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *testCluster) {
		nd := c.Nodes[0]
		first := c.MustPublish(0, nodetest.Post{Body: "the first entry"})
		c.Kill(0)
		older := must.Get(os.ReadFile(logPath(nd)))(t)
		other := newCluster(t, 1)
		other.MustPublish(0, nodetest.Post{Body: "another first entry"})
		other.Kill(0)
		foreign := must.Get(os.ReadFile(logPath(other.Nodes[0])))(t)
		put := func(log []byte) {
			t.Helper()
			must.Do(t, os.WriteFile(logPath(nd), log, 0o600))
		}
		c.Start(0)
		c.WaitReady()
		c.Stop(0)
		own := must.Get(os.ReadFile(logPath(nd)))(t)
		put(foreign)
		c.rejected(0, "another server's")
		put(older)
		c.rejected(0, "the newest term that it knows is")
		put(own)
		c.Start(0)
		c.WaitReady()
		c.Stop(0)
		put(foreign)
		recoverAlone(t, c, first)
		if kept, err := os.ReadFile(logPath(nd) + ".lost"); err != nil || !bytes.Contains(kept, []byte("another first entry")) {
			t.Errorf("the log that was in the place was not kept: %d bytes, %v", len(kept), err)
		}
	})
}

// identity returns what a node's data directory says of it.
func identity(t *testing.T, nd *nodetest.Node) (fields map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(nd.DataDir(), "server-id.json"))
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	must.Do(t, err)
	return fields
}

// setIdentity writes it.
func setIdentity(t *testing.T, nd *nodetest.Node, fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(fields)
	if err == nil {
		err = errors.Join(os.MkdirAll(nd.DataDir(), 0o700), os.WriteFile(filepath.Join(nd.DataDir(), "server-id.json"), data, 0o600))
	}
	must.Do(t, err)
}

// TestFirstStartCutShort starts a node on what its first start can have left.
func TestFirstStartCutShort(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := emptyCluster(t)
		nd := c.Add(1)
		id := map[string]any{"version": 1, "nodeName": nd.Config.NodeID, "serverId": nd.Config.NodeID + "-01234567"}
		// Before there was a log, with one that is half made, or with one that was cut off
		// by a program that gave no ids.
		setIdentity(t, nd, id)
		for _, name := range []string{"raft.db", "raft.db.new"} {
			must.Do(t, os.WriteFile(filepath.Join(nd.DataDir(), name), nil, 0o600))
		}
		c.Start(0)
		c.WaitReady()
		c.MustPublish(0, nodetest.Post{Body: "the first entry"})
		c.Kill(0)
		logID := identity(t, nd)["logId"]
		// After the log had its id and before the identity named it.
		setIdentity(t, nd, id)
		c.Start(0)
		c.WaitReady()
		c.Stop(0)
		if now := identity(t, nd)["logId"]; now != logID || now == nil || now == "" {
			t.Errorf("the log's id is %v, was %v", now, logID)
		}
		check.Equal(t, identity(t, nd)["serverId"], id["serverId"], "the server's id")
	})
}

// TestSavedDataWithoutItsLog loses the log of data directories in which no log has
// an id: the state alone says that there was one.
func TestSavedDataWithoutItsLog(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/data-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no saved data: %v", err)
	}
	for _, file := range files {
		for name, lose := range map[string]func(path string) error{
			"removed": os.Remove, "cut to zero": func(path string) error { return os.Truncate(path, 0) },
		} {
			t.Run(filepath.Base(file)+" "+name, func(t *testing.T) {
				t.Parallel()
				c, nd, _ := unpackSaved(t, file)
				must.Do(t, lose(logPath(nd)))
				c.rejected(0, "missing or empty")
			})
		}
	}
}

// TestRecoveryOfALogThatIsRejected: a vote in a newer term than the log knows, and a
// configuration that no log had, keep the only node of a cluster from starting. A recovery
// makes it start again, with what was acknowledged.
func TestRecoveryOfALogThatIsRejected(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 1)
		nd := c.Nodes[0]
		first := c.MustPublish(0, nodetest.Post{Body: "before"})
		c.Stop(0)
		machine := must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(nd.DataDir(), offline.StateDir)}))(t)
		log := must.Get(logstore.Open(logstore.Options{Path: logPath(nd)}))(t)
		index, term, err := machine.Covers()
		must.Do(t, err)
		snapshot := must.Get(machine.FSM().Snapshot())(t)
		sink := must.Get(machine.Snapshots().Create(raft.SnapshotVersionMax, index, term, consensus.Alone("ghost"), index, nil))(t)
		err = errors.Join(snapshot.Persist(sink), sink.Close(), log.SetUint64(consensus.KeyLastVoteTerm, term+5), log.Close())
		snapshot.Release()
		must.Do(t, errors.Join(err, machine.Close()))
		err = c.TryStart(0)
		for _, want := range []string{"vote is of term", "[ghost]", "empty the whole directory", "commons recover"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the start ends with %v, which does not name %q", err, want)
			}
		}
		must.Equal(t, must.Get(offline.Recover(offline.Offline{DataDir: nd.DataDir()}, slog.New(slog.DiscardHandler)))(t).Entries, 1, "recovered")
		c.Start(0)
		c.WaitReady()
		c.MustPublish(0, nodetest.Post{Body: "after"})
		if all := c.All(0, client.EntryQuery{}); len(all) != 2 || all[1].ID != first.Entry.ID {
			t.Errorf("the node lists %+v", all)
		}
	})
}
