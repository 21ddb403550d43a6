package resource_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// atEpoch is a clock that stands a minute after the first command.
func atEpoch(c *api.Config) {
	c.Now = func() time.Time { return time.UnixMilli(apitest.Epoch + time.Minute.Milliseconds()) }
}

// foldOf is a fold of some calls and senders on the days around the epoch.
func foldOf() *command.AddUsage {
	today := command.DayOf(apitest.Epoch)
	senders := func(day command.Day, surface command.Surface, names ...string) command.SenderRow {
		s := stats.NewSenders()
		for _, name := range names {
			s.Insert(name)
		}
		row := command.SenderRow{Day: day, Surface: surface}
		for i, rank := range s.Registers() {
			if rank > 0 {
				row.Registers = command.AppendRegister(row.Registers, i, rank)
			}
		}
		return row
	}
	return &command.AddUsage{
		Boot: command.BootID{1}, Number: 1,
		Rows: []command.UsageRow{
			{Day: today - 1, Surface: command.SurfaceWeb, Action: "getDocs", Client: "browser", Count: 3},
			{Day: today, Surface: command.SurfaceMCP, Action: "publishEntry", Client: "claude", Count: 1},
			{Day: today, Surface: command.SurfaceAPI, Action: "listEntries", Client: "curl", Count: 40},
			{Day: today - 8, Surface: command.SurfaceAPI, Action: "listEntries", Client: "none", Count: 100},
		},
		Senders: []command.SenderRow{
			senders(today, command.SurfaceAPI, "one", "two"), senders(today-1, command.SurfaceMCP, "two", "three"),
			senders(today, command.SurfaceWeb, "four"), senders(today-8, command.SurfaceAPI, "five"),
		},
	}
}

// TestStatsAndUsageGolden compares the numbers' whole responses.
func TestStatsAndUsageGolden(t *testing.T) {
	s := apitest.New(t, atEpoch, func(c *api.Config) { c.HouseAgents = []string{"Warden"} })
	for _, agent := range []string{"ada", "ada", "warden", "anonymous"} {
		s.Publish(map[string]any{"body": "Hello, commons.", "agent": agent})
	}
	s.Publish(map[string]any{"body": "Hello, Ada.", "agent": "bob", "reply_to": "e1"})
	for _, agent := range []string{"bob", "Warden"} {
		s.Post("/api/agents", map[string]any{"id": agent, "description": "Somebody."})
	}
	s.Backend.Apply(foldOf())
	for _, test := range []struct{ name, path string }{
		{"stats", "/api/stats"},
		{"usage", "/api/usage"},
		{"usage_ninety", "/api/usage?days=90"},
		{"usage_problems", "/api/usage?days=91&consistency=weak"},
	} {
		apitest.CheckGolden(t, s, test.name, http.MethodGet, test.path, "", "")
	}
}

// TestUsageExamplesWork sends the example of every rejection back.
func TestUsageExamplesWork(t *testing.T) {
	s := apitest.New(t, atEpoch)
	for query, want := range map[string]string{
		"days=0": `{"days":1}`, "days=91": `{"days":90}`, "days=x": `{"days":7}`, "days=1.5": `{"days":7}`,
		"days=99999999999999999999": `{"days":90}`, "days=2&days=3": `{"days":2}`, "days=%00": `{"days":7}`,
		"days=3&min_index=x": `{"days":3}`, "consistency=x": `{"days":7}`,
	} {
		p := apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/usage?"+query, "")
		check.Equal(t, string(p.Example), want, "%s: the example", query)
	}
	s.Get("/api/stats?min_index=x").Want(t, http.StatusUnprocessableEntity)
	var none struct{ Rows []any }
	if r := s.Get("/api/usage?days="); r.Status != http.StatusOK {
		t.Errorf("an empty number: %d %s", r.Status, r.Body)
	} else if r.Decode(t, &none); none.Rows == nil {
		t.Errorf("no rows: %s", r.Body)
	}
}

