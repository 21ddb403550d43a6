package nodetest

import (
	"archive/tar"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/admin"
)

// saveData has TestSaveData write a data directory of this version.
var saveData = flag.String("save-data", "", "write a data directory of this version to files that begin with this name")

const (
	savedEntries = 60
	// maxSavedBytes bounds what is unpacked, and maxSavedFile what is kept.
	maxSavedBytes = 64 << 20
	maxSavedFile  = 200 << 10
)

// savedState is what a saved data directory must be found to hold.
type savedState struct {
	Index   uint64 `json:"index"`
	Digest  string `json:"digest"`
	Rows    string `json:"rows"`
	First   string `json:"first"` // id of the entry with the request_id saved-0001
	Job     string `json:"job"`   // id of a claimed job
	EditKey string `json:"editKey"`
}

// TestSaveData makes a data directory for later versions to open:
//
//	go test ./node/nodetest -run TestSaveData -save-data ../testdata/data-vN
func TestSaveData(t *testing.T) {
	if *saveData == "" {
		t.Skip("-save-data is not given")
	}
	c := New(t, 1)
	saved := populate(c)
	c.Stop(0)
	state := stateIn(t, c.Nodes[0].DataDir())
	saved.Index, saved.Digest, saved.Rows = state.Index, state.Digest, state.Rows
	doc, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*saveData+".json", append(doc, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	packDir(t, *saveData+".tar.zst", c.Nodes[0].DataDir())
}

// populate writes something of every kind.
func populate(c *Cluster) (saved savedState) {
	c.t.Helper()
	post := func(path string, body map[string]any, into any) {
		c.t.Helper()
		status, err := c.Nodes[0].postJSON(path, body, into)
		if err != nil || status != http.StatusCreated {
			c.t.Fatalf("%s: status %d, %v", path, status, err)
		}
	}
	var profile struct {
		EditKey string `json:"edit_key"`
	}
	post("/api/agents", map[string]any{"id": "Ada", "description": "Keeps what is old.", "capabilities": []string{"memory"}}, &profile)
	post("/api/agents", map[string]any{"id": "Ada", "note": "Open the old data.", "edit_key": profile.EditKey}, &struct{}{})
	first := c.MustPublish(0, Post{Agent: "Ada", Channel: "saved", Body: "The first entry, @grace: is it there?", RequestID: "saved-0001"})
	for i := range savedEntries {
		body := strings.Repeat("words of entry number ", i%7+1)
		post("/api/entries", map[string]any{"agent": "grace", "body": body, "reply_to": first.Entry.ID, "tags": []string{"old", "saved"}}, &struct{}{})
	}
	post("/api/entries", map[string]any{"agent": "Ada", "body": "A correction of it.", "supersedes": first.Entry.ID}, &struct{}{})
	post("/api/entries", map[string]any{"agent": "linus", "kind": "knowledge", "body": "Ünïcode und 漢字 sind auch da."}, &struct{}{})
	post("/api/human-requests", map[string]any{"agent": "linus", "goal": "Keep this", "requested_action": "Keep it for long."}, &struct{}{})
	var job struct {
		Job struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	post("/api/jobs", map[string]any{"agent": "Ada", "title": "An old job", "body": "Still to be done."}, &job)
	post("/api/jobs", map[string]any{"action": "claim", "agent": "grace", "job_id": job.Job.ID}, &struct{}{})
	return savedState{First: first.Entry.ID, Job: job.Job.ID, EditKey: profile.EditKey}
}

// stateIn opens the state in a data directory that no node uses.
func stateIn(t *testing.T, dir string) (s savedState) {
	t.Helper()
	m, err := fsm.Open(fsm.Options{Dir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	index, digest := m.Digest()
	v := m.View()
	rows, err := v.RowDigest(t.Context())
	v.Release()
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return savedState{Index: index, Digest: hex.EncodeToString(digest[:]), Rows: hex.EncodeToString(rows[:])}
}

// TestSavedDataOpens opens every data directory that was saved, as a state and as
// a node, and uses it.
func TestSavedDataOpens(t *testing.T) {
	files, err := filepath.Glob("../testdata/data-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no saved data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, nd, saved := unpackSaved(t, file)
			got := stateIn(t, nd.DataDir())
			if got.Index != saved.Index || got.Digest != saved.Digest || got.Rows != saved.Rows {
				t.Errorf("the state is %+v, saved was %+v", got, saved)
			}
			c.Start(0)
			c.WaitReady()
			useSaved(t, c, saved)
		})
		t.Run(filepath.Base(file)+" from its log", func(t *testing.T) { replaySaved(t, file) })
	}
}

// unpackSaved gives a saved data directory to a node that is not started yet.
func unpackSaved(t *testing.T, file string) (c *Cluster, nd *Node, saved savedState) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &saved); err != nil {
		t.Fatal(err)
	}
	c = Empty(t)
	nd = c.add(1)
	unpackDir(t, nd.DataDir(), strings.TrimSuffix(file, ".json")+".tar.zst")
	return c, nd, saved
}

// replaySaved lets a node make its state anew from a saved log: it must come out
// as it did in the version that wrote the log, because nodes of both may be in
// one cluster.
func replaySaved(t *testing.T, file string) {
	t.Helper()
	c, nd, saved := unpackSaved(t, file)
	if err := os.RemoveAll(filepath.Join(nd.DataDir(), "state")); err != nil {
		t.Fatal(err)
	}
	c.Start(0)
	c.WaitReady()
	got, err := operate[admin.Digest](c, 0, admin.PathDigest, admin.DigestRequest{Index: saved.Index})
	if err != nil || got.Digest != saved.Digest {
		t.Errorf("the replayed log gives %+v, %v, saved was %s", got, err, saved.Digest)
	}
	useSaved(t, c, saved)
}

// useSaved reads and changes what was saved.
func useSaved(t *testing.T, c *Cluster, saved savedState) {
	t.Helper()
	a, err := c.Nodes[0].Publish(t.Context(), Post{Agent: "ada", Body: "The first entry again.", RequestID: "saved-0001"})
	if err != nil || !a.Duplicate || a.Entry.ID != saved.First {
		t.Errorf("the old request_id gives %+v, %v", a, err)
	}
	for query, want := range map[string]int{"tag=old": savedEntries, "q=漢字": 1, "for=ada": savedEntries + 1, "agent=ADA&kind=message": 3} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(c.All(0, q)); n != want {
			t.Errorf("%s: %d entries, want %d", query, n, want)
		}
	}
	status, err := c.Nodes[0].postJSON("/api/jobs", map[string]any{"action": "result", "agent": "linus", "job_id": saved.Job, "result": "Done by another."}, &struct{}{})
	if err != nil || status != http.StatusConflict {
		t.Errorf("somebody else hands in a result: status %d, %v", status, err)
	}
	status, err = c.Nodes[0].postJSON("/api/agents", map[string]any{"id": "ada", "note": "They were opened.", "edit_key": saved.EditKey}, &struct{}{})
	if err != nil || status != http.StatusCreated {
		t.Errorf("a change with the old key: status %d, %v", status, err)
	}
}

// packDir writes a directory to a compressed archive.
func packDir(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close())
	info, statErr := f.Stat()
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSavedFile {
		t.Errorf("%d bytes are too many to keep", info.Size())
	}
}

// unpackDir writes the files of a compressed archive to a directory.
func unpackDir(t *testing.T, dir, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	r := tar.NewReader(io.LimitReader(z, maxSavedBytes))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = writeFrom(path, r)
		}
		if err != nil {
			t.Fatal(err)
		}
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
