package node

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// How Raft runs. Times that an operator may change are flags.
const (
	// commitTimeout is how long an idle leader waits before it tells the
	// followers of a commit: the largest part of a forwarded write's latency at
	// low load.
	commitTimeout = 10 * time.Millisecond
	// maxAppendEntries bounds a message between nodes: Raft counts entries, not
	// bytes, and an entry has up to fsm.MaxBatchBytes.
	maxAppendEntries = 64
	// raftPool is the number of idle connections kept per peer.
	raftPool = 3
	// raftIOTimeout bounds one message and its answer. A link that was cut is
	// dialled again after it.
	raftIOTimeout = 2 * time.Second
	// neverSnapshot keeps Raft from taking snapshots by itself; see snapshots.go.
	neverSnapshot         = math.MaxUint64
	neverSnapshotInterval = 24 * time.Hour
	// raftStopTimeout bounds the wait for Raft's goroutines at the end.
	raftStopTimeout = 10 * time.Second
)

// raftConfig translates the configuration into Raft's.
func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.identity.ServerID)
	c.HeartbeatTimeout = n.cfg.Heartbeat
	c.ElectionTimeout = n.cfg.Election
	c.LeaderLeaseTimeout = n.cfg.Lease
	c.CommitTimeout = commitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.ShutdownOnRemove = false
	c.NoSnapshotRestoreOnStart = !n.machine.RestoreOnStart()
	c.SnapshotThreshold = neverSnapshot
	c.SnapshotInterval = neverSnapshotInterval
	c.TrailingLogs = n.log.Trailing(n.cfg.Tuning.TrailingBytes)
	c.NoLegacyTelemetry = true
	c.Logger = newRaftLogger(n.logger, n.stopping.Load)
	return c
}

// reloadRaft changes settings of the running Raft.
func (n *Node) reloadRaft(change func(*raft.ReloadableConfig)) error {
	n.reload.Lock()
	defer n.reload.Unlock()
	c := n.raft.ReloadableConfig()
	change(&c)
	return n.raft.ReloadConfig(c)
}

// startRaft runs Raft over the log, the state machine and the private port.
func (n *Node) startRaft() error {
	n.transport = newTransport(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:                  newRaftLogger(n.logger, n.stopping.Load),
		Stream:                  n.port.StreamLayer(),
		MaxPool:                 raftPool,
		Timeout:                 raftIOTimeout,
		MsgpackUseNewTimeFormat: true,
	}))
	fsm, log := observedFSM{watchedFSM{n.machine.FSM(), n}, n.restored}, raftLog{n.log, n}
	r, err := raft.NewRaft(n.raftConfig(), fsm, log, log, n.streams, n.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("starting Raft: %w", err), n.transport.Close())
	}
	n.raft = r
	n.transport.raft.Store(r)
	return nil
}

// stopRaft ends Raft and waits for its goroutines, so that nothing is applied
// any more. It is bounded: a hanging disk must not keep the process.
func (n *Node) stopRaft() error {
	n.transport.stop()
	stopped := make(chan error, 1)
	go func() {
		stopped <- errors.Join(n.raft.Shutdown().Error(), n.transport.Close())
	}()
	select {
	case err := <-stopped:
		return err
	case <-time.After(raftStopTimeout):
		return fmt.Errorf("stopping Raft: not ended within %v", raftStopTimeout)
	}
}

// observedFSM tells when a snapshot was installed: what it brings is not
// observed command by command.
type observedFSM struct {
	raft.BatchingFSM
	restored func()
}

// Restore installs a snapshot.
func (f observedFSM) Restore(r io.ReadCloser) error {
	if err := f.BatchingFSM.Restore(r); err != nil {
		return err
	}
	f.restored()
	return nil
}

// restored is called when a snapshot was installed: the disk takes what comes.
func (n *Node) restored() {
	n.logWritable()
	v := n.machine.View()
	defer v.Release()
	n.pipeline.Recheck(v)
}

// voters returns the ids of the servers with a vote.
func (n *Node) voters() []string {
	var ids []string
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// servers returns Raft's latest configuration.
func (n *Node) servers() []raft.Server {
	future := n.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// leads reports whether Raft holds this node for the leader.
func (n *Node) leads() bool { return n.raft.State() == raft.Leader }

// leaderID returns the leader as far as this node knows, "" when it knows none.
func (n *Node) leaderID() string {
	_, id := n.raft.LeaderWithID()
	return string(id)
}
