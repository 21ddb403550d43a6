package consensus

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// testMachine is a state machine that keeps the indexes that it applied.
type testMachine struct {
	raft.BatchingFSM
	mu      sync.Mutex
	applied []uint64
}

func (m *testMachine) ApplyBatch(entries []*raft.Log) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		m.applied = append(m.applied, e.Index)
	}
	return make([]any, len(entries))
}

func (m *testMachine) has(index uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.applied, index)
}

func entries(term uint64, indexes ...uint64) (list []*raft.Log) {
	for _, i := range indexes {
		list = append(list, &raft.Log{Index: i, Term: term, Type: raft.LogCommand})
	}
	return list
}

func wait(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(testPatience); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestTransferWaitsForAnAnswer: a second transfer of leadership to a follower is not begun
// before the follower has answered. Another term begins anew.
func TestTransferWaitsForAnAnswer(t *testing.T) {
	n := &notices{}
	begins := func(when string, want bool) {
		t.Helper()
		check.Equal(t, n.beginTransfer("f"), want, "a transfer %s begins", when)
	}
	begins("to a follower that was sent no request", false)
	req := &raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 1, PrevLogTerm: 1}
	n.sent("f", "f", req)
	begins("for the first time", true)
	begins("again without an answer", false)
	n.answered("f", &raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{Term: 1, Success: true})
	begins("after an answer of another term", false)
	n.answered("f", req, &raft.AppendEntriesResponse{Term: 2})
	begins("after an answer", true)
	n.sent("f", "f", &raft.AppendEntriesRequest{Term: 3})
	begins("in another term", true)
}

// noQueue is a log that has written all that it has taken in.
type noQueue struct{}

func (noQueue) FirstIndex() (uint64, error) { return 0, nil }
func (noQueue) Unwritten() uint64           { return 0 }
func (noQueue) WaitWritten(uint64) error    { return nil }

func quietHooks() Hooks {
	return Hooks{Around: func(_ string, do func() error) error { return do() }}
}

func testSettings(id raft.ServerID, election time.Duration) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = id
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = election, election, election
	c.CommitTimeout = time.Hour // only notices
	c.Logger = NewLogger(slog.New(slog.DiscardHandler), func() bool { return false })
	return c
}

// follower is a running Raft that hears only what the test says.
type follower struct {
	*testing.T
	raft    *raft.Raft
	machine testMachine
	from    *raft.InmemTransport
	address raft.ServerAddress
}

// newFollower starts a follower in the given term, with a log.
func newFollower(t *testing.T, term uint64, log []*raft.Log) *follower {
	t.Helper()
	f := &follower{T: t}
	store := raft.NewInmemStore()
	must.Do(t, store.StoreLogs(log))
	must.Do(t, store.SetUint64(KeyCurrentTerm, term))
	var to *raft.InmemTransport
	f.address, to = raft.NewInmemTransport("")
	_, f.from = raft.NewInmemTransport("")
	f.from.Connect(f.address, to)
	f.raft = must.Get(raft.NewRaft(testSettings("f", time.Hour), observedFSM{&f.machine, quietHooks(), &notices{}, noQueue{}}, store, store, raft.NewInmemSnapshotStore(), to))(t)
	t.Cleanup(func() { _ = f.raft.Shutdown().Error() })
	return f
}

// send sends a request as a leader's Raft does, and has the notices look.
func (f *follower) send(n *notices, req raft.AppendEntriesRequest) bool {
	f.Helper()
	req.RPCHeader = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("l"), Addr: []byte("l")}
	var resp raft.AppendEntriesResponse
	n.sent("f", f.address, &req)
	must.Do(f, f.from.AppendEntries("f", f.address, &req, &resp))
	n.answered("f", &req, &resp)
	return resp.Success
}

