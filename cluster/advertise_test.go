package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
)

// records are the addresses of host names, as DNS has them. A name that is missing does not
// resolve.
type records struct {
	mu    sync.Mutex
	addrs map[string][]string
}

func (r *records) set(host string, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.addrs == nil {
		r.addrs = make(map[string][]string)
	}
	r.addrs[host] = addrs
}

func (r *records) lookup(_ context.Context, host string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addrs[host]) == 0 {
		return nil, errors.New("no such host")
	}
	return slices.Clone(r.addrs[host]), nil
}

// named is a node's configuration on a host of a network in memory. It advertises a name.
func named(n *simnet.Net, r *records, id, host string, secrets *Secrets, join ...string) GossipConfig {
	cfg := gossipConfig(id, secrets, join...)
	cfg.Bind, cfg.Advertise = joinAddr(host, DefaultGossipPort), id+".test"
	cfg.Network = Network{Packets: n.Host(host).Packets}
	cfg.LookupHost = r.lookup
	cfg.Known = func() []string { // as an address book has them
		return []string{joinAddr(hostA, DefaultGossipPort), joinAddr(hostB, DefaultGossipPort), joinAddr(hostC, DefaultGossipPort)}
	}
	return cfg
}

// virtual runs a test in virtual time. Afterwards probes and lookups under way end.
func virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(t)
	})
}

const hostA, hostB, hostC, nowhere = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.99"

func wantAt(t *testing.T, g *testGossip, id, host string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("%s has %s at %s", g.cfg.Meta.ServerID, id, host), func() bool {
		m, ok := g.Member(id)
		return ok && m.GossipAddr == joinAddr(host, DefaultGossipPort)
	})
}

// TestGossipWaitsForItsName: a node whose advertised name does not resolve yet starts, and
// takes part in gossip once it does.
func TestGossipWaitsForItsName(t *testing.T) {
	secrets := testSecrets(t, "a")
	virtual(t, func(t *testing.T) {
		t.Helper()
		n, dns := simnet.New(1), &records{}
		dns.set("a-1.test", hostA)
		a := startGossip(t, named(n, dns, "a-1", hostA, secrets))
		b := startGossip(t, named(n, dns, "b-1", hostB, secrets, "a-1.test"))
		check.Equal(t, b.Addr(), "b-1.test:7946", "address before the name resolves")
		check.Diff(t, b.ids(), []string{"b-1"}, "members before the name resolves")
		meta := b.Meta()
		meta.Expect = 99
		must.Do(t, b.SetMeta(meta))
		time.Sleep(time.Hour)
		if problem := b.AddressProblem(); problem == "" || !b.logs.has("no such host") || b.logs.count("\n") > 61 {
			t.Errorf("problem %q, and the log after an hour: %s", problem, b.logs)
		}
		check.Diff(t, a.ids(), []string{"a-1"}, "members of the other")

		dns.set("b-1.test", hostB)
		wantAt(t, a, "b-1", hostB)
		wantMembers(t, b, "a-1", "b-1")
		await.Eventually(t, "the metadata of meanwhile arrives", func() bool { m, _ := a.Member("b-1"); return m.Meta == meta })
		check.Equal(t, b.Addr(), joinAddr(hostB, DefaultGossipPort), "address")
		check.Equal(t, b.AddressProblem(), "", "problem")
	})
}

// TestGossipFollowsItsName: a record that is corrected takes effect without a restart.
func TestGossipFollowsItsName(t *testing.T) {
	secrets := testSecrets(t, "a")
	virtual(t, func(t *testing.T) {
		t.Helper()
		n, dns := simnet.New(1), &records{}
		dns.set("a-1.test", hostA)
		dns.set("b-1.test", nowhere)
		dns.set("c-1.test", hostC)
		a := startGossip(t, named(n, dns, "a-1", hostA, secrets))
		b := startGossip(t, named(n, dns, "b-1", hostB, secrets, "a-1.test"))
		c := startGossip(t, named(n, dns, "c-1", hostC, secrets, "a-1.test"))
		wantAt(t, a, "b-1", nowhere)
		time.Sleep(time.Minute)
		dns.set("b-1.test", hostB)
		for _, g := range []*testGossip{a, c} {
			wantAt(t, g, "b-1", hostB)
		}
		wantMembers(t, b, "a-1", "b-1", "c-1")
		gone := func() (lines int) {
			for _, g := range []*testGossip{a, b, c} {
				lines += g.logs.count("member gone")
			}
			return lines
		}
		before := gone()
		// The name has the address in use, among others; then the lookup fails.
		dns.set("b-1.test", nowhere, hostB)
		time.Sleep(time.Minute)
		check.Equal(t, b.AddressProblem(), "", "problem")
		dns.set("b-1.test")
		time.Sleep(time.Minute)
		check.ErrText(t, errors.New(b.AddressProblem()), "no such host", "problem of a name that does not resolve any more")
		for _, g := range []*testGossip{a, b, c} {
			wantMembers(t, g, "a-1", "b-1", "c-1")
		}
		check.Equal(t, gone(), before, "members gone since it moved")
		wantAt(t, a, "b-1", hostB)
	})
}

