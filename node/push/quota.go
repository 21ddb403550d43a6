package push

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// VerificationsPerHour bounds the verifications of a sender in any hour.
	VerificationsPerHour = 10
	// HostVerificationsPerHour bounds those of a host in any hour. Its senders share them: a
	// sender is admitted only while hostShare times its use is below the rest, so that senders
	// who use much leave some to all others.
	HostVerificationsPerHour = 100
	hostShare                = 10

	// maxQuotaKeys bounds the hosts and the senders that each have their own allowance.
	// Above it the new ones are spread over sharedQuotas allowances. These are many, and
	// clients cannot see who shares which one, so that a client that uses some up does
	// not shut out all others.
	maxQuotaKeys = 1 << 14
	sharedQuotas = 1 << 16

	quotaWindow = time.Hour
	quotaSweep  = time.Minute // the minimum time between two searches for expired allowances
)

// Quota admits verifications by host and by sender. It lives in the memory of
// the leader: a new one starts anew.
type Quota struct {
	now   func() time.Time
	since time.Time // instants are times since then, by the monotonic clock: the other one may be set

	mu      sync.Mutex
	hosts   quotaTable
	senders quotaTable
}

// NewQuota returns a quota by the given clock.
func NewQuota(now func() time.Time) *Quota {
	return &Quota{now: now, since: now(), hosts: newQuotaTable(), senders: newQuotaTable()}
}

// Admit counts one verification. If the sender has used its share, of all or of those of the
// host, it does not count it and returns how long to wait, and whether several hosts or senders
// share the allowance that is used up.
func (q *Quota) Admit(host, sender string) (wait time.Duration, shared bool) {
	now := int64(q.now().Sub(q.since))
	q.mu.Lock()
	defer q.mu.Unlock()
	by := maphash.String(q.hosts.seed, sender)
	wait, shared = q.hosts.wait(host, now, func(checks []check) bool {
		its := 0
		for _, c := range checks {
			if c.by == by {
				its++
			}
		}
		return hostShare*its < HostVerificationsPerHour-len(checks)
	})
	w, s := q.senders.wait(sender, now, func(checks []check) bool { return len(checks) < VerificationsPerHour })
	if w > wait {
		wait, shared = w, s
	}
	if wait == 0 {
		q.hosts.count(host, check{now, by})
		q.senders.count(sender, check{now, by})
	}
	return wait, shared
}

// check is a verification that was admitted.
type check struct {
	at int64  // nanoseconds
	by uint64 // hash of the sender
}

// quotaTable holds the allowances of hosts or of senders: the last hour's
// verifications, oldest first.
type quotaTable struct {
	own    map[string][]check
	shared map[uint64][]check // by hash of the key
	seed   maphash.Seed
	swept  int64
}

func newQuotaTable() quotaTable {
	return quotaTable{own: make(map[string][]check), shared: make(map[uint64][]check), seed: maphash.MakeSeed()}
}

// wait returns the time until there is room for one more verification of a key, or 0.
func (t *quotaTable) wait(key string, now int64, room func(checks []check) bool) (wait time.Duration, shared bool) {
	bucket, shared := t.find(key, now)
	checks := t.own[key]
	if shared {
		checks = t.shared[bucket]
	}
	for checks = lastHour(checks, now); !room(checks); checks = checks[1:] {
		wait = time.Duration(checks[0].at-now) + quotaWindow
	}
	return wait, shared && wait > 0
}

func (t *quotaTable) count(key string, c check) {
	if bucket, shared := t.find(key, c.at); shared {
		t.shared[bucket] = append(lastHour(t.shared[bucket], c.at), c)
	} else {
		t.own[key] = append(lastHour(t.own[key], c.at), c)
	}
}

// find returns the shared allowance of a key, and whether the key uses it. A key that may have
// used it in the last hour does not get its own yet.
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

// sweep forgets the allowances without a verification in the last hour.
func (t *quotaTable) sweep(now int64) {
	if now-t.swept < int64(quotaSweep) {
		return
	}
	t.swept = now
	maps.DeleteFunc(t.own, func(_ string, checks []check) bool { return len(lastHour(checks, now)) == 0 })
	maps.DeleteFunc(t.shared, func(_ uint64, checks []check) bool { return len(lastHour(checks, now)) == 0 })
}

// lastHour returns the checks that are not older than the window.
func lastHour(checks []check, now int64) []check {
	first := slices.IndexFunc(checks, func(c check) bool { return now-c.at < int64(quotaWindow) })
	if first < 0 {
		return nil
	}
	return checks[first:]
}
