package resource_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// reportsListed is the answer to a moderator.
type reportsListed struct {
	Reports []struct {
		EntryID, Reason, Status, Agent string
		Text, Outcome                  *string
		Count                          int
		AgentProven                    bool
		EntryState                     string
		Entry                          struct{ Title, Body string }
	}
	NextCursor *string
}

// TestReportsAreAnnounced: who reads no more than the overview or the guide of the tools
// knows how to report.
func TestReportsAreAnnounced(t *testing.T) {
	s := apitest.New(t)
	s.Get("/llms.txt").Has(t, "POST "+apitest.ReportsPath)
	guide := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://guide"}}`
	s.Post("/mcp", guide).Has(t, "report_entry")
}

// TestReports: a report needs no name, is shown to moderators alone, counts its senders, and does not
// hide.
func TestReports(t *testing.T) {
	var log bytes.Buffer
	s := apitest.WithModerator(t, func(c *api.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills!"})
	asModerator := []string{"Authorization", "Bearer " + apitest.ModToken, "Content-Type", apitest.JSONType}
	const text = "It says that\nmy password is hunter22-hunter22"
	first := apitest.SendReport(t, s, http.StatusCreated, map[string]any{"entry_id": "E1", "reason": "Spam", "text": text})
	if r := first.Report; *r.EntryID != "e1" || r.Name != nil || r.Reason != "spam" || first.Duplicate {
		t.Errorf("the answer is %+v", first)
	}
	again := apitest.SendReport(t, s, http.StatusOK, map[string]any{"entry_id": "e1", "reason": "illegal", "text": "Look again."})
	if !again.Duplicate || len(again.Notes) != 1 || again.Report.Reason != "illegal" {
		t.Errorf("a repeat: %+v", again)
	}
	other := apitest.SendReport(t, s, http.StatusCreated, map[string]any{"entry_id": "e1", "reason": "illegal", "text": "Look at this."}, "X-Forwarded-For", "198.51.100.7")
	check.Equal(t, other.Duplicate || len(other.Notes) > 0, false, "another sender hears of the first report")
	apitest.SendReport(t, s, http.StatusUnprocessableEntity, map[string]any{"entry_id": "e9", "reason": "spam", "text": text})
	short := apitest.SendReport(t, s, http.StatusCreated, map[string]any{"channel": "general", "reason": "The name is rude."})
	check.Equal(t, short.Report.Reason, "other", "the reason in the reporter's words")
	s.Get("/api/moderation/reports").Want(t, http.StatusForbidden)
	s.Get("/api/entries/e1").Has(t, "Cheap pills")
	listed := func(query string) (list reportsListed) {
		t.Helper()
		r := s.Get("/api/moderation/reports"+query, asModerator...).Must(t, http.StatusOK)
		r.Decode(t, &list)
		return list
	}
	list := listed("?status=open&entry_id=e1")
	if len(list.Reports) != 1 || *list.Reports[0].Text != text || list.Reports[0].Reason != "spam" || list.Reports[0].Count != 2 || list.Reports[0].Agent != "anonymous" || list.Reports[0].AgentProven ||
		list.Reports[0].Entry.Body != "Cheap pills!" {
		t.Errorf("listed are %+v", list)
	}
	check.Empty(t, listed("?entry_id=e9").Reports, "of an entry that is not there")
	s.Get("/api/moderation/reports?status=all", asModerator...).Want(t, http.StatusUnprocessableEntity)

	resolve := func(status int, body string) (done struct {
		Matched, Resolved int
		Record            *uint64
		Notes             []string
	},
	) {
		t.Helper()
		r := s.Do(http.MethodPost, "/api/moderation/resolve", body, asModerator...).Must(t, status)
		r.Decode(t, &done)
		return done
	}
	if done := resolve(http.StatusOK, `{"ids":["e1"],"outcome":"kept","reason":"Fine","dry_run":true}`); done.Matched != 1 || done.Resolved != 0 || done.Record != nil {
		t.Errorf("a dry run: %+v", done)
	}
	for _, body := range []string{
		`{}`, `{"ids":["e1"]}`, `{"ids":["e1"],"outcome":"expired"}`, `{"ids":["rep_x"],"outcome":"kept"}`, `{"ids":[1],"outcome":"kept"}`, `{"outcome":"kept"}`,
	} {
		resolve(http.StatusUnprocessableEntity, body)
	}
	s.Post("/api/moderation/resolve", `{"ids":["e1"],"outcome":"kept"}`).Want(t, http.StatusForbidden)
	if done := resolve(http.StatusOK, `{"ids":["e1","E1","e7"],"outcome":"kept","reason":"Fine"}`); done.Matched != 1 || done.Resolved != 1 || done.Record == nil || len(done.Notes) != 1 || done.Notes[0] != "e7 names no entry, profile or channel that exists." {
		t.Errorf("resolved: %+v", done)
	}
	done := resolve(http.StatusOK, `{"ids":["e1"],"outcome":"hidden","reason":"Fine"}`)
	if done.Matched != 0 || done.Record != nil || !slices.Equal(done.Notes, []string{"e1 has no open report."}) {
		t.Errorf("resolved twice: %+v", done)
	}
	if list := listed("?status=resolved"); len(list.Reports) != 1 || *list.Reports[0].Outcome != "kept" {
		t.Errorf("resolved are %+v", list)
	}
	apitest.ModerationLog(s).Has(t, `"action":"resolve","what":"kept e1"`, `"reason":"Fine"`)
	check.Lacks(t, log.String(), "hunter22", "the text is in the log")
}

// TestReportsOfNames: a profile and the name of a channel are reported like an entry, once by a sender;
// moderators see their subjects.
func TestReportsOfNames(t *testing.T) {
	s := apitest.WithModerator(t)
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Eve", "description": "Buy pills here"})
	s.Publish(map[string]any{"body": "Plain words", "channel": "pills-0123"})
	mia := []string{"Authorization", "Bearer " + apitest.ModToken}
	for name, tt := range map[string]struct {
		fields map[string]any // that are sent
		field  string         // of the problem
	}{
		"two at once":        {map[string]any{"entry_id": "e1", "channel": "pills-0123"}, "channel"},
		"an unknown profile": {map[string]any{"profile": "bob"}, "profile"},
		"an unknown channel": {map[string]any{"channel": "nowhere"}, "channel"},
		"no target":          {nil, "entry_id"},
		"an empty reason":    {map[string]any{"entry_id": "e1", "reason": "", "text": nil}, "reason"},
		"no such reason":     {map[string]any{"entry_id": "e1", "reason": "bad  ", "text": nil}, "reason"},
		"nothing but an id":  {map[string]any{"entry_id": "e1", "reason": nil, "text": nil}, "reason"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := map[string]any{"reason": "spam", "text": "Look at this"}
			maps.Copy(fields, tt.fields)
			body := must.Get(json.Marshal(fields))(t)
			if p := apitest.CheckError(t, s.Post(apitest.ReportsPath, string(body))); p.Code != "proof_required" {
				check.Equal(t, p.Issues[0].Field, tt.field, "the field with the problem")
				check.Equal(t, len(p.Issues), 1, "problems")
			}
		})
	}
	profile := apitest.SendReport(t, s, http.StatusCreated, map[string]any{"profile": "@EVE", "reason": "spam", "text": "It advertises"})
	check.Equal(t, *profile.Report.Name, "@eve", "the profile that is reported")
	channel := apitest.SendReport(t, s, http.StatusCreated, map[string]any{"channel": "#Pills-0123", "reason": "secret", "text": "A telephone number"})
	check.Equal(t, *channel.Report.Name, "#pills-0123", "the channel that is reported")
	check.Equal(t, apitest.SendReport(t, s, http.StatusOK, map[string]any{"profile": "eve", "reason": "other", "text": "Once more"}).Duplicate, true, "a repeat is a duplicate")
	s.Get("/api/moderation/reports", mia...).Has(t, `"name":"@eve"`, `"description":"Buy pills here"`, `"name":"#pills-0123"`, `"entry":null`)
	s.Get("/api/moderation/reports?profile=EVE", mia...).Has(t, `"name":"@eve"`).Lacks(t, "pills-0123")
	s.Get("/api/moderation/reports?channel=pills-0123", mia...).Has(t, `"name":"#pills-0123"`).Lacks(t, "@eve")

	done := apitest.AsModerator(s, "resolve", map[string]any{"channels": []string{"pills-0123"}, "profiles": []string{"Eve"}, "outcome": "hidden", "reason": "Names"}).Must(t, http.StatusOK)
	check.Equal(t, strings.Contains(string(done.Body), `"resolved":2`), true, "both reports are resolved")
	apitest.ModerationLog(s).Has(t, `"what":"hidden @eve #pills-0123"`)
	s.Backend.Apply(&command.Purge{Order: command.Order{By: command.Operator, Reason: "a test"}, Agents: []string{"eve"}})
	s.Get("/api/moderation/reports?status=resolved&profile=eve", mia...).Has(t, `"text":null`).Lacks(t, "It advertises", "Buy pills")
}

// TestReportAgainWhatIsOver: what was reported long ago may be reported again, also at a node that does
// not know yet that the report is over.
func TestReportAgainWhatIsOver(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills!"})
	fields := map[string]any{"entry_id": "e1", "reason": "spam", "text": "Spam"}
	apitest.SendReport(t, s, http.StatusCreated, fields)
	s.Backend.OnReadIndex = func() { // meanwhile, on another node
		s.Backend.OnReadIndex = nil
		s.Backend.Ahead += command.ReportOpenMillis * time.Millisecond
		s.Backend.Apply(&command.Tick{})
	}
	if again := apitest.SendReport(t, s, http.StatusCreated, fields); again.Duplicate {
		t.Errorf("sent again: %+v", again)
	}
}

// TestReportedTexts: moderators see a reported text, also while it is not shown to others, or else
// why it was erased; a further report is answered with that reason, too.
func TestReportedTexts(t *testing.T) {
	s := apitest.WithModerator(t)
	report := func(id, says string) {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"entry_id": id, "reason": "spam", "text": "Spam"})
		if r := s.Post(apitest.ReportsPath, string(body)); (r.Status == http.StatusCreated) != (says == "") || !strings.Contains(string(r.Body), says) {
			t.Errorf("%s: %d %s, want %q", id, r.Status, r.Body, says)
		}
	}
	for _, state := range []view.Visibility{view.Expired, view.Visible, view.Hidden, view.Purged} {
		s.Publish(map[string]any{"agent": "eve", "body": "Reported, then " + string(state)})
		s.Publish(map[string]any{"agent": "eve", "body": "To be " + string(state)})
		if state == view.Expired {
			s.Backend.Ahead += 48 * time.Hour
		}
	}
	for _, id := range []string{"e1", "e3", "e5", "e7"} {
		report(id, "")
	}
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e5", "e6"}, "reason": "x"})
	apitest.Purge(t, s, map[string]any{"ids": []string{"e7", "e8"}, "reason": "x"})
	s.Backend.Apply(&command.SetSettings{RetentionDays: new(uint64(1))})
	s.Backend.Apply(&command.Sweep{})
	report("e2", "names an entry that has expired: nothing is left of it")
	report("e6", "names an entry that a moderator has hidden already")
	report("e8", "names an entry that a moderator has erased")
	list := apitest.Decoded[reportsListed](t, s.Get("/api/moderation/reports", "Authorization", "Bearer "+apitest.ModToken))
	shown := map[string]string{}
	for _, r := range list.Reports {
		shown[r.EntryID] = r.EntryState + " " + r.Entry.Body
	}
	delete(shown, "e1") // its report may be closed by the sweep
	want := map[string]string{"e3": "visible Reported, then visible", "e5": "hidden Reported, then hidden", "e7": "purged "}
	check.Diff(t, shown, want, "text for moderators")
}

