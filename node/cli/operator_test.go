package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// someSettings have half a day of writes behind them.
var someSettings = admin.SettingsReport{
	Settings: command.Settings{DailyBytes: 512 << 20, SenderDays: 30}, SmallShareBytes: 128 << 10, UsedBytes: 64 << 20, Senders: 12, DayMillis: 12 * 3_600_000,
}

// someCluster is a cluster with a leader, a follower that lags, a voter that does
// not answer and a node that is just joining.
func someCluster() admin.ClusterReport {
	reported := func(id, role string, applied uint64) *admin.NodeReport {
		return &admin.NodeReport{
			ID: id, Name: id[:1], Version: "1.2.3", ClusterID: "c0ffee", Role: role, Leader: "a-1", Term: 7, Ready: true,
			HTTP: id[:1] + ":8080", Private: id[:1] + ":7000", Gossip: id[:1] + ":7946",
			Applied: applied, Commit: applied, LastLog: applied, UptimeMillis: 3_725_000,
			Requests: 1000, Commands: 500, LogBytes: 5 << 20, DiskFree: 1536 << 20, DiskSize: 4 << 30, MemoryBytes: 200 << 20, Open: 3,
			Settings: someSettings,
			Condition: admin.Condition{
				ClockAheadMillis: 3.2, Clocks: 3, Sync: admin.Timing{Count: 70, MeanMillis: 2.25, MostMillis: 31},
				Write: admin.Timing{Count: 50, MeanMillis: 8.5, MostMillis: 12_400}, Stall: admin.Timing{Count: 600, MeanMillis: 0.1, MostMillis: 4},
			},
		}
	}
	late := reported("b-2", "follower", 90)
	late.Ready, late.Problems = false, []string{"caught-up: applied 90 of 100", "writes are rejected: disk_full: the disks are nearly full (b)"}
	late.Warnings = []string{"its clock is 10m0s behind the median of 3 clocks"}
	late.Condition = admin.Condition{
		Rejects: "disk_full: the disks are nearly full (b)", Rejected: []admin.Rejected{{Code: "disk_full", Count: 12}, {Code: "not_enqueued", Count: 1}},
		ClockAheadMillis: -600_000, ApplyLag: 10, ApplyLagMillis: 2500, Stall: admin.Timing{Count: 1, MeanMillis: 2600, MostMillis: 2600},
	}
	leader := reported("a-1", "leader", 100)
	leader.Warnings = []string{"a flag has a name that nobody has registered"}
	late.Warnings = append(late.Warnings, leader.Warnings...)
	return admin.ClusterReport{
		ClusterID: "c0ffee", AskedNode: "b-2", Leader: "a-1",
		Servers: []admin.Server{
			{ID: "a-1", Part: admin.Voter, Alive: true, Report: leader},
			{ID: "b-2", Part: admin.Voter, Alive: true, Report: late},
			{ID: "c-3", Part: admin.Voter, Error: "c-3 does not answer in time"},
			{ID: "d-4", Part: admin.Outside, Alive: true, Report: reported("d-4", "follower", 0)},
			{ID: "e-5", Part: admin.NonVoter, Alive: true, Error: "e-5 does not answer in time"},
		},
	}
}

func TestMembersTable(t *testing.T) {
	report := someCluster()
	golden(t, "members.txt", membersText(&report)+"\n")
}

func TestPeersTable(t *testing.T) {
	report := someCluster()
	golden(t, "peers.txt", peersText(peersOf(&report))+"\n")
}

func TestStatusScreen(t *testing.T) {
	before, now := someCluster(), someCluster()
	now.Servers[0].Report.Requests += 300
	now.Servers[0].Report.Commands += 50
	now.Servers[0].Report.UptimeMillis += 2000
	now.Servers[3].Report.Requests = 10 // started again since
	now.Servers[3].Report.UptimeMillis = 100
	start := time.Now()
	w := watcher{before: before, now: now, earlier: start, last: start.Add(2 * time.Second)}
	golden(t, "status.txt", statusText(w.overview())+"\n")
}

