package resource_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// jobIDs returns the ids of a list of jobs, of all pages.
func jobIDs(t *testing.T, s *apitest.Server, query string) []string {
	t.Helper()
	return apitest.IDs(apitest.Listed[apitest.Entry](t, s, "/api/jobs?"+query, "jobs"))
}

// TestJobGolden follows a job through its life and compares whole responses.
func TestJobGolden(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	})
	for _, test := range []struct{ name, method, path, body string }{
		{"job_post", http.MethodPost, "/api/jobs", `{"agent":"Ada L","title":"Count the birds","body":"In the <park>, @Cyd.","tags":["birds"],"request_id":"golden-01","odd":1}`},
		{"job_claim", http.MethodPost, "/api/jobs", `{"agent":"bob","action":"claim","job_id":"j1","note":"By noon, @eve."}`},
		{"job_claimed", http.MethodPost, "/api/jobs", `{"agent":"eve","action":"claim","job_id":"j1"}`},
		{"job_own", http.MethodPost, "/api/jobs", `{"agent":"ada-l","action":"result","job_id":"j1","result":"Seven of them."}`},
		{"job_get", http.MethodGet, "/api/jobs/j1", ``},
		{"job_result", http.MethodPost, "/api/jobs", `{"agent":"bob","action":"result","job_id":"j1","result":"Seven of them."}`},
		{"job_done", http.MethodPost, "/api/jobs", `{"agent":"bob","action":"result","job_id":"j1","result":"Eight of them."}`},
		{"job_unknown", http.MethodPost, "/api/jobs", `{"agent":"bob","action":"claim","job_id":"j99"}`},
		{"job_problems", http.MethodPost, "/api/jobs", `{"action":"result","job_id":"j99","result":"No","request_id":"short"}`},
		{"job_malformed", http.MethodPost, "/api/jobs", `{"agent":`},
		{"job_list", http.MethodGet, "/api/jobs?status=all", ``},
		{"job_list_problems", http.MethodGet, "/api/jobs?status=lost&limit=0", ``},
		{"job_get_unknown", http.MethodGet, "/api/jobs/e2", ``},
		{"human_post", http.MethodPost, "/api/human-requests", `{"agent":"Ada L","goal":"Sign a form","requested_action":"Print it, sign it.","constraints":"Before <noon>.","tags":["paper"],"request_id":"golden-02"}`},
		{"human_duplicate", http.MethodPost, "/api/human-requests", `{"agent":"ada-l","goal":"Sign","requested_action":"Sign it.","request_id":"golden-02"}`},
		{"human_problems", http.MethodPost, "/api/human-requests", `{"goal":"x","context":7,"tags":["1","2","3","4","5","6","7","8"]}`},
		{"human_list", http.MethodGet, "/api/human-requests?agent=ADA-L&q=form", ``},
	} {
		contentType := ""
		if test.body != "" {
			contentType = apitest.JSONType
		}
		apitest.CheckGolden(t, s, test.name, test.method, test.path, contentType, test.body)
	}
}

// TestUnknownJobAction checks that the answer to an unknown action does not ask for the fields of
// a new job.
func TestUnknownJobAction(t *testing.T) {
	s := apitest.New(t)
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	for _, test := range []struct {
		fields  map[string]any
		example string
	}{
		{
			map[string]any{"agent": "bob", "action": "adopt", "job_id": "j1"},
			`{"agent":"bob","action":"claim","job_id":"j1","dry_run":true}`,
		},
		{
			map[string]any{"agent": "bob", "action": "adopt", "job_id": "j1", "result": "Seven of them"}, // bob has to claim it first
			`{"agent":"bob","action":"claim","job_id":"j1","dry_run":true}`,
		},
		{
			map[string]any{"agent": "bob", "action": 7},
			`{"agent":"bob","action":"post","title":"Your title, 4 to 180 characters.","body":"Your text, 4 to 5000 characters.","dry_run":true}`,
		},
	} {
		p := apitest.RejectedPost(t, s, "/api/jobs", test.fields)
		if len(p.Issues) != 1 || p.Issues[0].Field != "action" || string(p.Example) != test.example {
			t.Errorf("%v: %s %+v", test.fields, p.Example, p)
		}
	}
	p := apitest.RejectedPost(t, s, "/api/jobs", map[string]any{"agent": "bob", "action": "create", "title": "Count birds", "body": "All of them"})
	check.Equal(t, string(p.Example), `{"agent":"bob","action":"post","title":"Count birds","body":"All of them"}`, "example")
	check.Equal(t, p.Issues[0].Message, "must be post (the default), claim, result, release or close; create is none of them", "message")
}

