package operate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/backup"
)

// TestListsBesideTheBackup: the lists of purges beside a backup are found in any directory.
func TestListsBesideTheBackup(t *testing.T) {
	for _, name := range []string{"plain", "old[1]", "a[", "a*b"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			must.Do(t, os.Mkdir(dir, 0o700))
			own := backup.PurgeList{ClusterID: "abc", CreatedAt: 1, Index: 1, Purged: []backup.PurgedEntry{}}
			newer := backup.PurgeList{ClusterID: "abc", CreatedAt: 2, Index: 2, Purged: []backup.PurgedEntry{}}
			for file, list := range map[string]backup.PurgeList{"backup": own, "later": newer} {
				must.Do(t, os.WriteFile(filepath.Join(dir, file+backup.PurgeListSuffix), must.Get(json.Marshal(list))(t), 0o600))
			}
			c := snapshotRestoreCommand{stored: stored{File: filepath.Join(dir, "backup")}}
			foundOwn, other, err := c.lists(backup.Info{ClusterID: "abc"})
			must.Do(t, err)
			check.Diff(t, foundOwn, own, "the list of the backup")
			check.Diff(t, other, newer, "the newer list")
		})
	}
}
