package push_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/push"
)

// TestQuota holds that no host and no sender ever has more than its share in any
// hour, and that whoever waits as long as it was told to is admitted.
func TestQuota(t *testing.T) {
	type pair struct{ host, sender string }
	type check struct {
		pair
		at time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		quota := push.NewQuota(func() time.Time { return now })
		var admitted []check
		count := func(of func(pair) bool) (n int) {
			for _, c := range admitted {
				if of(c.pair) && now.Sub(c.at) < time.Hour {
					n++
				}
			}
			return n
		}
		senders := rapid.SampledFrom([]int{2, 40}).Draw(t, "senders")
		for range rapid.IntRange(1, 300).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 20, 600}).Draw(t, "seconds")) * time.Second)
			p := pair{
				"host " + strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "host")),
				"sender " + strconv.Itoa(rapid.IntRange(0, senders).Draw(t, "sender")),
			}
			host, sender, both := count(func(q pair) bool { return q.host == p.host }),
				count(func(q pair) bool { return q.sender == p.sender }), count(func(q pair) bool { return q == p })
			full := sender >= 10 || 10*both >= 100-host
			wait, shared := quota.Admit(p.host, p.sender)
			if (wait > 0) != full || shared {
				t.Fatalf("wait %v, shared %v, with %d of the host, %d of the sender and %d of both in the last hour", wait, shared, host, sender, both)
			}
			if wait > 0 {
				now = now.Add(wait)
				if again, _ := quota.Admit(p.host, p.sender); again > 0 {
					t.Fatalf("told to wait %v and then %v more", wait, again)
				}
			}
			admitted = append(admitted, check{p, now})
		}
	})
}

// TestSharedHost holds that a few senders with as many checks as possible do not shut the
// others out of a host.
func TestSharedHost(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	quota := push.NewQuota(func() time.Time { return now })
	admit := func(sender string, most int) (n int) {
		for range most {
			if wait, _ := quota.Admit("hooks.example", sender); wait == 0 {
				n++
			}
		}
		return n
	}
	check.Equal(t, admit("greedy 0", 20), push.VerificationsPerHour, "checks of a sender alone")
	for i := range 9 {
		admit("greedy "+strconv.Itoa(i+1), 20)
	}
	for i := range 20 {
		check.Equal(t, admit("honest "+strconv.Itoa(i), 1), 1, "sender %d was shut out", i)
	}
	used := 0
	for i := range 300 {
		used += admit("flood "+strconv.Itoa(i), 1)
	}
	if used == 0 || used >= push.HostVerificationsPerHour {
		t.Errorf("the host was asked %d times more", used)
	}
}

// TestQuotaIsBounded holds that more keys than have their own allowances share some, that no
// key has more than its share, and that a key that uses one up does not shut out the others.
func TestQuotaIsBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	quota := push.NewQuota(func() time.Time { return now })
	name := func(what string, i int) string { return what + strconv.Itoa(i) }
	// few is far more than ever share the one allowance that is used up.
	const few = 10
	many := func(what string, n, most int) {
		t.Helper()
		rejected := 0
		for i := range n {
			if wait, _ := quota.Admit(name(what+" host ", i), name(what+" sender ", i)); wait > 0 {
				rejected++
			}
		}
		if rejected > most {
			t.Fatalf("%s: %d of %d rejected, want %d at most", what, rejected, n, most)
		}
	}
	many("early", push.MaxQuotaKeys, 0)
	for i := range 3 * push.HostVerificationsPerHour {
		wait, shared := quota.Admit("greedy host", name("greedy sender ", i))
		if full := i >= push.HostVerificationsPerHour; (wait > 0) != full || shared != full {
			t.Errorf("check %d of a host that is not remembered: wait %v, shared %v", i, wait, shared)
		}
	}
	many("late", 5000, few)
	if wait, shared := quota.Admit("early host 0", "early sender 0"); wait > 0 {
		t.Errorf("a host that is remembered: wait %v, shared %v", wait, shared)
	}
	for i := range 2 * push.SharedQuotas {
		quota.Admit(name("flood host ", i), name("flood sender ", i))
	}
	if most := push.MaxQuotaKeys + push.SharedQuotas; quota.Hosts() > most || quota.Senders() > most {
		t.Errorf("%d hosts and %d senders are remembered, at most %d should be", quota.Hosts(), quota.Senders(), most)
	}
	now = now.Add(time.Hour)
	many("new", push.MaxQuotaKeys, 0)
	check.Equal(t, quota.Hosts(), push.MaxQuotaKeys, "hosts that are remembered after an hour")
}

// TestQuotaMovesNobody holds that a host has one share in any hour, too, when there
// comes to be room to remember it in the middle of it.
func TestQuotaMovesNobody(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	quota := push.NewQuota(func() time.Time { return now })
	for i := range push.MaxQuotaKeys {
		quota.Admit("host "+strconv.Itoa(i), "sender "+strconv.Itoa(i))
	}
	now = now.Add(time.Hour - time.Second)
	for i := range push.HostVerificationsPerHour {
		quota.Admit("late host", "late sender "+strconv.Itoa(i))
	}
	now = now.Add(2 * time.Second)
	quota.Admit("another host", "another sender") // forgets the early ones
	if wait, shared := quota.Admit("late host", "yet another sender"); wait == 0 || !shared {
		t.Errorf("wait %v, shared %v", wait, shared)
	}
}
