package integration

import (
	"time"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

// saved waits for a backup that was begun after an instant, and returns its begin.
func (c *testCluster) saved(node int, after int64) (at int64) {
	c.t.Helper()
	c.Within(3*time.Minute, "a backup is recorded", func() error {
		report, err := operate[admin.SettingsReport](c, node, admin.PathSettings, admin.SettingsChange{})
		at = report.Backup.Saved
		return nodetest.ErrorIf(err != nil || at <= after, "%+v, %v", report.Backup, err)
	})
	return at
}
