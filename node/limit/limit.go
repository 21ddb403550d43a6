// Package limit holds the token buckets of the write limits. They live on the
// leader, where all writes meet, so that driving several nodes at once admits no
// more than driving one. They are not replicated: a new leader starts with full
// buckets.
package limit

import (
	"hash/maphash"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// MaxBuckets bounds the keys that have their own bucket, in each of the tables.
	// Further keys share sharedBuckets until idle buckets have been swept. These are
	// many, and clients cannot see who shares which one, so that a client that fills
	// the table does not shut out all others.
	MaxBuckets    = 1 << 16
	sharedBuckets = 1 << 14
)

// nameShare is how many times one sender's allowance all writes without the key have
// together under one name.
const nameShare = 8

// Limiter admits writes by sender fingerprint, by the network that it is a part of, and
// by agent name. Writes by key have separate buckets, which writes without a key never
// drain, neither under the same name nor from the same address; writes by other keys
// from that address do. Writes by the key of an established name have a third set of
// buckets: it takes time to get such a name, so new keys drain none of them. A sender's
// bucket is as small as that of one name with a key; all writes without a key under one
// name share a bucket nameShare times as large.
type Limiter struct {
	now func() time.Time

	mu                        sync.Mutex
	established, keyed, other buckets
}

// buckets are the buckets of one kind of writes: by the keys of established names, by
// other keys, or all others.
type buckets struct{ senders, networks, names table }

func newBuckets(perMinute float64, burst, networks, names int) buckets {
	times := func(n int) table { return newTable(perMinute*float64(n), burst*n) }
	return buckets{times(1), times(networks), times(names)}
}

// New returns a limiter that admits perMinute writes a minute with the given
// burst, for each sender and for each agent. Both are positive.
func New(perMinute float64, burst int, now func() time.Time) *Limiter {
	return &Limiter{
		now:         now,
		established: newBuckets(perMinute, burst, command.EstablishedShare*command.NetworkShare, 1),
		keyed:       newBuckets(perMinute, burst, command.NetworkShare, 1),
		other:       newBuckets(perMinute, burst, command.NetworkShare, nameShare),
	}
}

// Admit takes one write from the sender's, its network's and the agent's bucket. When
// one is empty it takes nothing and returns how long to wait.
func (l *Limiter) Admit(from command.Sender, standing command.Standing) (bool, time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	b := &l.other
	switch {
	case standing.Established:
		b = &l.established
	case standing.Strength == command.ByKey:
		b = &l.keyed
	}
	name := from.AgentKey
	if len(standing.Problems()) > 0 {
		name = "" // a rejection is the sender's alone
	}
	var full []*rate.Limiter
	// The agent's bucket is made only for a sender that has a token left, so one sender
	// cannot fill the table with names.
	for _, of := range []struct {
		table *table
		key   string
	}{{&b.senders, from.Fingerprint}, {&b.networks, command.NetworkOf(from.Fingerprint)}, {&b.names, name}} {
		if of.key == "" {
			continue
		}
		bucket := of.table.bucket(of.key, now)
		if wait := delay(bucket, now); wait > 0 {
			return false, wait
		}
		full = append(full, bucket)
	}
	for _, bucket := range full {
		bucket.AllowN(now, 1)
	}
	return true, 0
}

// delay returns how long the bucket needs to hold a whole token.
func delay(b *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - b.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(b.Limit()) * float64(time.Second))
}

// table is a bounded map of buckets.
type table struct {
	limit   rate.Limit
	burst   int
	buckets map[string]*rate.Limiter
	shared  []*rate.Limiter // by hash of the key; nil: full
	seed    maphash.Seed
	swept   time.Time
}

func newTable(perMinute float64, burst int) table {
	limit := rate.Limit(perMinute / 60)
	return table{
		limit: limit, burst: burst,
		buckets: make(map[string]*rate.Limiter),
		shared:  make([]*rate.Limiter, sharedBuckets),
		seed:    maphash.MakeSeed(),
	}
}

func (t *table) bucket(key string, now time.Time) *rate.Limiter {
	if b, ok := t.buckets[key]; ok {
		return b
	}
	if len(t.buckets) >= MaxBuckets {
		t.sweep(now)
	}
	b := rate.NewLimiter(t.limit, t.burst)
	if len(t.buckets) < MaxBuckets {
		t.buckets[key] = b
		return b
	}
	place := &t.shared[maphash.String(t.seed, key)%sharedBuckets]
	if *place == nil {
		*place = b
	}
	return *place
}

// sweep drops the buckets that are full again: a new one is no different. It
// runs at most once in the time that an empty bucket needs to fill.
func (t *table) sweep(now time.Time) {
	fill := time.Duration(float64(t.burst) / float64(t.limit) * float64(time.Second))
	if now.Sub(t.swept) < fill {
		return
	}
	t.swept = now
	for key, b := range t.buckets {
		if b.TokensAt(now) >= float64(t.burst) {
			delete(t.buckets, key)
		}
	}
}
