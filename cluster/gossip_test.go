package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
)

type testGossip struct {
	*Gossip
	logs *logs
}

func gossipConfig(id string, secrets *Secrets, join ...string) GossipConfig {
	meta := testMeta(id)
	meta.NodeName, _, _ = strings.Cut(id, "-")
	return GossipConfig{
		Bind: "127.0.0.1:0", Join: join, Secrets: secrets, Meta: meta, Logger: slog.New(slog.DiscardHandler),
		ProbeInterval: 200 * time.Millisecond, ProbeTimeout: 150 * time.Millisecond,
		ReclaimTime: 300 * time.Millisecond, PushPullInterval: 300 * time.Millisecond,
		RejoinInterval: 100 * time.Millisecond, SettledInterval: 500 * time.Millisecond,
	}
}

func startGossip(t *testing.T, cfg GossipConfig) *testGossip {
	t.Helper()
	out := &logs{}
	cfg.Logger = out.logger()
	g := must.Get(StartGossip(cfg))(t)
	t.Cleanup(func() {
		check.Err(t, g.Close(), nil, "close")
	})
	return &testGossip{Gossip: g, logs: out}
}

func (g *testGossip) ids() []string {
	var ids []string
	for _, m := range g.Members() {
		ids = append(ids, m.ServerID)
	}
	return ids
}

func wantMembers(t *testing.T, g *testGossip, ids ...string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("%s has members %v", g.cfg.Meta.ServerID, ids), func() bool { return slices.Equal(g.ids(), ids) })
}

func TestGossipJoinsByHostName(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	lookup := func(_ context.Context, host string) ([]string, error) {
		if host != "nodes.test" {
			return nil, fmt.Errorf("unexpected name %q", host)
		}
		return []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}, nil
	}
	// One name for all needs one port number on three addresses.
	var all []*testGossip
	for len(all) < 3 {
		for _, g := range all {
			must.Do(t, g.Close())
		}
		all = all[:0]
		port := uint16(0)
		for i := range 3 {
			cfg := gossipConfig(fmt.Sprintf("n%d-x", i+1), secrets)
			cfg.Bind = joinAddr(fmt.Sprintf("127.0.0.%d", i+1), port)
			cfg.LookupHost = lookup
			if i == 0 { // find a free port, then start over with the join list
				probe := must.Get(StartGossip(cfg))(t)
				port = must.Get(netip.ParseAddrPort(probe.Addr()))(t).Port()
				must.Do(t, probe.Close())
				cfg.Bind = joinAddr("127.0.0.1", port)
			}
			cfg.Join = []string{joinAddr("nodes.test", port)}
			out := &logs{}
			cfg.Logger = out.logger()
			g, err := StartGossip(cfg)
			if err != nil {
				break // the port is taken on this address: another one
			}
			t.Cleanup(func() { _ = g.Close() })
			all = append(all, &testGossip{Gossip: g, logs: out})
		}
	}
	for _, g := range all {
		wantMembers(t, g, "n1-x", "n2-x", "n3-x")
		for _, m := range g.Members() {
			want := testMeta(m.ServerID)
			want.NodeName = m.ServerID[:2]
			check.Equal(t, m.Meta, want, "meta of %s", m.ServerID)
		}
		await.Eventually(t, "notified of changes", func() bool {
			select {
			case <-g.Changed():
				return true
			default:
				return false
			}
		})
	}
	m, ok := all[0].Member("n3-x")
	if !ok || m.GossipAddr != all[2].Addr() {
		t.Errorf("n3-x: %+v, %v", m, ok)
	}
	if _, ok := all[0].Member("n4-x"); ok {
		t.Error("n4-x is known")
	}
}

func TestGossipSpreadsMetaAndLeaves(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	cfg := gossipConfig("a-1", secrets)
	cfg.ProbeInterval = time.Hour // a death would not be noticed
	a := startGossip(t, cfg)
	b := startGossip(t, gossipConfig("b-1", secrets, a.Addr()))
	wantMembers(t, a, "a-1", "b-1")
	meta := b.Meta()
	meta.ClusterID, meta.Fresh, meta.Expect = "c1", false, 99
	must.Do(t, b.SetMeta(meta))
	m, _ := b.Member("b-1")
	check.Equal(t, m.Meta, meta, "own meta at once")
	await.Eventually(t, "the other hears of it", func() bool { m, ok := a.Member("b-1"); return ok && m.Meta == meta })

	long := meta
	long.ClusterAddr, long.HTTPAddr = strings.Repeat("h", 250)+":1", strings.Repeat("h", 250)+":2"
	other := meta
	other.ServerID = "c-1"
	for _, bad := range []Meta{long, other} {
		check.Fails(b.SetMeta(bad))(t, "accepted %+v", bad)
	}
	check.Equal(t, b.Meta(), meta, "a rejected meta was kept")

	must.Do(t, b.Leave(testTimeout))
	wantMembers(t, a, "a-1")
	check.Err(t, b.Leave(testTimeout), nil, "second leave")
}

