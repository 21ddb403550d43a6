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
	// MaxBuckets bounds the keys of each of the tables that have a bucket of
	// their own. Those beyond it share sharedBuckets until idle ones have
	// been swept: many, and nobody outside can see who shares which, so that whoever
	// fills the table does not shut all others out.
	MaxBuckets    = 1 << 16
	sharedBuckets = 1 << 14
)

// nameShare is how many senders' allowance all writes without the key have under one
// name together.
const nameShare = 8

// Limiter admits writes by sender fingerprint and by agent name. Writes by key have
// buckets of their own, so that nobody else's writes drain them, neither those under
// the same name nor those from the same address. A sender's bucket is as small as one
// for each of its names would be: those under a name share one that is larger.
type Limiter struct {
	now func() time.Time

	mu             sync.Mutex
	senders, names table
	keyed          struct{ senders, names table } // of writes by key
}

// New returns a limiter that admits perMinute writes a minute with the given
// burst, for each sender and for each agent. Both are positive.
func New(perMinute float64, burst int, now func() time.Time) *Limiter {
	l := &Limiter{now: now, senders: newTable(perMinute, burst), names: newTable(perMinute*nameShare, burst*nameShare)}
	l.keyed.senders, l.keyed.names = newTable(perMinute, burst), newTable(perMinute, burst)
	return l
}

// Admit takes one write from the sender's and from the agent's bucket. When
// either is empty it takes nothing and returns how long to wait.
func (l *Limiter) Admit(from command.Sender, standing command.Standing) (bool, time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	senders, names := &l.senders, &l.names
	if standing.Strength == command.ByKey {
		senders, names = &l.keyed.senders, &l.keyed.names
	}
	// The agent's bucket is made only for a sender that has a token left, so
	// one sender cannot fill the table with names.
	sender := senders.bucket(from.Fingerprint, now)
	if wait := delay(sender, now); wait > 0 {
		return false, wait
	}
	if from.AgentKey != "" && len(standing.Problems()) == 0 { // a refusal is the sender's alone
		name := names.bucket(from.AgentKey, now)
		if wait := delay(name, now); wait > 0 {
			return false, wait
		}
		name.AllowN(now, 1)
	}
	sender.AllowN(now, 1)
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
