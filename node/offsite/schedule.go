package offsite

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/pace"
	"github.com/commons-cluster/commons/node/propose"
)

const (
	lookEvery  = time.Second
	retryAfter = 10 * time.Minute // a failed run, unless the next one is due earlier
)

// Plan is the replicated part of a Schedule.
type Plan struct {
	Settings command.Settings
	Run      state.BackupRun
	Purges   uint64 // the number of the newest purge
}

// Schedule makes the scheduled backups of a cluster at its leader.
type Schedule struct {
	Access    Access
	ClusterID func() string
	Plan      func() (Plan, error)
	Now       func() time.Time // that of the cluster
	Backup    func(context.Context, io.Writer) error
	Purged    func(context.Context) (backup.PurgeList, error)
	Propose   func(context.Context, command.Payload) error // a *command.RecordBackup
	ListEvery time.Duration                                // between two uploads of the list of purges, at least
	Pacer     *pace.Pacer                                  // has a backup yield to writes
	Logger    *slog.Logger
}

// Lead makes backups, and uploads the list of purges, for as long as this node leads.
func (s *Schedule) Lead(ctx context.Context) {
	var lists sync.WaitGroup
	defer lists.Wait()
	lists.Go(func() { s.keepList(ctx) })
	var failed time.Time // begin of the newest run here, if it failed
	loop.Every(ctx, lookEvery, func(ctx context.Context) {
		plan, err := s.Plan()
		if err == nil && plan.due(s.Now(), failed) {
			failed = time.Now()
			record := s.run(ctx, &plan)
			if record.At > 0 {
				failed = time.Time{}
			}
			if ctx.Err() == nil { // or else the next leader makes this run
				err = s.Propose(ctx, record)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "the run of the scheduled backup was not recorded; it is tried again", "error", err)
		}
	})
}

// due reports whether a run should begin. failed is the begin of the newest run of this leader, by its
// monotonic clock, or zero if it did not fail: the recorded one may be in the future.
func (p *Plan) due(now, failed time.Time) bool {
	every := p.Settings.BackupEvery()
	retry := min(retryAfter, every)
	if p.Run.Failed && (age(p.Run.Began, now) < retry || time.Since(failed) < retry) {
		return false
	}
	return p.Settings.BackupURL != "" && age(p.Run.Saved, now) >= every
}

// age returns the time since an instant, in milliseconds since the epoch. An instant in the future
// was read from a clock that was ahead, and counts as long ago.
func age(at int64, now time.Time) time.Duration {
	if since := now.Sub(time.UnixMilli(at)); since > -propose.MaxAhead {
		return since
	}
	return math.MaxInt64
}

// run makes a backup, deletes old ones, and returns the record of it. A backup that an earlier leader
// finished, and could not record, counts as that of this run.
func (s *Schedule) run(ctx context.Context, plan *Plan) *command.RecordBackup {
	began, start := s.Now(), time.Now()
	// The state takes no run that began before the recorded one, which may be in the future.
	record := &command.RecordBackup{Run: max(began.UnixMilli(), plan.Run.Began+1)}
	store, err := Open(plan.Settings.BackupURL, s.Access)
	var m Manifest
	unfinished := false
	if err == nil {
		m, unfinished, err = s.unrecorded(ctx, store, plan)
	}
	prune := func() (oldest int64, err error) {
		return Prune(ctx, store, s.ClusterID(), int(plan.Settings.BackupKeep), began.UnixMilli()) //nolint:gosec // bounded by its check
	}
	if err == nil && !m.Complete {
		if unfinished {
			_, _ = prune() // it may fill the store; the second call reports the error
		}
		m, err = s.save(ctx, store, began)
	}
	if err == nil {
		record.At = m.CreatedAt
		record.Oldest, err = prune()
	}
	if err != nil {
		record.Problem = problemText(err)
	}
	switch {
	case ctx.Err() != nil:
	case record.At == 0:
		s.Logger.WarnContext(ctx, "the scheduled backup failed", "store", plan.Settings.BackupURL, "error", err)
	case err != nil:
		s.Logger.WarnContext(ctx, "old backups were not deleted", "store", plan.Settings.BackupURL, "error", err)
	default:
		s.Logger.InfoContext(ctx, "a backup was saved and read back", "store", plan.Settings.BackupURL, "name", m.Name, "bytes", m.Bytes,
			"took", time.Since(start).Round(time.Millisecond).String())
	}
	return record
}

// unrecorded returns the newest whole backup of the schedule if it is younger than the recorded one,
// and no other is due, or else the zero value. It reports whether there are unfinished ones.
func (s *Schedule) unrecorded(ctx context.Context, store Store, plan *Plan) (m Manifest, unfinished bool, err error) {
	found, err := List(ctx, store, s.ClusterID())
	for _, f := range found {
		unfinished = unfinished || f.Scheduled && !f.Complete
		if f.Complete && f.Scheduled {
			m = f
		}
	}
	if now := s.Now(); age(m.CreatedAt, now) >= min(age(plan.Run.Saved, now), plan.Settings.BackupEvery()) {
		m = Manifest{}
	}
	return m, unfinished, err
}

func (s *Schedule) save(ctx context.Context, store Store, began time.Time) (m Manifest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	defer writing.Wait() // the state cannot be closed meanwhile
	defer cancel()
	r, w := io.Pipe()
	defer func() { _ = r.CloseWithError(io.ErrClosedPipe) }() // ends the export
	writing.Go(func() { _ = w.CloseWithError(s.Backup(ctx, w)) })
	return Save(ctx, pacedStore{store, s.Pacer}, s.ClusterID(), true, began.UnixMilli(), r)
}

// pacedStore is a store whose objects background work reads.
type pacedStore struct {
	Store
	pacer *pace.Pacer
}

// Get reads an object.
func (s pacedStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{pace.Reader{Reader: r, Step: s.pacer.Begin()}, r}, nil
}

// keepList uploads the list of purges: once to each store, after each backup, and after purges.
func (s *Schedule) keepList(ctx context.Context) {
	type version struct {
		url    string
		saved  int64
		purges uint64
	}
	var stored version
	var tried time.Time
	loop.Every(ctx, lookEvery, func(ctx context.Context) {
		plan, err := s.Plan()
		now := version{plan.Settings.BackupURL, plan.Run.Saved, plan.Purges}
		if err == nil && (now.url == "" || now == stored || time.Since(tried) < s.ListEvery) {
			return
		}
		tried = time.Now() // by the monotonic clock: the other one may be set
		if err == nil {
			err = s.uploadList(ctx, plan.Settings.BackupURL)
		}
		if err == nil {
			stored = now
		} else if ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "the list of purges is not in the store of backups; it is tried again", "error", err)
		}
	})
}

func (s *Schedule) uploadList(ctx context.Context, url string) error {
	store, err := Open(url, s.Access)
	if err != nil {
		return err
	}
	list, err := s.Purged(ctx)
	if err != nil {
		return fmt.Errorf("the list of purges: %w", err)
	}
	return SavePurges(ctx, store, &list)
}
