package push

import (
	"slices"
	"sync"
	"time"
)

const (
	// VerificationsPerHour is how often a host may be asked, and a sender may have
	// somebody asked, in any hour.
	VerificationsPerHour = 10
	// maxQuotaKeys bounds the hosts and the senders that are remembered. Above it
	// the new ones share one allowance.
	maxQuotaKeys = 1 << 14

	quotaWindow = time.Hour
)

// Quota admits verifications by host and by sender. It lives in the memory of
// the leader: a new one starts anew.
type Quota struct {
	now func() time.Time

	mu      sync.Mutex
	hosts   recent
	senders recent
}

// NewQuota returns a quota by the given clock.
func NewQuota(now func() time.Time) *Quota {
	return &Quota{now: now, hosts: recent{}, senders: recent{}}
}

// Admit counts one verification. When the host or the sender has had its share
// it counts nothing and returns how long to wait.
func (q *Quota) Admit(host, sender string) (wait time.Duration) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	host, sender = q.hosts.key(host, now), q.senders.key(sender, now)
	if wait = max(q.hosts.wait(host, now), q.senders.wait(sender, now)); wait > 0 {
		return wait
	}
	q.hosts[host] = append(q.hosts[host], now)
	q.senders[sender] = append(q.senders[sender], now)
	return 0
}

// recent are the times of the last hour's verifications, oldest first, by key.
type recent map[string][]time.Time

// key returns the key under which times are kept: beyond maxQuotaKeys one for all.
func (r recent) key(key string, now time.Time) string {
	if _, known := r[key]; known || len(r) < maxQuotaKeys {
		return key
	}
	for k, times := range r {
		if now.Sub(times[len(times)-1]) >= quotaWindow {
			delete(r, k)
		}
	}
	if len(r) < maxQuotaKeys {
		return key
	}
	return ""
}

// wait drops what is older than the window and returns how long to wait.
func (r recent) wait(key string, now time.Time) time.Duration {
	times := r[key]
	first := slices.IndexFunc(times, func(at time.Time) bool { return now.Sub(at) < quotaWindow })
	switch {
	case len(times) == 0:
		return 0
	case first < 0:
		delete(r, key)
		return 0
	}
	times = slices.Delete(times, 0, first)
	r[key] = times
	if len(times) < VerificationsPerHour {
		return 0
	}
	return times[0].Add(quotaWindow).Sub(now)
}
