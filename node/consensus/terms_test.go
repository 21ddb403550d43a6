package consensus

import (
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// header is the header of a message from a server.
func header(from string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from), Addr: []byte(from)}
}

// votersOf is a configuration of a node with the voters a and c, which are not there.
func votersOf(n *queueNode, others ...string) raft.Configuration {
	var c raft.Configuration
	for _, id := range append([]string{"a", n.id, "c"}, others...) {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	return c
}

// newVoter starts a node in term 5, which never stands for election by itself. It returns
// the transport that sends it what the test says.
func newVoter(t *testing.T) (*queueNode, *raft.NetworkTransport) {
	t.Helper()
	n, listener := newNode(t)
	config := raft.EncodeConfiguration(votersOf(n))
	must.Do(t, errors.Join(
		n.log.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: config}, {Index: 2, Term: 5, Type: raft.LogCommand}}),
		n.log.SetUint64(KeyCurrentTerm, 5),
	))
	n.start(t, wired{listener, &wires{conns: map[net.Conn][2]string{}}}, time.Hour)
	return n, tcpTransport(t)
}

func (n *queueNode) askVote(from *raft.NetworkTransport, term uint64) (raft.RequestVoteResponse, error) {
	var resp raft.RequestVoteResponse
	err := from.RequestVote(raft.ServerID(n.id), raft.ServerAddress(n.id), &raft.RequestVoteRequest{
		RPCHeader: header("c"), Term: term, LastLogIndex: 2, LastLogTerm: 5, LeadershipTransfer: true,
	}, &resp)
	return resp, err
}

func (n *queueNode) heartbeat(from *raft.NetworkTransport, term uint64) (raft.AppendEntriesResponse, error) {
	var resp raft.AppendEntriesResponse
	err := from.AppendEntries(raft.ServerID(n.id), raft.ServerAddress(n.id), &raft.AppendEntriesRequest{RPCHeader: header("a"), Term: term}, &resp)
	return resp, err
}

// storedTerm returns the current term on the node's disk.
func (n *queueNode) storedTerm(t *testing.T) uint64 {
	t.Helper()
	return must.Get(n.log.GetUint64(KeyCurrentTerm))(t)
}

// TestHeartbeatDuringAVote: a node in term 5 stores its vote in term 7, which takes a
// while, when a heartbeat of term 6 arrives. It does not go back behind its vote, in
// memory or on disk: otherwise it would accept entries of term 6, which the candidate
// that it has voted for does not have.
func TestHeartbeatDuringAVote(t *testing.T) {
	n, from := newVoter(t)
	release := n.hold()
	defer release()
	var group sync.WaitGroup
	group.Go(func() {
		if resp, err := n.askVote(from, 7); err != nil || !resp.Granted {
			t.Errorf("the vote is %+v, %v", resp, err)
		}
	})
	wait(t, "the vote does not store its term", func() bool { return runs("requestVote", "setTerm") })
	group.Go(func() {
		if resp, err := n.heartbeat(from, 6); err != nil || resp.Success || resp.Term != 7 {
			t.Errorf("the heartbeat of term 6 is answered with %+v, %v", resp, err)
		}
	})
	wait(t, "the heartbeat does not arrive", func() bool { return runs("handOver") || runs("processHeartbeat", "setTerm") })
	release()
	group.Wait()
	check.Diff(t, []uint64{n.CurrentTerm(), n.storedTerm(t)}, []uint64{7, 7}, "the terms in memory and on disk")
}

// TestTermsInMemoryAndOnDisk: votes and heartbeats in many terms arrive at once. The term
// never falls, and in the end it is the newest, in memory and on disk.
func TestTermsInMemoryAndOnDisk(t *testing.T) {
	const newest = 60
	n, from := newVoter(t)
	var done atomic.Bool
	var watch, group sync.WaitGroup
	watch.Go(func() {
		for last := uint64(0); !done.Load(); {
			term := n.CurrentTerm()
			if term < last {
				t.Errorf("the term falls from %d to %d", last, term)
				return
			}
			last = term
		}
	})
	for sender := range 4 {
		group.Go(func() {
			for term := uint64(6); term <= newest; term++ {
				var err error
				if sender == 0 {
					_, err = n.askVote(from, term)
				} else {
					_, err = n.heartbeat(from, term-rand.Uint64N(2))
				}
				check.Err(t, err, nil, "send")
			}
		})
	}
	group.Wait()
	done.Store(true)
	watch.Wait()
	check.Diff(t, []uint64{n.CurrentTerm(), n.storedTerm(t)}, []uint64{newest, newest}, "the terms in memory and on disk")
}

