package health

import (
	"context"
	"fmt"
	"sync"

	"github.com/commons-cluster/commons/node/loop"
)

// watchdogTicks is how many ticks of its own a watchdog lets a write take.
const watchdogTicks = 20

// watchdog notices writes that hang. A leader whose disk hangs still sends
// heartbeats, so that nobody else would lead. Time is counted in the watchdog's
// own ticks: a process that was stopped for a while has not hung.
type watchdog struct {
	mu    sync.Mutex
	tick  uint64
	next  uint64
	under map[uint64]write // writes under way
}

// write is one write under way.
type write struct {
	what  string
	since uint64 // tick
}

func newWatchdog() *watchdog { return &watchdog{under: map[uint64]write{}} }

// watch runs a write under the watchdog's eyes. what names it in an error.
func (w *watchdog) watch(what string, do func()) {
	w.mu.Lock()
	w.next++
	id := w.next
	w.under[id] = write{what, w.tick}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, id)
	}()
	do()
}

// hanging counts a tick and returns what hangs, "" when nothing does.
func (w *watchdog) hanging() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	for _, under := range w.under {
		if w.tick-under.since > watchdogTicks {
			return under.what
		}
	}
	return ""
}

// watchWrites ends the node when a write hangs.
func (h *Health) watchWrites(ctx context.Context) {
	limit := h.cfg.HangTimeout
	loop.Every(ctx, limit/watchdogTicks, func(context.Context) {
		if what := h.watchdog.hanging(); what != "" {
			h.cfg.Abandon(fmt.Errorf("%s has not come back for %v: the disk of %s hangs", what, limit, h.cfg.DataDir))
		}
	})
}

// Watch runs a write of this node.
func (h *Health) Watch(what string, do func() error) (err error) {
	h.watchdog.watch(what, func() {
		if around := h.cfg.Around; around != nil {
			err = around(what, do)
		} else {
			err = do()
		}
	})
	return err
}
