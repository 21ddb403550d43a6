package consensus

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// received returns an entry as it comes from a leader, with its checksum.
func received(t *testing.T, entry *raft.Log) *raft.Log {
	t.Helper()
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Snapshot: func() uint64 { return entry.Index - 1 }}))(t)
	defer func() { _ = log.Close() }()
	var sealed raft.Log
	must.Do(t, log.StoreLog(entry))
	must.Do(t, log.GetLog(entry.Index, &sealed))
	return &sealed
}

// TestHeartbeatsDoNotWait: while the disk keeps Raft's main goroutine, heartbeats of the
// current term are answered. One of a newer term waits, and then counts.
func TestHeartbeatsDoNotWait(t *testing.T) {
	n, from := newVoter(t)
	entry := received(t, &raft.Log{Index: 3, Term: 5, Type: raft.LogCommand})
	release := n.hold()
	defer release()
	stored := make(chan error, 1)
	go func() {
		stored <- from.AppendEntries(raft.ServerID(n.id), raft.ServerAddress(n.id), &raft.AppendEntriesRequest{
			RPCHeader: header("a"), Term: 5, PrevLogEntry: 2, PrevLogTerm: 5, Entries: []*raft.Log{entry},
		}, &raft.AppendEntriesResponse{})
	}()
	wait(t, "no entry is stored", func() bool { return runs("appendEntries", "StoreLogs") })
	if resp, err := n.heartbeat(from, 5); err != nil || !resp.Success {
		t.Errorf("the heartbeat of the current term is answered with %+v, %v", resp, err)
	}
	newer := make(chan raft.AppendEntriesResponse, 1)
	go func() {
		resp, err := n.heartbeat(from, 6)
		check.Err(t, err, nil, "send a heartbeat")
		newer <- resp
	}()
	wait(t, "the heartbeat of a newer term does not wait", func() bool { return runs("handOver") })
	release()
	check.Err(t, <-stored, nil, "stored")
	if resp := <-newer; !resp.Success || n.CurrentTerm() != 6 {
		t.Errorf("the heartbeat of term 6 is answered with %+v, in term %d", resp, n.CurrentTerm())
	}
}

// TestHandledBesideRaft: which heartbeats are handled beside Raft's main goroutine.
func TestHandledBesideRaft(t *testing.T) {
	n, from := newVoter(t)
	beside := func(term uint64) bool {
		handled := false
		answer := n.transport.handleBeside(raft.RPC{Command: &raft.AppendEntriesRequest{Term: term}}, func(raft.RPC) { handled = true })
		check.Equal(t, handled, answer, "a heartbeat of term %d is handled, as the answer says,", term)
		return answer
	}
	got := map[string]bool{"older": beside(4), "current": beside(5), "newer": beside(6)}
	n.transport.terms.change.Lock()
	got["while the term changes"] = beside(5)
	n.transport.terms.change.Unlock()
	n.transport.terms.current.Store(6)
	got["newer on disk than in memory"] = beside(6)
	got["newer in memory than on disk"] = beside(5)
	n.transport.terms.current.Store(5)
	must.Do(t, from.TimeoutNow(raft.ServerID(n.id), raft.ServerAddress(n.id), &raft.TimeoutNowRequest{RPCHeader: header("a")}, &raft.TimeoutNowResponse{}))
	wait(t, "it does not stand for election", func() bool { return n.State() == raft.Candidate && n.CurrentTerm() == 6 })
	got["of a candidate's term"] = beside(6)
	want := map[string]bool{
		"older": false, "current": true, "newer": false, "while the term changes": false,
		"newer on disk than in memory": false, "newer in memory than on disk": false, "of a candidate's term": false,
	}
	check.Diff(t, got, want, "handled beside Raft")
}

// TestDiscard: all messages that wait for Raft are rejected.
func TestDiscard(t *testing.T) {
	to, from := newTransport(noQueue{}, electedIn(1), nothingCovered, tcpTransport(t)), tcpTransport(t)
	defer to.stop()
	to.SetHeartbeatHandler(func(raft.RPC) { t.Error("a heartbeat is handled before Raft runs") })
	address := to.LocalAddr()
	answers := make(chan error, 4)
	for range 2 {
		go func() {
			answers <- from.RequestVote("f", address, &raft.RequestVoteRequest{RPCHeader: header("c")}, &raft.RequestVoteResponse{})
		}()
		go func() {
			answers <- from.AppendEntries("f", address, &raft.AppendEntriesRequest{RPCHeader: header("c"), Term: 1}, &raft.AppendEntriesResponse{})
		}()
	}
	wait(t, "a message still waits", func() bool { to.discard(); return len(answers) == cap(answers) })
	for range cap(answers) {
		check.ErrText(t, <-answers, errDiscarded.Error(), "a message is answered")
	}
}

