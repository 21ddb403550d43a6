package offsite

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/pace"
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
	loop.Every(ctx, lookEvery, func(ctx context.Context) {
		plan, err := s.Plan()
		if err == nil && plan.due(s.Now()) {
			if record := s.run(ctx, &plan); ctx.Err() == nil { // or else the next leader makes this run
				err = s.Propose(ctx, record)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "the run of the scheduled backup was not recorded; it is tried again", "error", err)
		}
	})
}

// due reports whether a run should begin.
func (p *Plan) due(now time.Time) bool {
	next := time.UnixMilli(p.Run.Saved).Add(p.Settings.BackupEvery())
	if retry := time.UnixMilli(p.Run.Began).Add(min(retryAfter, p.Settings.BackupEvery())); p.Run.Failed && retry.After(next) {
		next = retry
	}
	return p.Settings.BackupURL != "" && !now.Before(next)
}

// run makes a backup, deletes old ones, and returns the record of it. A backup that an earlier leader
// finished, and could not record, counts as that of this run.
func (s *Schedule) run(ctx context.Context, plan *Plan) *command.RecordBackup {
	began := s.Now()
	record := &command.RecordBackup{Run: began.UnixMilli()}
	store, err := Open(plan.Settings.BackupURL, s.Access)
	var m Manifest
	unfinished := false
	if err == nil {
		m, unfinished, err = s.unrecorded(ctx, store, plan)
	}
	prune := func() (oldest int64, err error) {
		return Prune(ctx, store, s.ClusterID(), int(plan.Settings.BackupKeep), record.Run) //nolint:gosec // bounded by its check
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
		text := strings.Join(strings.Fields(err.Error()), " ")
		record.Problem = strings.ToValidUTF8(text[:min(len(text), command.MaxBackupProblem)], "")
	}
	switch {
	case ctx.Err() != nil:
	case record.At == 0:
		s.Logger.WarnContext(ctx, "the scheduled backup failed", "store", plan.Settings.BackupURL, "error", err)
	case err != nil:
		s.Logger.WarnContext(ctx, "old backups were not deleted", "store", plan.Settings.BackupURL, "error", err)
	default:
		s.Logger.InfoContext(ctx, "a backup was saved and read back", "store", plan.Settings.BackupURL, "name", m.Name, "bytes", m.Bytes,
			"took", s.Now().Sub(began).Round(time.Millisecond).String())
	}
	return record
}

// unrecorded returns a whole backup of the schedule that is newer than the recorded ones, and young
// enough that no other is due, or else the zero value. It reports whether there are unfinished ones.
func (s *Schedule) unrecorded(ctx context.Context, store Store, plan *Plan) (m Manifest, unfinished bool, err error) {
	found, err := List(ctx, store, s.ClusterID())
	for _, f := range found {
		unfinished = unfinished || f.Scheduled && !f.Complete
		fresh := s.Now().Sub(time.UnixMilli(f.CreatedAt)) < plan.Settings.BackupEvery()
		if f.Complete && f.Scheduled && f.CreatedAt > plan.Run.Saved && fresh {
			m = f
		}
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
		if err == nil && (now.url == "" || now == stored || s.Now().Sub(tried) < s.ListEvery) {
			return
		}
		tried = s.Now()
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