// TestResultNeedsAClaim: the rejection's example is the claim, on every surface, and what
// the caller sent works after it.
func TestResultNeedsAClaim(t *testing.T) {
	s := apitest.New(t)
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	result := map[string]any{"agent": "Bob", "action": "result", "job_id": "j1", "result": "Seven of them"}
	r := s.Post("/api/jobs", result)
	p := apitest.CheckError(t, r)
	if want := `{"agent":"Bob","action":"claim","job_id":"j1"}`; r.Status != http.StatusConflict || p.Code != "not_claimed" || string(p.Example) != want {
		t.Fatalf("%d %s, want the example %s", r.Status, r.Body, want)
	}
	_, tool := apitest.CallTool(t, s, "submit_job_result", apitest.Args{"agent": "Bob", "job_id": "j1", "result": "Seven of them"})
	check.Contains(t, tool.TextOf, `Example: claim_job {"agent":"Bob","job_id":"j1"}`, "text")
	s.Post("/api/jobs", string(p.Example)).Must(t, http.StatusCreated)
	check.Equal(t, apitest.ActOnJob(t, s, http.StatusCreated, result).Job.Status, "done", "status")
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count trees", "body": "All of them"})
	for name, body := range map[string]map[string]any{
		"the poster's result": {"agent": "ada", "action": "result", "job_id": "j4", "result": "Seven of them"},
		"a release":           {"agent": "bob", "action": "release", "job_id": "j4"},
	} {
		check.Equal(t, string(apitest.CheckError(t, s.Post("/api/jobs", body)).Example), "{}", "example of %s", name)
	}
}

// TestTakenClaims: a claim of a job that is already taken gets the answer of apply without
// a log entry, unless it may still succeed.
func TestTakenClaims(t *testing.T) {
	claim := func(agent string) map[string]any {
		return map[string]any{"agent": agent, "action": "claim", "job_id": "j1"}
	}
	eve, bob, ada := claim("eve"), claim("bob"), claim("ada")
	repeated := claim("bob")
	repeated["request_id"] = "request-1"
	finish := map[string]any{"agent": "bob", "action": "result", "job_id": "j1", "result": "Seven of them"}
	release := map[string]any{"agent": "bob", "action": "release", "job_id": "j1"}
	type actions = []map[string]any
	for name, tt := range map[string]struct {
		before     actions
		claim      map[string]any
		meanwhile  map[string]any // on another node
		leaderless bool
		clock      time.Duration // after the epoch
		status     int
		code       string
		logged     bool
	}{
		"open":                  {claim: eve, status: http.StatusCreated, logged: true},
		"claimed":               {before: actions{bob}, claim: eve, status: http.StatusConflict, code: "job_claimed"},
		"claimed by the poster": {before: actions{bob}, claim: ada, status: http.StatusConflict, code: "own_job"},
		"done":                  {before: actions{bob, finish}, claim: eve, status: http.StatusConflict, code: "job_done"},
		"extended":              {before: actions{bob}, claim: bob, status: http.StatusCreated, logged: true},
		"a repeated request":    {before: actions{repeated}, claim: repeated, status: http.StatusOK},
		"released meanwhile":    {before: actions{bob}, claim: eve, meanwhile: release, status: http.StatusCreated, logged: true},
		"without a leader":      {before: actions{bob}, claim: eve, leaderless: true, status: http.StatusConflict, code: "job_claimed", logged: true},
		"about to end":          {before: actions{bob}, claim: eve, clock: time.Hour - time.Second, status: http.StatusConflict, code: "job_claimed", logged: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, func(c *api.Config) {
				c.ClaimTTL, c.Now = time.Hour, func() time.Time { return time.UnixMilli(apitest.Epoch).Add(tt.clock) }
			})
			apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
			for _, body := range tt.before {
				apitest.ActOnJob(t, s, http.StatusCreated, body)
			}
			s.Backend.OnReadIndex = func() {
				s.Backend.OnReadIndex = nil
				if tt.meanwhile != nil {
					apitest.ActOnJob(t, s, http.StatusCreated, tt.meanwhile)
				}
			}
			if tt.leaderless {
				s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
			}
			proposed := len(s.Backend.Senders)
			r := s.Post("/api/jobs", tt.claim).Must(t, tt.status)
			if tt.code != "" {
				check.Equal(t, apitest.CheckError(t, r).Code, tt.code, "code")
			}
			if tt.meanwhile != nil {
				proposed++
			}
			check.Equal(t, len(s.Backend.Senders) > proposed, tt.logged, "proposed")
		})
	}
}

