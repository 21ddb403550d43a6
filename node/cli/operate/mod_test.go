package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestModeratorsSeeWhatWasDone: the exit code says whether something was changed, and a
// sentence for each id why it was not.
func TestModeratorsSeeWhatWasDone(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	first := c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Cheap pills"}).Entry
	c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "Cheap pills again"})
	for _, tc := range []struct {
		args []string // of mod
		code int
		want string // all that is printed
	}{
		{[]string{"hide", "e1", "e7", "--reason", "x"}, cli.ExitOK, "e7 names no entry that exists.\n1 of 1 changed (hide)\nto show them again: commons mod undo 1\n"},
		{[]string{"hide", "e1", "--reason", "x"}, cli.ExitFailed, "e1 is hidden already.\n0 of 0 changed (hide)\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x"}, cli.ExitFailed, "1 would be changed (hide). The newest:\n  e2  eve in general: Cheap pills again\nNothing was changed yet: give --yes to do it.\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x", "--yes"}, cli.ExitOK, "1 of 1 changed (hide)\nto show them again: commons mod undo 2\n"},
		{[]string{"hide", "--agent", "eve", "--reason", "x", "--yes"}, cli.ExitFailed, "0 of 0 changed (hide)\n"},
		{[]string{"undo", "1"}, cli.ExitOK, "order 1: 1 of 1 changed (undo)\n"},
		{[]string{"hide", "e1", "--reason", "x"}, cli.ExitOK, "1 of 1 changed (hide)\nto show them again: commons mod undo 4\n"},
		{[]string{"unhide", "e1"}, cli.ExitOK, "1 of 1 changed (unhide)\n"},
		{[]string{"unhide", "e1"}, cli.ExitFailed, "e1 is shown already.\n0 of 0 changed (unhide)\n"},
		{[]string{"purge", "e1", "--reason", "x"}, cli.ExitFailed, "1 would be changed (purge). The newest:\n  e1  eve in general: Cheap pills\nNothing was changed yet: give --yes to do it.\n"},
		{[]string{"purge", "e1", "--reason", "x", "--yes"}, cli.ExitOK, "1 of 1 changed (purge)\n"},
		{[]string{"purge", "e1", "e2", "e2", "--reason", "x", "--yes"}, cli.ExitOK, "e1 was erased before: nothing is left of it.\n1 of 1 changed (purge)\n"},
		{[]string{"unhide", "e1"}, cli.ExitFailed, "e1 was erased before: nothing is left of it.\n0 of 0 changed (unhide)\n"},
		{[]string{"unhide", "--agent", "eve", "--yes"}, cli.ExitFailed, "0 of 0 changed (unhide)\n"},
	} {
		code, out, stderr := execute(t, slices.Concat([]string{"mod"}, tc.args, []string{"--cluster-addr", c.Nodes[0].ClusterAddr()})...)
		check.Equal(t, code, tc.code, "%v: exit code", tc.args)
		check.Equal(t, out+stderr, tc.want, "%v: output", tc.args)
	}
	since := "removed since " + time.UnixMilli(first.CreatedAt).UTC().Format(time.RFC3339)
	_, out, _ := execute(t, "mod", "purge-status", "--cluster-addr", c.Nodes[0].ClusterAddr())
	check.Contains(t, out, since, "the status of the purges")
}

// TestPurgesAreForOperators: a moderator's token is no use for them.
func TestPurgesAreForOperators(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"purge", "e1", "--reason", "x", "--yes"}, {"purge-status"}} {
		args = slices.Concat([]string{"mod"}, args, []string{"--url", "http://127.0.0.1:1", "--token-file", os.DevNull})
		expect(t, cli.ExitUsage, args, "this is for operators alone")
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
		c.Eventually("the first part", func() error {
			_, log, stderr := execute(t, "mod", "log", "--limit", "1", "--json", "--cluster-addr", c.Nodes[leader].ClusterAddr())
			return nodetest.ErrorIf(!strings.Contains(log, `"action": "`+verb+`"`), "%s%s", log, stderr)
		})
		c.Kill(leader)
		c.Start(leader)
		got := <-done
		check.Equal(t, got.code, cli.ExitOK, "%s: exit code, with %s", verb, got.said)
		leader = c.WaitLeader()
		want := 0
		if verb == "unhide" {
			want = written
		}
		c.WaitConverged()
		check.Equal(t, len(c.All(leader, client.EntryQuery{Agent: "eve"})), want, "after %s are shown", verb)
	}
	c.WaitConverged()
}

