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
	"github.com/commons-cluster/commons/node/certificate"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/propose"
)

// Config is the configuration of a Health.
type Config struct {
	Started                    time.Time
	Version, ServerID, DataDir string
	Heartbeat, HangTimeout     time.Duration
	Reserve                    string // of the disk; see ParseReserve
	HouseAgents                []string
	Unanswered                 bool // true for a public service without the name of an operator
	// Certificate is that of HTTPS; nil means plain HTTP.
	Certificate *certificate.Keeper
	// SlowWrite is the duration of a write of the log that is late, if late timers are
	// ignored. Zero means slowSync, and late timers make the node slow, too.
	SlowWrite time.Duration
	Logger    *slog.Logger
	Abandon   func(error)                              // ends the node because its disk hangs
	Around    func(what string, do func() error) error // runs each write; nil means a plain call
	DiskSpace func() (free, size uint64, err error)    // of the disk; nil asks the system
	// LogDropped returns the number of log lines that were dropped since the start. It is nil if they are not counted.
	LogDropped func() uint64
}

// Sources are the parts of a running node that a Health looks at.
type Sources struct {
	Raft      *consensus.Raft
	Machine   *fsm.Machine
	Gossip    *cluster.Gossip
	Members   *membership.Membership
	Pipeline  *propose.Pipeline
	HTTPAddr  string
	ClusterID func() string // of this node, empty before it has one
	Joined    func() bool   // whether this node can open its cluster's data key
	Stopping  func() bool   // whether the node is shutting down
}

// Health watches the condition of one node. Its methods are safe for concurrent use; those
// that need the Sources are called after Connect.
type Health struct {
	cfg Config
	src Sources

	Commands atomic.Uint64 // applied since the start

	watchdog       *watchdog
	rejectedWrites *prometheus.CounterVec
	caughtUp       atomic.Bool
	wasReady       atomic.Bool
	behind         atomic.Pointer[mark]                // the last index of the leader that this node had not applied
	logFailure     atomic.Pointer[error]               // the reason why the log cannot be written, or nil
	disk           atomic.Pointer[Disk]                // zero before the first measurement
	diskFull       atomic.Pointer[command.Unavailable] // the reason why writes are rejected, or nil
	slowness       slowness

	// Measurements of the last minute.
	syncs    *series // writes of the log, through to the disk
	writes   *series // of clients, until their answers
	reads    *series // of clients, without those that wait for news
	stalls   *series // delays of a timer
	rejected rejections
	proxies  proxies

	// Measurements of the last hour.
	pastWrites, pastReads *series
	electionsMu           sync.Mutex
	elections             []Election // newest first
	outages               []Outage
}

// Check is a condition of readiness.
type Check struct {
	Name   string
	OK     bool
	Detail string // one line for everybody: no id, address, path, version or size
	// Operators is the detail for operators. Empty means Detail.
	Operators string
}

// New returns the health of a node that starts.
func New(cfg Config) *Health {
	if cfg.LogDropped == nil {
		cfg.LogDropped = func() uint64 { return 0 }
	}
	if cfg.Around == nil {
		cfg.Around = func(_ string, do func() error) error { return do() }
	}
	h := &Health{
		cfg: cfg, slowness: slowness{slowWrite: cfg.SlowWrite}, watchdog: newWatchdog(), rejectedWrites: newRejectedWrites(),
		syncs: newRecent(), writes: newRecent(), reads: newRecent(), stalls: newRecent(), pastWrites: newHistory(), pastReads: newHistory(),
	}
	h.behind.Store(&mark{})
	h.disk.Store(&Disk{})
	return h
}

// Connect sets the parts to look at. It is called once, before Run.
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

const watchdogTicks = 20 // the number of the watchdog's ticks after which a write counts as hanging

// watchdog detects writes that hang. A leader whose disk hangs still sends heartbeats,
// so no other node would become the leader. Time is counted in the watchdog's own
// ticks, so that a process that was stopped for a while does not count as hanging.
type watchdog struct {
	mu    sync.Mutex
	tick  uint64
	next  uint64
	under map[uint64]write // writes under way
}

type write struct {
	name  string
	since uint64 // tick
}

func newWatchdog() *watchdog { return &watchdog{under: map[uint64]write{}} }

// watch runs a write that the watchdog monitors. Its name is for errors.
func (w *watchdog) watch(name string, do func() error) error {
	w.mu.Lock()
	w.next++
	id := w.next
	w.under[id] = write{name, w.tick}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, id)
	}()
	return do()
}

// hanging counts a tick and returns the name of a hanging write, or "".
func (w *watchdog) hanging() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	for _, under := range w.under {
		if w.tick-under.since > watchdogTicks {
			return under.name
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
func (h *Health) Watch(what string, do func() error) error {
	return h.watchdog.watch(what, func() error { return h.cfg.Around(what, do) })
}
