//go:build linux

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestFullDiskOfAFollower: a file system without a free byte under a follower. It
// needs the right to mount one.
func TestFullDiskOfAFollower(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "takes several seconds")
	mounts := map[string]string{}
	c := newCluster(t, 3, func(cfg *config.Config) {
		dir := cfg.DataDir
		must.Do(t, os.MkdirAll(dir, 0o700))
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
			t.Skipf("no file system of a given size can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		mounts[cfg.NodeID] = dir
	})
	victim := c.Nodes[c.Follower()]
	filler := filepath.Join(mounts[victim.Config.NodeID], "filler")
	fill(t, filler)
	leader := c.WaitLeader()
	written := c.MustPublish(leader, nodetest.Post{Body: "the first after it was full"})
	c.Eventually("its log takes nothing", func() error {
		a := must.Get(c.Nodes[leader].Publish(context.Background(), nodetest.Post{Body: strings.Repeat("much ", 700)}))(t)
		check.Equal(t, a.Status, 201, "the others do not go on: %+v", a)
		ready, line := readyz(victim, "log")
		return nodetest.ErrorIf(ready, "%s", line)
	})
	c.checkLogFailure(victim, leader)

	must.Do(t, os.Remove(filler))
	c.checkRecovery(victim, written)
}

// fill makes a file of all the space that is free.
func fill(t *testing.T, path string) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	defer func() { _ = f.Close() }()
	chunk := make([]byte, 1<<20)
	for len(chunk) > 0 {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
}