// TestManyIDsAreShortened: tables of events and of moderation show the beginning of a long list.
func TestManyIDsAreShortened(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	hide := []string{"mod", "hide", "--reason", "Advertisement", "--cluster-addr", c.Nodes[0].ClusterAddr()}
	for i := range 40 {
		hide = append(hide, c.MustPublish(0, nodetest.Post{Body: fmt.Sprint("Cheap pills, number ", i)}).Entry.ID)
	}
	expect(t, cli.ExitOK, hide)
	for _, args := range [][]string{{"events"}, {"mod", "log"}} {
		_, out, stderr := execute(t, append(args, "--cluster-addr", c.Nodes[0].ClusterAddr())...)
		check.Contains(t, out, " e1 e2 e3 ", "the output of %v, %s", args, stderr)
	}
}

// TestFollowEvents: the events from a number on, and later ones as they happen, each once; the leader
// logs them, too.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	at := []string{"--json", "--cluster-addr", c.Nodes[0].ClusterAddr()}
	for i := range 8 {
		expect(t, cli.ExitOK, append([]string{"settings", "set", fmt.Sprint("write-burst=", i+1)}, at...))
	}
	read := func(args ...string) (events admin.Events) {
		t.Helper()
		code, out, stderr := execute(t, append(append([]string{"events"}, args...), at...)...)
		if err := json.Unmarshal([]byte(out), &events); err != nil || code != cli.ExitOK {
			t.Fatalf("exit code %d: %s%s", code, out, stderr)
		}
		return events
	}
	all := read().Events
	for i := range all {
		page := read("--from", fmt.Sprint(i+1), "--limit", "2").Events
		page = page[:min(len(page), len(all)-i)] // without later ones of the leader
		check.Diff(t, page, all[i:min(i+2, len(all))], "two events from %d on", i+1)
	}
	expect(t, cli.ExitUsage, []string{"events", "--follow"}, "give --json, too")

	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, append([]string{"events", "--follow", "--from", "2"}, at...), terminal.Streams{Out: w, Err: io.Discard}, "")
	}()
	lines := json.NewDecoder(r)
	last := uint64(1)
	for i := range 2 {
		expect(t, cli.ExitOK, append([]string{"settings", "set", fmt.Sprint("write-burst=", i+20)}, at...))
		for _, want := range read("--from", fmt.Sprint(last+1)).Events { // those of the leader, too
			var e admin.Event
			must.Do(t, lines.Decode(&e))
			check.Equal(t, e, want, "the next event")
			last++
			check.Equal(t, e.Number, last, "its number")
		}
		c.WaitLogged(0, fmt.Sprintf("msg=event node=%s number=%d", c.Nodes[0].ServerID(), last))
	}
	cancel()
	check.Equal(t, <-ended, cli.ExitOK, "exit code")
}

// TestFollowEventsSince: --follow with --since begins with the past events.
func TestFollowEventsSince(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	at := []string{"--json", "--cluster-addr", c.Nodes[0].ClusterAddr()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, append([]string{"events", "--follow", "--since", "1h"}, at...), terminal.Streams{Out: w, Err: io.Discard}, "")
	}()
	lines := json.NewDecoder(r)
	var e admin.Event
	must.Do(t, lines.Decode(&e))
	check.Equal(t, e.Number, 1, "the number of the first event")
	expect(t, cli.ExitOK, append([]string{"settings", "set", "write-burst=20"}, at...))
	for last := e.Number; e.Action != "settings"; last = e.Number {
		must.Do(t, lines.Decode(&e))
		check.Equal(t, e.Number, last+1, "the number of the next event")
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // those of the leader that come later
	cancel()
	check.Equal(t, <-ended, cli.ExitOK, "exit code")
}

