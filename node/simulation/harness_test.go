package simulation

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/memdir"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// testDisk returns a disk, and the path of a file of a log on it.
func testDisk(t *testing.T, network *simnet.Net) (d *disk, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "raft.db")
	must.Do(t, os.WriteFile(path, make([]byte, 3*pageBytes), 0o600))
	return newDisk(rand.New(rand.NewPCG(1, 1)), &mix{}, func() *simnet.Net { return network }, "a"), path
}

var errSlow = errors.New("a write takes long, or little space is free")

// trouble returns what is wrong with a disk that is used for a while.
func trouble(d *disk, path string) error {
	for end := time.Now().Add(3 * fillFor); time.Now().Before(end); time.Sleep(beat / 10) {
		begun := time.Now()
		if err := d.around(logstore.Storing, path, func() error { return nil }, func() {}); err != nil {
			return err
		}
		if err := d.beforeChange("state/000001.sst", true); err != nil {
			return err
		}
		switch {
		case d.off.Load():
			return errPowerOff
		case time.Since(begun) > longWrite, d.free() < plentySpace:
			return errSlow
		}
	}
	return nil
}

// TestFaultsEnd: each fault of a disk has its effect, and has no effect after all faults ended, also
// if it was still to come.
func TestFaultsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		arm  func(d *disk)
		want error
	}{
		{"none", func(*disk) {}, nil},
		{"stalls", func(d *disk) { d.arm(func(f *faults) { f.stalls, f.longest = 1, beat }) }, errSlow},
		{"fails", func(d *disk) { d.arm(func(f *faults) { f.fails = 1 }) }, errBadDisk},
		{"fails later", func(d *disk) { d.armAfter(beat, func(f *faults) { f.fails = 1 }) }, errBadDisk},
		{"a torn write", func(d *disk) { d.arm(func(f *faults) { f.tear = true }) }, errPowerOff},
		{"power goes off after changes", func(d *disk) { d.arm(func(f *faults) { f.cut = 9 }) }, errPowerOff},
		{"power goes off after changes of names", func(d *disk) { d.arm(func(f *faults) { f.cut, f.onlyNames = 9, true }) }, errPowerOff},
		{"little space", func(d *disk) { d.arm(func(f *faults) { f.low = true }) }, errSlow},
		{"no space", func(d *disk) { d.arm(func(f *faults) { f.full = true }) }, syscall.ENOSPC},
		{"a pause", func(d *disk) { d.arm(func(f *faults) { f.pause = beat }) }, errSlow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, path := testDisk(t, simnet.New(1))
				tt.arm(d)
				check.Err(t, trouble(d, path), tt.want, "with it")
				d, path = testDisk(t, simnet.New(1))
				tt.arm(d)
				d.heal()
				check.Err(t, trouble(d, path), nil, "after all faults ended")
			})
		})
	}
}

// TestFill: a disk that fills has space again.
func TestFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, path := testDisk(t, simnet.New(1))
		d.fill(rand.New(rand.NewPCG(1, 1)))
		check.Equal(t, d.free(), littleSpace, "free at once")
		for err := error(nil); !errors.Is(err, syscall.ENOSPC); time.Sleep(beat / 10) {
			if err = trouble(d, path); err == nil {
				t.Fatal("it is never full")
			}
		}
		time.Sleep(2 * fillFor)
		check.Err(t, trouble(d, path), nil, "later")
	})
}

// TestPause: a process stands still from its next write on: it does not write, send or
// receive until it goes on, or its power goes off.
func TestPause(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(d *disk, path string) error
		took time.Duration
		want error
	}{
		{"goes on", func(*disk, string) error { return nil }, 5 * beat, nil},
		{"all faults end", func(d *disk, _ string) error { d.heal(); return nil }, beat, nil},
		{"loses power", func(d *disk, path string) error { _, err := d.powerOff(path); return err }, beat, errPowerOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := simnet.New(1)
				d, path := testDisk(t, network)
				listener := must.Get(network.Host("b").Listen(t.Context(), "tcp", "b"))(t)
				defer func() { _ = listener.Close() }()
				from := must.Get(network.Host("a").DialContext(t.Context(), "tcp", "b"))(t)
				to := must.Get(listener.Accept())(t)
				defer func() { _, _ = from.Close(), to.Close() }()
				begun, received := time.Now(), make(chan time.Duration, 1)
				d.arm(func(f *faults) { f.pause = 5 * beat })
				go func() {
					must.Get(to.Read(make([]byte, 1)))(t)
					received <- time.Since(begun).Truncate(beat)
				}()
				time.AfterFunc(beat, func() {
					must.Get(from.Write([]byte{1}))(t)
					must.Do(t, tt.end(d, path))
				})
				check.Err(t, d.around(logstore.Storing, path, func() error { return nil }, func() {}), tt.want, "the write")
				check.Equal(t, time.Since(begun).Truncate(beat), tt.took, "the write took")
				d.whilePaused()
				check.Equal(t, <-received, tt.took, "the message took")
			})
		})
	}
}

// settled runs a test with a cluster of three that is well.
func settled(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	dir := memdir.TempDir(t)
	leaving(func() {
		nodetest.VirtualSeed(t, 3, func(t *testing.T) {
			t.Helper()
			c := must.Get(newCluster(3, &journal{}, dir))(t)
			c.settle()
			must.Equal(t, len(c.nodes), 3, "nodes")
			must.Do(t, c.put(c.leader().raft, "before"))
			test(t, c)
			c.close()
		})
	})
}

// TestPausedLeader: a leader that stands still takes itself for the leader until it goes on,
// while another one leads. Then it follows.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	settled(t, func(t *testing.T, c *cluster) {
		t.Helper()
		old := c.leader()
		old.disk.arm(func(f *faults) { f.pause = 10 * beat })
		answered := make(chan error, 1)
		go func() { answered <- old.raft.Apply([]byte("of the old leader"), writeTimeout).Error() }()
		time.Sleep(8 * beat)
		if next := c.leader(); next == old || !old.raft.Leads() {
			t.Errorf("%s leads, and %s: %v", next.id, old.id, old.raft.State())
		}
		check.Fails(<-answered)(t, "a write of the old leader is acknowledged")
		time.Sleep(10 * beat)
		check.Equal(t, old.raft.Leads(), false, "the old one leads in the end")
		c.lastWrite()
		check.Equal(t, c.found(), 0, "problems: %s", c.journal)
	})
}

// TestEndIsChecked: a cluster that is not well after the faults has a problem: it takes no write,
// or a node lacks the last one.
func TestEndIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cut  int // nodes of three
		want int // problems
	}{"well": {0, 0}, "a node lacks the last write": {1, 2}, "no write": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			settled(t, func(t *testing.T, c *cluster) {
				t.Helper()
				for _, n := range c.others(c.leader())[:tt.cut] {
					c.cut(n, c.nodes)
				}
				c.lastWrite()
				if c.found() == 0 {
					time.Sleep(writeTimeout)
					c.checkEnd()
				}
				check.Equal(t, c.found(), tt.want, "problems: %s", c.journal)
			})
		})
	}
}
