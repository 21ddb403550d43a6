package consensus

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

const (
	transferPoll = 2 * time.Millisecond // the pause between two looks at a transfer of leadership
	// maxRejecting is the number of half election timeouts after which a leader that rejects
	// every command ends. An election takes one to two timeouts.
	maxRejecting = 5
)

// HandOver transfers leadership to a voter. It rejects commands until the voter has the whole
// log, and asks it to stand for election. The voter has an election timeout for the log, and
// one to be elected. HandOver fails at once if the voter has answered no request since the
// last attempt.
//
// Raft's own transfer is not used: it may never end, and Raft then rejects every command
// whenever the node leads (docs/decisions/0020-handing-leadership-over.md).
func (r *Raft) HandOver(id string) error {
	if !r.Leads() {
		return raft.ErrNotLeader
	}
	term, to := r.CurrentTerm(), raft.ServerID(id)
	if !r.transferring.CompareAndSwap(false, true) {
		return raft.ErrLeadershipTransferInProgress
	}
	defer r.transferring.Store(false)
	if !r.transport.notices.beginTransfer(to) {
		return fmt.Errorf("leadership is not handed to %s, which has answered nothing since the last attempt", id)
	}
	var answered chan error // nil until the voter is asked to stand for election
	late := time.After(r.cfg.Heartbeat)
	for last := uint64(0); r.Leads() && r.CurrentTerm() == term; {
		newest := r.LastIndex()
		// Commands that Raft accepted before still enter the log at the first look.
		if answered == nil && newest == last && r.transport.notices.has(to, term, newest) {
			answered, late = make(chan error, 1), time.After(r.cfg.Heartbeat)
			go func() { answered <- r.transport.askToStand(to, r.cfg.ServerID) }()
		}
		last = newest
		select {
		case err := <-answered:
			if err != nil {
				return fmt.Errorf("asking %s to stand for election: %w", id, err)
			}
		case <-late:
			return fmt.Errorf("%s does not lead within %v (it was asked to stand for election: %v)", id, r.cfg.Heartbeat, answered != nil)
		case <-time.After(transferPoll):
		}
	}
	return nil
}

// askToStand has a server stand for election at once.
func (t *transport) askToStand(id raft.ServerID, leader string) error {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader), Addr: []byte(leader)}
	return t.TimeoutNow(id, raft.ServerAddress(id), &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
}

// Apply appends a command to the log. During a transfer of leadership it is rejected, so that
// the log of the next leader is complete.
func (r *Raft) Apply(command []byte, timeout time.Duration) raft.ApplyFuture {
	if r.transferring.Load() {
		return rejected{}
	}
	return r.Raft.Apply(command, timeout)
}

// rejected is the future of a command that is rejected because of a transfer of leadership.
type rejected struct{}

func (rejected) Error() error  { return raft.ErrLeadershipTransferInProgress }
func (rejected) Response() any { return nil }
func (rejected) Index() uint64 { return 0 }

// ErrRejects is the reason for which a leader ends that takes no writes.
var ErrRejects = errors.New("this node leads, and its Raft rejects every command as in a transfer of leadership that does not end; start the node again")

// watchRejections ends the node if Raft rejects every command of this leader for longer than
// an election, because of a transfer of its own. Then another node can lead. It counts looks
// instead of time, so that a pause of the process does not count.
func (r *Raft) watchRejections() {
	pause := r.cfg.Heartbeat / 2
	for rejecting := 0; rejecting < maxRejecting; {
		select {
		case <-r.transport.end:
			return
		case <-time.After(pause):
		}
		// Raft rejects this change in any case, because no configuration has such an index. It
		// has no other question that a transfer rejects and that writes no entry.
		if r.Leads() && errors.Is(r.RemoveServer("", math.MaxUint64, pause).Error(), raft.ErrLeadershipTransferInProgress) {
			rejecting++
		} else {
			rejecting = 0
		}
	}
	r.cfg.Hooks.Abandon(ErrRejects)
}