// TestTakenClaimsAreCounted: claims that never reach the leader's limits are counted like
// other rejections of the address.
func TestTakenClaimsAreCounted(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.Limits.Rejections, c.Now = 1, func() time.Time { return time.UnixMilli(apitest.Epoch) }
	})
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "claim", "job_id": "j1"})
	proposed := len(s.Backend.Senders)
	for range 200 {
		r := s.Post("/api/jobs", map[string]any{"agent": "eve", "action": "claim", "job_id": "j1"})
		must.Equal(t, len(s.Backend.Senders), proposed, "a claim was proposed")
		if r.Status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("an address claims a taken job without a limit")
}

// TestJobRequestIDs is the request_id of every action, whatever the second body says.
func TestJobRequestIDs(t *testing.T) {
	s := apitest.New(t)
	other := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "eve", "title": "Another job", "body": "Do it all."}).Job.ID
	for i, action := range []map[string]any{
		{"agent": "Ada", "title": "Count birds", "body": "All of them"},
		{"agent": "Ada", "action": "claim", "job_id": other, "note": "Mine"},
		{"agent": "Ada", "action": "release", "job_id": other},
		{"agent": "Ada", "action": "result", "job_id": other, "result": "Done."},
		{"agent": "Ada", "action": "close", "job_id": "j2"},
	} {
		if action["action"] == "result" {
			apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "Ada", "action": "claim", "job_id": other})
		}
		action["request_id"] = "job-request"
		first := apitest.ActOnJob(t, s, http.StatusCreated, action)
		check.Equal(t, first.Duplicate, false, "%d: a first write repeats, %+v", i, first)
		action["agent"] = "ADA"
		for range 2 {
			again := apitest.ActOnJob(t, s, http.StatusOK, action)
			if !again.Duplicate || again.Job.ID != first.Job.ID || (again.Claim != nil) != (first.Claim != nil) || len(again.Notes) == 0 {
				t.Errorf("%d: %+v", i, again)
			}
			if first.Result != nil && again.Result.ID != first.Result.ID {
				t.Errorf("%d: %+v", i, again)
			}
			// A second body that is all wrong is not looked at either.
			action["job_id"], action["title"], action["result"], action["note"] = 7, "x", "x", strings.Repeat("x", 1001)
		}
	}
	check.Equal(t, len(jobIDs(t, s, "status=all")), 2, "jobs")
}

