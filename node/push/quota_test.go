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
			wait := quota.Admit(host, sender)
			if (wait > 0) != full {
				t.Fatalf("wait %v, with %d of the host and %d of the sender in the last hour", wait, within(host), within(sender))
			}
			if wait > 0 {
				now = now.Add(wait)
				if again := quota.Admit(host, sender); again > 0 {
					t.Fatalf("told to wait %v and then %v more", wait, again)
				}
			}
			admitted[host] = append(admitted[host], now)
			admitted[sender] = append(admitted[sender], now)
		}
	})
}

// TestQuotaIsBounded holds that more keys than are remembered share one allowance.
func TestQuotaIsBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	quota := push.NewQuota(func() time.Time { return now })
	waits := 0
	for i := range push.MaxQuotaKeys + 2*push.VerificationsPerHour {
		if quota.Admit("host "+strconv.Itoa(i), "sender "+strconv.Itoa(i)) > 0 {
			waits++
		}
	}
	if waits != push.VerificationsPerHour {
		t.Errorf("%d were told to wait, want %d", waits, push.VerificationsPerHour)
	}
	now = now.Add(time.Hour)
	if wait := quota.Admit("new host", "new sender"); wait > 0 {
		t.Errorf("after an hour: wait %v", wait)
	}
}
