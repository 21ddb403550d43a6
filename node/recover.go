package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/logstore"
)

// Recover makes the node of a data directory, on which no process runs, the only
// voter of a new cluster with the state and the log that the directory holds. It
// is the last resort when the majority of a cluster is gone for good: what only
// the others had is lost, and what this node had logged without knowing it to be
// committed is kept. The new cluster has another id, so that servers of the
// former one that come back after all are refused; they join again with empty
// directories.
func Recover(o Offline, logger *slog.Logger) (founded Founded, err error) {
	lock, identity, err := o.take()
	if err != nil {
		return founded, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	sealed, err := o.recoverLog(identity.ServerID, logger)
	if err != nil {
		return founded, err
	}
	as := founding(identity.ServerID, sealed)
	sum, err := fsm.Refound(fsm.Options{Dir: filepath.Join(o.DataDir, stateDir), Logger: logger}, as)
	if err != nil {
		return founded, err
	}
	// The former servers are none of the new cluster's.
	if err := os.Remove(filepath.Join(o.DataDir, bookFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return founded, err
	}
	return Founded{
		ClusterID: as.ClusterID, Former: sum.ClusterID, ServerID: identity.ServerID,
		Index: sum.Index, Entries: sum.Entries, Digest: hex.EncodeToString(sum.Rolling[:]),
	}, finish(o.DataDir)
}

// take locks the data directory of a node that exists.
func (o Offline) take() (lock *cluster.DirLock, identity cluster.Identity, err error) {
	if _, err := os.Stat(filepath.Join(o.DataDir, logFile)); err != nil {
		return nil, identity, fmt.Errorf("data directory %s holds no node: %w", o.DataDir, err)
	}
	if lock, err = cluster.LockDir(o.DataDir); err != nil {
		return nil, identity, err
	}
	if err = errors.Join(checkNotLeft(o.DataDir), checkRestored(o.DataDir)); err == nil {
		identity, err = cluster.LoadIdentity(o.DataDir, o.NodeID)
	}
	if err != nil {
		return nil, identity, errors.Join(err, lock.Release())
	}
	return lock, identity, nil
}

// Held is how far a node got whose data directory no process uses.
type Held struct {
	ServerID string
	LastLog  uint64 // index of its newest log entry, or of the state where there is none
	LastTerm uint64 // term of that
}

// Survey returns how far the node of a data directory got: of several, the one
// with the highest term, and among those the highest index, holds the most.
func Survey(o Offline) (held Held, err error) {
	lock, identity, err := o.take()
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(o.DataDir, stateDir)})
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	log, err := logstore.Open(logstore.Options{Path: filepath.Join(o.DataDir, logFile)})
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	held.ServerID = identity.ServerID
	snapshots, err := machine.Snapshots().List()
	if err != nil {
		return held, err
	}
	if len(snapshots) > 0 {
		held.LastLog, held.LastTerm = snapshots[0].Index, snapshots[0].Term
	}
	last, err := log.LastIndex()
	if err != nil || last <= held.LastLog {
		return held, err
	}
	var newest raft.Log
	if err := log.GetLog(last, &newest); err != nil {
		return held, err
	}
	held.LastLog, held.LastTerm = newest.Index, newest.Term
	return held, nil
}

// recoverLog applies the whole log, takes a snapshot with a configuration of one
// server and empties the log, as Raft has it. It returns the data key, sealed
// under the secret in use.
func (o Offline) recoverLog(serverID string, logger *slog.Logger) (sealed []byte, err error) {
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(o.DataDir, stateDir), Logger: logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	log, err := logstore.Open(logstore.Options{Path: filepath.Join(o.DataDir, logFile)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	snapshots := localSnapshots{machine.Snapshots()}
	list, err := snapshots.List()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		err = log.Align(list[0].Index, list[0].Term)
	} else {
		err = log.Align(0, 0)
	}
	if err != nil {
		return nil, err
	}
	if sealed, err = loggedDataKey(log, machine); err != nil {
		return nil, err
	}
	if len(sealed) == 0 {
		return nil, errors.New("this node was never part of a cluster; empty its data directory and start it again")
	}
	// Nothing is changed for whom it turns out already that it has another secret.
	if sealed, err = o.reseal(sealed, ""); err != nil {
		return nil, err
	}
	if err := begin(o.DataDir, recovering); err != nil {
		return nil, err
	}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(serverID)
	config.Logger = newRaftLogger(logger)
	return sealed, raft.RecoverCluster(config, stateOnDisk{machine.FSM()}, log, log, snapshots, nil, alone(serverID))
}

// loggedDataKey returns the sealed data key as it stands when the whole log is
// applied; none where the node was never part of a cluster. The state alone may
// still have the one that a secret sealed that nobody has any more.
func loggedDataKey(log raft.LogStore, machine *fsm.Machine) ([]byte, error) {
	v := machine.View()
	sealed, index := bytes.Clone(v.SealedDataKey()), v.Index()
	v.Release()
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	for index = max(index+1, first); index <= last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return nil, err
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		batch, err := fsm.DecodeBatch(entry.Data)
		if err != nil {
			return nil, fmt.Errorf("log entry %d: %w", index, err)
		}
		sealed = batch.SealedDataKey(sealed)
	}
	return sealed, nil
}

// stateOnDisk is a state machine whose snapshots need no restoring: its state is
// on disk already.
type stateOnDisk struct{ raft.BatchingFSM }

// Restore does nothing.
func (stateOnDisk) Restore(io.ReadCloser) error { return nil }

// Snapshot returns a snapshot that gives its view back by itself: Raft's recovery
// does not.
func (s stateOnDisk) Snapshot() (raft.FSMSnapshot, error) {
	snapshot, err := s.BatchingFSM.Snapshot()
	return releasedSnapshot{snapshot}, err
}

// releasedSnapshot is released when it was persisted.
type releasedSnapshot struct{ raft.FSMSnapshot }

// Persist persists the snapshot and releases it.
func (s releasedSnapshot) Persist(sink raft.SnapshotSink) error {
	defer s.FSMSnapshot.Release()
	return s.FSMSnapshot.Persist(sink)
}

// Release does nothing more.
func (releasedSnapshot) Release() {}

// localSnapshots are snapshots of which nobody reads the state.
type localSnapshots struct{ raft.SnapshotStore }

// Open returns the metadata alone.
func (s localSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	list, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, meta := range list {
		if meta.ID == id {
			return meta, io.NopCloser(strings.NewReader("")), nil
		}
	}
	return nil, nil, fmt.Errorf("snapshot %s: %w", id, fs.ErrNotExist)
}
