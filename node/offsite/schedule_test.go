package offsite_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/offsite/offsitetest"
)

// place is a cluster of one leader after the other, in virtual time, with a directory as its store.
type place struct {
	*testing.T
	store offsite.Store
	ahead atomic.Int64 // of the cluster's clocks

	mu       sync.Mutex
	plan     offsite.Plan
	records  []command.RecordBackup
	lists    int
	log      int64 // its time
	lost     bool  // no record reaches the log
	leader   *offsite.Schedule
	stopLead func()
}

// inPlace runs a test in virtual time.
func inPlace(t *testing.T, test func(p *place)) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "offsite"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	backups := map[int64][]byte{} // made outside: a state machine has goroutines
	synctest.Test(t, func(t *testing.T) {
		p := &place{T: t, stopLead: func() {}}
		p.plan.Settings = command.DefaultSettings
		p.plan.Settings.BackupURL, p.plan.Settings.BackupKeep = "file://"+dir, 2
		p.store = must.Get(offsite.Open(p.plan.Settings.BackupURL, offsite.Access{}))(t)
		p.leader = &offsite.Schedule{
			ClusterID: func() string { return own }, Now: p.now, ListEvery: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Plan: func() (offsite.Plan, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.plan, nil
			},
			Backup: func(_ context.Context, w io.Writer) error {
				at := p.now().UnixMilli()
				if backups[at] == nil {
					backups[at] = offsitetest.Backup(t, own, at, uint64(len(backups)+2))
				}
				_, err := w.Write(backups[at])
				return err
			},
			Purged: func(context.Context) (backup.PurgeList, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.lists++
				return backup.PurgeList{ClusterID: own, CreatedAt: p.now().UnixMilli(), Index: uint64(p.lists)}, nil
			},
			Propose: func(_ context.Context, payload command.Payload) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.lost {
					return errors.New("not leading any more")
				}
				c := payload.(*command.RecordBackup)
				must.Do(t, command.Check(c))
				p.records = append(p.records, *c)
				p.apply(c)
				return nil
			},
		}
		test(p)
		p.stopLead()
	})
}

// now returns the time of the cluster's clocks.
func (p *place) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// apply records a run as the state machine does.
func (p *place) apply(c *command.RecordBackup) {
	p.log = max(p.now().UnixMilli(), p.log+1)
	if c.Verified > 0 {
		if p.plan.Run.Doubt = c.Problem; c.Problem == "" {
			p.plan.Run.Verified = c.Verified
		}
		return
	}
	began := min(c.Run, p.log)
	if began <= p.plan.Run.Began {
		return
	}
	p.plan.Run.Began, p.plan.Run.Failed, p.plan.Run.Problem = began, c.At == 0, c.Problem
	if c.At > 0 {
		p.plan.Run.Saved, p.plan.Run.Oldest = min(c.At, p.log), c.Oldest
	}
}

// elect ends the leader and starts the next one.
func (p *place) elect() {
	p.stopLead()
	ctx, cancel := context.WithCancel(p.Context())
	var leading sync.WaitGroup
	leading.Go(func() { p.leader.Lead(ctx) })
	p.stopLead = func() { cancel(); leading.Wait() }
}

// change changes the replicated plan.
func (p *place) change(f func(*offsite.Plan)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.plan)
}

// after lets time pass, and checks how many runs were recorded, failed, and how many backups the
// store has.
func (p *place) after(d time.Duration, runs, failed, stored int) {
	p.Helper()
	time.Sleep(d)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	bad := 0
	for _, r := range p.records {
		if r.At == 0 {
			bad++
		}
	}
	check.Equal(p, len(p.records), runs, "recorded runs")
	check.Equal(p, bad, failed, "failed runs")
	check.Equal(p, len(strings.Fields(whole(p.T, p.store))), stored, "backups that count")
}

const someTime, pause, aDay = 5 * time.Second, time.Hour, 24 * time.Hour

// TestSchedule: one backup a day, of which the two newest stay, also with another leader, and after
// a time without one.
func TestSchedule(t *testing.T) {
	inPlace(t, func(p *place) {
		p.elect()
		p.after(someTime, 1, 0, 1)
		p.after(aDay-pause, 1, 0, 1)
		p.elect() // does not repeat it
		p.after(someTime, 1, 0, 1)
		p.after(pause, 2, 0, 2)
		p.stopLead()
		p.after(aDay, 2, 0, 2)
		p.elect() // does not forget it
		p.after(someTime, 3, 0, 2)
		check.Equal(p, p.records[2].Oldest, p.records[1].At, "creation of the oldest backup")
		p.change(func(plan *offsite.Plan) { plan.Settings.BackupURL = "" })
		p.after(3*aDay, 3, 0, 2)
	})
}

// TestLostRecord: a backup that the former leader finished, and could not record, is that of
// the next leader. One that is too old is not.
func TestLostRecord(t *testing.T) {
	inPlace(t, func(p *place) {
		p.lost = true
		p.elect()
		p.after(someTime, 0, 0, 1)
		p.stopLead()
		p.lost = false
		time.Sleep(pause)
		p.elect()
		p.after(someTime, 1, 0, 1)
		p.after(aDay-2*pause, 1, 0, 1)
		p.after(pause, 2, 0, 2) // a day after the backup, not after its record
		p.stopLead()
		p.change(func(plan *offsite.Plan) { plan.Run = state.BackupRun{} })
		time.Sleep(2 * aDay)
		p.elect()
		p.after(someTime, 3, 0, 2)
		check.Equal(p, time.Since(time.UnixMilli(p.records[2].At)) <= someTime, true, "the backup is new")
	})
}

