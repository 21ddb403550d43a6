package fsm

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simdisk"
)

// powerLossStep bounds the distance of the changes of Pebble's files at which TestPowerLoss
// turns the power off.
const powerLossStep = 60

// life is the life of a machine on a disk, up to a loss of power.
type life struct {
	mu      sync.Mutex
	disk    *simdisk.Disk
	left    *simdisk.Disk // after the loss of power; nil before
	changes int           // until the loss of power
	covered uint64        // the newest snapshot that was reported as complete: Raft may lack the log up to it
}

// snapped notes a snapshot that is complete.
func (x *life) snapped(index uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left == nil {
		x.covered = index
	}
}

// TestPowerLoss turns the power off before changes of the disk, while a machine takes a
// snapshot, receives one twice, installs it, and takes another one. Then the state opens,
// leaves nothing behind, has the newest snapshot, and becomes the same with the log that follows it.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	l.seed(40)
	_, meta, data := leader(t, l)
	l.seed(5)
	want := l.fresh(t, l.last())
	rng := rand.New(rand.NewPCG(1, 1))
	// Names and metadata around Pebble's directories change rarely: each of those changes.
	for _, c := range []struct {
		changes string
		step    int
		pebble  bool
	}{{"metadata", 1, false}, {"all", powerLossStep, true}} {
		t.Run(c.changes, func(t *testing.T) {
			for cut := 1; ; cut += 1 + rng.IntN(c.step) {
				percent := rng.IntN(3) * 50
				x := &life{disk: must.Get(simdisk.New("/state"))(t), changes: cut}
				live(t, x, l, meta, data, func(path string) {
					x.mu.Lock()
					defer x.mu.Unlock()
					if !c.pebble && snapshot.IsState(filepath.Base(filepath.Dir(path))) {
						return
					}
					if x.changes--; x.changes == 0 {
						x.left = x.disk.Crash(percent, rng)
					}
				})
				if x.left == nil {
					return
				}
				t.Run(fmt.Sprintf("%d with %d%%", cut, percent), func(t *testing.T) { checkLeft(t, x, l, want) })
			}
		})
	}
}

// live runs a machine on a disk.
func live(t *testing.T, x *life, l *raftLog, meta *raft.SnapshotMeta, data []byte, change func(path string)) {
	t.Helper()
	m := must.Get(tryOpenAt("/state", func(o *Options) { o.FS = x.disk.Before(func(path string, _ bool) error { change(path); return nil }) }))(t)
	l.feed(m, 1, 5)
	must.Do(t, takeSnapshot(m, 5, 1))
	x.snapped(5)
	must.Get(take(m, meta, data))(t)
	must.Do(t, receive(m, meta, data))
	x.snapped(meta.Index)
	l.feed(m, meta.Index+1, l.last())
	must.Do(t, takeSnapshot(m, l.last(), 1))
	x.snapped(l.last())
	must.Do(t, m.Abandon())
}

// checkLeft checks the disk after a loss of power.
func checkLeft(t *testing.T, x *life, l *raftLog, want contents) {
	t.Helper()
	var log lines
	m := openAt(t, "/state", func(o *Options) { o.FS, o.Logger = x.left, slog.New(slog.NewTextHandler(&log, nil)) })
	if log.count("dropped a received snapshot") > 0 {
		t.Error("metadata were written before the files of their state")
	}
	states := slices.DeleteFunc(must.Get(x.left.List("/state"))(t), func(name string) bool { return !snapshot.IsState(name) })
	check.Equal(t, len(states), 1, "states after the start, %q", states)
	newest := uint64(0)
	if metas := must.Get(m.Snapshots().List())(t); len(metas) > 0 {
		newest = metas[0].Index
	}
	if newest < x.covered {
		t.Fatalf("the newest snapshot is of %d, and the log may begin behind %d", newest, x.covered)
	}
	check.Equal(t, m.RestoreOnStart(), false, "wants a restore")
	l.feed(m, newest+1, l.last())
	sameState(t, want, stateOf(t, m))
}