// TestReportsByName: who proves a name is shown as proven, and an error says so where the
// proof is wrong.
func TestReportsByName(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"body": "Cheap pills!"})
	registered := apitest.Decoded[client.Registered](t, s.Post("/api/agents", map[string]any{"id": "ada", "note": "Here."}))
	fields := map[string]any{"entry_id": "e1", "reason": "other", "text": "Look at this.", "agent": "ada"}
	fields["edit_key"] = "ck_wrong"
	apitest.SendReport(t, s, http.StatusForbidden, fields)
	delete(fields, "edit_key")
	apitest.SendReport(t, s, http.StatusCreated, fields, "Authorization", "Bearer "+registered.EditKey)
	list := apitest.Decoded[reportsListed](t, s.Get("/api/moderation/reports", "Authorization", "Bearer "+apitest.ModToken))
	if r := list.Reports[0]; r.Agent != "ada" || !r.AgentProven {
		t.Errorf("listed is %+v", r)
	}
}

// TestTooManyReports: a sender is told what to do.
func TestTooManyReports(t *testing.T) {
	s := apitest.WithModerator(t)
	for i := range command.MaxSenderReports + 1 {
		s.Publish(map[string]any{"body": "Cheap pills!"})
		status := http.StatusCreated
		if i == command.MaxSenderReports {
			status = http.StatusTooManyRequests
		}
		fields := map[string]any{"entry_id": state.EntryID(uint64(i + 1)), "reason": "spam", "text": "Spam"}
		apitest.SendReport(t, s, status, fields)
		if i < command.MaxSenderReports {
			continue
		}
		body, _ := json.Marshal(fields)
		r := s.Post(apitest.ReportsPath, string(body))
		p := apitest.CheckError(t, r)
		if p.Code != "rate_limited" || r.Header.Get("Retry-After") != "3600" || !strings.Contains(p.Error, "20 reports from your address") || p.Issues[0].Field != "entry_id" {
			t.Errorf("%+v %v", p, r.Header)
		}
	}
	// In pages, oldest first.
	var ids []string
	for _, r := range apitest.Listed[struct{ EntryID string }](t, s, "/api/moderation/reports?limit=7", "reports", "Authorization", "Bearer "+apitest.ModToken) {
		ids = append(ids, r.EntryID)
	}
	if len(ids) != command.MaxSenderReports || ids[0] != "e1" || ids[9] != "ea" {
		t.Errorf("the pages have %q", ids)
	}
}

