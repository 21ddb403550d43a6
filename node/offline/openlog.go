package offline

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
)

const logIDBytes = 16

// LostLogError means that a data directory has lost its Raft log. The node does not
// know its votes and acknowledged entries any more, so it must not run as the same
// server again.
type LostLogError struct {
	DataDir string
	Err     error // the finding
}

func (e *LostLogError) Error() string {
	return fmt.Sprintf("data directory %s has lost its Raft log %s: %v; this server must not go on without it: empty the whole directory and start the node again, and it joins as a new server; "+
		"where this is the only disk left, restore a backup with `commons snapshot restore`, or go on with the state alone: `commons recover`", e.DataDir, LogFile, e.Err)
}

func (e *LostLogError) Unwrap() error { return e.Err }

// OpenLog opens the Raft log of a locked data directory, aligned with the state in it,
// and gives it an id if it lacks one. The id is written to the log before the identity:
// after an interruption in between, the next start completes this. opts are the options that
// do not follow from the directory. The error of a lost log is a *LostLogError.
func OpenLog(dir string, identity *cluster.Identity, machine *fsm.Machine, opts logstore.Options) (*logstore.Store, error) {
	at, err := statePosition(machine)
	if err != nil {
		return nil, err
	}
	opts.Path, opts.Existing = filepath.Join(dir, LogFile), identity.LogID != "" || at.covered > 0
	opts.Snapshot = func() uint64 { return consensus.LastSnapshot(machine.Snapshots()) }
	log, err := logstore.Open(opts)
	if errors.Is(err, logstore.ErrMissing) {
		return nil, &LostLogError{DataDir: dir, Err: logstore.ErrMissing}
	}
	if err != nil {
		return nil, err
	}
	if err := at.bind(dir, identity, log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// position is the position of a state, and of its newest snapshot.
type position struct {
	covered, coveredTerm   uint64
	snapshot, snapshotTerm uint64
}

func statePosition(machine *fsm.Machine) (p position, err error) {
	newest, err := newestSnapshot(machine)
	if err != nil {
		return p, err
	}
	p.snapshot, p.snapshotTerm = newest.Index, newest.Term
	p.covered, p.coveredTerm, err = machine.Covers()
	return p, err
}

// newestSnapshot returns the metadata of the newest snapshot, or zero without one.
func newestSnapshot(machine *fsm.Machine) (newest raft.SnapshotMeta, err error) {
	list, err := machine.Snapshots().List()
	if err != nil {
		return newest, fmt.Errorf("listing snapshots: %w", err)
	}
	if len(list) > 0 {
		newest = *list[0]
	}
	return newest, nil
}

// bind checks that a log belongs to the identity and continues the state. If the
// identity has no log yet, bind assigns this one.
func (p position) bind(dir string, identity *cluster.Identity, log *logstore.Store) error {
	id, err := log.ID()
	if err != nil {
		return fmt.Errorf("reading the id of the log: %w", err)
	}
	if identity.LogID != "" && id != identity.LogID {
		return &LostLogError{DataDir: dir, Err: errors.New("the file is another server's, or was made anew")}
	}
	if err := log.Align(p.snapshot, p.snapshotTerm); err != nil {
		return err
	}
	if p.covered > 0 {
		if err := p.continued(dir, log); err != nil {
			return err
		}
	} else if err := resetFormation(log); err != nil {
		return err
	}
	if identity.LogID != "" {
		return nil
	}
	return adopt(dir, identity, log, id)
}

// resetFormation handles a start that was interrupted while it formed a cluster: Raft writes
// the first term, and then the first entry. With the term alone, the node would believe that
// it is part of a cluster that does not exist. No leader is elected in the first term, so a
// log with only that term has no other origin.
func resetFormation(log *logstore.Store) error {
	if _, last := log.Bounds(); last > 0 {
		return nil
	}
	if _, err := log.GetUint64(consensus.KeyLastVoteTerm); !errors.Is(err, logstore.ErrNotFound) {
		return err
	}
	if term, err := log.GetUint64(consensus.KeyCurrentTerm); err != nil || term != 1 {
		if errors.Is(err, logstore.ErrNotFound) {
			return nil
		}
		return err
	}
	return log.SetUint64(consensus.KeyCurrentTerm, 0)
}

// continued checks that an aligned log is the one that the state was built from.
func (p position) continued(dir string, log *logstore.Store) error {
	lost := func(format string, args ...any) error {
		return &LostLogError{DataDir: dir, Err: fmt.Errorf(format, args...)}
	}
	term, err := log.GetUint64(consensus.KeyCurrentTerm)
	if err != nil && !errors.Is(err, logstore.ErrNotFound) {
		return fmt.Errorf("reading the newest term: %w", err)
	}
	if term < p.coveredTerm {
		return lost("the newest term that it knows is %d, the state is of term %d", term, p.coveredTerm)
	}
	first, last := log.Bounds()
	if end := max(last, p.snapshot); p.covered > end {
		return lost("it ends at entry %d, the state holds everything up to %d", end, p.covered)
	}
	if p.covered < first || p.covered > last {
		return nil
	}
	var entry raft.Log
	if err := log.GetLog(p.covered, &entry); err != nil {
		return err
	}
	if entry.Term != p.coveredTerm {
		return lost("its entry %d is of term %d, the state was made with one of term %d", p.covered, entry.Term, p.coveredTerm)
	}
	return nil
}

// CheckLog checks the log of a node that starts: its terms, and whether Raft would start
// with the configuration of the state. The error names all problems and the way out.
func CheckLog(dir string, machine *fsm.Machine, log *logstore.Store) error {
	err := errors.Join(checkTerms(log), checkConfiguration(machine, log))
	if err == nil {
		return nil
	}
	return fmt.Errorf("data directory %s: %w; this server must not go on like that: empty the whole directory and start the node again, and it joins as a new server; "+
		"where this is the only disk left, make it the first of a new cluster: `commons recover`", dir, err)
}

// checkTerms rejects a log that went back to a term before its vote: it may have confirmed
// entries that the candidate of that vote does not have.
func checkTerms(log *logstore.Store) error {
	current, voted, err := consensus.StoredTerms(log)
	if err == nil && current < voted {
		err = fmt.Errorf("the newest term in its log is %d, and its newest vote is of term %d", current, voted)
	}
	return err
}

// checkConfiguration compares the configuration that Raft's newest snapshot and log have,
// as far as the state holds the log, with that of the state, which has only what the log
// had.
func checkConfiguration(machine *fsm.Machine, log *logstore.Store) error {
	if machine.RestoreOnStart() {
		return nil // the snapshot replaces the state, and its configuration
	}
	snapshot, err := newestSnapshot(machine)
	if err != nil {
		return err
	}
	newest, servers := snapshot.ConfigurationIndex, snapshot.Configuration.Servers
	first, last := log.Bounds()
	v := machine.View()
	defer v.Release()
	for index := max(first, snapshot.Index+1); index <= min(last, v.Index()); index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return err
		}
		if entry.Type == raft.LogConfiguration {
			newest, servers = index, raft.DecodeConfiguration(entry.Data).Servers
		}
	}
	index, data := v.Configuration()
	var has []raft.Server
	if index > 0 {
		has = raft.DecodeConfiguration(data).Servers
	}
	if index != newest || !slices.Equal(has, servers) {
		return fmt.Errorf("its snapshot and log have the servers %v as of entry %d, its state has %v as of entry %d", serverIDs(servers), newest, serverIDs(has), index)
	}
	return nil
}