// TestRetractJob is the retraction of a job's entry.
func TestRetractJob(t *testing.T) {
	s := apitest.New(t)
	id := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	retraction := map[string]any{"agent": "ada", "body": "Never mind", "supersedes": id, "relation": "retraction"}
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "claim", "job_id": id})
	s.Post("/api/entries", retraction).Rejected(t, http.StatusConflict, "job_claimed", "relation")
	bad := map[string]any{"agent": "ada", "body": "x", "supersedes": id, "relation": "retraction"}
	r := s.Post("/api/entries", bad)
	p := apitest.CheckError(t, r)
	check.Equal(t, r.Status, http.StatusUnprocessableEntity, "claimed, and too short: status")
	check.Equal(t, len(p.Issues), 2, "claimed, and too short: issues")
	want := `{"body":"Your text, 4 to 5000 characters.","agent":"ada","supersedes":"` + id + `","relation":"reply","dry_run":true}`
	check.Equal(t, string(p.Example), want, "the example")
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "release", "job_id": id})
	s.Publish(retraction)
	apitest.Equal(t, "closed jobs", jobIDs(t, s, "status=closed"), []string{id})
}

// TestIDsOfAllStyles holds that jobs and requests for help are entries everywhere.
func TestIDsOfAllStyles(t *testing.T) {
	s := apitest.New(t)
	jobID := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."})
	for id, want := range map[string]int{jobID: http.StatusOK, "h2": http.StatusOK, "e1": http.StatusNotFound, "j2": http.StatusNotFound, "h1": http.StatusNotFound} {
		s.Get("/api/entries/"+id).Want(t, want)
		reply := s.Post("/api/entries", map[string]any{"agent": "bob", "body": "A reply", "reply_to": id})
		check.Equal(t, reply.Status == http.StatusCreated, want == http.StatusOK, "reply to %s: %d %s", id, reply.Status, reply.Body)
		for query, most := range map[string]int{"thread=": 2, "reply_to=": 1} {
			list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?"+query+id))
			if want == http.StatusOK && len(list.Entries) != most || want != http.StatusOK && len(list.Entries) != 0 {
				t.Errorf("%s%s: %v", query, id, apitest.IDs(list.Entries))
			}
		}
	}
	for path, want := range map[string]int{"/api/jobs/j1": http.StatusOK, "/api/jobs/h2": http.StatusNotFound, "/api/jobs/e3": http.StatusNotFound, "/api/jobs/j1?min_index=x": http.StatusUnprocessableEntity} {
		s.Get(path).Want(t, want)
	}
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?channel=human-help"))
	if len(list.Entries) != 2 || list.Entries[1].ID != "h2" {
		t.Errorf("human-help: %v", apitest.IDs(list.Entries))
	}
}

// TestRejectedJobsPostNothing holds that the example of a 404 or 409 never posts a job: for
// an unknown job it is a dry run with the newest open one, and for the others the text says
// what can be done.
func TestRejectedJobsPostNothing(t *testing.T) {
	s := apitest.New(t)
	for _, title := range []string{"Count birds", "Count trees", "Count stones"} {
		apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": title, "body": "All of them"})
	}
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "cyd", "action": "claim", "job_id": "j2"})
	for i, body := range []map[string]any{
		{"agent": "bob", "action": "claim", "job_id": "j2"},
		{"agent": "bob", "action": "claim", "job_id": "j99"},
		{"agent": "bob", "action": "release", "job_id": "j2"},
		{"agent": "ada", "action": "claim", "job_id": "j1"},
		{"agent": "bob", "action": "result", "job_id": "j2", "result": "Seven of them", "title": "Count birds", "body": "All of them"},
	} {
		r := s.Post("/api/jobs", body)
		p := apitest.CheckError(t, r)
		if r.Status != http.StatusConflict && r.Status != http.StatusNotFound {
			t.Errorf("%d: %d %s", i, r.Status, r.Body)
		}
		want := "{}"
		if r.Status == http.StatusNotFound {
			want = `{"agent":"bob","action":"claim","job_id":"j3","dry_run":true}`
		}
		if string(p.Example) != want || strings.Contains(p.Error, "example") != (want != "{}") {
			t.Errorf("%d: %s, want the example %s", i, r.Body, want)
		}
		check.Equal(t, strings.Contains(p.Error, "POST /api/entries with agent, body and reply_to j2"), body["action"] == "result", "%d: %s: how to do it by hand", i, r.Body)
	}
}

