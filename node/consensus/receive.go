package consensus

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/hashicorp/raft"
)

// Consumer returns the received messages for Raft's main goroutine.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// SetHeartbeatHandler sets Raft's handler of heartbeats, which runs beside Raft's main
// goroutine. A heartbeat that could change the term or the state of this node goes to the
// main goroutine: hashicorp/raft checks the term before it stores a new one, and meanwhile
// the main goroutine could store its vote in a newer term.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if t.handleBeside(rpc, handle) {
			return
		}
		select {
		case t.heartbeats <- rpc:
		case <-t.end:
		}
	})
}

// handleBeside handles a heartbeat beside Raft's main goroutine, if this node follows in
// the heartbeat's term. The term cannot change meanwhile.
func (t *transport) handleBeside(rpc raft.RPC, handle func(raft.RPC)) bool {
	r := t.raft.Load()
	req, is := rpc.Command.(*raft.AppendEntriesRequest)
	if r == nil || !is || !t.terms.change.TryRLock() {
		return false
	}
	defer t.terms.change.RUnlock()
	if req.Term != t.terms.current.Load() || req.Term != r.CurrentTerm() || r.State() != raft.Follower {
		return false
	}
	handle(rpc)
	return true
}

// forward passes received messages on to Raft's main goroutine, one at a time, until the
// transport is stopped.
func (t *transport) forward() {
	for {
		var rpc raft.RPC
		select {
		case rpc = <-t.NetworkTransport.Consumer():
		case rpc = <-t.heartbeats:
		case done := <-t.discards:
			t.rejectWaiting()
			close(done)
			continue
		case <-t.end:
			return
		}
		switch req := rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			t.skipCovered(req)
		case *raft.InstallSnapshotRequest:
			if !t.handOver(snapshotEndOf(req)) {
				rpc.Respond(nil, errDiscarded)
				continue
			}
			rpc = t.judgeSnapshot(rpc, req.LastLogIndex)
		case *raft.RequestPreVoteRequest:
			if !t.isVoter(req.ID) && t.leaderless() && req.Term >= t.terms.current.Load() && !t.isAhead(req.LastLogTerm, req.LastLogIndex) {
				rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: req.RPCHeader, Term: req.Term, Granted: true}, nil)
				continue
			}
		case *raft.RequestVoteRequest:
			if !t.isVoter(req.ID) {
				req.ID = nil // Raft checks the candidate's log only
			}
		}
		t.handOver(rpc)
	}
}

// isVoter reports whether a candidate is a voter in the newest configuration of this server. Raft
// rejects others. But a candidate has got its vote in an entry that this server may lack, and
// without this server's vote there may be no leader who sends it: an election must not depend on
// the configuration of those who vote. A removed server that asks lacks the entry that says so: its
// log is behind that of everybody who has it.
func (t *transport) isVoter(candidate []byte) bool {
	r := t.raft.Load()
	return r == nil || slices.ContainsFunc(r.GetConfiguration().Configuration().Servers, func(s raft.Server) bool {
		return string(s.ID) == string(candidate) && s.Suffrage == raft.Voter
	})
}

// isAhead reports whether this server's log has more than one that ends with an entry of a term.
func (t *transport) isAhead(term, index uint64) bool {
	r := t.raft.Load()
	last := LastTerm(r.Stats())
	return last > term || last == term && r.LastIndex() > index
}

// LastTerm returns the term of the newest entry of a log or its snapshot, which Raft shows nowhere
// else. Right after a snapshot was installed there is no entry in the log.
func LastTerm(stats map[string]string) uint64 {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(stats[name], 10, 64) // always a number
		return n
	}
	if number("last_snapshot_index") >= number("last_log_index") {
		return number("last_snapshot_term")
	}
	return number("last_log_term")
}

func (t *transport) leaderless() bool {
	leader, _ := t.raft.Load().LeaderWithID()
	return leader == ""
}

// handOver waits until Raft's main goroutine takes a message, and reports whether it did.
func (t *transport) handOver(rpc raft.RPC) bool {
	select {
	case t.requests <- rpc:
		return true
	case done := <-t.discards:
		rpc.Respond(nil, errDiscarded)
		t.rejectWaiting()
		close(done)
	case <-t.end:
	}
	return false
}

var errDiscarded = errors.New("this node has just become part of a cluster; ask again")

// discard rejects the received messages that wait for Raft, also those of connections
// that are closed by now. Servers of this cluster send them again.
func (t *transport) discard() {
	done := make(chan struct{})
	select {
	case t.discards <- done:
		<-done
	case <-t.end:
	}
}

func (t *transport) rejectWaiting() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			rpc.Respond(nil, errDiscarded)
		case rpc := <-t.heartbeats:
			rpc.Respond(nil, errDiscarded)
		default:
			return
		}
	}
}

// Why the receipt of a snapshot ends before it began.
var (
	errCovered  = errors.New("the state covers the snapshot")
	errTakesOwn = errors.New("this node takes a snapshot itself, or cuts its log; send it again")
)

// judgeSnapshot has Raft reject the snapshot up to an index, when it begins to receive it, in two
// cases. If the state covers it, it is a late duplicate, which would set back Raft's configuration
// and the index up to which it has applied the log; the leader is told that this node has the
// snapshot, because it would otherwise send it again and again. And Raft takes the snapshot that
// ends last for its newest: if its own, older one ended after the received one, it would reject
// every later entry. So none is received while one is taken, and none taken while one is received.
func (t *transport) judgeSnapshot(rpc raft.RPC, index uint64) raft.RPC {
	answers := make(chan raft.RPCResponse, 1)
	begun := false
	go func() {
		select {
		case answer := <-answers:
			if begun {
				<-t.snapshotting
			}
			if resp, is := answer.Response.(*raft.InstallSnapshotResponse); is && errors.Is(answer.Error, errCovered) {
				resp.Success, answer.Error = true, nil
			}
			rpc.RespChan <- answer
		case <-t.end:
		}
	}()
	return raft.RPC{Command: rpc.Command, RespChan: answers, Reader: &snapshotReader{Reader: rpc.Reader, begin: func() error {
		// Entries that Raft has handed to the state machine may not be in the state yet.
		if r := t.raft.Load(); index <= t.covered() || r != nil && index <= r.AppliedIndex() {
			return errCovered
		}
		select {
		case t.snapshotting <- struct{}{}:
			begun = true
			return nil
		default: // to wait would stop Raft's main goroutine, which taking a snapshot needs
			return errTakesOwn
		}
	}}}
}

// snapshotReader is the stream of a received snapshot. The first Read skips the stream if begin
// returns an error, and returns the error.
type snapshotReader struct {
	io.Reader
	begin func() error // nil after the first Read
}

func (s *snapshotReader) Read(p []byte) (int, error) {
	if begin := s.begin; begin != nil {
		s.begin = nil
		if err := begin(); err != nil {
			_, skipped := io.Copy(io.Discard, s.Reader)
			return 0, cmp.Or(skipped, err)
		}
	}
	return s.Reader.Read(p)
}

func (t *transport) Close() error {
	t.stop()
	return t.NetworkTransport.Close()
}