// TestFailedRuns: a run that fails is repeated after ten minutes. No more is left of it than a
// manifest, until the next one.
func TestFailedRuns(t *testing.T) {
	inPlace(t, func(p *place) {
		good := p.leader.Backup
		p.leader.Backup = func(_ context.Context, w io.Writer) error {
			_, _ = w.Write([]byte("the beginning"))
			return errors.New("cut off\nin the middle")
		}
		p.elect()
		p.after(someTime, 1, 1, 0)
		check.Equal(p, p.records[0].Problem, "upload the backup: cut off in the middle", "problem")
		p.after(9*time.Minute, 1, 1, 0)
		p.elect()
		p.after(someTime, 1, 1, 0)
		p.after(time.Minute, 2, 2, 0)
		check.Equal(p, len(must.Get(offsite.List(p.Context(), p.store, own))(p)), 1, "failed uploads in the store")
		p.stopLead()
		p.leader.Backup = good
		p.elect()
		p.after(10*time.Minute, 3, 2, 1)
		p.after(aDay-pause, 3, 2, 1)
	})
}

// TestClocksThatWereAhead: when clocks that were two days ahead are set right, the leader makes a
// backup at once, and then one a day, as its successor does. The newest stay, in the order of the log.
func TestClocksThatWereAhead(t *testing.T) {
	inPlace(t, func(p *place) {
		p.ahead.Store(int64(2 * aDay))
		p.elect()
		p.after(aDay+someTime, 2, 0, 2)
		p.ahead.Store(0)
		p.after(someTime, 3, 0, 2)
		p.after(aDay-pause, 3, 0, 2)
		p.elect()
		p.after(pause, 4, 0, 2)
		var stay, newest []int64
		for _, m := range must.Get(offsite.List(p.Context(), p.store, own))(p) {
			stay = append(stay, m.CreatedAt)
		}
		for _, r := range p.records[len(p.records)-2:] {
			newest = append(newest, r.At)
		}
		check.Diff(p, stay, newest, "creation of the backups that stay")
	})
}

// TestFailedRunOfClocksThatWereAhead: a run that failed, and is recorded with a time in the future, is
// repeated after ten minutes, or by the next leader at once.
func TestFailedRunOfClocksThatWereAhead(t *testing.T) {
	inPlace(t, func(p *place) {
		p.leader.Backup = func(context.Context, io.Writer) error { return errors.New("cut off") }
		p.ahead.Store(int64(2 * aDay))
		p.elect()
		p.after(someTime, 1, 1, 0)
		p.ahead.Store(0)
		p.after(9*time.Minute, 1, 1, 0)
		p.after(time.Minute, 2, 2, 0)
		p.elect()
		p.after(someTime, 3, 3, 0)
		p.after(9*time.Minute, 3, 3, 0)
	})
}

// TestLostRecordOfClocksThatWereAhead: a backup with a time in the future is not that of the next
// leader's run.
func TestLostRecordOfClocksThatWereAhead(t *testing.T) {
	inPlace(t, func(p *place) {
		p.ahead.Store(int64(2 * aDay))
		p.lost = true
		p.elect()
		p.after(someTime, 0, 0, 1)
		p.stopLead()
		p.ahead.Store(0)
		p.lost = false
		p.elect()
		p.after(someTime, 1, 0, 2)
		check.Equal(p, time.Since(time.UnixMilli(p.records[0].At)) <= someTime, true, "the backup is new")
		p.after(aDay-pause, 1, 0, 2)
	})
}

// TestListOfPurgesOfClocksThatWereAhead: when the clocks are set right, the leader goes on to upload
// the list after purges, and it replaces that of before.
func TestListOfPurgesOfClocksThatWereAhead(t *testing.T) {
	inPlace(t, func(p *place) {
		p.ahead.Store(int64(2 * aDay))
		p.elect()
		p.after(time.Minute+someTime, 1, 0, 1)
		p.ahead.Store(0)
		p.change(func(plan *offsite.Plan) { plan.Purges++ })
		p.after(2*time.Minute, 2, 0, 2)
		list := must.Get(offsite.Purges(p.Context(), p.store, own))(p)
		check.Equal(p, time.UnixMilli(list.CreatedAt).After(time.Now()), false, "the list is dated in the future")
	})
}

// TestListOfPurges: the list is uploaded at once by a new leader, and after purges at most once a
// minute. The newest one is in the store.
func TestListOfPurges(t *testing.T) {
	inPlace(t, func(p *place) {
		p.elect()
		p.after(time.Minute+someTime, 1, 0, 1)
		p.mu.Lock()
		begun := p.lists // by the election, and by the backup
		p.mu.Unlock()
		for range 150 {
			p.change(func(plan *offsite.Plan) { plan.Purges++ })
			time.Sleep(time.Second)
		}
		p.after(time.Minute, 1, 0, 1)
		p.mu.Lock()
		check.Equal(p, p.lists-begun, 3, "uploads after purges of two and a half minutes")
		p.mu.Unlock()
		p.after(pause, 1, 0, 1)
		p.mu.Lock()
		check.Equal(p, p.lists-begun, 3, "uploads without further purges")
		p.mu.Unlock()
		var lists []string
		for _, name := range names(p.T, p.store) {
			if strings.HasSuffix(name, backup.PurgeListSuffix) {
				lists = append(lists, filepath.Base(name))
			}
		}
		check.Equal(p, len(lists), 1, "lists in the store, %v", lists)
	})
}
