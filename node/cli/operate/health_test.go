package operate_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestHealthOfVoter(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Get(cluster.KeepSecretFile(secret))(t)
	private := c.Nodes[0].ClusterAddr()
	other := nodetest.New(t, 1) // with the same name
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a voter":              {[]string{"--cluster-addr", private}, cli.ExitOK, ""},
		"another address":      {[]string{"--cluster-addr", "127.0.0.1:1"}, cli.ExitUsage, "cannot ask whether the node has a vote: the node at 127.0.0.1:1 is not there; name the private port"},
		"another cluster":      {[]string{"--cluster-addr", other.Nodes[0].ClusterAddr()}, cli.ExitUsage, "and the private port " + other.Nodes[0].ClusterAddr() + " belong to different nodes"},
		"another secret":       {[]string{"--cluster-addr", private, "--secret-file", secret}, cli.ExitUsage, "do not have the same secret; give the cluster's with --secret-file"},
		"no such secret, wait": {[]string{"--cluster-addr", private, "--secret-file", secret + "x", "--wait", "10m"}, cli.ExitUsage, secret + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := execute(t, append([]string{"health", "--voter", "--http-addr", c.Nodes[0].Config.HTTPAddr}, tc.args...)...)
			check.Equal(t, code, tc.code, "exit code")
			check.Contains(t, stderr, tc.says, "stderr")
		})
	}
}

// TestHealthWaits holds that --wait repeats a check that fails until the node is ready.
func TestHealthWaits(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if code, _, stderr := execute(t, "health", "--url", server.URL, "--wait", "10m"); code != cli.ExitOK || asked.Load() != 3 {
		t.Errorf("exit code %d after %d calls: %s", code, asked.Load(), stderr)
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		answer := "leader: none\n"
		if r.Header.Get("Accept") == "application/json" {
			answer = `{"ready":true}`
		}
		check.Err(t, check.Last(w.Write([]byte(answer))), nil, "write the answer")
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")

	expect(t, cli.ExitOK, []string{"health", "--http-addr", addr}, "leader: none")
	if code, out, stderr := execute(t, "health", "--json", "--http-addr", addr); code != cli.ExitOK || out != "{\"ready\":true}\n" {
		t.Errorf("as JSON: exit code %d, %s%s", code, out, stderr)
	}
	t.Setenv("COMMONS_HTTP_ADDR", addr)
	expect(t, cli.ExitOK, []string{"health"})
	expect(t, cli.ExitOK, []string{"health", "--url", server.URL + "/"})
	status = http.StatusServiceUnavailable
	if code, out, stderr := execute(t, "health"); code != cli.ExitFailed || !strings.Contains(out, "leader: none") || !strings.Contains(stderr, "not ready") {
		t.Errorf("not ready: exit code %d, %s%s", code, out, stderr)
	}
	server.Close()
	expect(t, cli.ExitFailed, []string{"health"}, "refused")
}
