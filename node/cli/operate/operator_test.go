package operate_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestSeveralAddresses holds that of several nodes one that answers is asked, and
// that an address without a node costs a bounded time.
func TestSeveralAddresses(t *testing.T) {
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	deaf := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer deaf.Close()
	for _, tc := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"members", "--cluster-addr", "127.0.0.1:1," + deaf.Addr().String() + "," + addr}, cli.ExitOK, []string{c.Nodes[0].ServerID()}},
		{[]string{"top", "--count", "1", "--interval", "100ms", "--cluster-addr", "127.0.0.1:1," + addr}, cli.ExitOK, []string{"1 of 1 voters ready"}},
		{[]string{"snapshot", "save", filepath.Join(t.TempDir(), "backup"), "--cluster-addr", "127.0.0.1:1," + addr}, cli.ExitOK, []string{"saved"}},
		{[]string{"members", "--cluster-addr", "127.0.0.1:1,127.0.0.1:2"}, cli.ExitFailed, []string{"127.0.0.1:1 is not there", "127.0.0.1:2 is not there"}},
		{[]string{"members", "--cluster-addr", "nowhere,127.0.0.1:x," + addr}, cli.ExitUsage, []string{"nowhere", "127.0.0.1:x"}},
		{[]string{"leave", "--cluster-addr", "127.0.0.1:1," + addr}, cli.ExitUsage, []string{"name that one alone"}},
	} {
		code, out, stderr := execute(t, tc.args...)
		for _, want := range tc.want {
			check.Equal(t, code, tc.code, "%v: exit code", tc.args)
			check.Contains(t, out+stderr, want, "%v: output", tc.args)
		}
	}
}

