package offsite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/pace"
)

const turnEvery = 10 * time.Second // between two looks for a backup that this node should verify

// Verifier restores the newest scheduled backup, so that it counts as verified. One node of the
// cluster does it. What it restored is erased at once, and before a purge is done: a backup that
// may hold purged texts is not restored.
type Verifier struct {
	Access    Access
	Dir       string // for the restored state, erased before and after
	ClusterID func() string
	Plan      func() (Plan, error)
	PurgedAt  func(index uint64) (uint64, error) // the newest purge up to an index of the log
	Turn      func(context.Context) bool         // reports whether this node is the one that verifies
	// Restore restores a backup into Dir, and compares the digest of the state's rows with that
	// in the backup.
	Restore func(open func() (io.ReadCloser, error)) error
	Propose func(context.Context, command.Payload) error // a *command.RecordBackup
	Pacer   *pace.Pacer                                  // has a restore yield to writes
	Logger  *slog.Logger

	mu   sync.Mutex
	stop context.CancelFunc // of the restore that runs, or nil
	done chan struct{}      // closed when what it restored is erased
}

var errDiscarded = errors.New("it was given up because of a purge")

// Run verifies backups until ctx ends.
func (v *Verifier) Run(ctx context.Context) {
	if err := os.RemoveAll(v.Dir); err != nil {
		v.Logger.WarnContext(ctx, "what a killed process had restored as a check was not erased", "error", err)
	}
	var tried time.Time
	loop.Every(ctx, turnEvery, func(ctx context.Context) {
		plan, err := v.Plan()
		if err != nil || !plan.unverified() || !tried.IsZero() && time.Since(tried) < min(retryAfter, plan.Settings.BackupEvery()) || !v.Turn(ctx) {
			return
		}
		begun := time.Now()
		tried = begun
		record := &command.RecordBackup{Verified: plan.Run.Saved}
		err = v.verify(ctx, &plan)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errDiscarded):
			v.Logger.InfoContext(ctx, "the scheduled backup is not restored as a check: it may hold texts that were purged since; the next one is")
			return
		case err != nil:
			record.Problem = problemText(err)
			v.Logger.WarnContext(ctx, "the scheduled backup could not be restored as a check; it is tried again", "store", plan.Settings.BackupURL, "error", err)
		default:
			tried = time.Time{}
			v.Logger.InfoContext(ctx, "the scheduled backup was restored as a check", "store", plan.Settings.BackupURL, "took", time.Since(begun).Round(time.Millisecond).String())
		}
		if err := v.Propose(ctx, record); err != nil && ctx.Err() == nil {
			v.Logger.WarnContext(ctx, "the check of a backup was not recorded; it is repeated", "error", err)
		}
	})
}

// unverified reports whether the newest backup of the schedule has to be verified.
func (p *Plan) unverified() bool {
	return p.Settings.BackupURL != "" && p.Settings.BackupVerify && p.Run.Saved > 0 && p.Run.Verified != p.Run.Saved
}

// Discard ends a restore, and erases what was restored, also by an earlier process. The error says
// why something may be left.
func (v *Verifier) Discard() error {
	v.mu.Lock()
	stop, done := v.stop, v.done
	if stop == nil {
		defer v.mu.Unlock() // so that no restore begins meanwhile
		return os.RemoveAll(v.Dir)
	}
	v.mu.Unlock()
	stop()
	<-done
	return os.RemoveAll(v.Dir)
}

// verify restores the newest scheduled backup and deletes the result.
func (v *Verifier) verify(ctx context.Context, plan *Plan) error {
	store, err := Open(plan.Settings.BackupURL, v.Access)
	if err != nil {
		return err
	}
	found, err := List(ctx, store, v.ClusterID())
	if err != nil {
		return err
	}
	var m Manifest
	for _, f := range found {
		if f.Complete && f.Scheduled {
			m = f
		}
	}
	if m.CreatedAt < plan.Run.Saved {
		return fmt.Errorf("the store has no whole backup of %s", time.UnixMilli(plan.Run.Saved).UTC().Format(time.RFC3339))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	v.mu.Lock()
	v.stop, v.done = func() { cancel(errDiscarded) }, done
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		v.stop = nil
		v.mu.Unlock()
		close(done)
	}()
	// From here on a purge ends the restore. Those from before are known.
	if err := v.checkPurges(m.Index); err != nil {
		return err
	}
	restored := v.Restore(func() (io.ReadCloser, error) { return pacedStore{store, v.Pacer}.Get(ctx, m.Name) })
	err = errors.Join(restored, os.RemoveAll(v.Dir))
	if cause := context.Cause(ctx); errors.Is(cause, errDiscarded) {
		return cause
	}
	return err
}

// checkPurges returns errDiscarded if something was purged after an index of the log.
func (v *Verifier) checkPurges(index uint64) error {
	plan, err := v.Plan()
	if err != nil {
		return err
	}
	before, err := v.PurgedAt(index)
	if err == nil && before < plan.Purges {
		err = errDiscarded
	}
	return err
}

// problemText returns an error as a record of a backup takes it.
func problemText(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(text[:min(len(text), command.MaxBackupProblem)], "")
}
