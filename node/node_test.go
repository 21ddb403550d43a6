package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

const testPatience = time.Minute

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// call makes a request to a node.
func call(t *testing.T, n *Node, method, path, body string, headers ...string) *raw.Response {
	t.Helper()
	return must.Get(raw.Do(t.Context(), http.DefaultClient, method, "http://"+n.HTTPAddr()+path, body, headers...))(t)
}

// local returns the configuration of a node on any free ports.
func local(t *testing.T) config.Config {
	t.Helper()
	var c config.Config
	p := must.Get(kong.New(&c))(t)
	must.Get(p.Parse(nil))(t)
	c.NodeID, c.DataDir, c.DiskReserve = "n1", t.TempDir(), "0"
	c.HangTimeout = testPatience
	c.HTTPAddr, c.ClusterAddr, c.GossipAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Heartbeat = 100 * time.Millisecond
	return c
}

func mustStart(t *testing.T, c config.Config) *Node {
	t.Helper()
	n := must.Get(Start(t.Context(), c, quiet()))(t)
	t.Cleanup(n.Kill)
	return n
}

func shutdown(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	check.Err(t, n.Shutdown(ctx), nil, "shutdown")
}

func (n *Node) readyForTest() bool {
	for _, c := range (&backend{n}).Checks() {
		if !c.OK {
			return false
		}
	}
	return true
}

func TestStartAndShutdown(t *testing.T) {
	c := local(t)
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	check.Fails((&backend{n}).Propose(t.Context(), command.Sender{AgentKey: "ada"}, &command.Tick{}))(t, "a write from nowhere was taken")
	id := n.ServerID()
	if _, err := Start(t.Context(), c, quiet()); err == nil || !strings.Contains(err.Error(), c.DataDir) {
		t.Errorf("a second node in one data directory: error %v", err)
	}
	shutdown(t, n)
	shutdown(t, n)
	check.Err(t, n.Wait(), nil, "Wait after Shutdown")
	check.Fails(http.Get("http://"+n.HTTPAddr()))(t, "a node that was shut down answers")
	n = mustStart(t, c)
	await.Eventually(t, "ready again", n.readyForTest)
	check.Equal(t, n.ServerID(), id, "server id")
	shutdown(t, n)
	c.NodeID = "n2"
	if _, err := Start(t.Context(), c, quiet()); err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("a name that contradicts the data directory: error %v", err)
	}
}

// TestStartClosesTheDataDirectory: a data directory that others can read is closed.
func TestStartClosesTheDataDirectory(t *testing.T) {
	c := local(t)
	must.Do(t, os.Chmod(c.DataDir, 0o755)) //nolint:gosec // as an operator may have made it
	var log await.Buffer
	n := must.Get(Start(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil))))(t)
	t.Cleanup(n.Kill)
	check.Equal(t, must.Get(os.Stat(c.DataDir))(t).Mode().Perm(), 0o700, "mode of the data directory")
	check.ErrText(t, errors.New(log.String()), "other users could reach the data directory", "log")
	shutdown(t, n)
}

// TestFailedStartTakesAllDown: what was started before the failure is released.
func TestFailedStartTakesAllDown(t *testing.T) {
	other := mustStart(t, local(t))
	c := local(t)
	for name, change := range map[string]func(*config.Config){
		"http":    func(c *config.Config) { c.HTTPAddr = other.HTTPAddr() },
		"cluster": func(c *config.Config) { c.ClusterAddr = other.port.AdvertiseAddr() },
		"gossip":  func(c *config.Config) { c.GossipAddr = other.gossip.Addr() },
	} {
		bad := c
		change(&bad)
		if n, err := Start(t.Context(), bad, quiet()); err == nil {
			n.Kill()
			t.Errorf("started on the %s address of another node", name)
		} else if !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%s address in use: error %v", name, err)
		}
	}
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
}

func TestStartRejectsBadConfiguration(t *testing.T) {
	c := local(t)
	c.Heartbeat, c.LogLevel = 0, "loud"
	_, err := Start(t.Context(), c, quiet())
	var wrong *config.Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 2 {
		t.Errorf("error %v, want two problems", err)
	}
}