// TestGossipMovesFromALivingAddress: the others take the new address also if the former one
// still reaches the node.
func TestGossipMovesFromALivingAddress(t *testing.T) {
	t.Parallel()
	secrets, dns := testSecrets(t, "a"), &records{}
	a := startGossip(t, gossipConfig("a-1", secrets))
	cfg := gossipConfig("b-1", secrets, a.Addr())
	cfg.Bind, cfg.Advertise, cfg.LookupHost = "0.0.0.0:0", "b-1.test", dns.lookup
	dns.set("b-1.test", hostA)
	b := startGossip(t, cfg)
	wantMembers(t, a, "a-1", "b-1")
	dns.set("b-1.test", hostB)
	await.Eventually(t, "the other has the new address", func() bool {
		m, ok := a.Member("b-1")
		return ok && m.GossipAddr == b.Addr() && strings.HasPrefix(b.Addr(), hostB)
	})
	wantMembers(t, b, "a-1", "b-1")
}

// TestGossipForgetsFormerSuspicions: a suspicion of before the move, which ends after it, takes
// no living member away.
func TestGossipForgetsFormerSuspicions(t *testing.T) {
	secrets := testSecrets(t, "a")
	virtual(t, func(t *testing.T) {
		t.Helper()
		n, dns := simnet.New(1), &records{}
		dns.set("a-1.test", hostA)
		dns.set("b-1.test", nowhere)
		a := startGossip(t, named(n, dns, "a-1", hostA, secrets))
		cfg := named(n, dns, "b-1", hostB, secrets, "a-1.test")
		cfg.ProbeInterval, cfg.ProbeTimeout = 2*time.Second, time.Second // a suspicion lasts for 6 s
		b := startGossip(t, cfg)
		wantMembers(t, b, "a-1", "b-1")
		cut := func(cut bool) {
			n.Change(hostA, hostB, func(l *simnet.Link) { l.Cut = cut })
			n.Change(hostB, hostA, func(l *simnet.Link) { l.Cut = cut })
		}
		cut(true)
		time.Sleep(5 * time.Second) // two probes and a half
		dns.set("b-1.test", hostB)
		await.Eventually(t, "it moves", func() bool { return strings.HasPrefix(b.Addr(), hostB) })
		cut(false)
		wantMembers(t, b, "a-1", "b-1")
		time.Sleep(time.Minute)
		check.Diff(t, b.ids(), []string{"a-1", "b-1"}, "members a minute later")
		wantAt(t, a, "b-1", hostB)
	})
}

// TestGossipMovesOnLoopbackOnly: without a secret, a name that leaves loopback is not followed.
func TestGossipMovesOnLoopbackOnly(t *testing.T) {
	secrets := must.Get(LoadSecrets(""))(t)
	virtual(t, func(t *testing.T) {
		t.Helper()
		n, dns := simnet.New(1), &records{}
		dns.set("a-1.test", hostA)
		a := startGossip(t, named(n, dns, "a-1", hostA, secrets))
		dns.set("a-1.test", "192.0.2.1")
		await.Eventually(t, "it says why", func() bool { return strings.Contains(a.AddressProblem(), "not a loopback address") })
		check.Equal(t, a.Addr(), joinAddr(hostA, DefaultGossipPort), "address")
	})
}

// TestGossipEndsWhileItWaits: a node that waits for its name, or moves, can be closed.
func TestGossipEndsWhileItWaits(t *testing.T) {
	secrets := testSecrets(t, "a")
	virtual(t, func(t *testing.T) {
		t.Helper()
		n, dns := simnet.New(1), &records{}
		g := startGossip(t, named(n, dns, "a-1", hostA, secrets))
		check.Err(t, g.Leave(time.Second), nil, "leave before the name resolves")
		dns.set("b-1.test", hostB)
		b := startGossip(t, named(n, dns, "b-1", hostB, secrets))
		dns.set("c-1.test", hostC)
		c := startGossip(t, named(n, dns, "c-1", hostC, secrets, "b-1.test"))
		wantMembers(t, b, "b-1", "c-1")
		dns.set("b-1.test", nowhere)
		for !b.logs.has(nowhere) {
			time.Sleep(time.Millisecond)
		}
		check.Err(t, b.Close(), nil, "close while it moves")
		check.Err(t, c.Close(), nil, "close")
	})
}