// notices returns notices to the follower, and what their answers are sent to.
func (f *follower) notices() (*notices, <-chan raft.AppendEntriesResponse) {
	answers := make(chan raft.AppendEntriesResponse, 16)
	return &notices{send: func(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
		err := f.from.AppendEntries(id, to, req, resp)
		answers <- *resp
		return err
	}}, answers
}

// TestNoticeSparesADivergentTail: a follower may hold entries beyond those that the
// leader knows it to share. A notice does not commit them.
func TestNoticeSparesADivergentTail(t *testing.T) {
	f := newFollower(t, 1, entries(1, 1, 2, 3, 4, 5)) // 4 and 5 are not the leader's
	n, answers := f.notices()
	must.Equal(t, f.send(n, raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 3, PrevLogTerm: 1}), true, "it matches")
	n.committed(5, 2) // with another follower's help
	must.Equal(t, (<-answers).Success, true, "the notice is accepted")
	wait(t, "the notice commits nothing", func() bool { return f.machine.has(3) })
	if f.raft.CommitIndex() != 3 || f.machine.has(4) {
		t.Fatalf("committed up to %d, and applied %v: entries of another leader", f.raft.CommitIndex(), f.machine.applied)
	}
	// Raft's next request replaces the tail, and the next notice tells the rest.
	if !f.send(n, raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 3, PrevLogTerm: 1, Entries: entries(2, 4, 5)}) {
		t.Fatal("the follower does not take entries 4 and 5")
	}
	wait(t, "the second notice commits nothing", func() bool { return f.machine.has(5) })
}

// TestNoticeOfAnOldTerm: what this node applies when another leads already does not show
// that the log is the one that it matched as a leader.
func TestNoticeOfAnOldTerm(t *testing.T) {
	f := newFollower(t, 2, entries(1, 1, 2, 3))
	n, answers := f.notices()
	if !f.send(n, raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 3, PrevLogTerm: 1, Entries: entries(2, 4, 5)}) {
		t.Fatal("the follower does not take entries 4 and 5")
	}
	n.committed(5, 3) // the 5 of the next leader, which replaced this node's own
	n.committed(4, 2) // and one of its own that stayed
	must.Equal(t, (<-answers).Success, true, "the notice is accepted")
	must.Equal(t, f.raft.CommitIndex(), 4, "committed up to")
	// The follower hears of the next leader. Late notices have no effect.
	if !f.send(&notices{}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 4, PrevLogTerm: 2, Entries: entries(3, 5)}) {
		t.Fatal("the follower does not take the 5 of term 3")
	}
	n.committed(5, 2)
	must.Equal(t, (<-answers).Success, false, "a notice of an older term was taken")
	if f.raft.CommitIndex() != 4 || f.machine.has(5) {
		t.Fatalf("committed up to %d", f.raft.CommitIndex())
	}
}

