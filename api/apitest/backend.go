// Package apitest serves the real interface over the real state machine in one
// process, without consensus: a Backend that applies commands directly, a server
// on a loopback port, and a client that checks every answer against the OpenAPI
// document. It has what tests of several surfaces share.
package apitest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// Epoch is the instant of the first command of every Backend, in milliseconds
// since the epoch. Every further command is Tick later.
const (
	Epoch = 1_767_225_600_000 // 2026-01-01T00:00:00Z
	Tick  = 1000
)

// Backend is an op.Backend over a state machine of its own. The fields may be
// set before the server starts; the methods may be called from any goroutine.
type Backend struct {
	// Machine is the state.
	Machine *fsm.Machine
	// Reject, where it returns an error, keeps a command from being applied. It may
	// apply others before it.
	Reject func(from command.Sender, payload command.Payload) error
	// Lost, where it returns an error, is returned although the command was applied.
	Lost func(payload command.Payload) error
	// Verify replaces VerifyReceiver. nil means that every receiver passes.
	Verify func(agent, notifyURL string) error
	// ReadIndexErr is the error of ReadIndex, and ReadAhead the distance of its index from the
	// applied one.
	ReadIndexErr error
	ReadAhead    uint64
	// OnReadIndex, where there is one, is called by ReadIndex first.
	OnReadIndex func()
	// Behind makes every wait for an index fail at once.
	Behind bool
	// Stale is the result of StaleFor.
	Stale time.Duration
	// Joining is the result of Joined. nil means that the node is part of a cluster.
	Joining chan struct{}
	// CatchingUp is the result of CaughtUp. nil means that the node has caught up.
	CatchingUp chan struct{}
	// Ready is the result of Checks; by default one check that passes.
	Ready []op.Check
	// Ahead is added to the stamps of further commands.
	Ahead time.Duration
	// Panic makes every method panic that does more than read the state.
	Panic bool

	watchers atomic.Int64

	mu      sync.Mutex
	index   uint64
	seq     uint64
	result  command.Result
	Senders []command.Sender // of the commands proposed, under mu
}

var _ op.Backend = (*Backend)(nil)

// boot is the boot id of every Backend.
var boot = command.BootID{0xa9}

// NewBackend opens an empty state in memory that is closed when the test ends.
func NewBackend(tb testing.TB) *Backend {
	tb.Helper()
	b := &Backend{Ready: []op.Check{{Name: "leader", OK: true, Detail: "node-a leads"}}}
	b.Machine = must.Get(fsm.Open(fsm.Options{Dir: "state", FS: fsmtest.Memory(), Observer: b}))(tb)
	tb.Cleanup(func() { check.Err(tb, b.Machine.Close(), nil, "close the state") })
	b.apply(&command.Init{ClusterID: "test", SealedDataKey: []byte("sealed")})
	return b
}

// Applied implements fsm.Observer.
func (b *Backend) Applied(_ command.BootID, _ uint64, r command.Result, _ uint64) { b.result = r }

// Apply carries a command out and returns its result and its index.
func (b *Backend) Apply(payload command.Payload) (command.Result, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.apply(payload)
}

func (b *Backend) apply(payload command.Payload) (command.Result, uint64) {
	b.seq++
	b.index++
	stamp := int64(Epoch+Tick*b.seq) + b.Ahead.Milliseconds()
	data, err := command.EncodeBatch(command.Batch{Stamp: stamp, Groups: []command.Group{
		{Boot: boot, Floor: b.seq, Commands: []command.Command{{Seq: b.seq, Payload: payload}}},
	}})
	if err != nil {
		panic(err) //nolint:forbidigo // a command that the rules let pass and the log rejects
	}
	b.Machine.Apply(b.index, 1, data)
	return b.result, b.index
}

