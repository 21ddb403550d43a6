package node

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/node/logstore"
)

// raftLog is the log as Raft writes it. It notes when the log cannot be written, and
// makes up for what Raft does not do then.
type raftLog struct {
	*logstore.Store
	n *Node
}

var (
	_ raft.LogStore    = raftLog{}
	_ raft.StableStore = raftLog{}
)

// StoreLog stores one entry.
func (l raftLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries.
func (l raftLog) StoreLogs(entries []*raft.Log) error {
	begun := l.n.sinceStart()
	err := l.Store.StoreLogs(entries)
	if err == nil {
		at := l.n.sinceStart()
		l.n.condition.syncs.add(at, at-begun)
		l.n.logWritable()
		// Before anybody is told that it is stored. This is the goroutine that takes
		// messages in: what waits now may be from a founder of another cluster.
		if l.n.joinCluster(foundedAs(entries[0])) {
			l.n.transport.discard()
		}
	}
	return l.n.noteLogFailure(err)
}

// Set stores a stable value.
func (l raftLog) Set(key, value []byte) error {
	return l.n.noteLogFailure(l.Store.Set(key, value))
}

// SetUint64 stores a stable number.
func (l raftLog) SetUint64(key []byte, value uint64) error {
	switch {
	case bytes.Equal(key, keyCurrentTerm):
		return l.setTerm(value)
	case bytes.Equal(key, keyLastVoteTerm):
		// Raft stores whom it votes for only after the term. After a stop in
		// between, the one that it voted for in an older term would pass for its
		// choice, and be given the vote without a look at its log.
		if err := l.Set(keyLastVoteCand, nil); err != nil {
			return err
		}
	}
	return l.n.noteLogFailure(l.Store.SetUint64(key, value))
}

// setTerm stores the current term. Raft panics when it cannot be stored, so the node
// ends by itself, and Raft's goroutine with it. At its start Raft stores the term that
// it has read, on the goroutine of the start: that is left out.
func (l raftLog) setTerm(term uint64) error {
	stored, err := l.GetUint64(keyCurrentTerm)
	if stored == term && (err == nil || errors.Is(err, logstore.ErrNotFound)) {
		return nil
	}
	err = l.n.noteLogFailure(l.Store.SetUint64(keyCurrentTerm, term))
	if err != nil {
		l.n.abandon(fmt.Errorf("the log cannot take the new term %d, and without it this node must not go on: %w; see to it that the disk of %s takes writes, and start the node again",
			term, err, l.n.cfg.DataDir))
		runtime.Goexit()
	}
	return nil
}

// noteLogFailure remembers an error of a write of the log, and returns it. Raft
// tries again by itself; until a write succeeds nothing that is written through
// this node could be applied here, hence not be answered.
func (n *Node) noteLogFailure(err error) error {
	if err != nil && n.logFailure.Swap(&err) == nil {
		n.logger.Error("the log cannot be written: this node is not ready and takes no writes until it can", "error", err, "data", n.cfg.DataDir)
	}
	return err
}

// logWritable notes that the log has taken entries. A vote that was stored proves
// less: it may fit where they do not. Whoever is elected sends an entry to all, so
// that a log which failed to store a vote is tried as well.
func (n *Node) logWritable() {
	if n.logFailure.Load() != nil && n.logFailure.Swap(nil) != nil {
		n.logger.Info("the log is written again")
	}
}

// refusal returns why this node takes no writes; nil while it does.
func (n *Node) refusal() *api.Unavailable {
	if n.logFailure.Load() != nil {
		return &api.Unavailable{Code: api.CodeNotEnqueued, Reason: "this node cannot write its log; write through another one"}
	}
	return n.diskFull.Load()
}

// logCheck is the line of /readyz.
func (n *Node) logCheck() api.Check {
	if failure := n.logFailure.Load(); failure != nil {
		return api.Check{Name: "log", Detail: "cannot be written: " + (*failure).Error()}
	}
	return api.Check{Name: "log", OK: true, Detail: "is written"}
}
