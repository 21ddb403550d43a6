package offsite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/offsite"
)

// checker is a node of a place that verifies its backups.
type checker struct {
	*place
	*offsite.Verifier
	mu       sync.Mutex
	turn     bool
	problem  error
	hangs    chan struct{} // the restore waits for it, or for the end of its backup
	restored int
}

// verifying starts a node that verifies the backups of a place.
func (p *place) verifying() *checker {
	c := &checker{place: p, turn: true}
	c.Verifier = &offsite.Verifier{
		Dir: filepath.Join(p.ArtifactDir(), "verify"), ClusterID: p.leader.ClusterID, Plan: p.leader.Plan, Propose: p.leader.Propose, Logger: p.leader.Logger,
		PurgedAt: func(index uint64) (uint64, error) { return index - 2, nil }, // one purge after each backup
		Turn:     func(context.Context) bool { c.mu.Lock(); defer c.mu.Unlock(); return c.turn },
		Restore:  c.restore,
	}
	must.Do(p.T, os.Mkdir(c.Dir, 0o700)) // of a process that was killed
	ctx, cancel := context.WithCancel(p.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	p.stopLead = func(stop func()) func() { return func() { stop(); cancel(); running.Wait() } }(p.stopLead)
	return c
}

func (c *checker) restore(open func() (io.ReadCloser, error)) error {
	check.Fails(os.Stat(c.Dir))(c, "look for what is left from before")
	must.Do(c.T, os.Mkdir(c.Dir, 0o700))
	backup := must.Get(open())(c.T)
	must.Get(io.Copy(io.Discard, backup))(c.T)
	must.Do(c.T, backup.Close())
	c.mu.Lock()
	c.restored++
	err, hangs := c.problem, c.hangs
	c.mu.Unlock()
	if hangs != nil {
		<-hangs
		_, err = open()
	}
	return err
}

// set changes what the node and its backups do.
func (c *checker) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// checks lets time pass, and checks how often a backup was restored, and the record of it.
func (c *checker) checks(d time.Duration, restored int, verified bool, doubt string) {
	c.Helper()
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	plan := must.Get(c.Plan())(c.T)
	check.Equal(c, c.restored, restored, "restored backups")
	check.Equal(c, plan.Run.Verified == plan.Run.Saved && plan.Run.Saved > 0, verified, "the newest backup is verified")
	check.Equal(c, plan.Run.Doubt, doubt, "why not")
	if _, err := os.Stat(c.Dir); err == nil && c.hangs == nil {
		c.Error("what was restored was not erased")
	}
}

// TestVerify: each backup is restored once; one that cannot be restored is tried again.
func TestVerify(t *testing.T) {
	inPlace(t, func(p *place) {
		p.elect()
		c := p.verifying()
		c.checks(time.Minute, 1, true, "")
		c.checks(time.Hour, 1, true, "")
		c.checks(23*time.Hour, 2, true, "")

		c.set(func() { c.problem = errors.New("the backup is damaged") })
		c.checks(24*time.Hour, 3, false, "the backup is damaged")
		c.checks(10*time.Minute, 4, false, "the backup is damaged")
		c.set(func() { c.problem = nil })
		c.checks(10*time.Minute, 5, true, "")

		c.set(func() { c.turn = false })
		c.checks(24*time.Hour, 5, false, "")
		c.set(func() { c.turn = true })
		p.change(func(plan *offsite.Plan) { plan.Settings.BackupVerify = false })
		c.checks(time.Hour, 5, false, "")
		p.change(func(plan *offsite.Plan) { plan.Settings.BackupVerify = true })
		c.checks(time.Minute, 6, true, "")
	})
}

// TestVerifyBesidePurges: what may hold a purged text is not restored, or is erased before the
// purge goes on.
func TestVerifyBesidePurges(t *testing.T) {
	inPlace(t, func(p *place) {
		p.elect()
		c := p.verifying()
		c.set(func() { c.hangs = make(chan struct{}) })
		c.checks(time.Minute, 1, false, "")

		p.change(func(plan *offsite.Plan) { plan.Purges = 1 })
		discarded := make(chan struct{})
		go func() {
			check.Err(t, c.Discard(), nil, "give up what is restored")
			check.Fails(os.Stat(c.Dir))(t, "look for what was restored once the purge goes on")
			close(discarded)
		}()
		synctest.Wait()
		c.set(func() { close(c.hangs); c.hangs = nil })
		<-discarded
		must.Do(t, os.MkdirAll(filepath.Join(c.Dir, "of a killed process"), 0o700))
		must.Do(t, c.Discard()) // nothing runs
		check.Fails(os.Stat(c.Dir))(t, "look for what a killed process had restored")
		c.checks(time.Hour, 1, false, "")

		c.checks(23*time.Hour, 2, true, "") // the next backup is from after the purge
	})
}