// TestCallsAreCounted holds what is counted under which name, and that neither
// addresses nor what clients say of themselves go any further.
func TestCallsAreCounted(t *testing.T) {
	var l apitest.Ledger
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b, atEpoch, func(c *api.Config) { c.Counter = &l })
	const agent = "sesame/1.0 (curl-like)"
	call := func(status int, method, path, body string) {
		t.Helper()
		s.Do(method, path, body, "User-Agent", agent, "Content-Type", apitest.JSONType).Want(t, status)
	}
	call(200, http.MethodGet, "/api/entries", "")
	call(200, http.MethodHead, "/api/entries", "")
	call(201, http.MethodPost, "/api/entries", `{"body":"Hello, commons."}`)
	call(422, http.MethodPost, "/api/entries", `{}`)
	call(201, http.MethodGet, "/api/entries?action=publish&confirm=write&request_id=12345678&body=Hello", "")
	call(200, http.MethodGet, "/api/entries/e1", "")
	call(201, http.MethodPost, "/api/jobs", `{"agent":"ada","title":"A job","body":"To be done."}`)
	call(201, http.MethodPost, "/api/jobs", `{"agent":"bob","action":"claim","job_id":"j3"}`)
	call(201, http.MethodPost, "/api/jobs", `{"agent":"bob","action":"result","job_id":"j3","result":"Done."}`)
	call(422, http.MethodPost, "/api/jobs", `{"agent":"bob","action":"adopt"}`)
	call(422, http.MethodPost, "/api/jobs", `[]`)
	call(400, http.MethodPost, "/api/jobs", `{`)
	call(200, http.MethodGet, "/docs", "")
	for _, path := range []string{"/livez", "/readyz", "/status", "/metrics"} {
		call(200, http.MethodGet, path, "")
	}
	for _, path := range []string{"/nothing", "/api/nothing"} {
		call(404, http.MethodGet, path, "")
	}
	call(204, http.MethodOptions, "/api/entries", "")
	call(405, http.MethodDelete, "/api/entries", "")
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var got []string
	for _, c := range l.Calls {
		got = append(got, c.Surface.String()+" "+c.Action)
		if c.Client != "curl" || c.Sender != b.Fingerprint(loopback) || c.At.UnixMilli() != apitest.Epoch+60_000 {
			t.Errorf("counted %+v", c)
		}
	}
	want := []string{
		"api listEntries", "api listEntries", "api publishEntry", "api publishEntry", "api publishEntry", "api getEntry",
		"api postJob", "api claimJob", "api finishJob", "api postJob", "api postJob", "api actOnJob", "web getDocs",
	}
	apitest.Equal(t, "counted", got, want)
}

// TestHouseIsNoSender holds that who calls as one of the operator's own agents is
// not counted among the senders, on any surface.
func TestHouseIsNoSender(t *testing.T) {
	var l apitest.Ledger
	s := apitest.Start(t, apitest.NewBackend(t), func(c *api.Config) { c.Counter, c.HouseAgents = &l, []string{"Warden"} })
	for _, agent := range []string{"warden", "ada"} {
		s.Publish(map[string]any{"body": "Hello, commons.", "agent": agent})
		s.Post("/api/jobs", map[string]any{"agent": agent, "title": "A job", "body": "To be done."})
		s.Post("/api/agents", map[string]any{"id": agent, "description": "Somebody."})
		s.Get("/api/home?for=" + agent)
		apitest.Ways["a2a"](s, map[string]any{"body": "Hello by A2A.", "agent": agent})
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	const each = 5
	must.Equal(t, len(l.Calls), 2*each, "counted calls")
	for i, c := range l.Calls {
		check.Equal(t, c.Sender == "", i < each, "call %d, %s: sender %q", i, c.Action, c.Sender)
	}
}

// loopback is where the tests' requests come from.
var loopback = netip.MustParseAddr("127.0.0.1")
