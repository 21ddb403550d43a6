package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestPortServesBothProtocols(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "node_A.1-x", secrets, nil)
	b := startNode(t, dir, "b-1", testSecrets(t, "a"), nil)
	a.wantBoth(t, "b-1")
	b.wantBoth(t, "node_A.1-x")
	a.wantBoth(t, "node_A.1-x")
	check.Equal(t, a.StreamLayer().Addr().String(), "node_A.1-x", "stream address")
	a.wantNeither(t, "c-1", "no address known")
}

func TestPortManyConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	startNode(t, dir, "b-1", secrets, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		text := strings.Repeat(fmt.Sprint(i), 100)
		wg.Go(func() {
			check.Err(t, a.echo("b-1", text), nil, "echo")
		})
		wg.Go(func() {
			check.Equal(t, must.Get(a.ask("b-1", text))(t), "a-1 HTTP/2.0 "+text, "ask")
		})
	}
	wg.Wait()
	// Superfluous connections for HTTP are closed; one is enough.
	http2 := func() (count int) {
		a.conns.mu.Lock()
		defer a.conns.mu.Unlock()
		for c := range a.conns.conns {
			if c.protocol == ProtocolHTTP {
				count++
			}
		}
		return count
	}
	await.Eventually(t, "few HTTP/2 connections", func() bool { return http2() <= 2 })
}

func TestPortRejectsAnotherSecret(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	a := startNode(t, dir, "a-1", testSecrets(t, "a"), nil)
	b := startNode(t, dir, "b-1", testSecrets(t, "b"), nil)
	b.wantNeither(t, "a-1", "another cluster secret")
	await.Eventually(t, "the port says why", func() bool {
		return a.logs.has("rejected a connection to the private port") && a.logs.has("another cluster secret")
	})
	await.Eventually(t, "the dialler says why", func() bool {
		return b.logs.has("did not connect to a server") && b.logs.has("another cluster secret")
	})
}

func TestPortRejectsTheLoopbackSecretWhenItHasAFile(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	loop := must.Get(LoadSecrets(""))(t)
	startNode(t, dir, "a-1", testSecrets(t, "a"), nil)
	b := startNode(t, dir, "b-1", loop, nil)
	c := startNode(t, dir, "c-1", loop, nil)
	b.wantNeither(t, "a-1", "another cluster secret")
	b.wantBoth(t, c.id)
}

func TestPortRejectsAnotherCluster(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	b := startNode(t, dir, "b-1", secrets, nil)
	a.cluster.Store("one")
	b.wantBoth(t, "a-1") // b has no cluster yet
	a.wantBoth(t, "b-1")
	b.cluster.Store("one")
	b.closeConns("a-1")
	b.wantHealed(t, "a-1")
	b.cluster.Store("two")
	b.closeConns("a-1")
	b.wantNeither(t, "a-1", "server a-1 belongs to cluster one, this node to cluster two")
	a.closeConns("b-1")
	a.wantNeither(t, "b-1", "server b-1 belongs to cluster two, this node to cluster one")
}

// A client that accepts anything meets the port's own check.
func TestPortChecksTheClusterOfCallers(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	a.cluster.Store("one")
	for _, tt := range []struct {
		who    peerIdentity
		key    string
		ok     bool
		reason string
	}{
		{peerIdentity{"one", "b-1"}, "a", true, ""},
		{peerIdentity{"", "b-1"}, "a", true, ""},
		{peerIdentity{"two", "b-1"}, "a", false, "belongs to cluster two"},
		{peerIdentity{"one", "b 1"}, "a", false, "not that of a node"},
		{peerIdentity{"one", ""}, "a", false, "not that of a node"},
		{peerIdentity{"one", "b-1"}, "b", false, "another cluster secret"},
	} {
		keys := testSecrets(t, tt.key).current.Load()
		cert := must.Get(keys.first().ca.issue(tt.who, time.Now()))(t)
		err := roughClient(a.AdvertiseAddr(), cert, ProtocolRaft)
		check.Equal(t, err == nil, tt.ok, "%+v under %s: %v", tt.who, tt.key, err)
		if !tt.ok {
			await.Eventually(t, tt.reason, func() bool { return a.logs.has(tt.reason) })
		}
	}
}

