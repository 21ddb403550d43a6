package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// clock is a hand-moved clock.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newClock() *clock { return &clock{t: time.UnixMilli(1_700_000_000_000)} }

func TestBurstThenRate(t *testing.T) {
	c := newClock()
	l := New(30, 10, c.now)
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
			l := New(1, 5, newClock().now)
			admitted := 0
			for i := range writes {
				if ok, _ := l.Admit(tt.from(i), command.Standing{}); ok {
					admitted++
				}
			}
			if admitted != tt.want {
				t.Errorf("admitted %d of %d, want %d", admitted, writes, tt.want)
			}
		})
	}
}

func TestRejectionTakesNothing(t *testing.T) {
	c := newClock()
	l := New(60, 1, c.now)
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

// TestOwnerIsNotDrained: whatever others write under a name, from wherever, the holder of
// its key has its own allowance, and no more than that.
func TestOwnerIsNotDrained(t *testing.T) {
	c := newClock()
	l := New(1, 5, c.now)
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
	if admitted != 5 {
		t.Errorf("%d of 16 writes by key were admitted, want 5", admitted)
	}
	// Many keys are not more allowance for one sender, nor many senders for one key.
	if ok, _ := l.Admit(command.Sender{Fingerprint: "owner", AgentKey: "bob"}, byKey); ok {
		t.Error("a second key gave a sender more")
	}
	if ok, _ := l.Admit(command.Sender{Fingerprint: "owner2", AgentKey: "ada"}, byKey); ok {
		t.Error("a second sender gave a key more")
	}
}

// TestNeighboursOfEstablishedNames: new keys use up neither what the network of an
// established name may write by such names, nor what its address may.
func TestNeighboursOfEstablishedNames(t *testing.T) {
	l := New(1, 5, newClock().now)
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
	if want := 5 * command.NetworkShare * command.EstablishedShare; admitted != want {
		t.Errorf("%d writes of established names were admitted, want %d", admitted, want)
	}
}

// TestRejectedProofIsTheSendersOwn: writes that a name rejects cost nobody else anything.
func TestRejectedProofIsTheSendersOwn(t *testing.T) {
	l := New(1, 5, newClock().now)
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
	l := New(60, 1, c.now)
	for i := range MaxBuckets + 100 {
		l.Admit(command.Sender{Fingerprint: fmt.Sprint(i)}, command.Standing{})
	}
	if n := len(l.other.senders.buckets); n != MaxBuckets {
		t.Fatalf("%d buckets, want the bound %d", n, MaxBuckets)
	}
	// Who comes too late has a limit, and does not use up that of all others.
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
	if n := len(l.other.senders.buckets); n != 1 {
		t.Errorf("%d buckets after the sweep, want 1", n)
	}
}