func TestGossipRejectsAnotherKey(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	a := startGossip(t, gossipConfig("a-1", secrets))
	b := startGossip(t, gossipConfig("b-1", secrets, a.Addr()))
	wantMembers(t, a, "a-1", "b-1")
	wantMembers(t, b, "a-1", "b-1")
	stranger := startGossip(t, gossipConfig("s-1", testSecrets(t, "b"), a.Addr(), b.Addr()))
	for _, g := range []*testGossip{a, b} {
		await.Eventually(t, g.cfg.Meta.ServerID+" says why", func() bool { return g.logs.has("has another cluster secret") && g.logs.has("level=WARN") })
	}
	await.Eventually(t, "the stranger says why", func() bool {
		return stranger.logs.has("level=WARN") && stranger.logs.has("a join address has another cluster secret") && stranger.logs.has(a.Addr())
	})
	wantMembers(t, a, "a-1", "b-1")
	wantMembers(t, b, "a-1", "b-1")
	check.Diff(t, stranger.ids(), []string{"s-1"}, "the stranger sees")
}

func TestGossipRejectsAnotherCluster(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	start := func(id, cluster string, join ...string) *testGossip {
		cfg := gossipConfig(id, secrets, join...)
		cfg.ProbeInterval, cfg.ProbeTimeout = time.Hour, time.Second // no member counts as dead
		cfg.Meta.ClusterID = cluster
		return startGossip(t, cfg)
	}
	a := start("a-1", "one")
	b := start("b-1", "one", a.Addr())
	fresh := start("f-1", "", a.Addr())
	wantMembers(t, a, "a-1", "b-1", "f-1")
	wantMembers(t, fresh, "a-1", "b-1", "f-1")
	stranger := start("s-1", "two", a.Addr(), b.Addr(), fresh.Addr())
	await.Eventually(t, "a says why", func() bool { return a.logs.has("rejected a node of another cluster") && a.logs.has("cluster=two") })
	await.Eventually(t, "the stranger learns it", func() bool { return stranger.logs.has("cluster=one") })
	await.Eventually(t, "the stranger knows whom it cannot join", func() bool {
		m, rejected := stranger.Stranger()
		return rejected && m.ClusterID == "one" && (m.GossipAddr == a.Addr() || m.GossipAddr == b.Addr())
	})
	for _, g := range []*testGossip{a, b} {
		if m, rejected := g.Stranger(); rejected {
			t.Errorf("%s takes %s, which came by itself, for what it wants to join", g.cfg.Meta.ServerID, m.ServerID)
		}
	}
	for _, g := range []*testGossip{a, b} {
		wantMembers(t, g, "a-1", "b-1", "f-1")
	}
	for _, m := range stranger.Members() {
		if m.ClusterID == "one" {
			t.Errorf("the stranger took %s over", m.ServerID)
		}
	}
	// A node that joins a cluster stops seeing those of others.
	meta := fresh.Meta()
	meta.ClusterID = "two"
	must.Do(t, fresh.SetMeta(meta))
	for _, id := range fresh.ids() {
		if id == "a-1" || id == "b-1" {
			t.Errorf("still sees %s", id)
		}
	}
	for _, g := range []*testGossip{a, b} {
		wantMembers(t, g, "a-1", "b-1")
		for _, node := range g.list.Load().Members() {
			if node.Name == "s-1" {
				t.Errorf("%s gossips with the stranger", g.cfg.Meta.ServerID)
			}
		}
	}
}

func TestGossipMemberComesBackAtAnotherAddress(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	a := startGossip(t, gossipConfig("a-1", secrets))
	b := startGossip(t, gossipConfig("b-1", secrets, a.Addr()))
	c := startGossip(t, gossipConfig("c-1", secrets, a.Addr()))
	wantMembers(t, a, "a-1", "b-1", "c-1")
	wantMembers(t, c, "a-1", "b-1", "c-1")
	former := b.Addr()
	if err := b.Close(); err != nil { // without a word
		t.Fatal(err)
	}
	cfg := gossipConfig("b-1", secrets, a.Addr(), c.Addr())
	cfg.Bind = "127.0.0.9:0"
	cfg.Meta.ClusterAddr = "127.0.0.9:7000"
	again := startGossip(t, cfg)
	if again.Addr() == former {
		t.Fatal("same address")
	}
	for _, g := range []*testGossip{a, c} {
		await.Eventually(t, "the new address is taken over", func() bool {
			m, ok := g.Member("b-1")
			return ok && m.GossipAddr == again.Addr() && m.ClusterAddr == "127.0.0.9:7000"
		})
	}
	wantMembers(t, again, "a-1", "b-1", "c-1")
}

