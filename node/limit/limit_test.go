package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// clock is a hand-moved clock.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newClock() *clock { return &clock{t: time.UnixMilli(1_700_000_000_000)} }

// always returns limits that do not change.
func always(perMinute, burst int) func() (int, int) {
	return func() (int, int) { return perMinute, burst }
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
			if ok, _ := l.Admit(command.Sender{Fingerprint: "f"}, command.Standing{}); ok {
				admitted++
			}
		}
		check.Equal(t, admitted, tc.want, "%d a minute, %d at once: admitted of %d", tc.perMinute, tc.burst, tc.writes)
	}
}

func TestBurstThenRate(t *testing.T) {
	c := newClock()
	l := New(always(30, 10), c.now)
	ada := command.Sender{Fingerprint: "f1", AgentKey: "ada"}
	for i := range 10 {
		if ok, _ := l.Admit(ada, command.Standing{}); !ok {
			t.Fatalf("write %d of the burst was rejected", i+1)
		}
	}
	ok, wait := l.Admit(ada, command.Standing{})
	if ok || wait <= 0 || wait > 2*time.Second {
		t.Fatalf("after the burst: admitted=%v wait=%v, want a rejection with at most 2s", ok, wait)
	}
	c.t = c.t.Add(wait)
	if ok, again := l.Admit(ada, command.Standing{}); !ok {
		t.Fatalf("rejected after the announced wait, for another %v", again)
	}
	if ok, _ := l.Admit(ada, command.Standing{}); ok {
		t.Fatal("two writes were admitted for one token")
	}
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
		{"one agent through many senders", func(i int) command.Sender { return command.Sender{Fingerprint: fmt.Sprint(i), AgentKey: "ada"} }, 5 * nameShare},
		{"one sender with many agents", func(i int) command.Sender { return command.Sender{Fingerprint: "f", AgentKey: fmt.Sprint(i)} }, 5},
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
				if ok, _ := l.Admit(tt.from(i), command.Standing{}); ok {
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
		l.Admit(command.Sender{Fingerprint: fmt.Sprint("other", i), AgentKey: "ada"}, command.Standing{})
	}
	// Ada's bucket is empty; f2 must not pay for her rejected write.
	if ok, _ := l.Admit(command.Sender{Fingerprint: "f2", AgentKey: "ada"}, command.Standing{}); ok {
		t.Fatal("ada was admitted over her limit")
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: "f2", AgentKey: "bob"}, command.Standing{}); !ok {
		t.Fatal("f2 paid for a write that was rejected")
	}
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
			l.Admit(command.Sender{Fingerprint: fmt.Sprint(i), AgentKey: "ada"}, standing)
			l.Admit(command.Sender{Fingerprint: "owner", AgentKey: "ada"}, standing) // the same address, too
		}
	}
	admitted := 0
	for range 16 {
		if ok, _ := l.Admit(command.Sender{Fingerprint: "owner", AgentKey: "ada"}, byKey); ok {
			admitted++
		}
	}
	check.Equal(t, admitted, 5, "writes by key admitted of 16")
	// Neither many keys of one sender nor many senders with one key have a larger allowance.
	if ok, _ := l.Admit(command.Sender{Fingerprint: "owner", AgentKey: "bob"}, byKey); ok {
		t.Error("a second key gave a sender more")
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: "owner2", AgentKey: "ada"}, byKey); ok {
		t.Error("a second sender gave a key more")
	}
}

// TestNeighboursOfEstablishedNames holds that new keys drain neither the network's nor the
// address's bucket for established names.
func TestNeighboursOfEstablishedNames(t *testing.T) {
	l := New(always(1, 5), newClock().now)
	byKey := command.Standing{Strength: command.ByKey, Registered: true}
	in := func(i int) string { return fmt.Sprint("net", command.NetworkEnd, i) }
	for i := range 100 {
		l.Admit(command.Sender{Fingerprint: in(i % 10), AgentKey: fmt.Sprint("new", i)}, byKey)
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: in(99), AgentKey: "another"}, byKey); ok {
		t.Error("a /48 has no bound for new keys")
	}
	established := byKey
	established.Established = true
	admitted := 0
	for i := range 100 {
		if ok, _ := l.Admit(command.Sender{Fingerprint: in(i % 50), AgentKey: fmt.Sprint("old", i%25)}, established); ok {
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
		l.Admit(command.Sender{Fingerprint: fmt.Sprint(i), AgentKey: "ada"}, rejected)
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: "f", AgentKey: "ada"}, command.Standing{Registered: true}); !ok {
		t.Error("wrong keys have used up what the name may write without one")
	}
	for range 5 {
		l.Admit(command.Sender{Fingerprint: "g", AgentKey: "ada"}, rejected)
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: "g", AgentKey: "bob"}, command.Standing{}); ok {
		t.Error("wrong keys cost their sender nothing")
	}
}

func TestTablesAreBounded(t *testing.T) {
	c := newClock()
	l := New(always(60, 1), c.now)
	for i := range MaxBuckets + 100 {
		l.Admit(command.Sender{Fingerprint: fmt.Sprint(i)}, command.Standing{})
	}
	if n := l.other.senders.Len(); n != MaxBuckets {
		t.Fatalf("%d buckets, want the bound %d", n, MaxBuckets)
	}
	// A sender without a bucket of its own has a limit, and does not drain those of all others.
	late := command.Sender{Fingerprint: "late"}
	l.Admit(late, command.Standing{})
	if ok, wait := l.Admit(late, command.Standing{}); ok || wait <= 0 {
		t.Errorf("a sender without a bucket of its own has no limit: %v, %v", ok, wait)
	}
	admitted := 0
	for i := range 100 {
		if ok, _ := l.Admit(command.Sender{Fingerprint: fmt.Sprint("other", i)}, command.Standing{}); ok {
			admitted++
		}
	}
	if admitted < 80 {
		t.Errorf("%d of 100 others are admitted", admitted)
	}
	c.t = c.t.Add(time.Minute)
	if ok, _ := l.Admit(command.Sender{Fingerprint: "new"}, command.Standing{}); !ok {
		t.Fatal("a new sender was rejected although every bucket is full again")
	}
	check.Equal(t, l.other.senders.Len(), 1, "buckets after the sweep")
}

// left returns how many writes the limiter admits now, and takes them.
func left(l *Limiter, from command.Sender, standing command.Standing) (n int) {
	for {
		if ok, _ := l.Admit(from, standing); !ok {
			return n
		}
		n++
	}
}

// TestRefunds holds the buckets that refunds refill, and the number of refunds in a minute.
func TestRefunds(t *testing.T) {
	const burst = 2 * MaxRefunds
	ada := command.Sender{Fingerprint: "f1", AgentKey: "ada"}
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
			from := command.Sender{Fingerprint: fmt.Sprint(i % 2), AgentKey: "ada"}
			l.Admit(from, byKey)
		}
		l.Refund(command.Sender{Fingerprint: "0", AgentKey: "ada"}, byKey)
		check.Equal(t, left(l, command.Sender{Fingerprint: "another", AgentKey: "ada"}, byKey), 1, "writes of the name left")
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
		if ok, _ := l.Admit(ada, byKey); !ok {
			t.Error("a write was rejected")
		}
	})
}