// roughClient shakes hands without checking the server and echoes.
func roughClient(addr string, cert *tls.Certificate, protocols ...string) error {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
	if cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	return echoOn(tls.Client(raw, conf), "x")
}

func TestPortRejectsStrangers(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	own := must.Get(secrets.current.Load().first().ca.issue(peerIdentity{serverID: "b-1"}, time.Now()))(t)
	old := must.Get(secrets.current.Load().first().ca.issue(peerIdentity{serverID: "b-1"}, time.Now().Add(-2*LeafValidity)))(t)
	ahead := must.Get(secrets.current.Load().first().ca.issue(peerIdentity{serverID: "b-1"}, time.Now().Add(LeafBackdate/2)))(t)
	check.Err(t, roughClient(a.AdvertiseAddr(), ahead, ProtocolRaft), nil, "a peer whose clock is days ahead")
	for _, tt := range []struct {
		name, reason string
		dial         func() error
	}{
		{"no certificate", "client didn't provide a certificate", func() error { return roughClient(a.AdvertiseAddr(), nil, ProtocolRaft) }},
		{"expired", "certificate has expired", func() error { return roughClient(a.AdvertiseAddr(), old, ProtocolRaft) }},
		{"no protocol", "it names no protocol", func() error { return roughClient(a.AdvertiseAddr(), own) }},
		{"another protocol", "unsupported application protocols", func() error { return roughClient(a.AdvertiseAddr(), own, "spdy/3") }},
		{"plain TCP", "it does not speak TLS", func() error {
			c, err := net.Dial("tcp", a.AdvertiseAddr())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			return echoOn(c, "GET / HTTP/1.1\r\n\r\n")
		}},
		{"TLS 1.2", "unsupported versions", func() error {
			c, err := net.Dial("tcp", a.AdvertiseAddr())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			return echoOn(tls.Client(c, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}), "x")
		}},
	} {
		check.Fails(tt.dial())(t, "%s: served", tt.name)
		await.Eventually(t, tt.name+" is logged", func() bool { return a.logs.has(tt.reason) })
	}
	for range 20 {
		check.Fails(roughClient(a.AdvertiseAddr(), nil, ProtocolRaft))(t, "served")
	}
	check.Equal(t, a.logs.count("client didn't provide a certificate"), 1, "lines of one reason from one host")
}

func TestPortHoldsSilentStrangersInCheck(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	b := startNode(t, dir, "b-1", secrets, nil)
	var silent []net.Conn
	for range MaxHandshakes + 50 {
		c := must.Get(net.Dial("tcp", a.AdvertiseAddr()))(t)
		silent = append(silent, c)
	}
	b.wantBoth(t, "a-1")
	for i, c := range silent {
		must.Do(t, c.SetReadDeadline(time.Now().Add(waitLimit)))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("connection %d was kept: %v", i, err)
		}
		_ = c.Close()
	}
}

func TestPortRejectsWrongServerBehindAddress(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	b := startNode(t, dir, "b-1", secrets, nil)
	dir.set("c-1", b.AdvertiseAddr())
	a.wantNeither(t, "c-1", "server b-1 is there, not c-1")
	if !a.logs.has("server b-1 is there, not c-1") {
		t.Error("not logged")
	}
}

func TestPortTriesAllAddressesOfAName(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	// Two servers on one port number: one name stands for both.
	var b *testNode
	for b == nil {
		c := startNode(t, dir, "c-1", secrets, nil)
		_, port, err := splitAddr(c.AdvertiseAddr())
		must.Do(t, err)
		probe, err := net.Listen("tcp", joinAddr("127.0.0.2", port))
		if err != nil {
			continue // taken: with another pair
		}
		_ = probe.Close()
		b = startNode(t, dir, "b-1", secrets, func(cfg *PortConfig) { cfg.Addr = joinAddr("127.0.0.2", port) })
	}
	_, port, err := splitAddr(b.AdvertiseAddr())
	must.Do(t, err)
	var lookups atomic.Int32
	a := startNode(t, dir, "a-1", secrets, func(cfg *PortConfig) {
		cfg.LookupHost = func(_ context.Context, host string) ([]string, error) {
			if host != "nodes.test" {
				return nil, fmt.Errorf("unexpected name %q", host)
			}
			lookups.Add(1)
			return []string{"127.0.0.3", "127.0.0.1", "127.0.0.2"}, nil
		}
	})
	dir.set("b-1", joinAddr("nodes.test", port))
	dir.set("c-1", joinAddr("nodes.test", port))
	a.wantBoth(t, "b-1")
	a.wantBoth(t, "c-1")
	check.Equal(t, lookups.Load(), 4, "lookups for 4 dials")
	dir.set("d-1", joinAddr("nodes.test", port))
	a.wantNeither(t, "d-1", "server c-1 is there, not d-1")
}

