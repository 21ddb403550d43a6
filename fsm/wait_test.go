package fsm

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
)

func TestWait(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	check.Err(t, r.Wait(ctx, 1), nil, "for what is there")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	check.Err(t, r.Wait(ended, 2), context.Canceled, "under an ended context")
	check.Equal(t, len(r.waiters.waiting), 0, "waiters left behind")

	const waiters = 2000
	var wg sync.WaitGroup
	errs := make(chan error, waiters)
	for i := range waiters {
		wg.Go(func() {
			index := uint64(2 + i%5)
			if err := r.Wait(ctx, index); err != nil {
				errs <- err
			} else if got := r.Applied(); got < index {
				errs <- errors.New("woken too early")
			}
			v := r.View()
			if v.Index() < index {
				errs <- errors.New("the view is older than the wait")
			}
			v.Release()
		})
	}
	for range 5 {
		r.Run(fsmtest.Post("ada", nil))
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestWaitEndsWithClose(t *testing.T) {
	r := newRig(t)
	done := make(chan error, 1)
	go func() { done <- r.Wait(context.Background(), 99) }()
	await.Eventually(t, "a call waits", func() bool {
		r.waiters.mu.Lock()
		defer r.waiters.mu.Unlock()
		return len(r.waiters.waiting) > 0
	})
	closeMachine(t, r.Machine)
	check.Err(t, <-done, ErrClosed, "wait ended")
	check.Err(t, r.Wait(context.Background(), 99), ErrClosed, "wait after close")
}

// TestViewsUnderCommits reads through views while log entries are applied: each view is
// whole, their indexes never fall, and all are released.
func TestViewsUnderCommits(t *testing.T) {
	r := newRig(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var last uint64
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := r.View()
				// Each log entry makes two entries, of which the second replies.
				if v.Index() < last || v.LastSeq() != 2*(v.Index()-1) {
					t.Errorf("view at %d after %d holds %d entries", v.Index(), last, v.LastSeq())
				}
				last = v.Index()
				if seqs, _, err := v.List(view.Query{Limit: 2}); err != nil || len(seqs) != int(min(2, v.LastSeq())) {
					t.Errorf("list: %v, %v", seqs, err)
				}
				if n := v.LastSeq(); n > 0 {
					doc, _ := fsmtest.ReadEntry(t, v, n-1)
					check.Equal(t, doc.SupersededByCount, 1, "successors in half a commit, at %d", v.Index())
				}
				v.Release()
			}
		})
	}
	for i := range uint64(500) {
		r.Run(fsmtest.Post("ada", nil), fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 2*i+1)))
	}
	close(stop)
	wg.Wait()
	check.Equal(t, r.store.refs.Load(), 2, "references to the store, by the machine and the newest view")
	check.Equal(t, r.store.DB.Metrics().Snapshots.Count, 1, "open snapshots")
}

func TestViewReleasedTwice(t *testing.T) {
	r := newRig(t)
	v := r.View()
	r.Publish(nil)
	v.Release()
	defer func() {
		if recover() == nil {
			t.Error("nobody noticed")
		}
	}()
	v.Release()
}

// TestCloseWaitsForViews closes while a view is in use. The view reads on until
// it is released, and Close waits for that.
func TestCloseWaitsForViews(t *testing.T) {
	r := newRig(t)
	seq := r.Publish(nil)
	v := r.View()
	done := make(chan error, 1)
	go func() { done <- r.Close() }()
	await.Eventually(t, "the end of waiting", func() bool { return errors.Is(r.Wait(t.Context(), 99), ErrClosed) })
	select {
	case err := <-done:
		t.Fatalf("Close did not wait: %v", err)
	default:
	}
	fsmtest.ReadEntry(t, v, seq)
	check.Err(t, check.Last(v.RowDigest(t.Context())), nil, "digest")
	v.Release()
	check.Err(t, <-done, nil, "done")
	check.Err(t, r.Close(), nil, "closed again")
}

// lateReader is an Observer that looks at the view when it is called for a command.
type lateReader struct {
	t *testing.T
	m *Machine
	n int
}

func (o *lateReader) Applied(_ command.BootID, _ uint64, r command.Result, index uint64) {
	o.n++
	v := o.m.View()
	defer v.Release()
	if o.m.Applied() < index || v.Index() < index {
		o.t.Errorf("called for index %d at %d, view at %d", index, o.m.Applied(), v.Index())
	}
	check.Err(o.t, check.Last(v.AppendEntry(nil, r.Entry)), nil, "entry %d", r.Entry)
}

func TestObserverSeesTheView(t *testing.T) {
	l := newLog(t)
	l.commands(fsmtest.Post("ada", nil), fsmtest.Post("bob", nil))
	l.commands(fsmtest.Post("ada", nil))
	o := &lateReader{t: t}
	o.m = openAt(t, t.TempDir(), func(opts *Options) { opts.Observer = o })
	l.feed(o.m, 1, l.last())
	check.Equal(t, o.n, 3, "commands of the call")
}

// woken reports whether a watcher was woken since it was looked at.
func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

// TestJobWaiters holds that each open job wakes one waiter, in order of arrival, and that one
// that takes no job passes it on.
func TestJobWaiters(t *testing.T) {
	r := newRig(t)
	first, pass, stop := r.WatchJobs()
	second, _, stopSecond := r.WatchJobs()
	third, _, stopThird := r.WatchJobs()
	defer stopThird()
	r.Run(fsmtest.Post("ada", nil))
	check.Equal(t, woken(first) || woken(second) || woken(third), false, "woken by an entry")
	r.Run(fsmtest.PostJob("ada"))
	check.Equal(t, woken(first) && !woken(second) && !woken(third), true, "the first alone is woken by a job")
	pass()
	check.Equal(t, !woken(first) && woken(second) && !woken(third), true, "the second alone is woken by the first")
	r.Run(fsmtest.PostJob("ada"), fsmtest.PostJob("ada"))
	stop() // without looking: the third is woken in its place
	check.Equal(t, woken(second) && woken(third), true, "two are woken by two jobs, and by the first that leaves")
	r.Run(fsmtest.Claim("bob", 2))
	check.Equal(t, woken(second) || woken(third), false, "woken by a claim")
	r.Run(fsmtest.Release("bob", 2))
	check.Equal(t, woken(second) && !woken(third), true, "woken by a release")
	r.Run(fsmtest.PostJob("ada"))
	stopSecond()
	check.Equal(t, woken(third), true, "woken after the second has left")
}
