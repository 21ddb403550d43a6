package consensus

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// testPatience bounds the wait for what has to happen.
const testPatience = 30 * time.Second

func TestPersist(t *testing.T) {
	down := errors.New("down")
	for _, tt := range []struct {
		name     string
		failures int // of send, before it succeeds
		wanted   int // how often it is wanted again
		ended    bool
		sends    int
		err      error
	}{
		{"reached at once", 0, 9, false, 1, nil},
		{"reached at last", 3, 9, false, 4, nil},
		{"leadership lost", 9, 2, false, 3, down},
		{"shut down", 9, 9, true, 1, down},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end := make(chan struct{})
			if tt.ended {
				close(end)
			}
			sends, asked := 0, 0
			err := persist(end, func() error {
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

// fullPipeline has no room: whoever appends waits until it is closed.
type fullPipeline struct {
	raft.AppendPipeline
	closed chan struct{}
	once   sync.Once
}

func (p *fullPipeline) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	<-p.closed
	return nil, raft.ErrPipelineShutdown
}

func (p *fullPipeline) Consumer() <-chan raft.AppendFuture { return nil }

func (p *fullPipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// TestPipelineBlocksNobody: a pipeline whose answers nobody takes lets its sender
// go, in time or when Raft ends.
func TestPipelineBlocksNobody(t *testing.T) {
	for name, limit := range map[string]time.Duration{"late": time.Millisecond, "ended": time.Hour} {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			p := newPipeline(&fullPipeline{closed: make(chan struct{})}, end, limit, link{log: noQueue{}, notices: &notices{}})
			sent := make(chan error, 1)
			go func() {
				_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, nil)
				sent <- err
			}()
			if name == "ended" {
				close(end)
			}
			select {
			case err := <-sent:
				if !errors.Is(err, raft.ErrPipelineShutdown) {
					t.Errorf("error %v", err)
				}
			case <-time.After(testPatience):
				t.Fatal("the sender waits for ever")
			}
			if err := p.Close(); err != nil {
				t.Errorf("closing it again: %v", err)
			}
		})
	}
}