// TestManyIDsAreManyCalls holds that a command takes more ids than a call, and shows the progress.
func TestManyIDsAreManyCalls(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	var ids []string
	for i := range 3 {
		ids = append(ids, c.MustPublish(0, nodetest.Post{Body: fmt.Sprint("Cheap pills, number ", i)}).Entry.ID)
	}
	for len(ids) < 250 {
		ids = slices.Insert(ids, 0, ids[0]) // the last ones are in the last call
	}
	for _, id := range ids[len(ids)-3:] {
		status, err := c.Nodes[0].PostJSON("/api/reports", map[string]string{"entry_id": id, "reason": "spam", "text": "It sells pills"}, &struct{}{})
		check.Equal(t, status, http.StatusCreated, "report of %s: %v", id, err)
	}
	for _, verb := range [][]string{{"hide"}, {"unhide"}, {"resolve", "--outcome", "kept", "--yes"}, {"purge", "--yes"}} {
		args := slices.Concat([]string{"mod"}, verb, []string{"--reason", "A test", "--cluster-addr", c.Nodes[0].ClusterAddr()}, ids)
		code, out, stderr := execute(t, args...)
		if code != cli.ExitOK || !strings.Contains(stderr, "commons: 100 of 250\ncommons: 200 of 250\ncommons: 250 of 250\n") || !strings.Contains(out, "3 of 3 ") {
			t.Errorf("%s: exit code %d, %.300s%s", verb, code, out, stderr)
		}
	}
}

// TestResolveInPages: no call has more than 100 ids and names, and each is in one call.
func TestResolveInPages(t *testing.T) {
	sent := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ IDs, Profiles, Channels []string }
		_ = json.NewDecoder(r.Body).Decode(&body) // an empty one fails below
		items := slices.Concat(body.IDs, body.Profiles, body.Channels)
		if len(items) == 0 || len(items) > 100 {
			t.Errorf("a call has %d ids and names", len(items))
		}
		for _, item := range items {
			sent[item]++
		}
		_, _ = fmt.Fprintf(w, `{"matched":%d,"resolved":%[1]d}`, len(items))
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte("cmod_mia"), 0o600))
	args := []string{"mod", "resolve", "--outcome=kept", "--reason=x", "--yes", "--url", server.URL, "--token-file", token, "--profile", "ada,bob", "--channel", "ops"}
	for i := range 101 {
		args = append(args, fmt.Sprint("e", i+1))
	}
	expect(t, cli.ExitOK, args, "104 of 104 reports are resolved")
	check.Equal(t, len(sent), 104, "ids and names that were sent")
	check.Equal(t, sent["ada"]+sent["ops"], 2, "calls with a profile and with a channel")
}

