package health

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// maxReadyLag is how many committed log entries a ready node may have left to apply.
	// Some entries never reach a state machine.
	maxReadyLag  = 1024
	catchUpRetry = 100 * time.Millisecond // the pause between two attempts to catch up
	// catchUpWait is how long a node that has caught up may take to apply the leader's index.
	// It is well below maxLag, so that a node that is just too slow does not switch all the time.
	catchUpWait = time.Second
	// electionGrace is for how many minimum election times, of two heartbeats each, a node
	// stays ready without a leader. It queues writes and answers reads meanwhile; a load balancer that dropped it
	// would only have the old leader, which may hang.
	electionGrace = 3
)

// Role names a Raft state.
func Role(s raft.RaftState) string {
	switch s {
	case raft.Leader:
		return "leader"
	case raft.Candidate:
		return "candidate"
	default:
		return "follower"
	}
}

// Checks are the conditions of readiness.
func (h *Health) Checks() []Check {
	leader, applied, commit := h.src.Raft.LeaderID(), h.src.Machine.Applied(), h.src.Raft.CommitIndex()
	running := Check{Name: "running", OK: !h.src.Stopping(), Detail: "the node runs"}
	if !running.OK {
		running.Detail = "the node is shutting down"
	}
	known := Check{Name: "leader", OK: h.led(), Detail: "known"}
	if leader == "" {
		known.Detail = "no leader is known"
	}
	member := h.memberCheck()
	caughtUp := Check{
		Name: "caught-up", OK: h.caughtUp.Load() && applied+maxReadyLag >= commit,
		Detail: fmt.Sprintf("applied %d of %d", applied, max(applied, commit, h.behind.Load().index)),
	}
	if lag := h.lag(); lag > maxLag {
		caughtUp.Detail += fmt.Sprintf(", behind the leader for %v", lag.Round(time.Second))
	} else if !h.caughtUp.Load() {
		caughtUp.Detail += ", not caught up with the leader since it was last heard of, or too far ahead"
	}
	return []Check{running, known, member, caughtUp, h.logCheck(), h.diskCheck()}
}

const notJoined = "not part of a cluster yet"

// memberCheck checks whether this node is part of its intended cluster.
func (h *Health) memberCheck() Check {
	c := Check{Name: "cluster", OK: h.src.Joined(), Detail: "part of its cluster"}
	waiting := h.src.Members.Waiting()
	stranger, strange := h.src.Gossip.Stranger()
	switch {
	case h.src.Members.Outside():
		c.OK, c.Detail = false, "this server was removed from its cluster; stop it, or empty its data directory and start it to join as a new server"
	case strange && len(h.src.Gossip.Members()) <= 1:
		c.OK, c.Detail = false, "alone, and at its join address is another cluster"
		c.Operators = fmt.Sprintf("this node belongs to cluster %s and is alone, and %s at the join address %s belongs to cluster %s; empty this node's data directory to join that, or take the address out of --join",
			h.src.ClusterID(), stranger.ServerID, stranger.GossipAddr, stranger.ClusterID)
	case h.src.ClusterID() == "" && waiting != "":
		c.Detail = notJoined
		c.Operators = notJoined + ": " + waiting
	case h.src.ClusterID() == "":
		c.Detail = notJoined
	case !c.OK && !h.named():
		c.Detail = "the cluster is not led yet: its first command is not applied here"
	case !c.OK:
		c.Detail = "the cluster's data key cannot be opened with this node's secret"
	}
	return c
}

// named reports whether the state has the cluster's id, and with it the data key.
func (h *Health) named() bool {
	v := h.src.Machine.View()
	defer v.Release()
	return v.ClusterID() != ""
}

// led reports whether there is a leader, or the next one may be elected soon.
func (h *Health) led() bool {
	return h.src.Raft.LeaderID() != "" || time.Since(h.src.Raft.LastContact()) < electionGrace*2*h.cfg.Heartbeat
}

