// Package purge erases purged texts from the node's disk, in the background: from the files
// of the state, and from the Raft log, which is cut. The state and notes in the files record
// the progress, so that the work continues after a crash, on any disk and with any state.
package purge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/loop"
)

// Times.
const (
	// patience bounds the wait for followers that are alive, and for streams. Followers
	// that have less of the log are sent the state afterwards. It doubles, up to
	// maxPatience, with each round that broke off a stream, so that even a slow stream
	// completes in the end, however often something is purged.
	patience, maxPatience = time.Minute, time.Hour
	// lookEvery is the pause between two checks for work, and waitEvery that between two
	// checks of a condition that it waits for.
	lookEvery, waitEvery = time.Second, 100 * time.Millisecond
	// maxTurn bounds the wait for the servers that erase before this one.
	maxTurn    = 10 * time.Minute
	sweptEvery = 12 * time.Hour // the time between two erasures of swept texts, which read the whole index
)

// Worker does the work of one node. It begins with the zero values of the unexported fields.
type Worker struct {
	Machine *fsm.Machine
	Raft    *consensus.Raft
	Streams *consensus.Snapshots
	Log     *logstore.Store
	Gather  time.Duration                // for which purges are collected: together they need one cut of the log
	Others  func(context.Context) uint64 // the lowest index that any other living server has applied
	// Turn reports whether the servers that erase before this one have erased the purges up to a
	// number. One after another, they leave a majority that is not busy.
	Turn   func(ctx context.Context, purge uint64) bool
	Forget func() // drops the texts that the interface keeps in memory
	// Discard erases a state that is being restored beside the node's own.
	Discard func() error
	Logger  *slog.Logger

	since   time.Time // when pending purges were first seen; zero without pending purges
	first   uint64    // the newest purge then
	swept   time.Time // of the last erasure of swept texts
	begun   bool      // the worker has looked before
	failing bool
	patient time.Duration // for this round; 0 means patience
	pending atomic.Uint64
}

// Collectors returns the metrics.
func (w *Worker) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "commons_purges_pending", Help: "Entries that were purged and whose bytes may still be on this node's disk.",
	}, func() float64 { return float64(w.pending.Load()) })}
}

// Status returns the progress of the node according to its files.
func (w *Worker) Status() (s admin.Purges, err error) {
	v := w.Machine.View()
	defer v.Release()
	if s.Known, err = v.Purged(); err != nil {
		return s, err
	}
	if s.State, err = v.Erased(); err != nil {
		return s, err
	}
	erased, err := w.Log.Erased()
	if err != nil {
		return s, err
	}
	s.Log, err = v.PurgedUpTo(erased)
	return s, err
}

// Run does the work until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	loop.Every(ctx, lookEvery, func(ctx context.Context) {
		err := errors.Join(w.eraseDue(ctx), w.eraseSwept(ctx))
		if ctx.Err() != nil {
			return
		}
		if err != nil && !w.failing {
			w.Logger.WarnContext(ctx, "what was purged is still on the disk; it is tried again until it is not", "error", err)
		}
		w.failing = err != nil
	})
}

// eraseDue erases pending purges, once they were collected for long enough.
func (w *Worker) eraseDue(ctx context.Context) error {
	s, err := w.Status()
	if err != nil {
		return err
	}
	w.pending.Store(s.Pending())
	begun := w.begun
	w.begun = true
	if s.Pending() == 0 {
		w.since = time.Time{}
		return nil
	}
	if w.since.IsZero() {
		w.since, w.first = time.Now(), s.Known
	}
	if begun && time.Since(w.since) < w.Gather { // after a start it has waited enough
		return nil
	}
	if time.Since(w.since) < w.Gather+maxTurn && !w.Turn(ctx, w.first) {
		return nil
	}
	if err := w.Discard(); err != nil {
		return err
	}
	if s.Log < s.Known {
		if err := w.cutLog(ctx); err != nil {
			return err
		}
	}
	if s.State < s.Known {
		if err := w.Machine.Erase(ctx); err != nil {
			return err
		}
		w.Forget() // Erase has waited for whoever still read the texts
	}
	if s, err = w.Status(); err != nil {
		return err
	}
	w.pending.Store(s.Pending())
	w.since = time.Time{}
	w.Logger.InfoContext(ctx, "what was purged is gone from this disk", "purges", s.Done())
	return nil
}

// eraseSwept erases swept texts from the state's files, from time to time. Pending purges go
// first.
func (w *Worker) eraseSwept(ctx context.Context) error {
	if !w.swept.IsZero() && time.Since(w.swept) < sweptEvery {
		return nil
	}
	done, err := w.Machine.EraseSwept(ctx, w.purgeWaits)
	switch {
	case err != nil:
		w.swept = time.Now().Add(patience - sweptEvery) // soon again
	case done:
		w.swept = time.Now()
	}
	return err
}

// purgeWaits reports whether there is a purge whose bytes may still be on the disk.
func (w *Worker) purgeWaits() bool {
	s, err := w.Status()
	return err != nil || s.Pending() > 0
}

// cutLog cuts the log at the applied index, once all living servers have applied it and no
// state is being sent to another node: its receiver would lack the log that follows.
func (w *Worker) cutLog(ctx context.Context) error {
	index, patient := w.Machine.Applied(), cmp.Or(w.patient, patience)
	late, next := time.Now().Add(patient), patience
	for w.Streams.Busy() || w.Others(ctx) < index {
		if time.Now().After(late) {
			if w.Streams.Busy() {
				next = min(2*patient, maxPatience)
			}
			w.Streams.Break()
			break
		}
		if !loop.Pause(ctx, waitEvery) {
			return ctx.Err()
		}
	}
	w.patient = next
	if err := w.Raft.CutLog(ctx, index); err != nil {
		return fmt.Errorf("cutting the log: %w", err)
	}
	return nil
}