// TestModRepeatsACall holds that a repeated call may change no data without failing, because
// an earlier attempt may have made the change.
func TestModRepeatsACall(t *testing.T) {
	calls, fails := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls <= fails {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"matched":0,"changed":0,"resolved":0}`))
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte("cmod_mia"), 0o600))
	for _, test := range []struct {
		args  []string
		fails int
		code  int
	}{
		{[]string{"hide", "e1", "--reason=x"}, 0, cli.ExitFailed},
		{[]string{"hide", "e1", "--reason=x"}, 1, cli.ExitOK},
		{[]string{"hide", "--agent=eve", "--reason=x", "--yes"}, 1, cli.ExitOK},
		{[]string{"hide", "--agent=eve", "--reason=x"}, 1, cli.ExitFailed},
		{[]string{"resolve", "e1", "--reason=x", "--outcome=kept", "--yes"}, 1, cli.ExitOK},
	} {
		calls, fails = 0, test.fails
		args := append([]string{"mod"}, test.args...)
		code, out, stderr := execute(t, append(args, "--url", server.URL, "--token-file", token)...)
		if code != test.code || strings.Contains(stderr, "an earlier attempt may have done it") != (code == cli.ExitOK) {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, stderr)
		}
	}
}

// TestLiftGoesOn: the command continues after a rule that an attempt with a lost answer has lifted.
// It fails at a rule that was lifted before the call.
func TestLiftGoesOn(t *testing.T) {
	answers := make(chan int, 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := <-answers
		w.WriteHeader(status)
		if status == http.StatusUnprocessableEntity {
			_, _ = io.WriteString(w, `{"error":"The request has 1 problem.","code":"invalid","issues":[{"field":"number","message":"is that of no rule"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"number":8,"record":1}`)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte("cmod_mia"), 0o600))
	lift := []string{"mod", "lift", "7", "8", "--url", server.URL, "--token-file", token}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnprocessableEntity, http.StatusOK} {
		answers <- status
	}
	expect(t, cli.ExitOK, lift, "order 8: ")
	answers <- http.StatusUnprocessableEntity
	expect(t, cli.ExitFailed, lift, "is that of no rule")
	check.Equal(t, len(answers), 0, "calls that were not made")
}

// TestModRules: a pattern is tested without a rule, and a block is lifted by its number.
func TestModRules(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "CHEAP pills"})
	c.MustPublish(0, nodetest.Post{Agent: "ann", Body: "Good morning"})
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cheap", "--test"}, cli.ExitOK, "found in 1 of the newest 2 entries; no rule was set. The newest:\nID  STATE    "},
		{[]string{"cheap", "--test", "--last", "1"}, cli.ExitOK, "found in 0 of the newest 1 entries; no rule was set\n"},
		{[]string{"cheap"}, cli.ExitUsage, "--reason: say why"},
	} {
		code, out, stderr := execute(t, slices.Concat([]string{"mod", "watch"}, test.args, []string{"--cluster-addr", c.Nodes[0].ClusterAddr()})...)
		check.Equal(t, code, test.code, "%v: exit code", test.args)
		check.Contains(t, out+stderr, test.want, "%v: output", test.args)
	}
	private := []string{"--cluster-addr", c.Nodes[0].ClusterAddr()}
	expect(t, cli.ExitOK, append([]string{"mod", "block", "--agent", "anonymous", "--reason", "Flood"}, private...), "rule 1: block the agent anonymous, until it is lifted\n")
	expect(t, cli.ExitOK, append([]string{"mod", "lift", "1"}, private...))
	_, out, _ := execute(t, "mod", "rules", "--json", "--cluster-addr", c.Nodes[0].ClusterAddr())
	check.Equal(t, strings.Join(strings.Fields(out), ""), `{"rules":[]}`, "the rules after tests")
}

// TestTokenStaysPrivate: a token is not sent to another machine over http.
func TestTokenStaysPrivate(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte("cmod_mia"), 0o600))
	expect(t, cli.ExitUsage, []string{"mod", "rules", "--url", "http://192.0.2.1", "--token-file", token}, "over https or to this machine only")
}

// TestRevokeGoesOn: a revocation succeeds if its first answer was lost, and fails for a token that
// does not exist.
func TestRevokeGoesOn(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	direct := []string{"--cluster-addr", c.Nodes[0].ClusterAddr()}
	expect(t, cli.ExitOK, append([]string{"mod", "token", "create", "zoe"}, direct...))
	revoked := func() bool {
		code, out, _ := execute(t, append([]string{"mod", "token", "list"}, direct...)...)
		return code == cli.ExitOK && !strings.Contains(out, "zoe")
	}
	front := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer front.Close()
	go func() {
		for first := true; ; first = false {
			from, err := front.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", c.Nodes[0].ClusterAddr())
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from) }()
			go func() {
				defer func() { _ = errors.Join(from.Close(), to.Close()) }()
				for part := make([]byte, 64<<10); ; {
					n, err := to.Read(part)
					if err != nil || first && revoked() { // the answer is lost
						return
					}
					if _, err := from.Write(part[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	code, out, stderr := execute(t, "mod", "token", "revoke", "zoe", "--cluster-addr", front.Addr().String())
	if code != cli.ExitOK || !strings.Contains(stderr, "the token of zoe: ") || !strings.Contains(stderr, "an earlier attempt may have done it") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	expect(t, cli.ExitFailed, append([]string{"mod", "token", "revoke", "zoe"}, direct...), "has no token")
}
