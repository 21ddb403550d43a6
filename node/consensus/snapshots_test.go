package consensus

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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
	s := &Snapshots{SnapshotStore: oneSnapshot{}}
	expect := func(when string, busy bool) {
		t.Helper()
		check.Equal(t, s.busy(), busy, "%s: busy", when)
	}
	expect("at first", false)
	check.Fails(s.Open("other"))(t, "opened a snapshot that is not there")
	expect("after a failure", false)
	_, attempt, err := s.Open("s")
	must.Do(t, err)
	expect("while one is open", true)
	must.Do(t, errors.Join(attempt.Close(), attempt.Close()))
	expect("after an attempt that sent nothing", false)
	_, whole, err := s.Open("s")
	must.Do(t, err)
	check.Equal(t, string(must.Get(io.ReadAll(whole))(t)), "content", "read")
	must.Do(t, whole.Close())
	expect("while the follower catches up", true)
	_, before, err := s.Open("s")
	must.Do(t, err)
	s.Break()
	_, after, err := s.Open("s")
	must.Do(t, err)
	check.Err(t, check.Last(io.ReadAll(before)), errBroken, "one that was broken off")
	check.Err(t, check.Last(io.ReadAll(after)), nil, "one that was opened since")
	if err := errors.Join(before.Close(), after.Close()); err != nil || s.Busy() {
		t.Errorf("when all are closed: %v, busy %t", err, s.Busy())
	}
}

// TestFailingSnapshotsAreReportedOnce: what is tried twice a second is said twice, when
// it begins and when it is over.
func TestFailingSnapshotsAreReportedOnce(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	failing, full := false, errors.New("the disk is full")
	for _, err := range []error{nil, full, full, full, nil, nil, full} {
		failing = reportSnapshot(t.Context(), logger, failing, err)
	}
	if warned, over := strings.Count(out.String(), "no snapshot could be taken"), strings.Count(out.String(), "taken again"); warned != 2 || over != 1 || !failing {
		t.Errorf("warned %d times, said %d times that it is over:\n%s", warned, over, out.String())
	}
}

// TestHeldLogIsBounded: however large the disk is.
func TestHeldLogIsBounded(t *testing.T) {
	for room, want := range map[uint64]int64{100 << 30: heldBytes, 300 << 20: 300 << 20, 0: 0} {
		check.Equal(t, held(room), want, "%d bytes of room: held", room)
	}
}
