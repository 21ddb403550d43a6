package health

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/propose"
)

// Config is what a Health needs from the beginning.
type Config struct {
	Started                          time.Time
	ServerID, DataDir                string
	Heartbeat, Election, HangTimeout time.Duration
	Reserve                          string // of the disk; see ParseReserve
	Logger                           *slog.Logger
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

	watchdog      *watchdog
	refusedWrites *prometheus.CounterVec
	caughtUp      atomic.Bool
	wasReady      atomic.Bool
	behind        atomic.Pointer[mark]                // what this node lacked when the leader was asked last
	logFailure    atomic.Pointer[error]               // why the log cannot be written; nil while it can
	disk          atomic.Pointer[Disk]                // nil while it is not watched
	diskFull      atomic.Pointer[command.Unavailable] // why writes are refused; nil while they are not

	// What operators are shown of the last minute.
	syncs   recent // writes of the log, through to the disk
	writes  recent // of clients, from when they came to their answer
	stalls  recent // by how much it was late when it wanted to run
	refused refusals
}

// Check is one condition of readiness.
type Check struct {
	Name   string
	OK     bool
	Detail string // one line for an operator
}

// New returns the health of a node that starts.
func New(cfg Config) *Health {
	return &Health{cfg: cfg, watchdog: newWatchdog(), refusedWrites: newRefusedWrites()}
}

// Connect gives the Health what to look at. It is called once, before Run.
func (h *Health) Connect(src Sources) { h.src = src }

// Run watches the node until ctx ends.
func (h *Health) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for _, watch := range []func(context.Context){h.watchCatchUp, h.watchLag, h.watchWrites, h.watchStalls, h.watchDisk} {
		workers.Go(func() { watch(ctx) })
	}
	workers.Wait()
}