func TestRejectedEverywhere(t *testing.T) {
	report := someCluster()
	if reason := rejectedEverywhere(&report); reason != "" {
		t.Errorf("one server takes writes, and the screen says %q", reason)
	}
	report.Servers[0].Report.Rejects = "disk_full: no space"
	if reason := rejectedEverywhere(&report); !strings.HasPrefix(reason, "disk_full") {
		t.Errorf("no server takes writes, and the screen says %q", reason)
	}
	report.Servers[1].Report = nil
	report.Servers[0].Report.Leader, report.Servers[0].Report.Rejects = "", ""
	if reason := rejectedEverywhere(&report); reason != "no leader is known" {
		t.Errorf("there is no leader, and the screen says %q", reason)
	}
	if screen := statusText((&watcher{now: report}).overview()); !strings.Contains(screen, "WRITES ARE REJECTED: no leader is known\n") {
		t.Errorf("the screen is %s", screen)
	}
	report.Servers[0].Report = nil
	if reason := rejectedEverywhere(&report); reason != "no server answers" {
		t.Errorf("none answers, and the screen says %q", reason)
	}
}

// TestHealthExitCode holds that the command fails for each server that is not well,
// however healthy Raft finds it, and not for slowness.
func TestHealthExitCode(t *testing.T) {
	report := someCluster()
	report.Servers[1].Report.Problems = nil
	report.Servers[2].Report, report.Servers[4].Report = report.Servers[0].Report, report.Servers[0].Report
	report.Servers[3].Report = nil // outside
	health := admin.HealthReport{Health: admin.Health{Healthy: true}, Reports: report.Servers}
	if err := unwell(&health); err != nil {
		t.Errorf("all is well: %v", err)
	}
	health.Healthy = false
	if err := unwell(&health); err == nil {
		t.Error("not healthy, and it succeeds")
	}
	health.Healthy = true
	report.Servers[1].Report.Problems = []string{"writes are rejected: disk_full"}
	if err := unwell(&health); err == nil || !strings.Contains(err.Error(), "not well: b-2;") {
		t.Errorf("one rejects writes: %v", err)
	}
	report.Servers[4].Report = nil
	if err := unwell(&health); err == nil || !strings.Contains(err.Error(), "not well: b-2, e-5;") {
		t.Errorf("another does not answer: %v", err)
	}
}

func TestMillisText(t *testing.T) {
	for ms, want := range map[float64]string{0: "0.0 ms", 9.94: "9.9 ms", 10: "10 ms", 1234.5: "1234 ms", 10_000: "10s", 600_000: "10m0s"} {
		if got := millisText(ms); got != want {
			t.Errorf("%g: %q, want %q", ms, got, want)
		}
	}
}

// TestSeveralAddresses holds that of several nodes one that answers is asked, and
// that an address without a node costs a bounded time.
func TestSeveralAddresses(t *testing.T) {
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for _, tc := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"members", "--cluster-addr", "127.0.0.1:1," + deaf.Addr().String() + "," + addr}, exitOK, []string{c.Nodes[0].ServerID()}},
		{[]string{"top", "--count", "1", "--interval", "100ms", "--cluster-addr", "127.0.0.1:1," + addr}, exitOK, []string{"1 of 1 voters ready"}},
		{[]string{"snapshot", "save", filepath.Join(t.TempDir(), "backup"), "--cluster-addr", "127.0.0.1:1," + addr}, exitOK, []string{"saved"}},
		{[]string{"members", "--cluster-addr", "127.0.0.1:1,127.0.0.1:2"}, exitFailed, []string{"127.0.0.1:1 is not there", "127.0.0.1:2 is not there"}},
		{[]string{"members", "--cluster-addr", "nowhere,127.0.0.1:x," + addr}, exitUsage, []string{"nowhere", "127.0.0.1:x"}},
		{[]string{"leave", "--cluster-addr", "127.0.0.1:1," + addr}, exitUsage, []string{"name that one alone"}},
	} {
		code, out, stderr := execute(t, tc.args...)
		for _, want := range tc.want {
			if code != tc.code || !strings.Contains(out+stderr, want) {
				t.Errorf("%v: exit code %d, want %d and %q: %s%s", tc.args, code, tc.code, want, out, stderr)
			}
		}
	}
}

