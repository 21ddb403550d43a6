package consensus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/logstore"
)

// Where Raft keeps the newest term that it knows, and the term and the candidate of
// its newest vote.
var (
	KeyCurrentTerm  = []byte("CurrentTerm")
	KeyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// raftLog is the log as Raft writes it. It calls the hooks, and makes up for what
// Raft does not do when the log cannot be written.
type raftLog struct {
	*logstore.Store
	hooks   Hooks
	discard func() // rejects the messages that wait to be taken in
}

var (
	_ raft.LogStore    = raftLog{}
	_ raft.StableStore = raftLog{}
)

// StoreLog stores one entry.
func (l raftLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries.
func (l raftLog) StoreLogs(entries []*raft.Log) error {
	begun := time.Now()
	err := l.Store.StoreLogs(entries)
	if err == nil {
		l.hooks.Stored(time.Since(begun))
		// Before anybody learns that it is stored. This is the goroutine that takes
		// messages in: what waits now may be from a founder of another cluster.
		if id := foundedAs(entries[0]); id != "" && l.hooks.Founded(id) {
			l.discard()
		}
	}
	return l.failed(err)
}

// Set stores a stable value.
func (l raftLog) Set(key, value []byte) error {
	return l.failed(l.Store.Set(key, value))
}

// SetUint64 stores a stable number.
func (l raftLog) SetUint64(key []byte, value uint64) error {
	switch {
	case bytes.Equal(key, KeyCurrentTerm):
		return l.setTerm(value)
	case bytes.Equal(key, KeyLastVoteTerm):
		// Raft stores whom it votes for only after the term. After a stop in
		// between, the one that it voted for in an older term would pass for its
		// choice, and be given the vote without a look at its log.
		if err := l.Set(keyLastVoteCand, nil); err != nil {
			return err
		}
	}
	return l.failed(l.Store.SetUint64(key, value))
}

// setTerm stores the current term. Raft panics when it cannot be stored, so the node
// ends by itself, and Raft's goroutine with it. At its start Raft stores the term that
// it has read, on the goroutine of the start: that is left out.
func (l raftLog) setTerm(term uint64) error {
	stored, err := l.GetUint64(KeyCurrentTerm)
	if stored == term && (err == nil || errors.Is(err, logstore.ErrNotFound)) {
		return nil
	}
	if err = l.failed(l.Store.SetUint64(KeyCurrentTerm, term)); err != nil {
		l.hooks.Abandon(fmt.Errorf("the log cannot take the new term %d, and without it this node must not go on: %w", term, err))
		runtime.Goexit()
	}
	return nil
}

// failed passes an error of a write on. Raft tries again by itself.
func (l raftLog) failed(err error) error {
	if err != nil {
		l.hooks.Failed(err)
	}
	return err
}

// A cluster is named by its first configuration, the first entry of its log: the
// random parts of the server ids make it unique. So whoever has that entry, and the
// founder before all others, can recognise a second cluster that was founded beside it,
// by nodes that did not see a founder whose start was cut short. Raft cannot: both
// logs begin with entry 1 of term 1.

// foundedAs returns the id of the cluster that a log entry founds; "" when it is
// none that does.
func foundedAs(entry *raft.Log) string {
	if entry.Index != 1 || entry.Type != raft.LogConfiguration {
		return ""
	}
	sum := sha256.Sum256(entry.Data)
	return hex.EncodeToString(sum[:cluster.ClusterIDBytes])
}

// FoundedBy returns the id of the cluster that a log begins with; "" when it is
// empty, or its beginning is in a snapshot.
func FoundedBy(log *logstore.Store) (string, error) {
	first, err := log.FirstIndex()
	if err != nil || first != 1 {
		return "", err
	}
	var entry raft.Log
	if err := log.GetLog(first, &entry); err != nil {
		return "", err
	}
	return foundedAs(&entry), nil
}
