// Package limit holds the token buckets of the write limits. They are on the leader, which
// all writes pass, so that several nodes together admit no more writes than one. They are
// not replicated: a new leader starts with full buckets.
package limit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/bucket"
)

const (
	// MaxBuckets is the most keys with a bucket of their own, in each of the tables. Further keys
	// share sharedBuckets.
	MaxBuckets    = 1 << 16
	sharedBuckets = 1 << 14
)

// MaxRefunds is the number of refunds that a sender has at once, and that it gets back in a
// minute.
const MaxRefunds = 30

// nameShare is the common allowance of all writes without the key under one name, as a
// multiple of one sender's allowance.
const nameShare = 8

// Limiter limits the writes of each sender fingerprint, of the network that it belongs to,
// and of each agent name. Writes by key have separate buckets. Writes without a key never
// drain these, neither under the same name nor from the same address; writes by other keys
// from that address do. Writes by the key of an established name have a third set of
// buckets, which new keys do not drain, because it takes time to get such a name. A sender's
// bucket is as small as that of one name with a key. All writes without a key under one name
// share a bucket nameShare times as large.
//
// When the limits change, all buckets are full.
type Limiter struct {
	limits func() (perMinute, burst int)
	now    func() time.Time

	mu                        sync.Mutex
	perMinute, burst          int // the limits of the buckets
	established, keyed, other buckets
	refunds                   buckets // their tokens are the refunds that are left; names are not used
}

// buckets holds the buckets of one kind of writes: by keys of established names, by other
// keys, or without a key.
type buckets struct{ senders, networks, names *bucket.Table[string] }

func newBuckets(perMinute float64, burst, networks, names int) buckets {
	times := func(n int) *bucket.Table[string] {
		return bucket.New[string](rate.Limit(perMinute*float64(n)/60), burst*n, MaxBuckets, sharedBuckets, 1)
	}
	return buckets{times(1), times(networks), times(names)}
}

// New returns a limiter with the current limits for each sender and for each agent:
// perMinute writes a minute, and burst at once. If one of the two is 0, it admits every
// write.
func New(limits func() (perMinute, burst int), now func() time.Time) *Limiter {
	return &Limiter{limits: limits, now: now, refunds: newBuckets(MaxRefunds, MaxRefunds, command.NetworkShare, 1)}
}

// follow replaces the buckets if the limits have changed, and reports whether writes are
// limited. The lock is held.
func (l *Limiter) follow(perMinute, burst int) bool {
	if perMinute == 0 || burst == 0 {
		return false
	}
	if perMinute != l.perMinute || burst != l.burst {
		rate := float64(perMinute)
		l.perMinute, l.burst = perMinute, burst
		l.established = newBuckets(rate, burst, command.EstablishedShare*command.NetworkShare, 1)
		l.keyed = newBuckets(rate, burst, command.NetworkShare, 1)
		l.other = newBuckets(rate, burst, command.NetworkShare, nameShare)
	}
	return true
}

// Admit takes one write from the sender's, its network's and the agent's bucket. If one is
// empty, Admit leaves all as they are and returns how long to wait.
func (l *Limiter) Admit(from command.Sender, standing command.Standing) (bool, time.Duration) {
	now := l.now()
	perMinute, burst := l.limits()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.follow(perMinute, burst) {
		return true, 0
	}
	wait := take(l.chargedFor(from, standing), now)
	return wait == 0, wait
}

// chargedFor returns the buckets that pay for a write.
func (l *Limiter) chargedFor(from command.Sender, standing command.Standing) []place {
	b := &l.other
	switch {
	case standing.Established:
		b = &l.established
	case standing.Strength == command.ByKey:
		b = &l.keyed
	}
	name := from.AgentKey
	if len(standing.Problems()) > 0 {
		name = "" // a rejected write is charged to its sender, not to the name
	}
	return []place{{b.senders, from.Fingerprint}, {b.networks, command.NetworkOf(from.Fingerprint)}, {b.names, name}}
}

// Refund gives back what Admit took for a write that had no effect, through
// no fault of its sender. A sender has MaxRefunds a minute, and its network
// command.NetworkShare times as many: further writes stay charged, because each of them
// was a log entry all the same.
func (l *Limiter) Refund(from command.Sender, standing command.Standing) {
	now := l.now()
	perMinute, burst := l.limits()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.follow(perMinute, burst) {
		return
	}
	left := []place{{l.refunds.senders, from.Fingerprint}, {l.refunds.networks, command.NetworkOf(from.Fingerprint)}}
	if take(left, now) > 0 {
		return
	}
	for _, p := range l.chargedFor(from, standing) {
		if p.key != "" {
			p.table.Of(p.key, now).AllowN(now, -1) // a bucket over its burst is cut to it when it is next used
		}
	}
}

// place is the place of a bucket. An empty key has no bucket.
type place struct {
	table *bucket.Table[string]
	key   string
}

// take takes a token from each of the buckets if all of them hold one. Otherwise it
// leaves them as they are and returns how long to wait. A bucket is only made if those before
// it hold a token, so a sender whose bucket is empty cannot fill the table of names.
func take(places []place, now time.Time) (wait time.Duration) {
	var full []*rate.Limiter
	for _, p := range places {
		if p.key == "" {
			continue
		}
		bucket := p.table.Of(p.key, now)
		// AllowN, too, ignores a wait of less than a nanosecond.
		missing := 1 - bucket.TokensAt(now)
		if wait = time.Duration(missing / float64(bucket.Limit()) * float64(time.Second)); wait > 0 {
			return wait
		}
		full = append(full, bucket)
	}
	for _, bucket := range full {
		bucket.AllowN(now, 1)
	}
	return 0
}
