package consensus

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// testPatience bounds the wait for what has to happen.
const testPatience = time.Minute

// tcpTransport returns Raft's transport at an address of its own.
func tcpTransport(t *testing.T) *raft.NetworkTransport {
	t.Helper()
	transport := must.Get(raft.NewTCPTransport("127.0.0.1:0", nil, raftPool, testPatience, io.Discard))(t)
	t.Cleanup(func() { _ = transport.Close() })
	return transport
}

// electedIn returns the terms of a node that was elected in a term.
func electedIn(term uint64) *terms {
	var t terms
	t.current.Store(term)
	t.voted.Store(term)
	return &t
}

func nothingCovered() uint64 { return 0 }

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

// TestFailedRequestIsHalved: what was too much for a slow link is sent again in smaller parts.
func TestFailedRequestIsHalved(t *testing.T) {
	from := newTransport(noQueue{}, electedIn(3), nothingCovered, tcpTransport(t))
	defer from.stop()
	req := &raft.AppendEntriesRequest{RPCHeader: header("a"), Term: 3, PrevLogEntry: 1, PrevLogTerm: 3, Entries: entries(3, 2, 3, 4, 5, 6, 7, 8, 9), LeaderCommitIndex: 9}
	if err := from.AppendEntries("b", "127.0.0.1:1", req, &raft.AppendEntriesResponse{}); err == nil {
		t.Fatal("somebody answers")
	}
	check.Equal(t, len(req.Entries), 4, "entries")
	check.Equal(t, req.LeaderCommitIndex, 5, "commit index")
}

func TestHeartbeatsAreRecognised(t *testing.T) {
	check.Equal(t, isHeartbeat(&raft.AppendEntriesRequest{Term: 3}), true, "a heartbeat is one")
	for _, req := range []*raft.AppendEntriesRequest{
		{Entries: []*raft.Log{{}}}, {PrevLogEntry: 1}, {PrevLogTerm: 1}, {LeaderCommitIndex: 1},
	} {
		check.Equal(t, isHeartbeat(req), false, "%+v is no heartbeat", req)
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

// TestPipelineBlocksNobody: a pipeline whose answers are not taken lets its sender go, in
// time or when Raft ends.
func TestPipelineBlocksNobody(t *testing.T) {
	for name, limit := range map[string]time.Duration{"late": time.Millisecond, "ended": time.Hour} {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			p := newPipeline(&fullPipeline{closed: make(chan struct{})}, end, limit, link{log: noQueue{}, terms: electedIn(1), notices: &notices{}})
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
				check.Err(t, err, raft.ErrPipelineShutdown, "error")
			case <-time.After(testPatience):
				t.Fatal("the sender waits for ever")
			}
			check.Err(t, p.Close(), nil, "closing it again")
		})
	}
}

// TestRequestsNeedAnElection: a leader's requests do not go out in a term in which this node
// was not elected.
func TestRequestsNeedAnElection(t *testing.T) {
	to := tcpTransport(t)
	go func() {
		for rpc := range to.Consumer() {
			switch rpc.Command.(type) {
			case *raft.InstallSnapshotRequest:
				_, _ = io.Copy(io.Discard, rpc.Reader)
				rpc.Respond(&raft.InstallSnapshotResponse{}, nil)
			default:
				rpc.Respond(&raft.AppendEntriesResponse{}, nil)
			}
		}
	}()
	from := newTransport(noQueue{}, electedIn(5), nothingCovered, tcpTransport(t))
	defer from.stop()
	address := to.LocalAddr()
	for name, send := range map[string]func(term uint64) error{
		"a heartbeat": func(term uint64) error {
			return from.AppendEntries("f", address, &raft.AppendEntriesRequest{Term: term}, &raft.AppendEntriesResponse{})
		},
		"entries": func(term uint64) error {
			return from.AppendEntries("f", address, &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 3}, &raft.AppendEntriesResponse{})
		},
		"entries in a pipeline": func(term uint64) error {
			p, err := from.AppendEntriesPipeline("f", address)
			if err != nil {
				return err
			}
			_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: term, PrevLogEntry: 3}, &raft.AppendEntriesResponse{})
			return errors.Join(err, p.Close())
		},
		"a snapshot": func(term uint64) error {
			return from.InstallSnapshot("f", address, &raft.InstallSnapshotRequest{Term: term, Size: 1}, &raft.InstallSnapshotResponse{}, bytes.NewReader([]byte("x")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, term := range []uint64{4, 6} {
				check.Err(t, send(term), errOvertaken, "in term %d", term)
			}
			check.Err(t, send(5), nil, "in the term of the election")
		})
	}
}