// TestNotices checks when a notice goes out, and its content.
func TestNotices(t *testing.T) {
	ask := func(term, prev, commit uint64, list ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: term, PrevLogEntry: prev, PrevLogTerm: min(prev, 1), LeaderCommitIndex: commit, Entries: list}
	}
	type says struct{ term, prev, prevTerm, commit uint64 }
	for _, tt := range []struct {
		name string
		do   func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64))
		want []says
	}{
		{"applied, then matched", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4)...))
			committed(4, 2)
			answered(ask(2, 3, 3, entries(2, 4)...))
		}, []says{{2, 4, 2, 4}}},
		{"matched, then applied", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4, 5)...))
			answered(ask(2, 3, 3, entries(2, 4, 5)...))
			committed(4, 2)
			committed(4, 2)
		}, []says{{2, 5, 2, 4}}},
		{"nothing matched", func(sent, _ func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4)...))
			committed(4, 2)
		}, nil},
		{"matched at 0", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 0, 0))
			answered(ask(2, 0, 0))
			committed(1, 2)
		}, nil},
		{"a request has told it", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4)...))
			answered(ask(2, 3, 3, entries(2, 4)...))
			sent(ask(2, 4, 4, entries(2, 5)...))
			committed(4, 2)
		}, nil},
		{"entries are under way", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4)...))
			answered(ask(2, 3, 3, entries(2, 4)...))
			sent(ask(2, 4, 3, entries(2, 5)...))
			committed(4, 2)
			answered(ask(2, 4, 3, entries(2, 5)...))
		}, []says{{2, 5, 2, 4}}},
		{"a request told more than it holds", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 9))
			sent(ask(2, 3, 9, entries(2, 4)...))
			answered(ask(2, 3, 9, entries(2, 4)...))
			committed(4, 2)
		}, nil},
		{"an answer of an older term", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4)...))
			sent(ask(3, 3, 3))
			answered(ask(2, 3, 3, entries(2, 4)...))
			committed(4, 2)
			committed(5, 3)
		}, nil},
		{"a late answer", func(sent, answered func(*raft.AppendEntriesRequest), committed func(index, term uint64)) {
			sent(ask(2, 3, 3, entries(2, 4, 5)...))
			answered(ask(2, 3, 3, entries(2, 4, 5)...))
			answered(ask(2, 3, 3, entries(2, 4)...))
			committed(5, 2)
		}, []says{{2, 5, 2, 5}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []says
			n := &notices{send: func(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
				check.Empty(t, req.Entries, "a notice with entries")
				got = append(got, says{req.Term, req.PrevLogEntry, req.PrevLogTerm, req.LeaderCommitIndex})
				return nil
			}}
			// Each step is finished before the next.
			step := func() {
				wait(t, "a notice does not end", func() bool {
					n.mu.Lock()
					defer n.mu.Unlock()
					return n.peers["f"] == nil || !n.peers["f"].sending
				})
			}
			tt.do(
				func(req *raft.AppendEntriesRequest) { n.sent("f", "f", req); step() },
				func(req *raft.AppendEntriesRequest) {
					n.answered("f", req, &raft.AppendEntriesResponse{Term: req.Term, Success: true})
					step()
				},
				func(index, term uint64) { n.committed(index, term); step() },
			)
			check.Diff(t, got, tt.want, "notices")
		})
	}
	t.Run("a rejection matches nothing", func(t *testing.T) {
		n := &notices{}
		req := ask(2, 3, 3, entries(2, 4)...)
		n.sent("f", "f", req)
		for _, resp := range []raft.AppendEntriesResponse{{Term: 2}, {Term: 3, Success: true}} {
			n.answered("f", req, &resp)
			check.Equal(t, n.peers["f"].matched.PrevLogEntry, 0, "%+v matched", resp)
		}
	})
}

// TestNoticesAreCoalesced: while one is under way, what comes meanwhile waits, and goes
// out as one. One that fails is not repeated: Raft's own requests go on.
func TestNoticesAreCoalesced(t *testing.T) {
	commits, release := make(chan uint64), make(chan error)
	n := &notices{send: func(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
		commits <- req.LeaderCommitIndex
		return <-release
	}}
	req := &raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 3, PrevLogTerm: 1, Entries: entries(2, 4, 5, 6, 7, 8)}
	n.sent("f", "f", req)
	n.answered("f", req, &raft.AppendEntriesResponse{Term: 2, Success: true})
	n.committed(4, 2)
	first := <-commits
	for _, i := range []uint64{5, 6, 7} {
		n.committed(i, 2)
	}
	release <- nil
	second := <-commits
	check.Equal(t, first, 4, "notices: first")
	check.Equal(t, second, 7, "notices: second")
	release <- errDiscarded
	wait(t, "a failed notice goes on", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.peers["f"].sending
	})
	n.committed(8, 2)
	must.Equal(t, <-commits, 8, "the third notice")
	release <- nil
}

