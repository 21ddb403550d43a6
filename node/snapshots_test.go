package node

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// oneSnapshot is a store with one snapshot in it.
type oneSnapshot struct{ raft.SnapshotStore }

func (oneSnapshot) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id != "s" {
		return nil, nil, errors.New("no such snapshot")
	}
	return &raft.SnapshotMeta{ID: id}, io.NopCloser(strings.NewReader("content")), nil
}

func TestSnapshotStreams(t *testing.T) {
	s := &snapshotStreams{SnapshotStore: oneSnapshot{}}
	expect := func(when string, busy bool) {
		t.Helper()
		if got := s.busy(); got != busy {
			t.Errorf("%s: busy is %v", when, got)
		}
	}
	expect("at first", false)
	if _, _, err := s.Open("other"); err == nil {
		t.Error("opened a snapshot that is not there")
	}
	expect("after a failure", false)
	_, attempt, err := s.Open("s")
	if err != nil {
		t.Fatal(err)
	}
	expect("while one is open", true)
	if err := errors.Join(attempt.Close(), attempt.Close()); err != nil {
		t.Fatal(err)
	}
	expect("after an attempt that sent nothing", false)
	_, whole, err := s.Open("s")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(whole); err != nil || string(data) != "content" {
		t.Errorf("read %q, %v", data, err)
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	expect("while the follower catches up", true)
}

// TestFailingSnapshotsAreToldOnce: what is tried twice a second is said twice, when
// it begins and when it is over.
func TestFailingSnapshotsAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	n := &Node{logger: slog.New(slog.NewTextHandler(&out, nil))}
	failing, full := false, errors.New("the disk is full")
	for _, err := range []error{nil, full, full, full, nil, nil, full} {
		failing = n.tellSnapshot(t.Context(), failing, err)
	}
	if warned, told := strings.Count(out.String(), "no snapshot could be taken"), strings.Count(out.String(), "taken again"); warned != 2 || told != 1 || !failing {
		t.Errorf("warned %d times, told %d times that it is over:\n%s", warned, told, out.String())
	}
}

// TestHeldLogFitsTheDisk: the log that is kept for a follower leaves the reserve alone.
func TestHeldLogFitsTheDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		free, reserve uint64
		err           error
		want          int64
	}{
		"plenty":            {free: 100 << 30, reserve: 1 << 30, want: heldBytes},
		"little":            {free: 1<<30 + 300<<20, reserve: 1 << 30, want: 300 << 20},
		"below the reserve": {free: 1 << 20, reserve: 1 << 30, want: 0},
		"no reserve":        {free: 5 << 20, want: 5 << 20},
		"not known":         {err: errors.New("no answer"), want: 0},
	} {
		n := &Node{}
		n.cfg.Tuning.DiskSpace = func() (free, size uint64, err error) { return tt.free, 100 << 30, tt.err }
		if tt.reserve > 0 {
			n.disk.Store(&diskState{free: tt.free, reserve: tt.reserve})
		}
		if got := n.held(); got != tt.want {
			t.Errorf("%s: %d bytes are held, want %d", name, got, tt.want)
		}
	}
}
