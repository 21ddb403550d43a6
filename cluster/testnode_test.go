package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const testTimeout = time.Minute

// directory resolves server ids in a test.
type directory struct {
	mu    sync.Mutex
	addrs map[string]string
}

func (d *directory) set(id, addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.addrs == nil {
		d.addrs = make(map[string]string)
	}
	d.addrs[id] = addr
}

func (d *directory) resolve(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, ok := d.addrs[id]
	return addr, ok
}

type testNode struct {
	*Port
	id      string
	logs    *logs
	cluster atomic.Value // string
}

// startNode opens a port. Its HTTP handler responds with the caller's id and the request
// body; its Raft listener echoes.
func startNode(t *testing.T, dir *directory, id string, secrets *Secrets, change func(*PortConfig)) *testNode {
	t.Helper()
	n := &testNode{id: id, logs: &logs{}}
	n.cluster.Store("")
	cfg := PortConfig{
		Addr: "127.0.0.1:0", ServerID: id, Secrets: secrets, Resolve: dir.resolve, Logger: n.logs.logger(),
		ClusterID: func() string { return n.cluster.Load().(string) },
		// A busy machine is no dead peer.
		DialTimeout: waitLimit, PingTimeout: waitLimit,
	}
	if change != nil {
		change(&cfg)
	}
	port := must.Get(Listen(cfg))(t)
	n.Port = port
	dir.set(id, port.AdvertiseAddr())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := port.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
				return
			}
			_, _ = fmt.Fprintf(w, "%s %s %s", PeerID(r.Context()), r.Proto, body)
		}))
		check.Err(t, err, nil, "serve")
	})
	layer := port.StreamLayer()
	wg.Go(func() {
		for {
			c, err := layer.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		check.Err(t, port.Close(), nil, "close")
		wg.Wait()
	})
	return n
}

// ask sends a request to a server and returns the answer's body.
func (n *testNode) ask(to, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to+"/x", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := n.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, got)
	}
	return string(got), err
}

// echo sends bytes over Raft's protocol and reads them back.
func (n *testNode) echo(to, text string) error {
	c, err := n.StreamLayer().Dial(raft.ServerAddress(to), testTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return echoOn(c, text)
}

func echoOn(c net.Conn, text string) error {
	if err := c.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != text {
		return fmt.Errorf("echo gave %q", buf)
	}
	return nil
}

func (n *testNode) wantBoth(t *testing.T, to string) {
	t.Helper()
	check.Equal(t, must.Get(n.ask(to, "hi"))(t), n.id+" HTTP/2.0 hi", "%s asks %s", n.id, to)
	check.Err(t, n.echo(to, "raft bytes"), nil, "%s echoes at %s", n.id, to)
}

// wantNeither wants both protocols rejected for the reason. A connection that
// was cut just now may fail for another one first.
func (n *testNode) wantNeither(t *testing.T, to, reason string) {
	t.Helper()
	await.Eventually(t, "asking "+to+" fails with "+reason, func() bool {
		got, err := n.ask(to, "hi")
		if err == nil {
			t.Fatalf("%s asks %s: answered %q", n.id, to, got)
		}
		return strings.Contains(err.Error(), reason)
	})
	if err := n.echo(to, "raft bytes"); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s echoes at %s: %v; want an error with %q", n.id, to, err, reason)
	}
}

// wantHealed wants both protocols served after connections were cut: a request
// may still use a connection that is already closed by the peer.
func (n *testNode) wantHealed(t *testing.T, to string) {
	t.Helper()
	await.Eventually(t, n.id+" reaches "+to, func() bool { _, err := n.ask(to, "hi"); return err == nil })
	n.wantBoth(t, to)
}