// TestNoticeUnderWayInAnOldTerm: a notice that ends when this node leads in a newer term
// is the last of its term.
func TestNoticeUnderWayInAnOldTerm(t *testing.T) {
	sent, release := make(chan uint64, 16), make(chan error)
	n := &notices{send: func(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
		sent <- req.Term
		return <-release
	}}
	req := &raft.AppendEntriesRequest{Term: 2, PrevLogEntry: 3, PrevLogTerm: 1, Entries: entries(2, 4, 5)}
	n.sent("f", "f", req)
	n.answered("f", req, &raft.AppendEntriesResponse{Term: 2, Success: true})
	n.committed(4, 2)
	<-sent
	n.mu.Lock()
	old := n.peers["f"]
	n.mu.Unlock()
	n.sent("f", "f", &raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 4, PrevLogTerm: 2})
	n.committed(5, 4) // not the 5 that the follower matched
	release <- nil
	wait(t, "the notices of the old term go on", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !old.sending || len(sent) > 0
	})
	if len(sent) > 0 {
		t.Errorf("one more notice of term %d", <-sent)
	}
}

// TestFollowersApplyAtOnce: followers of an idle leader hear of a commit, though Raft
// would not tell them for an hour.
func TestFollowersApplyAtOnce(t *testing.T) {
	type node struct {
		*raft.Raft
		machine   testMachine
		transport *transport
	}
	nodes := []*node{{}, {}, {}}
	var servers []raft.Server
	logs := make([]raftLog, len(nodes))
	for i := range nodes {
		inner := tcpTransport(t)
		log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Fatal: func(err error) { t.Error(err) }}))(t)
		t.Cleanup(func() { _ = log.Close() })
		logs[i] = raftLog{log, Hooks{Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) }, Founded: func(string) bool { return false }}, &terms{}, func() {}}
		nodes[i].transport = newTransport(log, logs[i].terms, nothingCovered, inner)
		address := inner.LocalAddr()
		servers = append(servers, raft.Server{ID: raft.ServerID(address), Address: address})
	}
	for i := range nodes {
		n, log := nodes[i], logs[i]
		c := testSettings(servers[i].ID, 500*time.Millisecond)
		must.Do(t, raft.BootstrapCluster(c, log, log, raft.NewInmemSnapshotStore(), n.transport, raft.Configuration{Servers: servers}))
		n.Raft = must.Get(raft.NewRaft(c, observedFSM{&n.machine, quietHooks(), n.transport.notices, log}, log, log, raft.NewInmemSnapshotStore(), n.transport))(t)
		t.Cleanup(func() { _ = n.Shutdown().Error(); _ = n.transport.Close() })
	}
	for range 3 {
		var index uint64
		wait(t, "no leader has applied an entry", func() bool { // on a busy machine another node may come to lead meanwhile
			i := slices.IndexFunc(nodes, func(n *node) bool { return n.State() == raft.Leader })
			if i < 0 {
				return false
			}
			future := nodes[i].Apply([]byte("x"), 0)
			if future.Error() != nil {
				return false
			}
			index = future.Index()
			return true
		})
		for i := range nodes {
			wait(t, "a follower does not hear of the commit", func() bool { return nodes[i].machine.has(index) })
		}
	}
}

// TestLaggingFollowerGetsNoPipeline: one that lacks more than a message holds is denied
// a pipeline, and the next time gets it, as more may be written meanwhile.
func TestLaggingFollowerGetsNoPipeline(t *testing.T) {
	n := &notices{}
	check.Equal(t, n.deny("b", 1000), false, "a follower is denied that nothing was sent to")
	req := &raft.AppendEntriesRequest{Term: 1, Entries: entries(1, 1)}
	n.sent("b", "b", req)
	n.answered("b", req, &raft.AppendEntriesResponse{Term: 1, Success: true})
	for i, ask := range []struct {
		last uint64
		want bool
	}{{1 + maxAppendEntries, false}, {2 + maxAppendEntries, true}, {1000, false}, {1000, true}, {1, false}, {1000, true}} {
		check.Equal(t, n.deny("b", ask.last), ask.want, "question %d, log up to %d: denied", i, ask.last)
	}
}
