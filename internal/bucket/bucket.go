// Package bucket holds token buckets by key, in bounded memory.
package bucket

import (
	"hash/maphash"
	"maps"
	"time"

	"golang.org/x/time/rate"
)

// sweepPause is the minimum time between two sweeps, which look at every bucket.
const sweepPause = time.Second

// Table holds the buckets of keys. When it is full, further keys share buckets until idle ones have
// been swept. There are many shared buckets, and clients cannot see which keys share one, so a
// client that fills the table does not shut out all others. The owner of the table locks it.
type Table[K comparable] struct {
	limit rate.Limit
	burst int
	most  int
	times int // limit and burst of a shared bucket, in those of a key
	own   map[K]*rate.Limiter
	share []*rate.Limiter // by hash of the key; nil means a full bucket
	seed  maphash.Seed
	swept time.Time
}

// New returns a table of buckets with a limit and a burst, for at most so many keys. All further keys
// share a number of buckets, each of which has the limit and the burst so many times.
func New[K comparable](limit rate.Limit, burst, most, shared, times int) *Table[K] {
	return &Table[K]{
		limit: limit, burst: burst, most: most, times: times,
		own: make(map[K]*rate.Limiter), share: make([]*rate.Limiter, shared), seed: maphash.MakeSeed(),
	}
}

// Of returns the bucket of a key, or the shared bucket of its hash if the table is full.
func (t *Table[K]) Of(key K, now time.Time) *rate.Limiter {
	if b, known := t.own[key]; known {
		return b
	}
	if len(t.own) >= t.most && now.Sub(t.swept) >= sweepPause {
		t.swept = now
		// A bucket that is full again is the same as a new one.
		maps.DeleteFunc(t.own, func(_ K, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(t.burst) })
	}
	if len(t.own) < t.most {
		b := rate.NewLimiter(t.limit, t.burst)
		t.own[key] = b
		return b
	}
	place := &t.share[maphash.Comparable(t.seed, key)%uint64(len(t.share))]
	if *place == nil {
		*place = rate.NewLimiter(t.limit*rate.Limit(t.times), t.burst*t.times)
	}
	return *place
}

// Len returns the number of keys with a bucket of their own.
func (t *Table[K]) Len() int { return len(t.own) }
