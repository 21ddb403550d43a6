package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// stallable is a connection that can stop moving bytes without closing, like
// one to a machine that lost its power.
type stallable struct {
	net.Conn
	stalled *atomic.Bool
	closed  chan struct{}
	once    sync.Once
}

func (s *stallable) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.stalled.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *stallable) Write(p []byte) (int, error) {
	if s.stalled.Load() {
		return len(p), nil // into the void
	}
	return s.Conn.Write(p)
}

func (s *stallable) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func TestClientNoticesADeadPeer(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	var stalled atomic.Bool
	a := startNode(t, dir, "a-1", secrets, func(cfg *PortConfig) {
		cfg.PingTimeout = 3 * time.Second
		cfg.Network.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &stallable{Conn: raw, stalled: &stalled, closed: make(chan struct{})}, nil
		}
	})
	startNode(t, dir, "b-1", secrets, nil)
	must.Get(a.ask("b-1", "hi"))(t)
	stalled.Store(true)
	// Without pings only the context would end this.
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "https://b-1/", http.NoBody))(t)
	if res, err := a.Client().Do(req); err == nil {
		_ = res.Body.Close()
		t.Error("answered by a dead peer")
	}
	check.Err(t, ctx.Err(), nil, "the dead peer was not noticed")
	stalled.Store(false)
	check.Err(t, check.Last(a.ask("b-1", "hi")), nil, "after it came back")
}

func TestRestartedPeerIsReachedAtItsNewAddress(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	b := startNode(t, dir, "b-1", secrets, nil)
	a.wantBoth(t, "b-1")
	must.Do(t, b.Close())
	check.Fails(a.ask("b-1", "hi"))(t, "answered after close")
	startNode(t, dir, "b-1", secrets, nil)
	a.wantHealed(t, "b-1")
}

// A peer that never learns of the new secret loses its connections.
func TestRemovedSecretLosesItsConnections(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, "A")
	rotated := must.Get(LoadSecrets(path))(t)
	a := startNode(t, dir, "a-1", rotated, nil)
	a.graceFor = time.Millisecond
	b := startNode(t, dir, "b-1", testSecrets(t, "A"), nil)
	held := must.Get(b.StreamLayer().Dial("a-1", testTimeout))(t)
	defer func() { _ = held.Close() }()
	must.Do(t, echoOn(held, "x"))
	writeSecrets(t, path, "B")
	must.Get(rotated.Reload())(t)
	await.Eventually(t, "the old connection is closed", func() bool {
		return len(a.conns.matching(func(c *conn) bool { return c.peer == "b-1" })) == 0
	})
	check.Fails(echoOn(held, "x"))(t, "it still works")
	b.wantNeither(t, "a-1", "another cluster secret")
}

// TestLastHeard: only bytes of a server itself count, also on connections that have ended.
func TestLastHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, begun := newConnSet(), time.Now()
		hears := func(peer string) *conn { // a second later
			near, far := net.Pipe()
			t.Cleanup(func() { _, _ = near.Close(), far.Close() })
			c := set.add(near, peer == "c-1")
			if peer != "" {
				set.establish(c, func(c *conn) { c.peer = peer })
			}
			time.Sleep(time.Second)
			go func() { _, _ = far.Write([]byte("x")) }()
			must.Get(io.ReadFull(c, make([]byte, 1)))(t)
			return c
		}
		heard := func(serverID string, want time.Duration) {
			t.Helper()
			check.Equal(t, set.lastHeard(serverID).Sub(begun), want, "last heard %s", serverID)
		}
		heard("b-1", 0)
		first := hears("b-1")
		heard("b-1", time.Second)
		second := hears("b-1")
		_ = second.Close()
		heard("b-1", 2*time.Second)
		_ = first.Close()
		heard("b-1", 2*time.Second)
		hears("") // before its handshake
		_ = hears("c-1").Close()
		time.Sleep(time.Hour)
		heard("b-1", 2*time.Second)
		heard("c-1", 4*time.Second)
		heard("d-1", 0)
		for i := range 2 * MaxBookEntries {
			c := set.add(first.Conn, false)
			set.establish(c, func(c *conn) { c.peer = fmt.Sprint(i) })
			c.heard.Store(int64(2*time.Hour) + int64(i))
			set.remove(c)
		}
		check.Equal(t, len(set.heard), MaxBookEntries, "servers remembered")
		heard(fmt.Sprint(2*MaxBookEntries-1), 2*time.Hour+(2*MaxBookEntries-1)*time.Nanosecond)
	})
}

func TestConnectionsPerPeerAreBounded(t *testing.T) {
	t.Parallel()
	set := newConnSet()
	establish := func() (*conn, bool) {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		c := set.add(near, true)
		return c, set.establish(c, func(c *conn) { c.peer = "b-1" })
	}
	var all []*conn
	for range MaxConnsPerPeer {
		c, ok := establish()
		if !ok {
			t.Fatal("rejected below the bound")
		}
		all = append(all, c)
	}
	over, ok := establish()
	must.Equal(t, ok, false, "accepted above the bound")
	_ = over.Close()
	_ = all[0].Close()
	_ = all[0].Close()
	if _, ok := establish(); !ok {
		t.Error("rejected though one went")
	}
	if _, ok := establish(); ok {
		t.Error("a second close made room")
	}
	set.close()
	if set.add(all[0].Conn, true) != nil {
		t.Error("a closed set took a connection")
	}
	check.Equal(t, len(set.conns), 0, "connections left")
}

func TestCertificateIsMadeAnewWhenItHasTo(t *testing.T) {
	t.Parallel()
	now, cluster := time.Now(), ""
	secrets := testSecrets(t, "a")
	creds := &credentials{serverID: "a-1", clusterID: func() string { return cluster }, now: func() time.Time { return now }}
	get := func(keys *keyset) string {
		cert := must.Get(creds.certificate(keys))(t)
		return fmt.Sprint(cert.Leaf.SerialNumber, " ", cert.Leaf.URIs[0])
	}
	keys := secrets.current.Load()
	first := get(keys)
	if !strings.HasSuffix(first, " commons://-/a-1") || get(keys) != first {
		t.Errorf("first %s, then %s", first, get(keys))
	}
	cluster = "c1"
	second := get(keys)
	if !strings.HasSuffix(second, " commons://c1/a-1") {
		t.Errorf("after joining: %s", second)
	}
	now = now.Add(leafRenewAfter)
	third := get(keys)
	now = now.Add(-2 * leafRenewAfter)
	fourth := get(keys)
	fifth := get(testSecrets(t, "b").current.Load())
	if third == second || fourth == third || fifth == fourth {
		t.Errorf("not made anew: %s, %s, %s, %s", second, third, fourth, fifth)
	}
}

func TestPendingHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	set, pending := newConnSet(), &newcomers{most: MaxHandshakes}
	var ends []net.Conn
	var all []*conn
	for range MaxHandshakes + 2 {
		near, far := net.Pipe()
		ends = append(ends, far)
		c := set.add(near, true)
		all = append(all, c)
		if len(all) == MaxHandshakes { // the second one is through before it gets tight
			pending.end(all[1])
		}
		pending.begin(c)
	}
	for i, far := range ends {
		_ = far.SetReadDeadline(time.Now()) // fails on the closed one
		_, err := far.Read(make([]byte, 1))
		check.Equal(t, errors.Is(err, io.EOF), i == 0, "connection %d: %v", i, err)
		_ = far.Close()
	}
	check.Equal(t, len(pending.open), MaxHandshakes, "waiting handshakes")
	set.close()
}
