package node

import (
	"errors"
	"io"
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