// TestWaitingNode: a node that is to join a cluster which is not there says so,
// rejects writes, and ends quickly.
func TestWaitingNode(t *testing.T) {
	c := local(t)
	c.Join = []string{"127.0.0.1:1"}
	n := mustStart(t, c)
	checks := map[string]op.Check{}
	for _, check := range (&backend{n}).Checks() {
		checks[check.Name] = check
	}
	for name, detail := range map[string]string{"leader": "no leader is known", "cluster": "not part of a cluster yet"} {
		if got := checks[name]; got.OK || !strings.HasPrefix(got.Detail, detail) {
			t.Errorf("check %s: %+v, want %q", name, got, detail)
		}
	}
	if !checks["running"].OK || checks["caught-up"].OK {
		t.Errorf("checks %+v", checks)
	}
	b := &backend{n}
	_, _, err := b.Propose(t.Context(), command.Sender{}, &command.Publish{})
	var unavailable *command.Unavailable
	if !errors.As(err, &unavailable) || unavailable.Code != command.CodeNotEnqueued {
		t.Errorf("Propose: %v", err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.WaitIndex(brief, 5); !errors.As(err, &unavailable) || unavailable.Code != command.CodeBehind {
		t.Errorf("WaitIndex: %v", err)
	}
	if leader, state, voters := n.raft.LeaderID(), n.raft.State(), n.raft.Voters(); leader != "" || state != raft.Follower || len(voters) != 0 {
		t.Errorf("leader %q, state %v, voters %v", leader, state, voters)
	}
	if b.StaleFor() <= 0 {
		t.Error("a node that never heard from a leader is not stale")
	}
	shutdown(t, n)
}

// TestStartWithoutAGossipName: a node whose --gossip-advertise does not resolve runs without
// gossip, and reports the problem.
func TestStartWithoutAGossipName(t *testing.T) {
	c := local(t)
	c.SecretFile, c.GossipAdvertise = filepath.Join(t.TempDir(), "secret"), "n1.invalid:7946"
	must.Get(cluster.KeepSecretFile(c.SecretFile))(t)
	const problem = "its gossip address, n1.invalid:7946, cannot be resolved"
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	warnings := n.admin.ClusterReport(t.Context()).Servers[0].Report.Warnings
	check.Contains(t, strings.Join(warnings, "; "), problem, "warnings")
	shutdown(t, n)

	c.DataDir, c.Join = t.TempDir(), []string{"127.0.0.1:1"}
	n = mustStart(t, c)
	await.Eventually(t, "the reason why it is in no cluster", func() bool { return strings.Contains(n.members.Waiting(), problem) })
	shutdown(t, n)
}

// TestFailureEndsTheNode: Wait returns the failure that ends a node.
func TestFailureEndsTheNode(t *testing.T) {
	n := mustStart(t, local(t))
	await.Eventually(t, "ready", n.readyForTest)
	cause := errors.New("the disk is gone")
	n.fail(cause)
	n.fail(errors.New("and another thing"))
	if err := n.Wait(); !errors.Is(err, cause) || strings.Contains(err.Error(), "another") {
		t.Errorf("Wait returned %v", err)
	}
	check.Err(t, n.Shutdown(t.Context()), cause, "Shutdown afterwards returned")
}

// TestStrangersSeeNoIDs: what everybody can ask names neither server nor cluster, and no
// version.
func TestStrangersSeeNoIDs(t *testing.T) {
	c := local(t)
	c.Version = "9.8.7-rc1"
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	suffix := strings.TrimPrefix(n.ServerID(), c.NodeID+"-")
	for _, path := range []string{"/", "/livez", "/readyz", "/status", "/api/stats", "/api/usage", "/.well-known/agent-card.json", "/.well-known/agent.json", "/llms.txt", "/openapi.json"} {
		res := call(t, n, http.MethodGet, path, "")
		must.Equal(t, res.Status, http.StatusOK, "status of %s", path)
		shown := fmt.Sprint(res.Header) + string(res.Body)
		for what, private := range map[string]string{"server": suffix, "cluster": n.dataKey.ClusterID(), "version": c.Version, "directory": c.DataDir} {
			if private == "" || strings.Contains(shown, private) {
				t.Errorf("%s shows the %s, %q:\n%s", path, what, private, shown)
			}
		}
	}
}

func TestMetricsShowRaftAndNode(t *testing.T) {
	n := mustStart(t, local(t))
	await.Eventually(t, "ready", n.readyForTest)
	metrics := string(call(t, n, http.MethodGet, "/metrics", "").Body)
	for _, line := range []string{"commons_leader 1\n", "commons_ready 1\n", "commons_voters 1\n", "commons_voter 1\n", "commons_stale_seconds 0\n", "commons_writes_refused 0\n", "raft_apply ", "raft_commitTime_count ", "raft_boltdb_storeLogs_count "} {
		check.Contains(t, metrics, line, "metrics")
	}
	check.Lacks(t, metrics, "raft_boltdb_logSize", "the metrics, of what nobody reads")
}

// A node serves HTTPS beside HTTP, and takes a new certificate while it runs.
func TestHTTPS(t *testing.T) {
	c, dir, authority := local(t), t.TempDir(), pushtest.NewAuthority(t)
	pushtest.WritePair(t, dir, authority.Certificate("commons.example"))
	c.TLSCert, c.TLSKey, c.HTTPSAddr = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), "127.0.0.1:0"
	n := mustStart(t, c)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: authority.Pool(), ServerName: "commons.example"},
	}}
	await.Eventually(t, "ready", n.readyForTest)
	ask := func() *x509.Certificate {
		resp := must.Get(client.Get("https://" + n.HTTPSAddr() + "/readyz"))(t)
		must.Do(t, resp.Body.Close())
		check.Equal(t, resp.StatusCode, http.StatusOK, "status over TLS")
		return resp.TLS.PeerCertificates[0]
	}
	first := ask()
	next := authority.Certificate("commons.example")
	pushtest.WritePair(t, dir, next)
	await.Eventually(t, "the new certificate is in use", func() bool { return ask().Equal(next.Leaf) && !next.Leaf.Equal(first) })
	must.Do(t, os.Remove(c.TLSKey))
	await.Eventually(t, "status and metrics show the problem", func() bool {
		metrics := string(call(t, n, http.MethodGet, "/metrics", "").Body)
		condition := n.health.Condition()
		return strings.Contains(metrics, "commons_certificate_rejected 1") && strings.Contains(strings.Join(n.health.Warnings(&condition), "; "), c.TLSKey)
	})
	ask()
	shutdown(t, n)
	check.Fails(client.Get("https://"+n.HTTPSAddr()))(t, "a node that was shut down answers over TLS")
}
