package integration

import (
	"archive/tar"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// apply applies a log; one that cannot be read ends this test alone.
func apply(t *testing.T, m *fsm.Machine, log []*raft.Log) {
	t.Helper()
	defer func() {
		if problem := recover(); problem != nil {
			t.Fatal(problem)
		}
	}()
	m.FSM().ApplyBatch(log)
}

// stateIn returns the state in a data directory that no node uses, after a log
// that it may have applied already.
func stateIn(t *testing.T, dir string, log ...*raft.Log) (s savedState) {
	t.Helper()
	m := must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(dir, "state")}))(t)
	apply(t, m, log)
	index, digest := m.Digest()
	v := m.View()
	rows, err := v.RowDigest(t.Context())
	v.Release()
	must.Do(t, errors.Join(err, m.Close()))
	return savedState{Index: index, Digest: hex.EncodeToString(digest[:]), Rows: hex.EncodeToString(rows[:])}
}

// checkState compares a state with the one that was saved.
func checkState(t *testing.T, got, saved savedState) {
	t.Helper()
	if got.Index != saved.Index || got.Digest != saved.Digest || got.Rows != saved.Rows {
		t.Errorf("the state at %d has the digest %s and the rows %s, saved was %d, %s, %s", got.Index, got.Digest, got.Rows, saved.Index, saved.Digest, saved.Rows)
	}
}

// TestSavedDataOpens opens every data directory that was saved, as a state and as
// a node, and uses it.
func TestSavedDataOpens(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/data-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no saved data: %v", err)
	}
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c, nd, saved := unpackSaved(t, file)
			if i == len(files)-1 { // this version wrote it
				checkSavedCommands(t, logIn(t, nd.DataDir()))
			}
			checkState(t, stateIn(t, nd.DataDir()), saved)
			c.Start(0)
			c.WaitReady()
			useSaved(t, c, saved)
		})
		t.Run(filepath.Base(file)+" from its log", func(t *testing.T) {
			t.Parallel()
			replaySaved(t, file)
		})
	}
}

// openedAfter is by how much a node that opens saved data is ahead, so that what was
// saved with a time at which it ends is seen at once, and not when that has passed.
const openedAfter = 300 * 24 * time.Hour

// unpackSaved gives a saved data directory to a node that is not started yet.
func unpackSaved(t *testing.T, file string) (c *testCluster, nd *nodetest.Node, saved savedState) {
	t.Helper()
	doc := must.Get(os.ReadFile(file))(t)
	must.Do(t, json.Unmarshal(doc, &saved))
	// The receivers of the saved deliveries are gone.
	names := pushtest.NewNames(t)
	c = emptyCluster(t, func(cfg *config.Config) {
		cfg.SecretFile, cfg.Tuning.Resolver, cfg.ClockOffset = secretFile(t), names.Resolver(), openedAfter
	})
	nd = c.Add(1)
	unpackDir(t, nd.DataDir(), strings.TrimSuffix(file, ".json")+".tar.zst")
	return c, nd, saved
}

// replaySaved makes a state anew from a saved log, row by row equal to that of the
// version that wrote the log, because nodes of both may be in one cluster. Then a node
// does the same.
func replaySaved(t *testing.T, file string) {
	t.Helper()
	c, nd, saved := unpackSaved(t, file)
	checkState(t, stateIn(t, t.TempDir(), logIn(t, nd.DataDir())...), saved)
	must.Do(t, os.RemoveAll(filepath.Join(nd.DataDir(), "state")))
	c.Start(0)
	c.WaitReady()
	useSaved(t, c, saved)
	c.Stop(0)
	log := logIn(t, nd.DataDir())
	checkState(t, stateIn(t, nd.DataDir(), log...), stateIn(t, t.TempDir(), log...))
}

// useSaved reads and changes what was saved.
func useSaved(t *testing.T, c *testCluster, saved savedState) {
	t.Helper()
	a, err := c.Nodes[0].Publish(t.Context(), nodetest.Post{Agent: "ada", Body: "The first entry again.", RequestID: "saved-0001"})
	if err != nil || !a.Duplicate || a.Entry.ID != saved.First {
		t.Errorf("the old request_id gives %+v, %v", a, err)
	}
	for _, tt := range []struct {
		query client.EntryQuery
		want  int
	}{
		{client.EntryQuery{Tag: "old"}, savedEntries},
		{client.EntryQuery{Words: "漢字"}, 1},
		{client.EntryQuery{For: "ada"}, savedEntries},
		{client.EntryQuery{Agent: "ADA", Kind: "message"}, 2},
	} {
		check.Equal(t, len(c.All(0, tt.query)), tt.want, "%+v: entries", tt.query)
	}
	for id, want := range saved.Jobs {
		c.waitJob(id, want)
		if want == "open" {
			continue
		}
		_, err := c.Nodes[0].Client().ActOnJob(t.Context(), client.JobAction{Action: client.FinishJob, Agent: "linus", JobID: id, Result: "Done by another."})
		if e, is := errors.AsType[*client.Error](err); !is || e.Status != http.StatusConflict {
			t.Errorf("somebody hands in a result of job %s, which is %s: %v", id, want, err)
		}
	}
	c.waitJob(saved.Claimed, "open") // its claim has ended meanwhile
	retracted, err := c.Nodes[0].Client().Entry(t.Context(), saved.Retracted)
	if err != nil || len(retracted.SupersededBy) != 2 || retracted.SupersededBy[0].Relation != "retraction" {
		t.Errorf("the retracted entry: %+v, %v", retracted, err)
	}
	for key, want := range map[string]int{saved.FormerKey: http.StatusForbidden, saved.EditKey: http.StatusCreated} {
		a, status := c.register(0, map[string]any{"id": "ada", "note": "They were opened.", "edit_key": key})
		check.Equal(t, status, want, "status of a change with the key %s, %+v", key, a)
	}
}

// unpackDir writes the files of a compressed archive to a directory.
func unpackDir(t *testing.T, dir, file string) {
	t.Helper()
	f := must.Get(os.Open(file))(t)
	defer f.Close()
	z := must.Get(zstd.NewReader(f))(t)
	defer z.Close()
	r := tar.NewReader(io.LimitReader(z, maxSavedBytes))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = writeFrom(path, r)
		}
		must.Do(t, err)
	}
}

func writeFrom(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(0o600))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
