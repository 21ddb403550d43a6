package operate_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// Texts, addresses and secrets that a bundle must not contain.
const (
	aSecret  = "the secret of this cluster, which nobody is told"
	aClient  = "203.0.113.77"
	aText    = "unmistakable-words-of-an-agent"
	aHook    = "https://receiver.example/unmistakable-hook"
	aRequest = "unmistakable-request-id"
)

// TestDebugBundle: a bundle has the parts of all nodes and names the missing parts. It has
// no secret and no data of a client, also if the level of the logs is debug.
func TestDebugBundle(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte(aSecret+"\n"), 0o600))
	c := nodetest.New(t, 3, func(cfg *config.Config) {
		cfg.SecretFile, cfg.LogLevel, cfg.RequestLog, cfg.TrustedProxies = secret, "debug", 1000, []string{"127.0.0.0/8"}
	})
	c.WaitVoters()
	key := beClient(t, c.Nodes[0])
	dead, alive := c.Nodes[2].ServerID(), []string{c.Nodes[0].ServerID(), c.Nodes[1].ServerID()}
	c.Kill(2)

	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	expect(t, cli.ExitOK, []string{"debug", file, "--cpu", "0", "--secret-file", secret, "--cluster-addr", c.Nodes[0].ClusterAddr()}, "with 2 nodes", "missing: "+dead)
	code, out, stderr := execute(t, "debug", "-", "--cpu", "0", "--secret-file", secret, "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != cli.ExitOK || !strings.HasPrefix(out, "\x1f\x8b") || !strings.Contains(stderr, "saved - with 2 nodes") {
		t.Errorf("to standard output: exit code %d, %.20q, %s", code, out, stderr)
	}
	files := unpack(t, file)
	for name, want := range map[string]string{"cluster.json": `"clusterId": "`, "missing.txt": dead + ": "} {
		check.Contains(t, files["bundle/"+name], want, "%s", name)
	}
	for name, want := range map[string]string{
		"report.json": `"role": "`, "config.json": `"secret-file": "`, "metrics.txt": "\ncommons_build_info{", "log.jsonl": `"msg":"listening"`,
		"goroutines.txt": "goroutine profile: total", "heap.pprof": "runtime.",
	} {
		for _, id := range alive {
			check.Contains(t, files[("bundle/"+id+"/"+name)], want, "the file")
		}
	}
	hash := sha256.Sum256([]byte(key))
	check.Contains(t, files["bundle/"+alive[0]+"/log.jsonl"], `"msg":"request"`, "the log")
	for name, text := range files {
		for what, never := range map[string]string{
			"the secret": aSecret, "a key": key, "a key's hash": hex.EncodeToString(hash[:]), "a key's hash, in base64": base64.StdEncoding.EncodeToString(hash[:]),
			"a client's address": aClient, "a text": aText, "a receiver": aHook, "a request id": aRequest,
		} {
			check.Lacks(t, text, never, "%s, which must not hold %s,", name, what)
		}
	}
}

// beClient does what clients do, right and wrong, and returns the edit_key that it got.
func beClient(t *testing.T, nd *nodetest.Node) string {
	t.Helper()
	call := func(method, path, key, body string) []byte {
		t.Helper()
		return must.Get(nd.Raw(method, path, body,
			"Content-Type", "application/json", "X-Forwarded-For", aClient, "Authorization", "Bearer "+key))(t).Body
	}
	var registered struct {
		EditKey string `json:"edit_key"`
	}
	if err := json.Unmarshal(call("POST", "/api/agents", "", `{"id":"ada","description":"`+aText+`"}`), &registered); err != nil || registered.EditKey == "" {
		t.Fatalf("no key: %v", err)
	}
	key := registered.EditKey
	call("POST", "/api/entries", key, `{"agent":"ada","body":"`+aText+`","request_id":"`+aRequest+`"}`)
	call("POST", "/api/entries", key+"x", `{"agent":"ada","body":"`+aText+`"`)
	call("POST", "/api/agents", key, `{"id":"ada","notify_url":"`+aHook+`"}`)
	call("POST", "/api/entries", "", `{"agent":"ada","body":"`+aText+`","edit_key":"`+key+`x"}`)
	call("GET", "/api/entries?q="+aText+"&agent=ada", key, "")
	call("GET", "/"+aText, key, "")
	call("POST", "/mcp", key, `{"jsonrpc":"2.0","id":1,"method":"`+aText+`"}`)
	return key
}

// unpack returns the files of a bundle by name; profiles as what is packed in them.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	archive, files := tar.NewReader(bytes.NewReader(gunzip(t, data))), map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.Do(t, err)
		text := must.Get(io.ReadAll(archive))(t)
		if strings.HasSuffix(header.Name, ".pprof") {
			text = gunzip(t, text)
		}
		files[header.Name] = string(text)
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r := must.Get(gzip.NewReader(bytes.NewReader(data)))(t)
	return must.Get(io.ReadAll(r))(t)
}

// TestLogLevel changes the level of one node and of all while they run.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 2)
	c.WaitVoters()
	one, two := c.Nodes[0].ServerID(), c.Nodes[1].ServerID()
	for _, tc := range []struct {
		args string
		code int
		want map[string]string // level by server
	}{
		{"", cli.ExitOK, map[string]string{one: "INFO", two: "INFO"}},
		{"debug --node n2", cli.ExitOK, map[string]string{two: "DEBUG"}},
		{"", cli.ExitOK, map[string]string{one: "INFO", two: "DEBUG"}},
		{"error", cli.ExitOK, map[string]string{one: "ERROR", two: "ERROR"}},
		{"loud", cli.ExitFailed, map[string]string{}},
		{"debug --node n9", cli.ExitFailed, nil},
	} {
		args := append([]string{"log-level", "--json", "--cluster-addr", c.Nodes[0].ClusterAddr()}, strings.Fields(tc.args)...)
		code, out, stderr := execute(t, args...)
		var levels []struct{ ID, Level string }
		if err := json.Unmarshal([]byte(out), &levels); err != nil && tc.want != nil {
			t.Errorf("%s: %v in %s", tc.args, err, out)
		}
		got := map[string]string{}
		for _, l := range levels {
			got[l.ID] = l.Level
		}
		if got[two] == "DEBUG" {
			c.WaitLogged(1, "level=DEBUG")
		}
		if code != tc.code || len(got) != len(tc.want) || got[one] != tc.want[one] || got[two] != tc.want[two] {
			t.Errorf("%q: exit code %d, %v, want %v: %s", tc.args, code, got, tc.want, stderr)
		}
	}
	c.WaitLogged(1, "changed the level of the log")
	check.Equal(t, c.Nodes[0].Logged("level=DEBUG"), false, "the first node's level was never debug, and it says so much")
}