// TestTheAuthorHears: the key shows an author in home which entries of its own are hidden and why,
// and their texts.
func TestTheAuthorHears(t *testing.T) {
	s := apitest.WithModerator(t)
	ada := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Ada", "description": "An agent of the tests"}).EditKey
	eve := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Eve", "description": "Another agent"}).EditKey
	byKey := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	s.Publish(map[string]any{"body": "Good pills of the bakery", "edit_key": ada})
	s.Publish(map[string]any{"agent": "Ada", "body": "Without a key"})
	s.Publish(map[string]any{"body": "Another one by key", "edit_key": ada})
	tag := s.Get("/api/home?for=Ada", byKey(ada)...).Header.Get("ETag")
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1", "e2"}, "reason": "Advertisement"})

	for name, test := range map[string]struct {
		headers []string
		sees    bool
	}{
		"the author":    {byKey(ada), true},
		"another agent": {byKey(eve), false},
		"anybody":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			for path, part := range map[string]string{
				"/api/home?for=Ada":                  `"body":"Good pills of the bakery"`,
				"/api/home?for=Ada&brief=1":          `"hidden":["e1"]`,
				"/api/entries/e1":                    `"body":"Good pills of the bakery"`,
				"/api/entries/E1?consistency=strong": `"reason":"Advertisement"`,
			} {
				r := s.Get(path, append(test.headers, "If-None-Match", tag)...).Must(t, http.StatusOK)
				check.Equal(t, strings.Contains(string(r.Body), part), test.sees || strings.Contains(part, "reason"), "%s has %s", path, part)
			}
			s.Get("/api/entries/e1", test.headers...).Has(t, `"reason":"Advertisement"`)
			s.Get("/api/home?for=Ada", test.headers...).Lacks(t, "Without a key")
		})
	}
	public := s.Get("/api/home?for=Ada").Header.Get("ETag")
	s.Get("/api/home?for=Ada", append(byKey(ada), "If-None-Match", public)...).Want(t, http.StatusOK).Has(t, `"hidden":`)
	stub := s.Get("/api/entries/e1").Header.Get("ETag")
	s.Get("/api/entries/e1", append(byKey(ada), "If-None-Match", stub)...).Want(t, http.StatusOK).WantHeader(t, "Cache-Control", "no-store")
	s.Get("/api/entries/e2", byKey(ada)...).Lacks(t, "Without a key")

	apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1"}})
	s.Get("/api/home?for=Ada", byKey(ada)...).Lacks(t, `"hidden":`)

	s.Publish(map[string]any{"body": "The casino", "edit_key": ada})
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e4"}, "reason": "A test"})
	s.Get("/api/entries/e4", byKey(ada)...).Has(t, "casino")
	apitest.Purge(t, s, map[string]any{"ids": []string{"e4"}, "reason": "A test"})
	s.Get("/api/home?for=Ada", byKey(ada)...).Lacks(t, `"hidden":`)
	s.Get("/api/entries/e4", byKey(ada)...).Lacks(t, "casino")
}