func TestFindServer(t *testing.T) {
	report := someCluster()
	report.Servers = append(report.Servers, admin.Server{ID: "a-9"})
	for name, want := range map[string]string{"b-2": "b-2", "b": "b-2", "a-9": "a-9", "a": "", "x": "", "b-": "", "": ""} {
		got, ok := report.Find(name)
		if got.ID != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", name, got.ID, ok)
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
		{[]string{"members"}, exitOK, id},
		{[]string{"status"}, exitOK, "1 of 1 voters ready, 0 more may fail"},
		{[]string{"raft", "list-peers"}, exitOK, "leader"},
		{[]string{"digest"}, exitOK, id},
		{[]string{"agents", "reset-key", "nobody-here"}, exitFailed, `no agent "nobody-here" is registered`},
		{[]string{"agents", "reset-key", "?"}, exitFailed, "no agent's name"},
		{[]string{"agents", "unprotect", "nobody-here"}, exitFailed, `no agent "nobody-here" is registered`},
		{[]string{"agents", "protect", "?"}, exitFailed, "no agent's name"},
		{[]string{"settings"}, exitOK, "daily-bytes   4.0 GiB"},
		{[]string{"settings", "show"}, exitOK, "of 4.0 GiB used today"},
		{[]string{"settings", "set", "daily-bytes=much"}, exitFailed, "write it as daily-bytes=512MiB"},
		{[]string{"settings", "set", "daily-bytes=1025TiB"}, exitFailed, "not a number of bytes up to 1024 TiB"},
		{[]string{"settings", "set", "bytes=1"}, exitFailed, "there are daily-bytes, sender-bytes, proven-only, alike-hourly"},
		{[]string{"settings", "set", "bytes=1", "proven-only=perhaps"}, exitFailed, "\"proven-only=perhaps\": neither true nor false"},
		{[]string{"mod", "hide", "e99", "--reason", "x"}, exitFailed, "e99 names no entry that exists.\n0 of 0 changed (hide)"},
		{[]string{"mod", "hide", "--profile", "nobody-here", "--reason", "x"}, exitFailed, "nobody-here names no profile that exists."},
		{[]string{"mod", "hide", "--agent", "nobody-here", "--reason", "x"}, exitFailed, "nothing would be changed (hide)"},
		{[]string{"mod", "purge", "e99", "--reason", "x", "--yes"}, exitFailed, "e99 names no entry that exists."},
		{[]string{"mod", "resolve", "e99", "--outcome", "kept", "--reason", "x", "--yes"}, exitFailed, "e99 names no entry that exists.\n0 of 0 reports are resolved"},
		{[]string{"mod", "lift", "7"}, exitFailed, "commons: The request has 1 problem: number is that of no rule that holds"},
		{[]string{"mod", "block", "--network", "10.0.0.0/99", "--for", "1h", "--reason", "x"}, exitFailed, "problem: network cannot be taken: 10.0.0.0/99 must be like 192.0.2.0/24"},
		{[]string{"autopilot", "health"}, exitOK, id},
		{[]string{"raft", "transfer-leader"}, exitFailed, "no other voter is alive"},
		{[]string{"raft", "transfer-leader", "n9"}, exitFailed, `"n9" is neither`},
		{[]string{"raft", "remove-peer", "n1"}, exitFailed, "commons leave"},
		{[]string{"leave"}, exitFailed, "the only voter"},
	} {
		name := strings.Join(tc.args, " ")
		code, out, stderr := execute(t, append(tc.args, "--cluster-addr", addr)...)
		if code != tc.code || !strings.Contains(out+stderr, tc.want) {
			t.Errorf("%s: exit code %d, %s%s", name, code, out, stderr)
		}
		if tc.code != exitOK {
			continue
		}
		code, out, stderr = execute(t, append(tc.args, "--json", "--cluster-addr", addr)...)
		if code != exitOK || !json.Valid([]byte(out)) {
			t.Errorf("%s --json: exit code %d, %s%s", name, code, out, stderr)
		}
	}
}

