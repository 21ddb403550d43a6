package node

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

func TestPersist(t *testing.T) {
	down := errors.New("down")
	for _, tt := range []struct {
		name     string
		failures int // of send, before it succeeds
		wanted   int // how often it is wanted again
		once     bool
		ended    bool
		sends    int
		err      error
	}{
		{"reached at once", 0, 9, false, false, 1, nil},
		{"reached at last", 3, 9, false, false, 4, nil},
		{"leadership lost", 9, 2, false, false, 3, down},
		{"heartbeat", 3, 9, true, false, 1, down},
		{"shut down", 9, 9, false, true, 1, down},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end := make(chan struct{})
			if tt.ended {
				close(end)
			}
			sends, asked := 0, 0
			err := persist(end, tt.once, func() error {
				if sends++; sends > tt.failures {
					return nil
				}
				return down
			}, func() bool { asked++; return asked <= tt.wanted })
			if sends != tt.sends || !errors.Is(err, tt.err) {
				t.Errorf("sent %d times, error %v; want %d, %v", sends, err, tt.sends, tt.err)
			}
		})
	}
}

func TestHeartbeatsAreRecognised(t *testing.T) {
	if !isHeartbeat(&raft.AppendEntriesRequest{Term: 3}) {
		t.Error("a heartbeat")
	}
	for _, req := range []*raft.AppendEntriesRequest{
		{Entries: []*raft.Log{{}}}, {PrevLogEntry: 1}, {PrevLogTerm: 1}, {LeaderCommitIndex: 1},
	} {
		if isHeartbeat(req) {
			t.Errorf("%+v is no heartbeat", req)
		}
	}
}