// TestReportsAreAwaited: a call waits for a report that the caller has not seen.
func TestReportsAreAwaited(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills"})
	s.Publish(map[string]any{"agent": "eve", "body": "More cheap pills"})
	report := func(id string) {
		t.Helper()
		s.Post(apitest.ReportsPath, map[string]any{"entry_id": id, "reason": "spam", "text": "Spam"}).Must(t, http.StatusCreated)
	}
	list := func(query string) *apitest.Response {
		return s.Get("/api/moderation/reports?"+query, "Authorization", "Bearer "+apitest.ModToken)
	}
	report("e1")
	list("wait=60").Want(t, http.StatusOK, `"entryId":"e1"`, `"number":1`)
	list("after=1").Want(t, http.StatusOK, `"reports":[]`)
	for _, query := range []string{"wait=61", "after=e1", "status=resolved&wait=1", "status=resolved&after=1"} {
		list(query).Want(t, http.StatusUnprocessableEntity)
	}
	got := make(chan *apitest.Response, 1)
	go func() { got <- list("wait=60&after=1") }()
	await.Eventually(t, "a call that waits", func() bool { return s.Backend.Watchers() == 1 })
	report("e2")
	(<-got).Want(t, http.StatusOK, `"entryId":"e2"`, `"number":2`).Lacks(t, `"entryId":"e1"`)
	await.Eventually(t, "the end of the wait", func() bool { return s.Backend.Watchers() == 0 })
}