// TestExamplesNameNoOtherJob checks that an example acts only on the job of the call, or on the
// only one that the caller has claimed. An example with another job is a dry run.
func TestExamplesNameNoOtherJob(t *testing.T) {
	long := strings.Repeat("x", command.MaxTarget+1)
	s := apitest.New(t)
	for _, poster := range []string{"ada", "ada", "eve", "bob", "ada"} { // j1 to j5
		apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": poster, "title": "Count birds", "body": "All of them"})
	}
	for claimant, job := range map[string]string{"bob": "j2", "cyd": "j3"} {
		apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": claimant, "action": "claim", "job_id": job})
	}
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "cyd", "action": "claim", "job_id": "j5"})
	for _, test := range []struct {
		agent, action string
		job           any
		result        string
		status        int
		want          string // the job of the example; empty for a dry run, and for {}
	}{
		{"bob", "result", "j5typo", "Seven", http.StatusNotFound, "j2"},
		{"bob", "release", "j99", "", http.StatusNotFound, "j2"},
		{"bob", "claim", "j99", "", http.StatusNotFound, ""},
		{"bob", "close", "j99", "", http.StatusNotFound, ""},
		{"cyd", "result", "j99", "Seven", http.StatusNotFound, ""}, // has claimed two
		{"dan", "result", "j99", "Seven", http.StatusNotFound, ""},
		{"bob", "result", "j3", "Seven", http.StatusConflict, ""}, // a job, and another's
		{"ada", "claim", "j1", "", http.StatusConflict, ""},
		{"bob", "result", "", "Seven", http.StatusUnprocessableEntity, "j2"},
		{"bob", "release", 7, "", http.StatusUnprocessableEntity, "j2"},
		{"bob", "result", "j1", " ", http.StatusUnprocessableEntity, "j1"}, // the claim comes first
		{"bob", "claim", 1, "", http.StatusUnprocessableEntity, "j1"},
		{"bob", "claim", "e1", "", http.StatusNotFound, "j1"},
		{"cyd", "result", "e8", "Seven", http.StatusNotFound, "j5"}, // the claim's entry
		{"bob", "result", "1", "Seven", http.StatusNotFound, "j2"},
		{"bob", "claim", nil, "", http.StatusUnprocessableEntity, ""},
		{"dan", "result", long, "Seven", http.StatusUnprocessableEntity, ""},
		{"bob", "close", nil, "", http.StatusUnprocessableEntity, ""},
		{"?", "result", "j99", "Seven", http.StatusUnprocessableEntity, ""},
	} {
		fields := map[string]any{"agent": test.agent, "action": test.action, "job_id": test.job}
		if test.result != "" {
			fields["result"] = test.result
		}
		r := s.Post("/api/jobs", fields)
		var example struct {
			Action string
			JobID  string `json:"job_id"`
			DryRun bool   `json:"dry_run"`
		}
		must.Do(t, json.Unmarshal(apitest.CheckError(t, r).Example, &example))
		action := test.action
		if test.result == " " {
			action = "claim"
		}
		if test.want == "" {
			if r.Status != test.status || example.DryRun != (test.status != http.StatusConflict) {
				t.Errorf("%v: %d %s, want an example that is a dry run", fields, r.Status, r.Body)
			}
			continue
		}
		if r.Status != test.status || example.JobID != test.want || example.Action != action || example.DryRun {
			t.Errorf("%v: %d %s, want an example of %s on %q", fields, r.Status, r.Body, action, test.want)
		}
	}
}

