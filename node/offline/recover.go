package offline

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
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
)

const lostSuffix = ".lost" // added to the name of a log that does not belong to the state

// Recover makes the node of a data directory, on which no process runs, the only voter
// of a new cluster with the state and the log that the directory holds. It is the last
// resort when the majority of a cluster is lost permanently: data that only the others
// had is lost, and entries that this node had logged without knowing them to be
// committed are kept. The new cluster has another id, so that returning servers of the
// former one are rejected; they join again with empty directories. If the log is lost,
// the state is used without it; a log that does not belong to the state is kept under
// another name.
func Recover(o Offline, logger *slog.Logger) (founded Founded, err error) {
	if err := o.checkNode(); err != nil {
		return founded, err
	}
	defer o.keepOwner(&err)()
	lock, identity, err := o.take()
	if err != nil {
		return founded, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	sealed, err := o.recoverState(identity, logger)
	if err != nil {
		return founded, err
	}
	as := o.founding(identity.ServerID, sealed)
	sum, err := fsm.Refound(fsm.Options{Dir: filepath.Join(o.DataDir, StateDir), Logger: logger}, as)
	if err != nil {
		return founded, err
	}
	// The new cluster does not include the former servers.
	if err := os.Remove(filepath.Join(o.DataDir, BookFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return founded, err
	}
	return Founded{
		ClusterID: as.ClusterID, Former: sum.ClusterID, ServerID: identity.ServerID,
		Index: sum.Index, Entries: sum.Entries, Digest: hex.EncodeToString(sum.Rolling[:]), NewDataKey: o.NewDataKey,
	}, finish(o.DataDir)
}

// checkNode rejects a directory that holds no node. It comes before anything that changes the
// directory, also its owner: it may be any directory, named by mistake.
func (o Offline) checkNode() error {
	if !exists(filepath.Join(o.DataDir, LogFile)) && !exists(filepath.Join(o.DataDir, StateDir)) {
		return fmt.Errorf("data directory %s holds no node: it has neither %s nor %s", o.DataDir, LogFile, StateDir)
	}
	return nil
}

// take locks the data directory of an existing node.
func (o Offline) take() (lock *cluster.DirLock, identity cluster.Identity, err error) {
	if lock, err = cluster.LockDir(o.DataDir); err != nil {
		return nil, identity, err
	}
	if err = errors.Join(CheckNotLeft(o.DataDir), checkRestored(o.DataDir)); err == nil {
		identity, err = cluster.LoadIdentity(o.DataDir, o.NodeID)
	}
	if err != nil {
		return nil, identity, errors.Join(err, lock.Release())
	}
	return lock, identity, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Held is the position of a node whose data directory no process uses.
type Held struct {
	ServerID string
	LastLog  uint64 // index of its newest log entry, or of the state if that is newer
	LastTerm uint64 // term of LastLog
	LostLog  error  // the reason why the log does not belong to the node, or nil
}

// Survey returns the position of a data directory's node. Of several nodes, the one
// with the highest term, and then the highest index, has the most data.
func Survey(o Offline) (held Held, err error) {
	if err := o.checkNode(); err != nil {
		return held, err
	}
	defer o.keepOwner(&err)()
	lock, identity, err := o.take()
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(o.DataDir, StateDir)})
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	held.ServerID = identity.ServerID
	at, err := statePosition(machine)
	if err != nil {
		return held, err
	}
	held.LastLog, held.LastTerm = at.covered, at.coveredTerm
	if at.snapshot > at.covered {
		held.LastLog, held.LastTerm = at.snapshot, at.snapshotTerm
	}
	log, err := OpenLog(o.DataDir, &identity, machine, logstore.Options{})
	if lost := new(LostLogError); errors.As(err, &lost) {
		held.LostLog = lost.Err
		return held, nil
	}
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, last := log.Bounds()
	if last <= held.LastLog {
		return held, nil
	}
	var newest raft.Log
	if err := log.GetLog(last, &newest); err != nil {
		return held, err
	}
	held.LastLog, held.LastTerm = newest.Index, newest.Term
	return held, nil
}

// recoverState makes the state that of a cluster of one server: all that the log
// holds is applied, and the newest snapshot has a configuration of that server. It
// returns the data key, sealed under the secret in use.
func (o Offline) recoverState(identity cluster.Identity, logger *slog.Logger) (sealed []byte, err error) {
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(o.DataDir, StateDir), Logger: logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	log, err := OpenLog(o.DataDir, &identity, machine, logstore.Options{})
	if lost := new(LostLogError); errors.As(err, &lost) {
		logger.Warn("going on with the state alone; no purge erases a log that is kept", "why", lost.Err, "kept", LogFile+lostSuffix+"*")
		return o.withoutLog(identity, machine)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if sealed, err = loggedDataKey(log, machine); err != nil {
		return nil, err
	}
	if sealed, err = o.beginRecovery(sealed); err != nil {
		return nil, err
	}
	current, voted, err := consensus.StoredTerms(log)
	if err == nil && current < voted { // see checkTerms
		err = log.SetUint64(consensus.KeyCurrentTerm, voted)
	}
	if err != nil {
		return nil, err
	}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(identity.ServerID)
	config.Logger = consensus.NewLogger(logger, nil)
	return sealed, raft.RecoverCluster(config, stateOnDisk{machine.FSM()}, log, log, localSnapshots{machine.Snapshots()}, nil, consensus.Alone(identity.ServerID))
}

// beginRecovery seals the data key under the secret in use and marks the data directory.
// With a wrong secret it fails without a change.
func (o Offline) beginRecovery(sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, errors.New("this node was never part of a cluster; empty its data directory and start it again")
	}
	sealed, err := o.reseal(sealed)
	if err != nil {
		return nil, err
	}
	return sealed, begin(o.DataDir, recovering)
}

// withoutLog is recoverState for a state whose log is lost.
func (o Offline) withoutLog(identity cluster.Identity, machine *fsm.Machine) (sealed []byte, err error) {
	v := machine.View()
	sealed = bytes.Clone(v.SealedDataKey())
	v.Release()
	if sealed, err = o.beginRecovery(sealed); err != nil {
		return nil, err
	}
	index, term, err := machine.Covers()
	if err != nil {
		return nil, err
	}
	snapshot, err := machine.FSM().Snapshot()
	if err != nil {
		return nil, err
	}
	defer snapshot.Release()
	sink, err := machine.Snapshots().Create(raft.SnapshotVersionMax, index, term, consensus.Alone(identity.ServerID), index, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(snapshot.Persist(sink), sink.Close()); err != nil {
		return nil, err
	}
	path := filepath.Join(o.DataDir, LogFile)
	kept := path + lostSuffix
	for n := 2; exists(kept); n++ { // by a recovery that was cut short
		kept = path + lostSuffix + strconv.Itoa(n)
	}
	to := logstore.Files(kept)
	for i, from := range logstore.Files(path) {
		if err := os.Rename(from, to[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return sealed, o.newLog(identity, term)
}

// loggedDataKey returns the sealed data key after the whole log is applied, or nil if the node
// was never part of a cluster. The key in the state may still be sealed under an old secret
// that is lost.
func loggedDataKey(log *logstore.Store, machine *fsm.Machine) ([]byte, error) {
	v := machine.View()
	sealed, index := bytes.Clone(v.SealedDataKey()), v.Index()
	v.Release()
	first, last := log.Bounds()
	for index = max(index+1, first); index <= last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return nil, err
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		batch, err := command.DecodeBatch(entry.Data)
		if err != nil {
			return nil, fmt.Errorf("log entry %d: %w", index, err)
		}
		sealed = batch.SealedDataKey(sealed)
	}
	return sealed, nil
}

// stateOnDisk is a state machine whose snapshots need not be restored: its state is on
// disk already.
type stateOnDisk struct{ raft.BatchingFSM }

func (stateOnDisk) Restore(io.ReadCloser) error { return nil }

// Snapshot returns a snapshot that releases its view itself: Raft's recovery does not.
func (s stateOnDisk) Snapshot() (raft.FSMSnapshot, error) {
	snapshot, err := s.BatchingFSM.Snapshot()
	return releasedSnapshot{snapshot}, err
}

// releasedSnapshot is released when it is persisted.
type releasedSnapshot struct{ raft.FSMSnapshot }

func (s releasedSnapshot) Persist(sink raft.SnapshotSink) error {
	defer s.FSMSnapshot.Release()
	return s.FSMSnapshot.Persist(sink)
}

func (releasedSnapshot) Release() {}

// localSnapshots are snapshots whose state is never read.
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
