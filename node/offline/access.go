package offline

import (
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/commons-cluster/commons/cluster"
)

const accessOfOthers fs.FileMode = 0o077

// contents are the beginnings of all names in a data directory, those of partial files included.
var contents = []string{cluster.LockFile, cluster.IdentityFile, StateDir, LogFile, BookFile, unfinishedFile, leftFile, lostAndFound, VerifyDir}

// CloseToOthers takes the access of other users away from a locked data directory, if it belongs to
// the user of this process and holds only the files of a node. Otherwise it logs a warning: the
// directory may be a volume that an orchestrator made, or shared with other programs.
func CloseToOthers(dir string, logger *slog.Logger) {
	closeToOthers(dir, os.Geteuid(), logger)
}

func closeToOthers(dir string, user int, logger *slog.Logger) {
	info, err := os.Stat(dir)
	if err != nil {
		logger.Warn("the permissions of the data directory are not known", "data", dir, "error", err)
		return
	}
	logger = logger.With("data", dir, "mode", info.Mode().String())
	owner := int(info.Sys().(*syscall.Stat_t).Uid) // on Unix
	switch foreign, err := foreignIn(dir); {
	case owner != user:
		logger.Warn("the data directory belongs to another user, and its permissions stay as they are; give it to the node's user (chown)", "owner", owner, "user", user)
	case info.Mode()&accessOfOthers == 0:
	case err != nil:
		logger.Warn("other users can reach the data directory, and it stays open because its contents are not known", "error", err)
	case foreign != "":
		logger.Warn("other users can reach the data directory, and it stays open because it does not hold a node alone; give the node a directory of its own", "holds", foreign)
	default:
		if err := os.Chmod(dir, info.Mode()&^accessOfOthers); err != nil {
			logger.Warn("other users can reach the data directory, and it cannot be closed", "error", err)
			return
		}
		logger.Warn("other users could reach the data directory; it is closed now")
	}
}

// foreignIn returns the first name in a data directory that is not a node's, or "".
func foreignIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !slices.ContainsFunc(contents, func(known string) bool { return strings.HasPrefix(e.Name(), known) }) {
			return e.Name(), nil
		}
	}
	return "", err
}