// TestOperatorCommands runs the commands against a node.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	id := c.Nodes[0].ServerID()
	for _, tc := range []struct {
		args []string
		code int
		want string // in what is printed
	}{
		{[]string{"members"}, cli.ExitOK, id},
		{[]string{"status"}, cli.ExitOK, "1 of 1 voters ready, 0 more may fail"},
		{[]string{"raft", "list-peers"}, cli.ExitOK, "leader"},
		{[]string{"digest"}, cli.ExitOK, id},
		{[]string{"agents", "reset-key", "nobody-here"}, cli.ExitFailed, `no agent "nobody-here" is registered`},
		{[]string{"agents", "reset-key", "?"}, cli.ExitFailed, "no agent's name"},
		{[]string{"agents", "unprotect", "nobody-here"}, cli.ExitFailed, `no agent "nobody-here" is registered`},
		{[]string{"agents", "protect", "?"}, cli.ExitFailed, "no agent's name"},
		{[]string{"settings"}, cli.ExitOK, "daily-bytes   4.0 GiB"},
		{[]string{"settings", "show"}, cli.ExitOK, "of 4.0 GiB used today"},
		{[]string{"settings", "set", "daily-bytes=0"}, cli.ExitOK, "of no bound used today by 0 senders, networks and names.\n"},
		{[]string{"settings", "set", "daily-bytes=4GiB"}, cli.ExitOK, "daily-bytes is kept for senders below 1.0 MiB."},
		{[]string{"settings", "set", "daily-bytes=much"}, cli.ExitFailed, "write it as daily-bytes=512MiB"},
		{[]string{"settings", "set", "daily-bytes=1025TiB"}, cli.ExitFailed, "not a number of bytes up to 1024 TiB"},
		{[]string{"settings", "set", "retention=30d"}, cli.ExitOK, "retention     30d        for how long texts are kept; 0d: for good; 0 entries became stubs, 0 are to be looked at\n"},
		{[]string{"settings", "set", "retention=0d"}, cli.ExitOK, "retention     0d         for how long texts are kept; 0d: for good\n"},
		{[]string{"settings", "set", "retention=36501d"}, cli.ExitFailed, "at most 36500 are allowed"},
		{[]string{"settings", "set", "retention=30"}, cli.ExitFailed, "not a number of days; write it as retention=30d"},
		{[]string{"settings", "set", "bytes=1"}, cli.ExitFailed, "there are daily-bytes, sender-bytes, proven-only, retention"},
		{[]string{"settings", "set", "bytes=1", "proven-only=perhaps"}, cli.ExitFailed, "\"proven-only=perhaps\": neither true nor false"},
		{[]string{"mod", "hide", "e99", "--reason", "x"}, cli.ExitFailed, "e99 names no entry that exists.\n0 of 0 changed (hide)"},
		{[]string{"mod", "hide", "--profile", "nobody-here", "--reason", "x"}, cli.ExitFailed, "nobody-here names no profile that exists."},
		{[]string{"mod", "hide", "--agent", "nobody-here", "--reason", "x"}, cli.ExitFailed, "nothing would be changed (hide)"},
		{[]string{"mod", "purge", "e99", "--reason", "x", "--yes"}, cli.ExitFailed, "e99 names no entry that exists."},
		{[]string{"mod", "resolve", "e99", "--outcome", "kept", "--reason", "x", "--yes"}, cli.ExitFailed, "e99 names no entry, profile or channel that exists.\n0 of 0 reports are resolved"},
		{[]string{"mod", "lift", "7"}, cli.ExitFailed, "commons: The request has 1 problem: number is that of no order"},
		{[]string{"mod", "block", "--network", "10.0.0.0/99", "--for", "1h", "--reason", "x"}, cli.ExitFailed, "problem: network cannot be taken: 10.0.0.0/99 must be like 192.0.2.0/24"},
		{[]string{"raft", "transfer-leader"}, cli.ExitFailed, "no other voter is alive"},
		{[]string{"raft", "transfer-leader", "n9"}, cli.ExitFailed, `"n9" is neither`},
		{[]string{"raft", "remove-peer", "n1"}, cli.ExitFailed, "commons leave"},
		{[]string{"leave"}, cli.ExitFailed, "the only voter"},
	} {
		name := strings.Join(tc.args, " ")
		code, out, stderr := execute(t, append(tc.args, "--cluster-addr", addr)...)
		if code != tc.code || !strings.Contains(out+stderr, tc.want) {
			t.Errorf("%s: exit code %d, %s%s", name, code, out, stderr)
		}
		if tc.code != cli.ExitOK {
			continue
		}
		code, out, stderr = execute(t, append(tc.args, "--json", "--cluster-addr", addr)...)
		if code != cli.ExitOK || !json.Valid([]byte(out)) {
			t.Errorf("%s --json: exit code %d, %s%s", name, code, out, stderr)
		}
	}
}

