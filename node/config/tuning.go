package config

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/propose"
)

// Defaults of Tuning.
const (
	defaultSnapshotBytes     = 64 << 20
	defaultTrailingBytes     = 32 << 20
	defaultReconcileInterval = time.Second
	defaultStableFor         = 3 * time.Second
	defaultGoneFor           = 10 * time.Second
	defaultHandoverTimeout   = 5 * time.Second
	defaultProbeInterval     = time.Second
	defaultUsageInterval     = 5 * time.Second
)

// Tuning holds sizes and intervals that are constants of the product and that
// only tests change. The zero value of a field is its default.
type Tuning struct {
	// SnapshotBytes of log since the last snapshot start the next one.
	SnapshotBytes int64
	// TrailingBytes of log stay behind a snapshot, for followers that lag a little.
	TrailingBytes int64
	membership.Timing
	// ProbeInterval is how often gossip looks after each member.
	ProbeInterval time.Duration
	// UsageInterval is how often the node folds its count of calls into the log.
	UsageInterval time.Duration
	// Resolver looks up the names of receivers. Nil is the system's.
	Resolver *net.Resolver
	// AroundWrite runs each transaction of the log, and each write of the state,
	// which has to be made. An error is that of the transaction. Nil just runs it.
	AroundWrite func(what string, do func() error) error
	// Clock is the node's own clock. Nil is the system's, shifted by ClockOffset.
	Clock propose.Clock
	// DiskSpace returns the free bytes and the size of the disk. Nil asks the system.
	DiskSpace func() (free, size uint64, err error)
	// Format is the newest format that the node is to know.
	Format int
	// Link reports whether messages to (outbound) or from another server's
	// private port pass. Nil lets all pass.
	Link func(serverID string, outbound bool) bool
}

// WithDefaults returns t with every zero field set.
func (t Tuning) WithDefaults() Tuning {
	setDefault(&t.SnapshotBytes, defaultSnapshotBytes)
	setDefault(&t.TrailingBytes, defaultTrailingBytes)
	setDefault(&t.ReconcileInterval, defaultReconcileInterval)
	setDefault(&t.StableFor, defaultStableFor)
	setDefault(&t.GoneFor, defaultGoneFor)
	setDefault(&t.HandoverTimeout, defaultHandoverTimeout)
	setDefault(&t.ProbeInterval, defaultProbeInterval)
	setDefault(&t.Format, command.MaxFormat)
	setDefault(&t.UsageInterval, defaultUsageInterval)
	return t
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Clock returns the node's own clock.
func (c Config) Clock() propose.Clock {
	if c.Tuning.Clock != nil {
		return c.Tuning.Clock
	}
	return propose.WallClock(c.ClockOffset)
}

// Gate returns what the private port calls for incoming connections; nil lets all pass.
func (t Tuning) Gate() func(serverID string) bool {
	if t.Link == nil {
		return nil
	}
	return func(id string) bool { return t.Link(id, false) }
}

// Dialer returns what the private port dials with; nil is its own.
func (t Tuning) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if t.Link == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if id := cluster.DialTarget(ctx); !t.Link(id, true) {
			return nil, fmt.Errorf("the link to %s is cut", id)
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}