func TestPortLoopbackOnly(t *testing.T) {
	t.Parallel()
	loop := must.Get(LoadSecrets(""))(t)
	resolve := func(string) (string, bool) { return "192.0.2.1:7000", true }
	for _, tt := range []struct{ addr, advertise string }{
		{"0.0.0.0:0", ""}, {":0", ""}, {"[::]:0", ""}, {"192.0.2.1:0", ""}, {"127.0.0.1:0", "192.0.2.1:7000"}, {"127.0.0.1:0", "192.0.2.1"},
	} {
		p, err := Listen(PortConfig{Addr: tt.addr, Advertise: tt.advertise, ServerID: "a-1", Secrets: loop, Resolve: resolve})
		if err == nil {
			_ = p.Close()
			t.Errorf("%+v: opened", tt)
			continue
		}
		check.Contains(t, err.Error(), "--secret-file", "the error of %+v", tt)
	}
	p := must.Get(Listen(PortConfig{Addr: "localhost:0", ServerID: "a-1", Secrets: loop, Resolve: resolve}))(t)
	defer func() { _ = p.Close() }()
	if _, err := p.StreamLayer().Dial("b-1", testTimeout); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("dial away from loopback: %v", err)
	}
}

func TestPortBoundsRequests(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	startNode(t, dir, "b-1", secrets, nil)
	check.Err(t, check.Last(a.ask("a-1", strings.Repeat("x", MaxRequestBytes))), nil, "a request at the bound")
	if _, err := a.ask("a-1", strings.Repeat("x", MaxRequestBytes+1)); err == nil || !strings.Contains(err.Error(), "status 413") {
		t.Errorf("declared length: %v", err)
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a-1/", io.MultiReader(strings.NewReader(strings.Repeat("x", MaxRequestBytes+1)))))(t)
	res := must.Get(a.Client().Do(req))(t)
	_ = res.Body.Close()
	check.Equal(t, res.StatusCode, http.StatusRequestEntityTooLarge, "undeclared length")
	if _, err := a.Client().Get("http://a-1/"); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("plain HTTP: %v", err)
	}
}

func TestPortShutdownLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	dir := &directory{}
	secrets := testSecrets(t, "a")
	a := startNode(t, dir, "a-1", secrets, nil)
	started, release := make(chan struct{}), make(chan struct{})
	p := must.Get(Listen(PortConfig{
		Addr: "127.0.0.1:0", ServerID: "b-1", ClusterID: func() string { return "" }, Secrets: secrets, Resolve: dir.resolve,
		Logger: slog.New(slog.DiscardHandler),
	}))(t)
	dir.set("b-1", p.AdvertiseAddr())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(started)
			<-release
			_, _ = io.WriteString(w, "done")
		})); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	wg.Go(func() {
		check.Equal(t, must.Get(a.ask("b-1", ""))(t), "done", "the running request")
	})
	<-started
	down := make(chan error, 1)
	go func() { down <- p.Shutdown(t.Context()) }()
	await.Eventually(t, "no new requests", func() bool { _, err := a.echoless("b-1"); return err != nil })
	select {
	case err := <-down:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	close(release)
	check.Err(t, <-down, nil, "shutdown")
	wg.Wait()
	check.Err(t, p.Close(), nil, "close after shutdown")
}

// echoless asks over a connection of its own.
func (n *testNode) echoless(to string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	tc, err := n.dial(ctx, to, ProtocolHTTP, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tc.Close() }()
	_ = tc.SetReadDeadline(time.Now().Add(testTimeout))
	if _, err := io.WriteString(tc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return "", err
	}
	_, err = io.ReadFull(tc, make([]byte, 9)) // the server's settings
	return "", err
}

func (n *testNode) closeConns(peer string) {
	n.conns.closeIf(func(c *conn) bool { return c.peer == peer })
}