func TestGossipNoticesDeathAndFindsAgain(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	cfg, book := gossipConfig("a-1", secrets), OpenBook(filepath.Join(t.TempDir(), "book"), slog.New(slog.DiscardHandler))
	cfg.Known = book.GossipAddrs
	a := startGossip(t, cfg)
	at := must.Get(freeport.Addr())(t)
	cfg = gossipConfig("b-1", secrets, a.Addr())
	cfg.Bind = at
	b := startGossip(t, cfg)
	wantMembers(t, a, "a-1", "b-1")
	must.Do(t, book.Update(a.Members()))
	must.Do(t, b.Close())
	wantMembers(t, a, "a-1")
	await.Eventually(t, "it is logged", func() bool { return a.logs.has("member gone") })
	// Neither has the other in its join list now: a looks where b was.
	cfg = gossipConfig("b-1", secrets)
	cfg.Bind = at
	again := startGossip(t, cfg)
	wantMembers(t, a, "a-1", "b-1")
	wantMembers(t, again, "a-1", "b-1")
}

func TestGossipLooksAtKnownAddresses(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	a := startGossip(t, gossipConfig("a-1", secrets))
	cfg := gossipConfig("b-1", secrets)
	cfg.Known = func() []string { return []string{"nonsense", a.Addr()} }
	b := startGossip(t, cfg)
	wantMembers(t, a, "a-1", "b-1")
	wantMembers(t, b, "a-1", "b-1")
}

func TestGossipRotatesKeys(t *testing.T) {
	t.Parallel()
	ids := []string{"a-1", "b-1", "c-1"}
	paths := make([]string, len(ids))
	secrets := make([]*Secrets, len(ids))
	nodes := make([]*testGossip, len(ids))
	for i, id := range ids {
		paths[i] = filepath.Join(t.TempDir(), "secret")
		writeSecrets(t, paths[i], "A")
		secrets[i] = must.Get(LoadSecrets(paths[i]))(t)
		cfg := gossipConfig(id, secrets[i])
		cfg.ProbeInterval, cfg.ProbeTimeout = time.Second, time.Second/2 // no member may die in this test
		if i > 0 {
			cfg.Join = []string{nodes[0].Addr()}
		}
		nodes[i] = startGossip(t, cfg)
	}
	free := 0
	for _, step := range [][]string{{"A"}, {"A", "B"}, {"B", "A"}, {"B"}} {
		for i, n := range nodes {
			writeSecrets(t, paths[i], step...)
			must.Get(secrets[i].Reload())(t)
			// From now on, this node's messages reach all others, whatever keys they use.
			free++
			meta := n.Meta()
			meta.Expect = free
			must.Do(t, n.SetMeta(meta))
			for _, other := range nodes {
				await.Eventually(t, fmt.Sprintf("%s hears of %s at step %v", other.cfg.Meta.ServerID, n.cfg.Meta.ServerID, step), func() bool {
					m, ok := other.Member(n.cfg.Meta.ServerID)
					return ok && m.Expect == free
				})
				wantMembers(t, other, ids...)
			}
		}
	}
	for _, n := range nodes {
		check.Equal(t, n.logs.has("member gone"), false, "%s lost a member", n.cfg.Meta.ServerID)
	}
	late := startGossip(t, gossipConfig("d-1", testSecrets(t, "A"), nodes[0].Addr()))
	await.Eventually(t, "the old key is rejected", func() bool { return nodes[0].logs.has("has another cluster secret") })
	check.Diff(t, late.ids(), []string{"d-1"}, "with the old key")
	startGossip(t, gossipConfig("e-1", testSecrets(t, "B"), nodes[0].Addr()))
	wantMembers(t, nodes[0], "a-1", "b-1", "c-1", "e-1")
}

func TestUpdateKeyring(t *testing.T) {
	t.Parallel()
	key := func(name byte) []byte { return []byte(strings.Repeat(string(name), gossipKeyBytes)) }
	tests := []struct{ from, to string }{
		{"a", "a"}, {"a", "b"}, {"a", "ab"}, {"ab", "ba"}, {"ba", "b"}, {"ab", "a"}, {"ab", "b"}, {"ab", "ac"}, {"ab", "cd"}, {"ab", "ca"}, {"a", "ba"},
	}
	keys := func(names string) (out [][]byte) {
		for i := range len(names) {
			out = append(out, key(names[i]))
		}
		return out
	}
	for _, tt := range tests {
		ring := must.Get(memberlist.NewKeyring(keys(tt.from), keys(tt.from)[0]))(t)
		check.Err(t, updateKeyring(ring, keys(tt.to)), nil, "%s to %s", tt.from, tt.to)
		got := ""
		for _, k := range ring.GetKeys() {
			got += string(k[0])
		}
		check.Equal(t, got, tt.to, "keys after those of %s", tt.from)
	}
}

