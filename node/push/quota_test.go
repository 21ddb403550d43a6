package push_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/node/push"
)

// TestQuota holds that no host and no sender ever has more than its share in any
// hour, and that whoever waits as long as it was told to is admitted.
func TestQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		quota := push.NewQuota(func() time.Time { return now })
		admitted := map[string][]time.Time{}
		within := func(key string) (n int) {
			for _, at := range admitted[key] {
				if now.Sub(at) < time.Hour {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
			host := "host " + strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "host"))
			sender := "sender " + strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "sender"))
			full := within(host) >= push.VerificationsPerHour || within(sender) >= push.VerificationsPerHour
			wait, shared := quota.Admit(host, sender)
			if (wait > 0) != full || shared {
				t.Fatalf("wait %v, shared %v, with %d of the host and %d of the sender in the last hour", wait, shared, within(host), within(sender))
			}
			if wait > 0 {
				now = now.Add(wait)
				if again, _ := quota.Admit(host, sender); again > 0 {
					t.Fatalf("told to wait %v and then %v more", wait, again)
				}
			}
			admitted[host] = append(admitted[host], now)
			admitted[sender] = append(admitted[sender], now)
		}
	})
}

// TestQuotaIsBounded holds that more keys than are remembered one by one share
// allowances, none has more than its share, and one that uses one up does not shut
// out the others.
func TestQuotaIsBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	quota := push.NewQuota(func() time.Time { return now })
	name := func(what string, i int) string { return what + strconv.Itoa(i) }
	// few is far more than ever share the one allowance that is used up.
	const few = 10
	many := func(what string, n, most int) {
		t.Helper()
		refused := 0
		for i := range n {
			if wait, _ := quota.Admit(name(what+" host ", i), name(what+" sender ", i)); wait > 0 {
				refused++
			}
		}
		if refused > most {
			t.Fatalf("%s: %d of %d refused, want %d at most", what, refused, n, most)
		}
	}
	many("early", push.MaxQuotaKeys, 0)
	for i := range 3 * push.VerificationsPerHour {
		wait, shared := quota.Admit("greedy host", name("greedy sender ", i))
		if full := i >= push.VerificationsPerHour; (wait > 0) != full || shared != full {
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
	if quota.Hosts() != push.MaxQuotaKeys {
		t.Errorf("after an hour %d hosts are remembered, want the %d of now", quota.Hosts(), push.MaxQuotaKeys)
	}
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
	for i := range push.VerificationsPerHour {
		quota.Admit("late host", "late sender "+strconv.Itoa(i))
	}
	now = now.Add(2 * time.Second)
	quota.Admit("another host", "another sender") // forgets the early ones
	if wait, shared := quota.Admit("late host", "yet another sender"); wait == 0 || !shared {
		t.Errorf("wait %v, shared %v", wait, shared)
	}
}
