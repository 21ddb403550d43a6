package membership

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	metaInterval    = 250 * time.Millisecond // how often this node's gossip metadata is updated
	handoverTimeout = 5 * time.Second        // bounds the hand-over of leadership at shutdown
)

// Timing holds intervals that are constants of the product and that tests change.
type Timing struct {
	// ReconcileInterval is how often the leader compares gossip with the
	// configuration of Raft, besides at every change of either.
	ReconcileInterval time.Duration
	StableFor         time.Duration // how long a non-voter must be caught up before it votes
	// GoneFor is how long a server must be out of gossip before a new one of the same name
	// may replace it, and how long a returning server waits to be added again before it
	// reports that it was removed.
	GoneFor time.Duration
}

// Config configures a Membership.
type Config struct {
	ServerID string
	Expect   int // first voters
	Join     []string
	NonVoter bool

	Heartbeat time.Duration
	DeadFor   time.Duration // after which the leader removes a server; 0 keeps it
	Timing

	Raft    *consensus.Raft
	Machine *fsm.Machine
	Gossip  *cluster.Gossip
	Book    *cluster.Book
	Client  *http.Client // for the private ports of other nodes
	Logger  *slog.Logger

	ClusterID func() string                                // of this node, empty before it has one
	Meta      func(fresh, leaving bool) cluster.Meta       // this node's gossip metadata
	Leading   func() bool                                  // whether this node leads and takes writes
	Propose   func(context.Context, command.Payload) error // replicates a command while this node leads
	CheckDisk func() error                                 // fails while less than the reserve of this node's disk is free
	Fail      func(error)                                  // ends the node
}

// Membership is one node's part in its cluster. Its methods are safe for concurrent use.
type Membership struct {
	cfg Config

	reconcileNow chan struct{}
	// changing has a value while a change of Raft's configuration is decided and carried out.
	// It is not a sync.Mutex, see logstore.Store.
	changing chan struct{}
	health   atomic.Pointer[Health]            // of the servers, nil unless this node leads; not changed once stored
	rejected atomic.Pointer[map[string]string] // why this leader does not take nodes in, by id; not changed once stored
	waiting  atomic.Pointer[string]            // why this node is not part of a cluster yet
	outside  atomic.Bool                       // the cluster is led without this server
	leaving  atomic.Bool                       // it is being taken out of the cluster
}

// New returns the membership of a node whose Raft and gossip run.
func New(cfg Config) *Membership {
	return &Membership{cfg: cfg, reconcileNow: make(chan struct{}, 1), changing: make(chan struct{}, 1)}
}

// Run forms a cluster or waits to be added to one, and follows gossip, until ctx ends.
func (ms *Membership) Run(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { ms.followGossip(ctx) })
	workers.Go(func() { ms.bootstrap(ctx) })
	ms.watchRemoval(ctx)
	workers.Wait()
}

// Lead adapts the cluster's configuration, and the format of its log, to the nodes that
// are present, for as long as this node leads.
func (ms *Membership) Lead(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { ms.rateHealth(ctx) })
	workers.Go(func() { ms.raiseFormat(ctx) })
	ms.reconcile(ctx)
	workers.Wait()
}

// Waiting returns the reason why this node is not part of a cluster yet, or "" if it does not wait.
func (ms *Membership) Waiting() string {
	if waiting := ms.waiting.Load(); waiting != nil {
		return *waiting
	}
	return ""
}

// followGossip keeps the address book and this node's gossip metadata up to date.
func (ms *Membership) followGossip(ctx context.Context) {
	tick := time.NewTicker(metaInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ms.cfg.Gossip.Changed():
			if err := ms.cfg.Book.Update(ms.cfg.Gossip.Members()); err != nil {
				ms.cfg.Logger.WarnContext(ctx, "the address book was not written", "error", err)
			}
			loop.Wake(ms.reconcileNow)
		case <-tick.C:
			if err := ms.announce(); err != nil {
				ms.cfg.Logger.ErrorContext(ctx, "gossip metadata was not changed", "error", err)
			}
		}
	}
}

func (ms *Membership) announce() error {
	if meta := ms.cfg.Meta(ms.Fresh(), ms.leaving.Load()); meta != ms.cfg.Gossip.Meta() {
		return ms.cfg.Gossip.SetMeta(meta)
	}
	return nil
}

// SetLeaving sets or clears the mark in gossip with which the leader does not add this node
// again.
func (ms *Membership) SetLeaving(leaving bool) error {
	ms.leaving.Store(leaving)
	if !leaving {
		return nil // the next look at what is so says it
	}
	return ms.announce()
}

// Retry is the pause after a failed attempt to hand leadership over, or to leave.
const Retry = 50 * time.Millisecond

// HandOver transfers leadership to another voter, if this node leads and another can.
func (ms *Membership) HandOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	led := ms.cfg.Raft.Leads()
	for attempt := 0; ms.cfg.Raft.Leads(); attempt++ {
		successors := ms.Successors()
		if len(successors) == 0 {
			break
		}
		next := successors[attempt%len(successors)]
		done := make(chan error, 1)
		go func() { done <- ms.cfg.Raft.HandOver(next) }()
		select {
		case err := <-done:
			if err != nil { // also when it takes the other longer than expected
				ms.cfg.Logger.WarnContext(ctx, "leadership is not handed over yet", "server", next, "error", err)
			}
		case <-ctx.Done():
			return fmt.Errorf("handing leadership over: %w", ctx.Err())
		}
		if !loop.Pause(ctx, Retry) {
			return fmt.Errorf("handing leadership over: %w", ctx.Err())
		}
	}
	if led && !ms.cfg.Raft.Leads() {
		ms.cfg.Logger.InfoContext(ctx, "handed leadership over")
	}
	return nil
}

// Successors returns the other voters that are alive, the fittest to lead first. Raft
// itself would choose by the log only, even a dead server.
func (ms *Membership) Successors() []string {
	health, _ := ms.Health()
	var alive []successor
	for _, id := range ms.cfg.Raft.Voters() {
		if m, ok := ms.cfg.Gossip.Member(id); ok && id != ms.cfg.ServerID {
			of, _ := health.Server(id)
			alive = append(alive, successor{id, of.Healthy && !m.DiskLow && !m.Slow && !m.NonVoter && !m.Leaving, of.LastIndex})
		}
	}
	return byFitness(alive)
}

type successor struct {
	id    string
	fit   bool
	index uint64 // of its log
}

// byFitness returns the ids of successors, the fit ones first and those with more log
// before those with less.
func byFitness(successors []successor) []string {
	slices.SortStableFunc(successors, func(a, b successor) int {
		if a.fit != b.fit {
			if a.fit {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.index, a.index)
	})
	ids := make([]string, len(successors))
	for i, h := range successors {
		ids[i] = h.id
	}
	return ids
}
