package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// clock is a hand-moved clock.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newClock() *clock { return &clock{t: time.UnixMilli(1_700_000_000_000)} }

// always returns limits that do not change.
func always(perMinute, burst int) func() (int, int) {
	return func() (int, int) { return perMinute, burst }
}

func sender(fingerprint, agent string) command.Sender {
	return command.Sender{Fingerprint: fingerprint, AgentKey: agent}
}

// admits reports whether a limiter admits a write.
func admits(l *Limiter, from command.Sender, standing command.Standing) bool {
	ok, _ := l.Admit(from, standing)
	return ok
}

// TestLimitsChange holds that changed limits apply to the next write, and that a limit of 0
// admits all writes.
func TestLimitsChange(t *testing.T) {
	perMinute, burst := 1, 2
	l := New(func() (int, int) { return perMinute, burst }, newClock().now)
	for _, tc := range []struct{ perMinute, burst, writes, want int }{
		{1, 2, 5, 2}, {1, 3, 5, 3}, {1, 0, 5, 5}, {0, 3, 5, 5}, {1, 3, 5, 0}, {2, 3, 5, 3},
	} {
		perMinute, burst = tc.perMinute, tc.burst
		admitted := 0
		for range tc.writes {
			if admits(l, command.Sender{Fingerprint: "f"}, command.Standing{}) {
				admitted++
			}
		}
		check.Equal(t, admitted, tc.want, "%d a minute, %d at once: admitted of %d", tc.perMinute, tc.burst, tc.writes)
	}
}

func TestBurstThenRate(t *testing.T) {
	c := newClock()
	l := New(always(30, 10), c.now)
	ada := sender("f1", "ada")
	for i := range 10 {
		must.Equal(t, admits(l, ada, command.Standing{}), true, "write %d of the burst is admitted", i+1)
	}
	ok, wait := l.Admit(ada, command.Standing{})
	if ok || wait <= 0 || wait > 2*time.Second {
		t.Fatalf("after the burst: admitted=%v wait=%v, want a rejection with at most 2s", ok, wait)
	}
	c.t = c.t.Add(wait)
	if ok, again := l.Admit(ada, command.Standing{}); !ok {
		t.Fatalf("rejected after the announced wait, for another %v", again)
	}
	must.Equal(t, admits(l, ada, command.Standing{}), false, "a second write for one token is admitted")
}

// TestAnnouncedWaitIsCharged writes exactly after the announced wait, for which the bucket may lack
// less than a nanosecond: the write is admitted, and charged.
func TestAnnouncedWaitIsCharged(t *testing.T) {
	ada := command.Sender{Fingerprint: "f1"}
	for perMinute := 1; perMinute <= 100; perMinute++ {
		c := newClock()
		l := New(always(perMinute, 1), c.now)
		l.Admit(ada, command.Standing{})
		_, wait := l.Admit(ada, command.Standing{})
		c.t = c.t.Add(wait)
		ok, again := l.Admit(ada, command.Standing{})
		if free, _ := l.Admit(ada, command.Standing{}); !ok || free {
			t.Errorf("%d a minute: after the wait admitted %v (%v), and then %v", perMinute, ok, again, free)
		}
	}
}

func TestBothKeysLimit(t *testing.T) {
	tests := []struct {
		name string
		from func(i int) command.Sender
		want int
	}{
		{"one agent through many senders", func(i int) command.Sender { return sender(fmt.Sprint(i), "ada") }, 5 * nameShare},
		{"one sender with many agents", func(i int) command.Sender { return sender("f", fmt.Sprint(i)) }, 5},
		{"one network with many senders", func(i int) command.Sender {
			return command.Sender{Fingerprint: fmt.Sprint("net", command.NetworkEnd, i)}
		}, 5 * command.NetworkShare},
		{"anonymous has no name bucket", func(i int) command.Sender { return command.Sender{Fingerprint: fmt.Sprint(i)} }, 100},
	}
	const writes = 100
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New(always(1, 5), newClock().now)
			admitted := 0
			for i := range writes {
				if admits(l, tt.from(i), command.Standing{}) {
					admitted++
				}
			}
			check.Equal(t, admitted, tt.want, "admitted of %d", writes)
		})
	}
}

func TestRejectionTakesNothing(t *testing.T) {
	c := newClock()
	l := New(always(60, 1), c.now)
	for i := range nameShare {
		l.Admit(sender(fmt.Sprint("other", i), "ada"), command.Standing{})
	}
	// Ada's bucket is empty; f2 must not pay for her rejected write.
	must.Equal(t, admits(l, sender("f2", "ada"), command.Standing{}), false, "ada is admitted over her limit")
	must.Equal(t, admits(l, sender("f2", "bob"), command.Standing{}), true, "f2 has paid for no rejected write")
}

// TestOwnerIsNotDrained holds that the owner of a name's key has exactly its own allowance,
// whatever others write under the name, from any address.
func TestOwnerIsNotDrained(t *testing.T) {
	c := newClock()
	l := New(always(1, 5), c.now)
	byKey := command.Standing{Strength: command.ByKey, Registered: true}
	strangers := []command.Standing{{}, {Registered: true, Strength: command.ByAddress}, {Registered: true, WrongKey: true}}
	for i := range 1000 {
		for _, standing := range strangers {
			l.Admit(sender(fmt.Sprint(i), "ada"), standing)
			l.Admit(sender("owner", "ada"), standing) // the same address, too
		}
	}
	check.Equal(t, left(l, sender("owner", "ada"), byKey), 5, "writes by key")
	// Neither many keys of one sender nor many senders with one key have a larger allowance.
	check.Equal(t, admits(l, sender("owner", "bob"), byKey), false, "a second key gives a sender more")
	check.Equal(t, admits(l, sender("owner2", "ada"), byKey), false, "a second sender gives a key more")
}