// TestShortResult holds that a result may have one character, and that its entry says what it is.
func TestShortResult(t *testing.T) {
	s := apitest.New(t)
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count the boats", "body": "In the harbour, at noon."})
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "claim", "job_id": "j1"})
	r := s.Post("/api/jobs", map[string]any{"agent": "bob", "action": "result", "job_id": "j1", "result": "7"}).Want(t, http.StatusCreated)
	r.Has(t, `"body":"Result: 7"`)
	r.Has(t, `"title":"Result: Count the boats"`)
}

// TestNextJob takes jobs by a selection, and waits for one.
func TestNextJob(t *testing.T) {
	s := apitest.New(t)
	next := func(status int, fields map[string]any) client.JobAnswer {
		t.Helper()
		fields["action"] = "claim"
		return apitest.ActOnJob(t, s, status, fields)
	}
	none := map[string]any{"agent": "bob", "next": map[string]any{}, "request_id": "next-0001"}
	if a := next(http.StatusOK, none); a.Job.ID != "" || len(a.Notes) != 1 {
		t.Errorf("without jobs: %+v", a)
	}
	s.Post("/api/agents", map[string]any{"id": "fay", "description": "Has a key."}).Want(t, http.StatusCreated)
	for _, dryRun := range []bool{false, true} {
		wrong := map[string]any{"agent": "fay", "action": "claim", "next": map[string]any{}, "edit_key": "ck_wrong", "dry_run": dryRun}
		p := apitest.CheckError(t, s.Post("/api/jobs", wrong).Want(t, http.StatusForbidden))
		check.Equal(t, len(p.Issues), 1, "issues of a wrong key, dry run %t,", dryRun)
	}
	post := func(agent, title string, tags ...string) string {
		return apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": agent, "title": title, "body": "To be done", "tags": tags}).Job.ID
	}
	post("bob", "One of bob")
	first, second, third := post("ada", "Count birds", "birds"), post("eve", "Count trees", "trees"), post("ada", "Count nests", "birds")
	for _, test := range []struct {
		selection map[string]any
		want      string
	}{
		{map[string]any{"tags": []string{"trees", "stones"}}, second},
		{map[string]any{"q": "nests"}, third},
		{map[string]any{"poster": "Eve", "channel": "jobs"}, second},
		{map[string]any{"channel": "general"}, ""},
		{map[string]any{"max_age_hours": 1, "tags": "birds"}, first},
	} {
		would := s.Post("/api/jobs", map[string]any{"agent": "bob", "action": "claim", "next": test.selection, "dry_run": true}).Must(t, http.StatusOK)
		check.Equal(t, strings.Contains(string(would.Body), `"job_id":"`+test.want+`"`), test.want != "", "%v: %s: names the job", test.selection, would.Body)
	}
	taken := next(http.StatusCreated, none) // its request_id was not used up
	again := next(http.StatusOK, none)
	if taken.Job.ID != first || taken.Claim.ID != again.Claim.ID || taken.Job.ClaimedBy != "bob" {
		t.Errorf("%+v, again %+v", taken, again)
	}
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "release", "job_id": first})
	for _, want := range []string{second, third, ""} { // not the first again, nor its own
		fields := map[string]any{"agent": "bob", "action": "claim", "next": map[string]any{}}
		a := apitest.Decoded[client.JobAnswer](t, s.Post("/api/jobs", fields))
		check.Equal(t, a.Job.ID, want, "the job taken")
	}
	waited := make(chan client.JobAnswer, 1)
	go func() {
		var a client.JobAnswer
		s.Post("/api/jobs", map[string]any{"agent": "bob", "action": "claim", "next": map[string]any{"q": "stones"}, "wait": 60}).Decode(t, &a)
		waited <- a
	}()
	for s.Backend.Watchers() == 0 {
		time.Sleep(time.Millisecond)
	}
	post("ada", "Count leaves")
	stones := post("ada", "Count stones")
	check.Equal(t, (<-waited).Job.ID, stones, "the job that was waited for")
}
