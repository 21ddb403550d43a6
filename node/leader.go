package node

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
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
	workers.Go(func() { n.endExpired(ctx) })
	workers.Go(func() { n.sweepExpired(ctx) })
	workers.Go(func() { n.dataKey.KeepSealed(ctx) })
	workers.Go(func() { n.forgetSenders(ctx) })
	workers.Go(func() { n.delivery.Lead(ctx) })
	workers.Go(func() { n.backups.Lead(ctx) })
	workers.Go(func() { n.operator.LogEvents(ctx) })
	n.members.Lead(ctx)
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
				if id := string(l.LeaderID); id != "" && id != last {
					n.health.NoteLeader(id, n.raft.CurrentTerm())
					last = id
				}
				n.logger.InfoContext(ctx, "leader", "server", cmp.Or(l.LeaderID, "none"))
			}
		}
	}
}

const endsInterval = time.Second // how often the leader checks for expired claims, rules and reports

// endExpired advances log time when a claim, a rule of the policy, a report or a token has expired,
// or a purge lapses, and no client writes. Correctness does not depend on it: for the next log entry they have ended.
func (n *Node) endExpired(ctx context.Context) {
	loop.Every(ctx, endsInterval, func(ctx context.Context) {
		for n.due() {
			if _, _, err := n.pipeline.ProposeAsLeader(ctx, &command.Tick{}); err != nil {
				if ctx.Err() == nil {
					n.logger.WarnContext(ctx, "due claims, rules and reports were not ended; it is tried again", "error", err)
				}
				break
			}
		}
	})
}

// due reports whether a command with this node's stamp would change a job, or end a rule, a
// report, a purge that waits, or a moderator's token.
func (n *Node) due() bool {
	v := n.machine.View()
	defer v.Release()
	stamp := n.pipeline.Clocks().Stamp()
	job, waits := v.NextDueJob()
	rule, ruled := v.NextRuleEnd()
	report, reported := v.NextReportEnd()
	token, ends := v.NextTokenEnd()
	return waits && job <= stamp || ruled && rule <= stamp || reported && report <= stamp || ends && token <= stamp
}

const (
	forgetInterval = 10 * time.Second      // how often the leader looks for senders to forget
	forgetPause    = 50 * time.Millisecond // between two commands in a row, so that other writes get through
)

// forgetSenders deletes old pseudonyms, for as long as this node leads.
func (n *Node) forgetSenders(ctx context.Context) {
	some := func() (bool, error) {
		v := n.machine.View()
		defer v.Release()
		return v.SendersToForget(n.pipeline.Clocks().Stamp())
	}
	loop.Every(ctx, forgetInterval, func(ctx context.Context) {
		for {
			more, err := some()
			if more && err == nil {
				_, _, err = n.pipeline.ProposeAsLeader(ctx, &command.ForgetSenders{})
			}
			if err != nil && ctx.Err() == nil {
				n.logger.WarnContext(ctx, "senders are remembered longer than they should; it is tried again", "error", err)
			}
			if err != nil || !more || !loop.Pause(ctx, forgetPause) {
				return
			}
		}
	})
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

const (
	sweepInterval = 10 * time.Second      // how often the leader looks for entries older than the retention
	sweepPause    = 50 * time.Millisecond // between two sweeps in a row, so that other writes get through
)

// sweepExpired turns entries that are older than the retention into stubs, for as long as this node
// leads.
func (n *Node) sweepExpired(ctx context.Context) {
	kept := uint64(0) // from where the next look goes on among those that were kept
	loop.Every(ctx, sweepInterval, func(ctx context.Context) {
		for {
			next, to, err := n.nextSweep(kept)
			kept = to
			if err == nil && next == nil {
				return
			}
			if err == nil {
				_, _, err = n.pipeline.ProposeAsLeader(ctx, next)
			}
			if err != nil {
				if ctx.Err() == nil {
					n.logger.WarnContext(ctx, "what is older than the retention was not swept; it is tried again", "error", err)
				}
				return
			}
			if !loop.Pause(ctx, sweepPause) {
				return
			}
		}
	})
}

// nextSweep returns the next sweep at this node's stamp, or nil if no sweep is due.
func (n *Node) nextSweep(kept uint64) (*command.Sweep, uint64, error) {
	v := n.machine.View()
	defer v.Release()
	return v.NextSweep(n.pipeline.Clocks().Stamp(), kept)
}