func TestOperatorCommandsSayWhatToDo(t *testing.T) {
	c := nodetest.New(t, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	expect(t, cli.ExitOK, []string{"secret", "generate", "--keep", secret})
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--cluster-addr", "127.0.0.1:1"}, cli.ExitFailed, "is not there; name the private port of a running node"},
		{[]string{"--cluster-addr", "nowhere"}, cli.ExitUsage, "--cluster-addr: "},
		{[]string{"--cluster-addr", "192.0.2.1:7000"}, cli.ExitUsage, "without a secret file only loopback"},
		{[]string{"--cluster-addr", c.Nodes[0].ClusterAddr(), "--secret-file", secret}, cli.ExitFailed, "do not have the same secret"},
		{[]string{"--secret-file", filepath.Join(t.TempDir(), "missing")}, cli.ExitUsage, "commons secret generate"},
	} {
		code, out, stderr := execute(t, append([]string{"members"}, tc.args...)...)
		if code != tc.code || out != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: exit code %d, %s%s", tc.args, code, out, stderr)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	code, out, stderr := execute(t, "top", "--count", "2", "--interval", "100ms", "--cluster-addr", addr)
	if code != cli.ExitOK || strings.Count(out, "1 of 1 voters ready") != 2 || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	code, out, stderr = execute(t, "top", "--count", "1", "--interval", "100ms", "--json", "--cluster-addr", addr)
	if code != cli.ExitOK || !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	// A node that is away may come back: it is asked again.
	code, out, stderr = execute(t, "top", "--count", "2", "--interval", "100ms", "--cluster-addr", "127.0.0.1:1")
	if code != cli.ExitOK || strings.Count(out, "is not there") != 2 {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	expect(t, cli.ExitUsage, []string{"top", "--interval", "1ms", "--cluster-addr", addr}, "--interval: 1ms is too short")
}

func TestKeyIsReset(t *testing.T) {
	c := nodetest.New(t, 1)
	register := func(body map[string]string) int {
		t.Helper()
		return must.Get(c.Nodes[0].PostJSON("/api/agents", body, &struct{}{}))(t)
	}
	must.Equal(t, register(map[string]string{"id": "Ada", "description": "Loses her keys."}), http.StatusCreated, "registration: status")
	code, out, stderr := execute(t, "agents", "reset-key", "ada", "--json", "--cluster-addr", c.Nodes[0].ClusterAddr())
	var answer admin.KeyAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != cli.ExitOK {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for key, want := range map[string]int{answer.EditKey: http.StatusCreated, answer.EditKey + "x": http.StatusForbidden} {
		check.Equal(t, register(map[string]string{"id": "ada", "note": "Found " + key[len(key)-1:], "edit_key": key}), want, "a change with the key %q: status", key)
	}
	recovered := register(map[string]string{"id": "ada", "recovery_key": answer.RecoveryKey})
	check.Equal(t, recovered, http.StatusCreated, "a recovery with the new recovery key: status")
	if c.Nodes[0].Logged(answer.EditKey) || c.Nodes[0].Logged(answer.RecoveryKey) {
		t.Error("a key is in the log")
	}
	write := func() int {
		t.Helper()
		entry := map[string]string{"agent": "ada", "body": "Who am I?"}
		return must.Get(c.Nodes[0].PostJSON("/api/entries", entry, &struct{}{}))(t)
	}
	for _, step := range []struct {
		verb, says string
		status     int
	}{
		{"protect", "ada is protected", http.StatusForbidden},
		{"unprotect", "ada is no longer protected", http.StatusCreated},
	} {
		code, out, stderr := execute(t, "agents", step.verb, "Ada", "--cluster-addr", c.Nodes[0].ClusterAddr())
		if code != cli.ExitOK || !strings.Contains(strings.ToLower(out), step.says) {
			t.Errorf("%s: exit code %d: %s%s", step.verb, code, out, stderr)
		}
		check.Equal(t, write(), step.status, "status of a write without the key after %s", step.verb)
	}
	expect(t, cli.ExitOK, []string{"agents", "reset-key", "ada", "--cluster-addr", c.Nodes[0].ClusterAddr()}, "the edit_key of ada is now ck_")
}

// TestStatusWithoutQuorum: status shows for how long a node has not answered, and fails if no
// majority does.
func TestStatusWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 2)
	asked := []string{"status", "--cluster-addr", c.Nodes[0].ClusterAddr()}
	expect(t, cli.ExitOK, asked, "2 of 2 voters ready")
	gone := c.Nodes[1].ServerID()
	c.Kill(1)
	code, out, stderr := execute(t, asked...)
	check.Equal(t, code, cli.ExitFailed, "exit code")
	check.ErrText(t, errors.New(out), "! "+gone+" is not there; see whether its node runs; it has not answered since 20", "screen")
	check.ErrText(t, errors.New(stderr), "1 of 2 voters, itself included, and 2 are needed; start the others", "error")
	code, out, _ = execute(t, append(asked, "--json")...)
	check.Equal(t, code, cli.ExitFailed, "exit code of JSON")
	var seen struct{ VotersAnswer int }
	must.Do(t, json.Unmarshal([]byte(out), &seen))
	check.Equal(t, seen.VotersAnswer, 1, "voters that answer")
	expect(t, cli.ExitOK, append([]string{"top", "--count", "1"}, asked[1:]...), "docs/operating/recover.md")
}