// watchCatchUp checks, after a start, after the loss of the leader and after falling
// behind, whether this node has everything that was acknowledged before: Raft notifies
// a follower only of commits that its own log has reached.
func (h *Health) watchCatchUp(ctx context.Context) {
	for ctx.Err() == nil {
		if !h.led() || h.lag() > maxLag {
			h.caughtUp.Store(false)
		}
		if !h.caughtUp.Load() && h.src.Raft.LeaderID() != "" && h.catchUp(ctx) {
			h.caughtUp.Store(true)
			if !h.wasReady.Swap(true) {
				h.cfg.Logger.InfoContext(ctx, "ready", "http", h.src.HTTPAddr, "after", time.Since(h.cfg.Started).Round(time.Millisecond).String())
				if warning := h.HouseWarning(); warning != "" {
					h.cfg.Logger.WarnContext(ctx, "names of the operator are free", "problem", warning)
				}
			}
		}
		loop.Pause(ctx, catchUpRetry)
	}
}

// catchUp reports whether this node applies the leader's index within catchUpWait.
func (h *Health) catchUp(ctx context.Context) bool {
	index, err := h.src.Pipeline.ReadIndex(ctx)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	return h.src.Machine.Wait(ctx, index) == nil
}

// StaleFor returns for how long this node has not heard from a leader, or has lagged
// behind its applied index.
func (h *Health) StaleFor() time.Duration {
	if h.src.Raft.Leads() {
		return 0
	}
	last := h.src.Raft.LastContact()
	if last.Before(h.cfg.Started) {
		last = h.cfg.Started
	}
	return max(time.Since(last), h.lag())
}

const (
	lagInterval = time.Second     // how often a node asks the leader for its index
	maxLag      = 5 * time.Second // for how long a ready node may lag behind the leader
)

// mark is an index that the leader had applied at a time, and this node had not.
type mark struct {
	index uint64
	since time.Time
}

// watchLag marks the leader's index if this node has not applied it: Raft does not show a
// node its lag while its log cannot be written. A mark stays until its index is applied. A
// leader's applied index is committed, so it is valid under every later leader.
func (h *Health) watchLag(ctx context.Context) {
	loop.Every(ctx, lagInterval, func(ctx context.Context) {
		leader := h.src.Raft.LeaderID()
		if h.lag() > 0 || leader == "" || leader == h.cfg.ServerID {
			return
		}
		asked := time.Now()
		if applied, err := h.src.Members.AppliedAt(ctx, leader); err == nil { // else Raft's contact with it counts
			h.behind.Store(&mark{applied, asked})
		}
	})
}

// lag returns for how long this node has lagged behind the leader.
func (h *Health) lag() time.Duration {
	if m := h.behind.Load(); h.src.Machine.Applied() < m.index {
		return time.Since(m.since)
	}
	return 0
}

// Stored notes that the log has taken entries.
func (h *Health) Stored(took time.Duration) {
	h.syncs.add(h.sinceStart(), took)
	h.slowness.sync(took)
	h.LogWritable()
	if took >= slowOne {
		h.cfg.Logger.Warn("a write of the log was slow", "took", took.Round(time.Millisecond).String())
	}
}

// LogFailed records a failed write of the log. Raft tries again by itself. Until a
// write succeeds, writes through this node cannot be applied here, and so cannot be
// answered.
func (h *Health) LogFailed(err error) {
	if h.logFailure.Swap(&err) == nil {
		h.cfg.Logger.Error("the log cannot be written: this node is not ready and takes no writes until it can", "error", err, "data", h.cfg.DataDir)
	}
}

// LogWritable records that entries were written to the log. A stored vote is no proof:
// it may fit where entries do not. A new leader sends an entry to all, so that a log
// which failed to store a vote is tried as well.
func (h *Health) LogWritable() {
	if h.logFailure.Load() != nil && h.logFailure.Swap(nil) != nil {
		h.cfg.Logger.Info("the log is written again")
	}
}

// Rejection returns the reason why this node rejects writes, or nil.
func (h *Health) Rejection() *command.Unavailable {
	if h.logFailure.Load() != nil {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "this node cannot write its log; write through another one"}
	}
	return h.diskFull.Load()
}

// logCheck returns the line of /readyz.
func (h *Health) logCheck() Check {
	if failure := h.logFailure.Load(); failure != nil {
		const detail = "cannot be written"
		return Check{Name: "log", Detail: detail, Operators: detail + ": " + (*failure).Error()}
	}
	return Check{Name: "log", OK: true, Detail: "is written"}
}