// rawDelegate is a node of some later program, or a broken one.
type rawDelegate struct{ meta []byte }

func (d *rawDelegate) NodeMeta(int) []byte             { return d.meta }
func (d *rawDelegate) NotifyMsg([]byte)                {}
func (d *rawDelegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *rawDelegate) LocalState(bool) []byte          { return nil }
func (d *rawDelegate) MergeRemoteState([]byte, bool)   {}

func TestGossipIgnoresUnreadableMeta(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	a := startGossip(t, gossipConfig("a-1", secrets))
	b := startGossip(t, gossipConfig("b-1", secrets, a.Addr()))
	impostor := must.Get(testMeta("other-1").Encode())(t)
	for name, meta := range map[string][]byte{"junk-1": []byte("junk"), "imp-1": impostor} {
		conf := memberlist.DefaultLocalConfig()
		conf.Name, conf.BindAddr, conf.BindPort = name, "127.0.0.1", 0
		conf.SecretKey = secrets.GossipKeys()[0]
		conf.Delegate = &rawDelegate{meta: meta}
		conf.LogOutput = &logs{}
		list := must.Get(memberlist.Create(conf))(t)
		t.Cleanup(func() { _ = list.Shutdown() })
		must.Get(list.Join([]string{a.Addr()}))(t)
		for _, g := range []*testGossip{a, b} {
			await.Eventually(t, name+" is logged", func() bool { return g.logs.has("ignored a gossip member") && g.logs.has("server="+name) })
		}
	}
	for _, g := range []*testGossip{a, b} {
		wantMembers(t, g, "a-1", "b-1")
		check.Equal(t, g.logs.count("ignored a gossip member"), 2, "lines logged for two")
	}
}

func TestStartGossipProblems(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	loop := must.Get(LoadSecrets(""))(t)
	for name, tt := range map[string]struct {
		change func(*GossipConfig)
		want   string
	}{
		"meta too long": {func(c *GossipConfig) {
			c.Meta.ClusterAddr, c.Meta.HTTPAddr = strings.Repeat("h", 250)+":1", strings.Repeat("h", 250)+":1"
		}, "at most 512"},
		"bind":               {func(c *GossipConfig) { c.Bind = "192.0.2.1:0" }, "listener"},
		"bad advertise":      {func(c *GossipConfig) { c.Advertise = "no such name:1" }, "needs a host"},
		"loopback bind":      {func(c *GossipConfig) { c.Secrets, c.Bind = loop, "0.0.0.0:0" }, "--secret-file"},
		"loopback advertise": {func(c *GossipConfig) { c.Secrets, c.Advertise = loop, "192.0.2.1" }, "--secret-file"},
	} {
		cfg := gossipConfig("a-1", secrets)
		tt.change(&cfg)
		g, err := StartGossip(cfg)
		if err == nil {
			_ = g.Close()
			t.Errorf("%s: started", name)
			continue
		}
		check.Contains(t, err.Error(), tt.want, "the error of %s", name)
	}
}

func TestGossipRejectsMergeWithAnotherCluster(t *testing.T) {
	t.Parallel()
	g := startGossip(t, gossipConfig("a-1", testSecrets(t, "a")))
	meta := g.Meta()
	meta.ClusterID = "one"
	must.Do(t, g.SetMeta(meta))
	node := func(id, cluster string, state memberlist.NodeStateType) *memberlist.Node {
		m := testMeta(id)
		m.ClusterID = cluster
		encoded := must.Get(m.Encode())(t)
		return &memberlist.Node{Name: id, Meta: encoded, State: state}
	}
	for name, tt := range map[string]struct {
		nodes []*memberlist.Node
		ok    bool
	}{
		"ours and new":     {[]*memberlist.Node{node("b-1", "one", memberlist.StateAlive), node("c-1", "", memberlist.StateAlive)}, true},
		"unreadable":       {[]*memberlist.Node{{Name: "b-1", Meta: []byte("junk")}}, true},
		"dead stranger":    {[]*memberlist.Node{node("b-1", "two", memberlist.StateDead), node("c-1", "two", memberlist.StateLeft)}, true},
		"what we were":     {[]*memberlist.Node{node("a-1", "two", memberlist.StateAlive)}, true},
		"stranger":         {[]*memberlist.Node{node("b-1", "one", memberlist.StateAlive), node("c-1", "two", memberlist.StateAlive)}, false},
		"suspect stranger": {[]*memberlist.Node{node("c-1", "two", memberlist.StateSuspect)}, false},
	} {
		err := (&delegate{Gossip: g.Gossip}).NotifyMerge(tt.nodes)
		check.Equal(t, err == nil, tt.ok, "%s: merged, %v", name, err)
	}
}