// Propose implements op.Backend.
func (b *Backend) Propose(_ context.Context, from command.Sender, payload command.Payload) (command.Result, uint64, error) {
	b.mayPanic()
	b.mu.Lock()
	b.Senders = append(b.Senders, from)
	b.mu.Unlock()
	if b.Reject != nil {
		if err := b.Reject(from, payload); err != nil {
			return command.Result{}, 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	result, index := b.apply(payload)
	if b.Lost != nil {
		if err := b.Lost(payload); err != nil {
			return command.Result{}, 0, err
		}
	}
	return result, index, nil
}

// LastSender is the sender of the newest command proposed.
func (b *Backend) LastSender() command.Sender {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.Senders) == 0 {
		return command.Sender{}
	}
	return b.Senders[len(b.Senders)-1]
}

// View implements op.Backend.
func (b *Backend) View() *view.View { return b.Machine.View() }

// WaitIndex implements op.Backend.
func (b *Backend) WaitIndex(ctx context.Context, index uint64) error {
	b.mayPanic()
	if err := b.Machine.Wait(ctx, index); err != nil || b.Behind {
		return &command.Unavailable{Code: command.CodeBehind, Reason: "the index was not applied in time"}
	}
	return nil
}

// WebhookSecret implements op.Backend.
func (b *Backend) WebhookSecret(salt string) string {
	secret := sha256.Sum256([]byte(salt))
	return op.WebhookSecretPrefix + base64.StdEncoding.EncodeToString(secret[:])
}

// VerifyReceiver implements op.Backend.
func (b *Backend) VerifyReceiver(_ context.Context, _ command.Sender, agent, notifyURL string) error {
	if b.Verify == nil {
		return nil
	}
	return b.Verify(agent, notifyURL)
}

// Watch implements op.Backend.
func (b *Backend) Watch(keys ...string) (wake <-chan struct{}, stop func()) {
	b.mayPanic()
	return b.counted(b.Machine.Watch(keys...))
}

// WatchJobs implements op.Backend.
func (b *Backend) WatchJobs() (wake <-chan struct{}, pass, stop func()) {
	wake, pass, end := b.Machine.WatchJobs()
	wake, stop = b.counted(wake, end)
	return wake, pass, stop
}

// WatchEvents implements op.Backend.
func (b *Backend) WatchEvents() (wake <-chan struct{}, stop func()) {
	return b.counted(b.Machine.WatchEvents())
}

func (b *Backend) counted(wake <-chan struct{}, end func()) (_ <-chan struct{}, stop func()) {
	b.watchers.Add(1)
	return wake, func() {
		b.watchers.Add(-1)
		end()
	}
}

// Watchers returns how many calls of Watch and WatchEvents have not ended.
func (b *Backend) Watchers() int { return int(b.watchers.Load()) }

// ReadIndex implements op.Backend.
func (b *Backend) ReadIndex(context.Context) (uint64, error) {
	if b.OnReadIndex != nil {
		b.OnReadIndex()
	}
	return b.Machine.Applied() + b.ReadAhead, b.ReadIndexErr
}

// Fingerprint implements op.Backend.
func (*Backend) Fingerprint(addr netip.Addr) string {
	bits := 128
	if addr.Is6() {
		bits = 64
	}
	if prefix, err := addr.Prefix(min(bits, addr.BitLen())); err == nil {
		addr = prefix.Addr()
	}
	sum := sha256.Sum256(addr.AsSlice())
	const shown = 8
	return hex.EncodeToString(sum[:shown])
}

// Joined implements op.Backend.
func (b *Backend) Joined() <-chan struct{} { return orClosed(b.Joining) }

// CaughtUp implements op.Backend.
func (b *Backend) CaughtUp() <-chan struct{} { return orClosed(b.CatchingUp) }

func orClosed(c chan struct{}) <-chan struct{} {
	if c == nil {
		c = make(chan struct{})
		close(c)
	}
	return c
}

// StaleFor implements op.Backend.
func (b *Backend) StaleFor() time.Duration { return b.Stale }

// NodeName implements op.Backend.
func (*Backend) NodeName() string { return "node-a" }

// Process implements op.Backend.
func (*Backend) Process() string { return "process-a" }

// Status implements op.Backend.
func (b *Backend) Status() op.Status {
	b.mayPanic()
	return op.Status{Role: "leader", Voter: true, Ready: true, AppliedIndex: b.Machine.Applied()}
}

// Cluster implements op.Backend: a leader, and a node that is away.
func (b *Backend) Cluster(context.Context) wire.Cluster {
	const hour = 3_600_000
	return wire.Cluster{
		Leader: b.NodeName(),
		Nodes: []wire.ClusterNode{
			{
				Name: b.NodeName(), Role: "leader", Voter: true, Health: wire.NodeWell, Term: 3, AppliedIndex: b.Machine.Applied(), UptimeMillis: hour / 2,
			},
			{Name: "node-b", Voter: true, Health: wire.NodeAway},
		},
		Elections: []wire.Election{{At: Epoch, Leader: b.NodeName(), Term: 3}},
	}
}

// Purges implements op.Disks: every purge is pending on the only disk.
func (b *Backend) Purges(_ context.Context, view *view.View) (p op.Purges, err error) {
	err = view.Purges(0, func(f state.Purge) error {
		p.Purged, p.RemovedSince = f.Number, time.UnixMilli(f.Since).UTC().Format(time.RFC3339)
		return nil
	})
	p.Servers = []op.PurgeDisk{{ID: "node-a-secret", Part: "voter", Pending: p.Purged}}
	return p, err
}

// Measured implements op.Overview.
func (*Backend) Measured() wire.Measured {
	const part, parts = 30_000, 120
	m := wire.Measured{PartMillis: part, Writes: make([]wire.Point, parts), Reads: make([]wire.Point, parts)}
	m.Writes[parts-9], m.Writes[parts-1] = wire.Point{Count: 1, MeanMillis: 2, MostMillis: 2}, wire.Point{Count: 3, MeanMillis: 4, MostMillis: 5}
	now := time.Now().UnixMilli()
	m.Outages = []wire.Outage{{From: now - part}, {From: now - 20*part, To: now - 10*part}}
	for i := range parts {
		m.Reads[i] = wire.Point{Count: uint64(i), MeanMillis: 1, MostMillis: 3}
	}
	return m
}

// Checks implements op.Backend.
func (b *Backend) Checks() []op.Check {
	b.mayPanic()
	return b.Ready
}

func (b *Backend) mayPanic() {
	if b.Panic {
		panic("backend") //nolint:forbidigo // what the server must survive
	}
}

// Ledger is a Counter that records its calls.
type Ledger struct {
	Mu    sync.Mutex
	Calls []op.Counted
}

// Count notes a call.
func (l *Ledger) Count(c op.Counted) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Calls = append(l.Calls, c)
}