// TestCoveredSnapshot: a snapshot that the node has is not installed again, as a late
// duplicate would be: Raft's configuration and the index that it has applied stay. The
// leader is told that the node has it.
func TestCoveredSnapshot(t *testing.T) {
	n, from := newVoter(t)
	must.Equal(t, n.install(t, from, 5, 10, 5), true, "the first snapshot is installed")
	four := votersOf(n, "d")
	if !n.follow(t, from, raft.AppendEntriesRequest{
		Term: 5, PrevLogEntry: 10, PrevLogTerm: 5, LeaderCommitIndex: 11,
		Entries: []*raft.Log{{Index: 11, Term: 5, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(four)}},
	}) {
		t.Fatal("the entry after the snapshot is rejected")
	}
	n.covered.Store(20)
	for _, tt := range []struct {
		name    string
		index   uint64
		applied uint64
		servers []raft.Server
	}{
		{"a duplicate", 10, 11, four.Servers},
		{"one that Raft has handed to the state machine", 11, 11, four.Servers},
		{"one that the state covers", 20, 11, four.Servers},
		{"a newer one", 21, 21, votersOf(n).Servers},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, n.install(t, from, 5, tt.index, 5), true, "the leader is told that the node has it")
			check.Equal(t, n.AppliedIndex(), tt.applied, "Raft has applied entry")
			check.Diff(t, n.Servers(), tt.servers, "Raft's configuration")
		})
	}
}

// TestACandidateThatIsNoVoterHere: the candidate got its vote by an entry that this node lacks. The
// node votes for it if the candidate's log is not behind, and if there is no leader.
func TestACandidateThatIsNoVoterHere(t *testing.T) {
	n, listener := newNode(t)
	servers := votersOf(n)
	servers.Servers[2].Suffrage = raft.Nonvoter // c
	must.Do(t, errors.Join(
		n.log.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(servers)}, {Index: 2, Term: 5, Type: raft.LogCommand}}),
		n.log.SetUint64(KeyCurrentTerm, 5),
	))
	n.start(t, wired{listener, &wires{conns: map[net.Conn][2]string{}}}, time.Hour)
	from := tcpTransport(t)
	id, address := raft.ServerID(n.id), raft.ServerAddress(n.id)
	ask := func(term uint64, candidate string, index uint64) (granted [2]bool) {
		t.Helper()
		var before raft.RequestPreVoteResponse
		var vote raft.RequestVoteResponse
		must.Do(t, errors.Join(
			from.RequestPreVote(id, address, &raft.RequestPreVoteRequest{RPCHeader: header(candidate), Term: term, LastLogIndex: index, LastLogTerm: 5}, &before),
			from.RequestVote(id, address, &raft.RequestVoteRequest{RPCHeader: header(candidate), Term: term, LastLogIndex: index, LastLogTerm: 5}, &vote),
		))
		return [2]bool{before.Granted, vote.Granted}
	}
	for i, candidate := range []string{"c", "unknown"} {
		term := uint64(7 + i)
		check.Diff(t, ask(term, candidate, 1), [2]bool{false, false}, "answers to %s with a shorter log", candidate)
		check.Diff(t, ask(term, candidate, 3), [2]bool{true, true}, "answers to %s with a longer log", candidate)
	}
	if resp, err := n.heartbeat(from, 8); err != nil || !resp.Success {
		t.Fatalf("the leader's heartbeat: %+v, %v", resp, err)
	}
	check.Diff(t, ask(9, "unknown", 4), [2]bool{false, false}, "answers while there is a leader")
	check.Equal(t, n.install(t, from, 8, 1000, 5), true, "a snapshot behind the end of the log is installed")
	must.Get(n.askVote(from, 9))(t) // its newer term ends the leader's
	check.Diff(t, ask(10, "unknown", 500), [2]bool{false, false}, "answers to a log that ends before the snapshot")
}

func TestLastTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		stats map[string]string
		want  uint64
	}{
		"log after the snapshot":     {map[string]string{"last_log_index": "9", "last_log_term": "4", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 4},
		"an installed snapshot only": {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 3},
		"a fresh node":               {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "0", "last_snapshot_term": "0"}, 0},
	} {
		check.Equal(t, LastTerm(tc.stats), tc.want, "%s: term", name)
	}
}