// TestOldTermIsNotStored: an older term than the current one is not stored, and Raft is not
// told that it was: the goroutine and the node end.
func TestOldTermIsNotStored(t *testing.T) {
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db")}))(t)
	defer func() { _ = log.Close() }()
	abandoned := make(chan error, 1)
	raftLog := raftLog{log, Hooks{Failed: func(err error) { t.Error(err) }, Abandon: func(err error) { abandoned <- err }}, &terms{}, func() {}}
	must.Do(t, raftLog.SetUint64(KeyCurrentTerm, 7))
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		_ = raftLog.SetUint64(KeyCurrentTerm, 6)
		returned = true
	}()
	<-ended
	check.Equal(t, returned, false, "Raft goes on in term 6")
	check.Equal(t, len(abandoned), 1, "the node goes on")
	check.Equal(t, must.Get(log.GetUint64(KeyCurrentTerm))(t), 7, "the term")
}

// TestLoadTerms: the terms of a log that was opened again.
func TestLoadTerms(t *testing.T) {
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db")}))(t)
	defer func() { _ = log.Close() }()
	for _, want := range [][2]uint64{{0, 0}, {9, 8}} {
		if want[0] > 0 {
			must.Do(t, errors.Join(log.SetUint64(KeyCurrentTerm, want[0]), log.SetUint64(KeyLastVoteTerm, want[1])))
		}
		got := must.Get(loadTerms(log))(t)
		check.Diff(t, [2]uint64{got.current.Load(), got.voted.Load()}, want, "current and voted")
	}
}

// TestConfigurationThatIsNotStored: the entry of a new configuration is not stored. Raft
// would use it without the entry and put it into the next snapshot. The node ends, and has
// the configuration of its state when it is started again.
func TestConfigurationThatIsNotStored(t *testing.T) {
	dir := t.TempDir()
	noSpace := errors.New("no space left on device")
	var fail atomic.Bool
	abandoned := make(chan error, 1)
	r, _, stop := aloneRaftOn(t, dir, func(_ string, do func() error) error {
		if fail.CompareAndSwap(true, false) {
			return noSpace
		}
		return do()
	}, Hooks{Failed: func(error) {}, Abandon: func(err error) { abandoned <- err }})
	must.Do(t, r.BootstrapCluster(Alone("n1")).Error())
	wait(t, "it does not lead", r.Leads)
	must.Do(t, r.Barrier(testPatience).Error())
	fail.Store(true)
	check.Fails(r.AddNonvoter("ghost", "ghost", 0, testPatience).Error())(t, "the change is acknowledged")
	select {
	case err := <-abandoned:
		check.Err(t, err, noSpace, "the node ends for another reason")
	default:
		t.Errorf("the node goes on with %v", r.Servers())
	}
	stop()

	r, machine, stop := aloneRaft(t, dir)
	defer stop()
	wait(t, "it does not lead after a restart", r.Leads)
	must.Do(t, r.Barrier(testPatience).Error())
	v := machine.View()
	index, data := v.Configuration()
	v.Release()
	check.Diff(t, r.Servers(), raft.DecodeConfiguration(data).Servers, "the configurations of the state and of Raft")
	check.Err(t, r.AddNonvoter("other", "other", index, testPatience).Error(), nil, "the next change")
}

// TestConfigurationOfAnOvertakenTerm: Raft ignores this error, too.
func TestConfigurationOfAnOvertakenTerm(t *testing.T) {
	abandoned := make(chan error, 1)
	raftLog := raftLog{nil, Hooks{Abandon: func(err error) { abandoned <- err }}, electedIn(2), func() {}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := raftLog.StoreLog(&raft.Log{Index: 2, Term: 3, Type: raft.LogConfiguration})
		t.Errorf("Raft goes on after %v", err)
	}()
	<-ended
	select {
	case err := <-abandoned:
		check.Err(t, err, errOvertaken, "the node ends for another reason")
	default:
		t.Error("the node goes on")
	}
}
