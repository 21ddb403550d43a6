package op

import (
	"context"
	"net/netip"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// Backend is the node as the handlers see it. The api package knows no Raft.
type Backend interface {
	// Propose replicates one command and returns its result once this node has
	// applied it, with the index of the log entry that carries it. It returns within
	// a time limit of its own, or when ctx ends. Errors: *Unavailable, *RateLimited, or an internal one.
	Propose(ctx context.Context, from command.Sender, payload command.Payload) (command.Result, uint64, error)
	// View returns the newest view of the local state; the caller releases it.
	View() *view.View
	// WaitIndex waits until this node has applied the log index. Errors:
	// *Unavailable with CodeBehind when the context ends first.
	WaitIndex(ctx context.Context, index uint64) error
	// ReadIndex returns a log index such that a view that has applied it holds
	// everything acknowledged before the call. Errors: *Unavailable.
	ReadIndex(ctx context.Context) (uint64, error)
	// VerifyReceiver lets the leader check whether the receiver at an agent's
	// notify_url agrees to get the agent's events, and returns nil if it does.
	// Errors: *ReceiverFailed, *RateLimited, *Unavailable, or ctx's.
	VerifyReceiver(ctx context.Context, from command.Sender, agent, notifyURL string) error
	// WebhookSecret returns the secret of a receiver by its salt, as its agent gets it.
	WebhookSecret(salt string) string
	// Watch returns a channel that gets a value when View shows something new that concerns an
	// agent (text.Fold) or is another key's, such as state.WatchJobs, and at other times. The
	// caller calls stop when done.
	Watch(keys ...string) (wake <-chan struct{}, stop func())
	// WatchJobs returns a channel that gets a value when a job was opened that View shows. Each
	// job wakes one waiter; if it takes no job, it calls pass. The caller calls stop when done.
	WatchJobs() (wake <-chan struct{}, pass, stop func())
	// WatchEvents is Watch for events.
	WatchEvents() (wake <-chan struct{}, stop func())
	// Fingerprint returns the pseudonym of a client address (IPv4 whole, IPv6
	// /64) under the cluster's data key. Addresses themselves are never kept.
	Fingerprint(addr netip.Addr) string
	// Joined returns a channel that is closed once this node is part of a cluster.
	// Until then its state is empty and Fingerprint knows no key.
	Joined() <-chan struct{}
	// CaughtUp returns a channel that is closed when this node has applied everything that was
	// acknowledged before its start. Until then it may hold purged entries. For a server that was
	// removed the channel is nil: it may hold them for good.
	CaughtUp() <-chan struct{}
	// StaleFor returns for how long this node has not heard from the leader, or has
	// been behind the leader's applied index; zero on the leader itself.
	StaleFor() time.Duration
	// NodeName is the name shown in X-Commons-Node.
	NodeName() string
	// Process is a random id of this process, shown by GET /readyz.
	Process() string
	// Status is the answer of GET /status.
	Status() Status
	// Checks are the conditions of readiness, in a fixed order.
	Checks() []Check

	// Cluster asks all nodes for their state until ctx ends.
	Cluster(ctx context.Context) wire.Cluster
	// Measured returns the measurements of this node in the last hour.
	Measured() wire.Measured
	// Purges returns the disks that still hold purged data, according to a view. It asks
	// the nodes until ctx ends.
	Purges(ctx context.Context, view *view.View) (Purges, error)
}

// Status is the public status of a node.
type Status struct {
	Role         string `json:"role"`  // leader, follower or candidate
	Voter        bool   `json:"voter"` // else it is a read replica, or has just come
	Ready        bool   `json:"ready"`
	AppliedIndex uint64 `json:"appliedIndex"`
}

// Check is one condition of readiness.
type Check struct {
	Name   string
	OK     bool
	Detail string // one line that strangers may see
}

// ReceiverFailed is the error of a receiver that did not pass its check.
type ReceiverFailed struct { //nolint:errname // names a condition of the receiver
	Reason string // the end of a sentence that begins "The receiver"
}

func (e *ReceiverFailed) Error() string { return "the receiver " + e.Reason }

// Purges lists the nodes, with the purges that each has erased from its disk.
type Purges struct {
	Purged  uint64      `json:"purged"` // the number of the newest purge, from 1
	Servers []PurgeDisk `json:"servers"`
	// RemovedSince is when the oldest purged text was written, RFC 3339: the disks of the servers that
	// were removed since then are the operator's to erase. It is empty if nothing was purged.
	RemovedSince string `json:"removedSince,omitempty"`
	// BackupsUntil is when the cluster will have deleted the last of its scheduled backups with
	// purged texts, RFC 3339; empty without such a backup.
	BackupsUntil string `json:"backupsUntil,omitempty"`
}

// PurgeDisk is the disk of one node, by the id of its server.
type PurgeDisk struct {
	ID      string `json:"id"`
	Part    string `json:"part"` // voter, non-voter or outside
	Done    uint64 `json:"done"`
	Pending uint64 `json:"pending"`
	Problem string `json:"problem,omitempty"`
}

// Counter gets every call of the service, also a rejected one. It is called by many
// goroutines and must be quick.
type Counter interface{ Count(call Counted) }

// Counted is the call that a Counter gets.
type Counted struct {
	At      time.Time
	Surface command.Surface
	Action  string // the operationId of the call in the OpenAPI document, or a finer name
	Client  string // the label of the User-Agent, one of a fixed set
	// Sender is the fingerprint of the client's address; "" if the node has no key yet, and
	// for the operator's own agents. The counter must not keep it.
	Sender string
}
