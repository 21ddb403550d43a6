package push

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

const (
	// VerificationsPerHour is how often a host may be asked, and a sender may have
	// somebody asked, in any hour.
	VerificationsPerHour = 10
	// maxQuotaKeys bounds the hosts and the senders that each have an allowance of
	// their own. Above it the new ones are spread over sharedQuotas allowances: many,
	// and nobody outside can tell who shares which, so that who uses some up does
	// not shut everybody else out.
	maxQuotaKeys = 1 << 14
	sharedQuotas = 1 << 16

	quotaWindow = time.Hour
	// quotaSweep is the least time between two searches for what can be forgotten.
	quotaSweep = time.Minute
)

// Quota admits verifications by host and by sender. It lives in the memory of
// the leader: a new one starts anew.
type Quota struct {
	now func() time.Time

	mu      sync.Mutex
	hosts   quotaTable
	senders quotaTable
}

// NewQuota returns a quota by the given clock.
func NewQuota(now func() time.Time) *Quota {
	return &Quota{now: now, hosts: newQuotaTable(), senders: newQuotaTable()}
}

// Admit counts one verification. When the host or the sender has had its share
// it counts nothing and returns how long to wait, and whether that share was not
// the host's or the sender's alone.
func (q *Quota) Admit(host, sender string) (wait time.Duration, shared bool) {
	now := q.now().UnixNano()
	q.mu.Lock()
	defer q.mu.Unlock()
	wait, shared = q.hosts.wait(host, now)
	if w, s := q.senders.wait(sender, now); w > wait {
		wait, shared = w, s
	}
	if wait == 0 {
		q.hosts.count(host, now)
		q.senders.count(sender, now)
	}
	return wait, shared
}

// quotaTable holds the allowances of hosts or of senders: the instants of the last
// hour's verifications, in nanoseconds since the epoch, oldest first.
type quotaTable struct {
	own    map[string][]int64
	shared map[uint64][]int64 // by hash of the key
	seed   maphash.Seed
	swept  int64
}

func newQuotaTable() quotaTable {
	return quotaTable{own: make(map[string][]int64), shared: make(map[uint64][]int64), seed: maphash.MakeSeed()}
}

// wait returns how long to wait for the next verification of a key; 0 when it may
// be made now.
func (t *quotaTable) wait(key string, now int64) (wait time.Duration, shared bool) {
	bucket, shared := t.find(key, now)
	times := t.own[key]
	if shared {
		times = t.shared[bucket]
	}
	if times = lastHour(times, now); len(times) < VerificationsPerHour {
		return 0, false
	}
	return time.Duration(times[0]-now) + quotaWindow, shared
}

// count counts a verification of a key.
func (t *quotaTable) count(key string, now int64) {
	if bucket, shared := t.find(key, now); shared {
		t.shared[bucket] = append(lastHour(t.shared[bucket], now), now)
	} else {
		t.own[key] = append(lastHour(t.own[key], now), now)
	}
}

// find returns which allowance a key has. One that may have used a shared one in
// the last hour gets none of its own meanwhile.
func (t *quotaTable) find(key string, now int64) (bucket uint64, shared bool) {
	if _, known := t.own[key]; known {
		return 0, false
	}
	bucket = maphash.String(t.seed, key) % sharedQuotas
	if len(lastHour(t.shared[bucket], now)) > 0 {
		return bucket, true
	}
	if len(t.own) >= maxQuotaKeys {
		t.sweep(now)
	}
	return bucket, len(t.own) >= maxQuotaKeys
}

// sweep forgets the allowances that are whole again.
func (t *quotaTable) sweep(now int64) {
	if now-t.swept < int64(quotaSweep) {
		return
	}
	t.swept = now
	for key, times := range t.own {
		if len(lastHour(times, now)) == 0 {
			delete(t.own, key)
		}
	}
	for bucket, times := range t.shared {
		if len(lastHour(times, now)) == 0 {
			delete(t.shared, bucket)
		}
	}
}

// lastHour returns what is not older than the window.
func lastHour(times []int64, now int64) []int64 {
	first := slices.IndexFunc(times, func(at int64) bool { return now-at < int64(quotaWindow) })
	if first < 0 {
		return nil
	}
	return times[first:]
}