func TestOperatorCommandsSayWhatToDo(t *testing.T) {
	c := nodetest.New(t, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	if code, _, stderr := execute(t, "secret", "generate", "--keep", secret); code != exitOK {
		t.Fatal(stderr)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--cluster-addr", "127.0.0.1:1"}, exitFailed, "is not there; name the private port of a running node"},
		{[]string{"--cluster-addr", "nowhere"}, exitUsage, "--cluster-addr: "},
		{[]string{"--cluster-addr", "192.0.2.1:7000"}, exitUsage, "without a secret file only loopback"},
		{[]string{"--cluster-addr", c.Nodes[0].ClusterAddr(), "--secret-file", secret}, exitFailed, "do not have the same secret"},
		{[]string{"--secret-file", filepath.Join(t.TempDir(), "missing")}, exitUsage, "commons secret generate"},
	} {
		code, out, stderr := execute(t, append([]string{"members"}, tc.args...)...)
		if code != tc.code || out != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: exit code %d, %s%s", tc.args, code, out, stderr)
		}
	}
}

func TestHealthOfVoter(t *testing.T) {
	c := nodetest.New(t, 1)
	health := func(addr string) (code int, stderr string) {
		code, _, stderr = execute(t, "health", "--voter", "--timeout", "2s", "--http-addr", c.Nodes[0].Config.HTTPAddr, "--cluster-addr", addr)
		return code, stderr
	}
	if code, stderr := health(c.Nodes[0].ClusterAddr()); code != exitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, stderr := health("127.0.0.1:1"); code != exitFailed {
		t.Errorf("without a private port: exit code %d, %s", code, stderr)
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	code, out, stderr := execute(t, "top", "--count", "2", "--interval", "100ms", "--cluster-addr", addr)
	if code != exitOK || strings.Count(out, "1 of 1 voters ready") != 2 || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	code, out, stderr = execute(t, "top", "--count", "1", "--interval", "100ms", "--json", "--cluster-addr", addr)
	if code != exitOK || !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	// A node that is away may come back: it is asked again.
	code, out, stderr = execute(t, "top", "--count", "2", "--interval", "100ms", "--cluster-addr", "127.0.0.1:1")
	if code != exitOK || strings.Count(out, "is not there") != 2 {
		t.Errorf("exit code %d: %q %s", code, out, stderr)
	}
	code, _, stderr = execute(t, "top", "--interval", "1ms", "--cluster-addr", addr)
	if code != exitUsage || !strings.Contains(stderr, "--interval: 1ms is too short") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestScreenOfATerminal(t *testing.T) {
	var out bytes.Buffer
	s := screen{out: &out, live: true}
	s.enter()
	s.show("one\ntwo\n")
	s.leave()
	for _, want := range []string{screenEnter, screenHome + "one" + lineRest + "\ntwo" + lineRest + "\n", screenRest, screenLeave} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %q", want, out.String())
		}
	}
}

