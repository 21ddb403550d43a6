package offline

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestCloseToOthers: only a directory of the node's user with only a node's files is changed.
func TestCloseToOthers(t *testing.T) {
	t.Parallel()
	self := os.Geteuid()
	for name, tc := range map[string]struct {
		mode, after fs.FileMode
		user        int
		holds       []string
		says        string
	}{
		"closed":             {0o700, 0o700, self, []string{LogFile}, ""},
		"new":                {0o755, 0o700, self, nil, "it is closed now"},
		"readable by all":    {0o755, 0o700, self, []string{LogFile, StateDir, BookFile, cluster.IdentityFile, cluster.LockFile, leftFile}, "it is closed now"},
		"writable by all":    {0o777, 0o700, self, []string{LogFile + lostSuffix, lostAndFound}, "it is closed now"},
		"open to the group":  {0o750, 0o700, self, []string{unfinishedFile + ".tmp"}, "it is closed now"},
		"with a group id":    {0o770 | fs.ModeSetgid, 0o700 | fs.ModeSetgid, self, nil, "it is closed now"},
		"of another user":    {0o755, 0o755, self + 1, nil, "belongs to another user"},
		"of others, closed":  {0o700, 0o700, self + 1, nil, "belongs to another user"},
		"of other programs":  {0o755, 0o755, self, []string{LogFile, "apt"}, "holds=apt"},
		"of others, private": {0o700, 0o700, self, []string{"apt"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			must.Do(t, os.Mkdir(dir, 0o700))
			for _, name := range tc.holds {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			}
			must.Do(t, os.Chmod(dir, tc.mode))
			var log await.Buffer
			closeToOthers(dir, tc.user, slog.New(slog.NewTextHandler(&log, nil)))
			check.Equal(t, must.Get(os.Stat(dir))(t).Mode()&^fs.ModeDir, tc.after, "mode")
			if tc.says == "" {
				check.Equal(t, log.String(), "", "log")
			} else {
				check.ErrText(t, errors.New(log.String()), tc.says, "log")
				check.Equal(t, strings.Contains(log.String(), "error="), false, "an error in the log")
			}
		})
	}
}