func serverIDs(servers []raft.Server) []raft.ServerID {
	ids := make([]raft.ServerID, len(servers))
	for i, s := range servers {
		ids[i] = s.ID
	}
	return ids
}

// adopt assigns a log to the identity. A log without an id gets one.
func adopt(dir string, identity *cluster.Identity, log *logstore.Store, id string) error {
	if id == "" {
		random := make([]byte, logIDBytes)
		_, _ = rand.Read(random) // never fails
		id = hex.EncodeToString(random)
		if err := log.SetID(id); err != nil {
			return fmt.Errorf("naming the log: %w", err)
		}
	}
	identity.LogID = id
	return identity.Keep(dir)
}

// The contents of a data directory, beside the identity and the lock.
const (
	StateDir  = "state"
	LogFile   = "raft.db"
	VerifyDir = "verify" // what a backup was restored into, as a check; erased at the next start
	BookFile  = "servers.json"
)

// unfinishedFile marks a data directory that a command is changing while no node runs
// on it, and holds that command's name. After an interrupted command no node may start
// on the directory: for example, a half recovered node has one voter but still the
// former cluster's id, and would claim to lead the others.
const unfinishedFile = "unfinished"

const leftFile = "left" // in the data directory of a node that has left

// The commands that change a data directory offline.
const (
	recovering = "commons recover --confirm"
	restoring  = "commons snapshot restore"
)

// begin marks a locked data directory as one that a command is changing.
func begin(dir, command string) error {
	return cluster.WriteFileAtomic(filepath.Join(dir, unfinishedFile), []byte(command))
}

// finish removes the mark when the command is complete.
func finish(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, unfinishedFile)), cluster.SyncDir(dir))
}

// unfinished returns the command that did not end on a data directory, or "".
func unfinished(dir string) (string, error) {
	command, err := os.ReadFile(filepath.Join(dir, unfinishedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(command), err
}

// checkRestored rejects a data directory with an incomplete restore.
func checkRestored(dir string) error {
	if command, err := unfinished(dir); err != nil || command != restoring {
		return err
	}
	return CheckFinished(dir)
}

// CheckFinished rejects a data directory on which a command was interrupted.
func CheckFinished(dir string) error {
	command, err := unfinished(dir)
	if err != nil || command == "" {
		return err
	}
	return fmt.Errorf("`%s` on data directory %s did not end; run it again", command, dir)
}

// ErrLeft is the error of a node that has left its cluster and is started again.
var ErrLeft = errors.New("the node has left its cluster")

// MarkLeft prevents a node that has left from starting with its old state.
func MarkLeft(dir string) error {
	return cluster.WriteFileAtomic(filepath.Join(dir, leftFile), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"))
}

// CheckNotLeft rejects the data directory of a node that has left its cluster.
func CheckNotLeft(dir string) error {
	_, err := os.Stat(filepath.Join(dir, leftFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w; empty its data directory %s to join as a new server", ErrLeft, dir)
}