func TestKeyIsReset(t *testing.T) {
	c := nodetest.New(t, 1)
	register := func(body map[string]string) int {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Nodes[0].URL()+"/api/agents", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	if status := register(map[string]string{"id": "Ada", "description": "Loses her keys."}); status != http.StatusCreated {
		t.Fatalf("registration: status %d", status)
	}
	code, out, stderr := execute(t, "agents", "reset-key", "ada", "--json", "--cluster-addr", c.Nodes[0].ClusterAddr())
	var answer admin.KeyAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for key, want := range map[string]int{answer.EditKey: http.StatusCreated, answer.EditKey + "x": http.StatusForbidden} {
		if status := register(map[string]string{"id": "ada", "note": "Found " + key[len(key)-1:], "edit_key": key}); status != want {
			t.Errorf("a change with the key %q: status %d, want %d", key, status, want)
		}
	}
	if c.Nodes[0].Logged(answer.EditKey) {
		t.Error("the key is in the log")
	}
	write := func() int {
		t.Helper()
		res, err := http.Post(c.Nodes[0].URL()+"/api/entries", "application/json", strings.NewReader(`{"agent":"ada","body":"Who am I?"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	for _, step := range []struct {
		verb, says string
		status     int
	}{
		{"protect", "ada is protected", http.StatusForbidden},
		{"unprotect", "ada is no longer protected", http.StatusCreated},
	} {
		code, out, stderr := execute(t, "agents", step.verb, "Ada", "--cluster-addr", c.Nodes[0].ClusterAddr())
		if code != exitOK || !strings.Contains(strings.ToLower(out), step.says) {
			t.Errorf("%s: exit code %d: %s%s", step.verb, code, out, stderr)
		}
		if status := write(); status != step.status {
			t.Errorf("a write without the key after %s: status %d, want %d", step.verb, status, step.status)
		}
	}
	code, out, _ = execute(t, "agents", "reset-key", "ada", "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != exitOK || !strings.Contains(out, "the edit_key of ada is now ck_") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestDifferences(t *testing.T) {
	silent := []admin.Digest{{ID: "n1-a", Digest: "ab", Rows: "cd"}, {ID: "n2-b", Error: "is not there"}}
	for _, tc := range []struct {
		comparison admin.Comparison
		want       []string // in this order
	}{
		{admin.Comparison{Equal: true, Digests: silent[:1]}, nil},
		{admin.Comparison{Equal: true, Digests: silent}, []string{"not every node answered"}},
		{admin.Comparison{Index: 7, Digests: silent}, []string{"differ at index 7", "save a backup of each first", "stop those"}},
	} {
		err := differences(&tc.comparison)
		if tc.want == nil {
			if err != nil {
				t.Errorf("%+v: %v", tc.comparison, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%+v: no error", tc.comparison)
			continue
		}
		rest := err.Error()
		for _, text := range tc.want {
			_, after, found := strings.Cut(rest, text)
			if !found {
				t.Errorf("%+v: %v, want %q", tc.comparison, err, text)
			}
			rest = after
		}
	}
}

// TestModeratorsSeeWhatWasDone: the exit code says whether something was changed, and a
// sentence for each id why nothing was.
func TestModeratorsSeeWhatWasDone(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Cheap pills"})
	c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Cheap pills again"})
	for _, tc := range []struct {
		args []string // of mod
		code int
		want string // all that is printed
	}{
		{[]string{"hide", "e1", "e7", "--reason", "x"}, exitOK, "e7 names no entry that exists.\n1 of 1 changed (hide)\n"},
		{[]string{"hide", "e1", "--reason", "x"}, exitFailed, "e1 is hidden already.\n0 of 0 changed (hide)\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x"}, exitFailed, "1 would be changed (hide). The newest:\n  e2  eve in general: Cheap pills again\nNothing was changed yet: give --yes to do it.\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x", "--yes"}, exitOK, "1 of 1 changed (hide)\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x", "--yes"}, exitFailed, "0 of 0 changed (hide)\n"},
		{[]string{"unhide", "e1"}, exitOK, "1 of 1 changed (unhide)\n"},
		{[]string{"unhide", "e1"}, exitFailed, "e1 is shown already.\n0 of 0 changed (unhide)\n"},
		{[]string{"purge", "e1", "--reason", "x"}, exitFailed, "1 would be changed (purge). The newest:\n  e1  eve in general: Cheap pills\nNothing was changed yet: give --yes to do it.\n"},
		{[]string{"purge", "e1", "--reason", "x", "--yes"}, exitOK, "1 of 1 changed (purge)\n"},
		{[]string{"purge", "e1", "e2", "e2", "--reason", "x", "--yes"}, exitOK, "e1 was erased before: nothing is left of it.\n1 of 1 changed (purge)\n"},
		{[]string{"unhide", "e1"}, exitFailed, "e1 was erased before: nothing is left of it.\n0 of 0 changed (unhide)\n"},
		{[]string{"unhide", "--agent", "eve", "--yes"}, exitFailed, "0 of 0 changed (unhide)\n"},
	} {
		code, out, stderr := execute(t, slices.Concat([]string{"mod"}, tc.args, []string{"--cluster-addr", c.Nodes[0].ClusterAddr()})...)
		if code != tc.code || out+stderr != tc.want {
			t.Errorf("%v: exit code %d, %q, want %d, %q", tc.args, code, out+stderr, tc.code, tc.want)
		}
	}
}

// TestPurgeStatusForModerators: with a token over the public interface a moderator is shown
// what the operator is.
func TestPurgeStatusForModerators(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	private := []string{"--cluster-addr", c.Nodes[0].ClusterAddr()}
	_, out, stderr := execute(t, append([]string{"mod", "token", "create", "mia", "--json"}, private...)...)
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(out), &token); err != nil {
		t.Fatal(err, out, stderr)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	_, want, _ := execute(t, append([]string{"mod", "purge-status"}, private...)...)
	code, got, stderr := execute(t, "mod", "purge-status", "--url", c.Nodes[0].URL(), "--token-file", file)
	if code != exitOK || got != want || !strings.Contains(got, c.Nodes[0].ServerID()) {
		t.Errorf("exit code %d, %q %s, want %q", code, got, stderr, want)
	}
}

// TestBulkOutlivesTheLeader: all of a selection is done, also when the leader dies amid it
// and comes back.
func TestBulkOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 3)
	c.WaitVoters()
	leader := c.WaitLeader()
	const written = 600
	for i := range written {
		c.MustPublish(i%len(c.Nodes), nodetest.Post{Agent: "eve", Body: fmt.Sprintf("Cheap pills, number %d", i)})
	}
	addrs := make([]string, len(c.Nodes))
	for i, nd := range c.Nodes {
		addrs[i] = nd.ClusterAddr()
	}
	for _, verb := range []string{"hide", "unhide"} {
		type end struct {
			code int
			said string
		}
		done := make(chan end, 1)
		go func() {
			code, out, stderr := execute(t, "mod", verb, "--agent", "eve", "--reason", "x", "--yes", "--timeout", "1m", "--cluster-addr", strings.Join(addrs, ","))
			done <- end{code, out + stderr}
		}()
		c.Eventually("the first part", func() string {
			_, log, err := c.Nodes[leader].GetText("/api/moderation/log?limit=1")
			if err != nil || !strings.Contains(log, `"action":"`+verb+`"`) {
				return fmt.Sprint(log, err)
			}
			return ""
		})
		c.Kill(leader)
		c.Start(leader)
		if got := <-done; got.code != exitOK {
			t.Errorf("%s: exit code %d, %s", verb, got.code, got.said)
		}
		leader = c.WaitLeader()
		want := 0
		if verb == "unhide" {
			want = written
		}
		if left := len(c.All(leader, url.Values{"agent": {"eve"}, "consistency": {"strong"}})); left != want {
			t.Errorf("after %s %d are shown, want %d", verb, left, want)
		}
	}
	c.WaitConverged()
}

// logBuffer is a log that can be read while it is written to.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestNodeThatLeftIsNotStartedAgain: the exit code tells a service manager to leave
// the node alone, when it leaves and whenever it is started afterwards.
func TestNodeThatLeftIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 3)
	c.WaitVoters()
	_, members, _ := execute(t, "members", "--cluster-addr", c.Nodes[0].ClusterAddr())
	columns := strings.Fields(members)
	args := []string{
		"serve", "--node-id", "fourth", "--data-dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--cluster-addr", "127.0.0.1:0",
		"--gossip-addr", "127.0.0.1:0", "--join", columns[len(columns)-1], "--log-format", "text",
	}
	var log logBuffer
	ended := make(chan int, 1)
	go func() { ended <- run(t.Context(), args, streams{&log, &log}) }()
	private := ""
	c.Eventually("a vote for the fourth node", func() string {
		if found := regexp.MustCompile(`msg=listening .*cluster=(\S+)`).FindStringSubmatch(log.String()); found != nil {
			private = found[1]
		}
		_, out, _ := execute(t, "members", "--cluster-addr", c.Nodes[0].ClusterAddr())
		if private == "" || !regexp.MustCompile(`(?m)^fourth-\S+ +voter`).MatchString(out) {
			return out
		}
		return ""
	})
	if code, _, stderr := execute(t, "leave", "--cluster-addr", private); code != exitOK {
		t.Fatalf("leave: exit code %d: %s", code, stderr)
	}
	select {
	case code := <-ended:
		said := log.String()
		if code != exitLeft || !strings.Contains(said, "msg=ended") || strings.Contains(said, "level=ERROR") {
			t.Errorf("exit code %d\n%s", code, said)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node did not end")
	}
	if code, _, stderr := execute(t, args...); code != exitLeft || !strings.Contains(stderr, "has left its cluster; empty its data directory") {
		t.Errorf("started again: exit code %d: %s", code, stderr)
	}
}
