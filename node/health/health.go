package health

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/propose"
)

// Config is what a Health needs from the start.
type Config struct {
	Started                          time.Time
	Version, ServerID, DataDir       string
	Heartbeat, Election, HangTimeout time.Duration
	Reserve                          string // of the disk; see ParseReserve
	HouseAgents                      []string
	// Unanswered says that the service is public and names no operator.
	Unanswered bool
	Logger     *slog.Logger
	// Abandon ends the node because its disk hangs.
	Abandon func(error)
	// Around runs each write. Nil just runs it.
	Around func(what string, do func() error) error
	// DiskSpace returns the free bytes and the size of the disk. Nil asks the system.
	DiskSpace func() (free, size uint64, err error)
}

// Sources are the parts of a running node that a Health looks at.
type Sources struct {
	Raft     *consensus.Raft
	Machine  *fsm.Machine
	Gossip   *cluster.Gossip
	Members  *membership.Membership
	Pipeline *propose.Pipeline
	HTTPAddr string
	// ClusterID returns the cluster that this node is part of, "" while it is of none.
	ClusterID func() string
	// Joined reports whether this node can open its cluster's data key.
	Joined func() bool
	// Stopping reports whether the node is shutting down.
	Stopping func() bool
}

// Health is what one node knows of its own condition. Its methods are safe for
// concurrent use; those that need the Sources are called after Connect.
type Health struct {
	cfg Config
	src Sources

	Commands      atomic.Uint64 // applied since the start
	LeaderChanges atomic.Uint64 // seen since the start

	watchdog       *watchdog
	rejectedWrites *prometheus.CounterVec
	caughtUp       atomic.Bool
	wasReady       atomic.Bool
	behind         atomic.Pointer[mark]                // what this node lacked when the leader was asked last
	logFailure     atomic.Pointer[error]               // why the log cannot be written; nil while it can
	disk           atomic.Pointer[Disk]                // nil while it is not watched
	diskFull       atomic.Pointer[command.Unavailable] // why writes are rejected; nil while they are not
	pace           pace

	// What operators are shown of the last minute.
	syncs    recent // writes of the log, through to the disk
	writes   recent // of clients, from when they came to their answer
	reads    recent // of clients, those that did not wait for news
	stalls   recent // by how much it was late when it wanted to run
	rejected rejections

	history history
}

// Check is one condition of readiness.
type Check struct {
	Name   string
	OK     bool
	Detail string // one line for everybody: no id, address, path, version or size
	// Operators is the detail for operators; "" is the same as Detail.
	Operators string
}

// New returns the health of a node that starts.
func New(cfg Config) *Health {
	return &Health{cfg: cfg, watchdog: newWatchdog(), rejectedWrites: newRejectedWrites()}
}

// Connect gives the Health what to look at. It is called once, before Run.
func (h *Health) Connect(src Sources) { h.src = src }

// Run watches the node until ctx ends.
func (h *Health) Run(ctx context.Context) {
	if h.cfg.Unanswered {
		h.cfg.Logger.WarnContext(ctx, unansweredText)
	}
	var workers sync.WaitGroup
	for _, watch := range []func(context.Context){h.watchCatchUp, h.watchLag, h.watchWrites, h.watchStalls, h.watchPace, h.watchDisk} {
		workers.Go(func() { watch(ctx) })
	}
	workers.Wait()
}

// watchdogTicks is after how many of the watchdog's ticks a write counts as hanging.
const watchdogTicks = 20

// watchdog detects writes that hang. A leader whose disk hangs still sends heartbeats,
// so no other node would become the leader. Time is counted in the watchdog's own
// ticks, so that a process that was stopped for a while does not count as hanging.
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

// watch runs a write that the watchdog monitors. what names it in an error.
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

// hanging counts a tick and returns the name of a hanging write; "" if none hangs.
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