// TestNeighboursOfEstablishedNames holds that new keys drain neither the network's nor the
// address's bucket for established names.
func TestNeighboursOfEstablishedNames(t *testing.T) {
	l := New(always(1, 5), newClock().now)
	byKey := command.Standing{Strength: command.ByKey, Registered: true}
	in := func(i int) string { return fmt.Sprint("net", command.NetworkEnd, i) }
	for i := range 100 {
		l.Admit(sender(in(i%10), fmt.Sprint("new", i)), byKey)
	}
	check.Equal(t, admits(l, sender(in(99), "another"), byKey), false, "a /48 has room for another new key")
	established := byKey
	established.Established = true
	admitted := 0
	for i := range 100 {
		if admits(l, sender(in(i%50), fmt.Sprint("old", i%25)), established) {
			admitted++
		}
	}
	check.Equal(t, admitted, 5*command.NetworkShare*command.EstablishedShare, "writes of established names were admitted")
}

// TestRejectedProofIsTheSendersOwn holds that writes with a rejected proof are charged only
// to their sender.
func TestRejectedProofIsTheSendersOwn(t *testing.T) {
	l := New(always(1, 5), newClock().now)
	rejected := command.Standing{Registered: true, WrongKey: true}
	for i := range 1000 {
		l.Admit(sender(fmt.Sprint(i), "ada"), rejected)
	}
	check.Equal(t, admits(l, sender("f", "ada"), command.Standing{Registered: true}), true, "the name still writes")
	for range 5 {
		l.Admit(sender("g", "ada"), rejected)
	}
	check.Equal(t, admits(l, sender("g", "bob"), command.Standing{}), false, "wrong keys cost their sender nothing")
}

func TestTablesAreBounded(t *testing.T) {
	c := newClock()
	l := New(always(60, 1), c.now)
	for i := range MaxBuckets + 100 {
		l.Admit(command.Sender{Fingerprint: fmt.Sprint(i)}, command.Standing{})
	}
	must.Equal(t, l.other.senders.Len(), MaxBuckets, "buckets")
	// A sender without a bucket of its own has a limit, and does not drain those of all others.
	late := command.Sender{Fingerprint: "late"}
	l.Admit(late, command.Standing{})
	if ok, wait := l.Admit(late, command.Standing{}); ok || wait <= 0 {
		t.Errorf("a sender without a bucket of its own has no limit: %v, %v", ok, wait)
	}
	admitted := 0
	for i := range 100 {
		if admits(l, command.Sender{Fingerprint: fmt.Sprint("other", i)}, command.Standing{}) {
			admitted++
		}
	}
	if admitted < 80 {
		t.Errorf("%d of 100 others are admitted", admitted)
	}
	c.t = c.t.Add(time.Minute)
	must.Equal(t, admits(l, command.Sender{Fingerprint: "new"}, command.Standing{}), true, "a new sender is admitted when every bucket is full again")
	check.Equal(t, l.other.senders.Len(), 1, "buckets after the sweep")
}

// left returns how many writes the limiter admits now, and takes them.
func left(l *Limiter, from command.Sender, standing command.Standing) (n int) {
	for admits(l, from, standing) {
		n++
	}
	return n
}

// TestRefunds holds the buckets that refunds refill, and the number of refunds in a minute.
func TestRefunds(t *testing.T) {
	const burst = 2 * MaxRefunds
	ada := sender("f1", "ada")
	byKey := command.Standing{Strength: command.ByKey, Registered: true}
	established := command.Standing{Strength: command.ByKey, Registered: true, Established: true}
	for name, standing := range map[string]command.Standing{"without proof": {}, "by key": byKey, "established": established} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			l := New(always(1, burst), c.now)
			for range MaxRefunds + 1 {
				l.Admit(ada, standing)
				l.Refund(ada, standing)
			}
			check.Equal(t, left(l, ada, standing), burst-1, "writes of %d left after %d refunded ones", burst, MaxRefunds+1)
			c.t = c.t.Add(time.Minute)
			before := left(l, ada, standing)
			for range MaxRefunds + 1 {
				l.Refund(ada, standing)
			}
			if got := left(l, ada, standing); before != 1 || got != MaxRefunds {
				t.Errorf("a minute later: %d writes, and %d refunds, want 1 and %d", before, got, MaxRefunds)
			}
		})
	}
	t.Run("of the name", func(t *testing.T) {
		l := New(always(1, burst), newClock().now)
		for i := range burst {
			from := sender(fmt.Sprint(i%2), "ada")
			l.Admit(from, byKey)
		}
		l.Refund(sender("0", "ada"), byKey)
		check.Equal(t, left(l, sender("another", "ada"), byKey), 1, "writes of the name left")
	})
	t.Run("never more than the burst", func(t *testing.T) {
		l := New(always(1, burst), newClock().now)
		for range 3 {
			l.Refund(ada, byKey)
		}
		check.Equal(t, left(l, ada, byKey), burst, "writes left")
	})
	t.Run("a network of many senders", func(t *testing.T) {
		const senders = 1000
		l := New(always(1, 1), newClock().now)
		refunded := 0
		for i := range senders {
			from := command.Sender{Fingerprint: fmt.Sprint("net", command.NetworkEnd, i)}
			for range MaxRefunds {
				left(l, from, byKey)
				l.Refund(from, byKey)
				refunded += left(l, from, byKey)
			}
		}
		check.Equal(t, refunded, MaxRefunds*command.NetworkShare, "refunds")
	})
	t.Run("without limits", func(t *testing.T) {
		l := New(always(0, 0), newClock().now)
		l.Refund(ada, byKey)
		check.Equal(t, admits(l, ada, byKey), true, "a write is admitted")
	})
}
