package operate_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestSettings: a setting holds at once for all nodes, and what one sender writes over
// it without a key is a 429 until the next day.
func TestSettings(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.WaitReady()
	write := func() *raw.Response {
		t.Helper()
		const body = `{"agent":"ada","body":"How much is too much?"}`
		return must.Get(c.Nodes[0].Raw(http.MethodPost, "/api/entries", body))(t)
	}
	must.Equal(t, write().Status, http.StatusCreated, "a write at the defaults: status")
	set := func(changes ...string) (report admin.SettingsReport) {
		t.Helper()
		args := append(append([]string{"settings", "set"}, changes...), "--json", "--cluster-addr", c.Nodes[0].ClusterAddr())
		code, out, stderr := execute(t, args...)
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != cli.ExitOK {
			t.Fatalf("exit code %d: %s%s", code, out, stderr)
		}
		return report
	}
	report := set("sender-bytes=100")
	want := command.DefaultSettings
	if want.SenderBytes = 100; report.Settings != want || report.UsedBytes == 0 || report.Senders != 1 {
		t.Errorf("the settings are %+v", report)
	}
	res := write()
	wait, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	const day = 24 * 60 * 60
	if res.Status != http.StatusTooManyRequests || wait < 1 || wait > day || res.Header.Get("RateLimit-Policy") != `"daily_bytes";q=100;w=86400` ||
		!strings.Contains(string(res.Body), `"rate_limited"`) || !strings.Contains(string(res.Body), "00:00 UTC") {
		t.Errorf("a write over the budget: status %d, %v, %s", res.Status, res.Header, res.Body)
	}
	set("sender-bytes=0", "daily-bytes=0")
	check.Equal(t, write().Status, http.StatusCreated, "a write without bounds: status")
	for _, tc := range []struct {
		changes []string
		status  int
		policy  string
	}{
		{[]string{"write-rate=1", "write-burst=1"}, http.StatusCreated, ""},
		{nil, http.StatusTooManyRequests, `"writes";q=1;w=60`},
		{[]string{"write-burst=0"}, http.StatusCreated, ""},
		{[]string{"write-rate=2", "write-burst=2"}, http.StatusCreated, ""},
		{nil, http.StatusCreated, ""},
		{nil, http.StatusTooManyRequests, `"writes";q=2;w=60`},
		{[]string{"write-rate=", "write-burst="}, http.StatusCreated, ""}, // the node's flags set no limit
	} {
		if len(tc.changes) > 0 {
			set(tc.changes...)
		}
		if res := write(); res.Status != tc.status || res.Header.Get("RateLimit-Policy") != tc.policy {
			t.Errorf("after %v: status %d and policy %s, want %d and %s", tc.changes, res.Status, res.Header.Get("RateLimit-Policy"), tc.status, tc.policy)
		}
	}
}

// TestSettingWithoutValue: the name of a setting alone is rejected. As an empty value it would end
// the schedule of backups or the welcome.
func TestSettingWithoutValue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"retention", "backup.url", "welcome", "write-rate", "write-burst", "daily-bytes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"settings", "set", name, "--yes", "--cluster-addr", "127.0.0.1:1", "--timeout", "1s"}
			expect(t, cli.ExitFailed, args, `"`+name+`": no value; write it as `+name+`=VALUE`)
		})
	}
}

// TestWrongLimitNamesTheSetting: the message shows how to write that setting, not another one.
func TestWrongLimitNamesTheSetting(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"write-rate", "write-burst"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"settings", "set", name + "=x", "--cluster-addr", "127.0.0.1:1", "--timeout", "1s"}
			expect(t, cli.ExitFailed, args, "write it as "+name+"=30, or "+name+"= for")
		})
	}
}
