package node

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/loop"
)

const leadRetry = 50 * time.Millisecond // the pause after a failed attempt to start leading

// watchLeadership follows Raft's notifications of leadership: each time this node gains
// it, establishLeadership runs until it is lost.
func (n *Node) watchLeadership(ctx context.Context) {
	revoke := func() {}
	defer func() { revoke() }()
	for {
		select {
		case <-ctx.Done():
			return
		case gained := <-n.raft.LeaderCh():
			// Raft keeps only the newest value: two gains in a row mean a loss in between.
			revoke()
			revoke = func() {}
			if gained {
				revoke = n.lead(ctx)
			}
		}
	}
}

// lead starts to lead and returns a function that ends it.
func (n *Node) lead(ctx context.Context) (revoke func()) {
	ctx, cancel := context.WithCancel(ctx)
	var established sync.WaitGroup
	established.Go(func() { n.establishLeadership(ctx) })
	return func() {
		cancel()
		established.Wait()
		n.pipeline.StopLeading()
		n.logger.InfoContext(ctx, "not leading any more")
	}
}

// establishLeadership commits this leader's first command, gives a new cluster its id,
// accepts writes and strong reads, and runs the leader's workers until ctx ends.
func (n *Node) establishLeadership(ctx context.Context) {
	for {
		term := n.raft.CurrentTerm()
		// After the first command, everything that earlier leaders committed is applied here.
		_, _, err := n.pipeline.ProposeAsLeader(ctx, &command.Lead{ServerID: n.identity.ServerID})
		if err == nil {
			err = n.dataKey.Name(ctx)
		}
		if err == nil {
			n.pipeline.StartLeading(ctx, term)
			n.logger.InfoContext(ctx, "leading", "term", term)
			break
		}
		if ctx.Err() != nil {
			return
		}
		n.logger.WarnContext(ctx, "cannot lead yet", "term", term, "error", err)
		if !loop.Pause(ctx, leadRetry) {
			return
		}
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		n.proposeDue(ctx, endsInterval, "due claims, rules and reports were not ended; it is tried again", dueTick)
	})
	workers.Go(func() {
		n.proposeDue(ctx, sweepInterval, "what is older than the retention was not swept; it is tried again", dueSweeps())
	})
	workers.Go(func() {
		n.proposeDue(ctx, forgetInterval, "senders are remembered longer than they should; it is tried again", dueForgetting)
	})
	for _, lead := range []func(context.Context){
		n.dataKey.KeepSealed, n.delivery.Lead, n.backups.Lead, n.admin.LogEvents, n.members.Lead,
	} {
		workers.Go(func() { lead(ctx) })
	}
}

// observeRaft notifies the write path whenever another leader may be known.
func (n *Node) observeRaft(ctx context.Context) {
	changes := make(chan raft.Observation, 8)
	observer := raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(observer)
	last := ""
	defer n.raft.DeregisterObserver(observer)
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-changes:
			n.pipeline.LeaderChanged()
			if l, ok := o.Data.(raft.LeaderObservation); ok {
				n.health.NoteOutage(l.LeaderID != "")
				if id := string(l.LeaderID); id != "" && id != last {
					n.health.NoteLeader(id, n.raft.CurrentTerm())
					last = id
				}
				n.logger.InfoContext(ctx, "leader", "server", cmp.Or(l.LeaderID, "none"))
			}
		}
	}
}

const (
	endsInterval   = time.Second           // how often the leader looks for what has expired
	forgetInterval = 10 * time.Second      // how often it looks for senders to forget
	sweepInterval  = 10 * time.Second      // how often it looks for entries older than the retention
	duePause       = 50 * time.Millisecond // between two commands in a row, so that other writes get through
)

// proposeDue proposes the commands of a kind that are due, for as long as this node leads. next
// returns the next one at a stamp, or nil if none is due.
func (n *Node) proposeDue(ctx context.Context, every time.Duration, problem string, next func(v *view.View, stamp int64) (command.Payload, error)) {
	look := func() (command.Payload, error) {
		v := n.machine.View()
		defer v.Release()
		return next(v, n.pipeline.Clocks().Stamp())
	}
	loop.Every(ctx, every, func(ctx context.Context) {
		for {
			due, err := look()
			if err == nil && due != nil {
				err = n.proposeAsLeader(ctx, due)
			}
			if err != nil && ctx.Err() == nil {
				n.logger.WarnContext(ctx, problem, "error", err) //nolint:sloglint // a constant of the caller
			}
			if err != nil || due == nil || !loop.Pause(ctx, duePause) {
				return
			}
		}
	})
}

// dueTick advances log time when a claim, a rule of the policy, a report or a token has expired, and
// no client writes. Correctness does not depend on it: for the next log entry they have ended.
func dueTick(v *view.View, stamp int64) (command.Payload, error) {
	if at, err := v.NextEnd(); err != nil || at > stamp {
		return nil, err
	}
	return &command.Tick{}, nil
}

// dueForgetting deletes old pseudonyms.
func dueForgetting(v *view.View, stamp int64) (command.Payload, error) {
	if some, err := v.SendersToForget(stamp); err != nil || !some {
		return nil, err
	}
	return &command.ForgetSenders{}, nil
}

// dueSweeps returns a function that turns entries older than the retention into stubs.
func dueSweeps() func(v *view.View, stamp int64) (command.Payload, error) {
	kept := uint64(0) // from where the next look goes on among those that were kept
	return func(v *view.View, stamp int64) (command.Payload, error) {
		sweep, to, err := v.NextSweep(stamp, kept)
		if kept = to; sweep == nil {
			return nil, err
		}
		return sweep, err
	}
}

const catchUpRetry = 100 * time.Millisecond // the pause between attempts to hear from a leader

// catchUp signals when the node has everything that was acknowledged before its start.
// Until then, entries that were purged while it was down are still in its state, so that it
// does not serve reads from it.
func (n *Node) catchUp(ctx context.Context) {
	for !n.cfg.AnswerBehind {
		index, err := n.pipeline.ReadIndex(ctx)
		if err == nil {
			err = n.machine.Wait(ctx, index)
		}
		if err == nil {
			break
		}
		if !loop.Pause(ctx, catchUpRetry) {
			return
		}
	}
	close(n.caughtUp)
}
