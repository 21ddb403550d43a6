package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/commons-cluster/commons/cluster"
)

// What a data directory holds, beside the identity and the lock.
const (
	StateDir = "state"
	LogFile  = "raft.db"
	BookFile = "servers.json"
)

// unfinishedFile is in a data directory that a command is changing while no node
// runs on it, and holds that command's name. Where the command was cut short, the
// directory is no node's: a recovered one, say, has one voter and still the former
// cluster's id, and would claim to lead the others.
const unfinishedFile = "unfinished"

// leftFile is in the data directory of a node that has left.
const leftFile = "left"

// The commands that change a data directory offline.
const (
	recovering = "commons recover --confirm"
	restoring  = "commons snapshot restore"
)

// begin marks a locked data directory as one that a command is changing.
func begin(dir, command string) error {
	return cluster.WriteFileAtomic(filepath.Join(dir, unfinishedFile), []byte(command))
}

// finish says that the command came to its end.
func finish(dir string) error { return os.Remove(filepath.Join(dir, unfinishedFile)) }

// unfinished returns the command that did not end on a data directory; "": none.
func unfinished(dir string) (string, error) {
	command, err := os.ReadFile(filepath.Join(dir, unfinishedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(command), err
}

// checkRestored rejects a data directory that a restore did not fill to its end.
func checkRestored(dir string) error {
	if command, err := unfinished(dir); err != nil || command != restoring {
		return err
	}
	return CheckFinished(dir)
}

// CheckFinished rejects a data directory on which a command did not end.
func CheckFinished(dir string) error {
	command, err := unfinished(dir)
	if err != nil || command == "" {
		return err
	}
	return fmt.Errorf("`%s` on data directory %s did not end; run it again", command, dir)
}

// ErrLeft is the error of a node that has left its cluster and is started again.
var ErrLeft = errors.New("the node has left its cluster")

// MarkLeft keeps a node that has left from coming back with its old state.
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
