package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// job is the part of a job that tests look at.
type job struct {
	apitest.Entry
	Status         string
	ClaimedBy      *string
	ClaimExpiresAt *int64
	Results        []string
}

// jobAnswer is the answer to POST /api/jobs.
type jobAnswer struct {
	Job           job
	Claim, Result *apitest.Entry
	Duplicate     bool
	Notes         []string
}

// onJobs posts an action and returns the answer, which must have the status.
func onJobs(t *testing.T, s *apitest.Server, status int, action map[string]any) jobAnswer {
	t.Helper()
	r := s.Post("/api/jobs", action)
	if r.Status != status {
		t.Fatalf("%v: %d %s, want %d", action, r.Status, r.Body, status)
	}
	var a jobAnswer
	if status < http.StatusMultipleChoices {
		r.Decode(t, &a)
	}
	return a
}

// jobIDs lists jobs, page by page.
func jobIDs(t *testing.T, s *apitest.Server, query string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		r := s.Get("/api/jobs?" + query + cursor)
		var page struct {
			Jobs       []job
			NextCursor *string
		}
		r.Decode(t, &page)
		if r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, r.Status, r.Body)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if page.NextCursor == nil {
			return ids
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

// TestJobGolden follows a job through its life and compares whole responses.
func TestJobGolden(t *testing.T) {
	s := start(t, func(c *api.Config) {
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
			contentType = jsonType
		}
		checkGolden(t, s, test.name, test.method, test.path, contentType, test.body)
	}
}

// claimedUntil is how the rejection of an action on a claimed job ends.
var claimedUntil = regexp.MustCompile(`: job_id names a job that Bob has claimed until 2026-01-01 \d\d:\d\d:\d\d UTC \(claimExpiresAt \d{13}\)\.( To hand your text in all the same, .*reply_to j1\.)?$`)

// TestUnknownJobAction: nobody who misnames an action is asked for the fields of a
// new job.
func TestUnknownJobAction(t *testing.T) {
	s := start(t)
	for _, fields := range []map[string]any{
		{"agent": "bob", "action": "accept", "job_id": "j1", "result": "Seven of them"},
		{"agent": "bob", "action": 7},
	} {
		p := rejectedPost(t, s, "/api/jobs", fields)
		if len(p.Issues) != 1 || p.Issues[0].Field != "action" || string(p.Example) != "{}" {
			t.Errorf("%v: %+v", fields, p)
		}
	}
	p := rejectedPost(t, s, "/api/jobs", map[string]any{"agent": "bob", "action": "create", "title": "Count birds", "body": "All of them"})
	if want := `{"agent":"bob","action":"post","title":"Count birds","body":"All of them"}`; string(p.Example) != want {
		t.Errorf("%s", p.Example)
	}
	if want := "must be post (the default), claim, result, release or close; create is none of them"; p.Issues[0].Message != want {
		t.Errorf("%s", p.Issues[0].Message)
	}
}

// TestJobLife is interface 3.1 and 4.5 over HTTP.
func TestJobLife(t *testing.T) {
	s := start(t, func(c *api.Config) { c.ClaimTTL = time.Hour })
	posted := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "Ada", "title": "Count birds", "body": "All of them, @cyd"})
	id := posted.Job.ID
	if posted.Job.Status != "open" || posted.Job.ClaimedBy != nil || posted.Job.ClaimExpiresAt != nil || len(posted.Job.Results) != 0 || id[0] != 'j' {
		t.Fatalf("%+v", posted)
	}
	act := func(agent, action string) map[string]any {
		return map[string]any{"agent": agent, "action": action, "job_id": id, "result": "Seven of them"}
	}
	for _, test := range []struct {
		agent, action string
		status        int
		code          string
		after         string
	}{
		{"ADA", "claim", http.StatusConflict, "own_job", "open"},
		{"bob", "release", http.StatusConflict, "job_not_claimed", "open"},
		{"Bob", "claim", http.StatusCreated, "", "claimed"},
		{"eve", "claim", http.StatusConflict, "job_claimed", "claimed"},
		{"eve", "result", http.StatusConflict, "job_claimed", "claimed"},
		{"eve", "release", http.StatusConflict, "job_claimed", "claimed"},
		{"ada", "result", http.StatusConflict, "own_job", "claimed"},
		{"ada", "close", http.StatusConflict, "job_claimed", "claimed"},
		{"bob", "claim", http.StatusCreated, "", "claimed"},
		{"bob", "release", http.StatusCreated, "", "open"},
		{"bob", "close", http.StatusConflict, "not_poster", "open"},
		{"eve", "result", http.StatusCreated, "", "done"},
		{"eve", "result", http.StatusConflict, "job_done", "done"},
		{"bob", "claim", http.StatusConflict, "job_done", "done"},
		{"ada", "close", http.StatusConflict, "job_done", "done"},
	} {
		r := s.Post("/api/jobs", act(test.agent, test.action))
		if r.Status != test.status {
			t.Fatalf("%s %s: %d %s", test.agent, test.action, r.Status, r.Body)
		}
		if test.code != "" {
			p := apitest.CheckError(t, r)
			if p.Code != test.code || p.Retryable || len(p.Issues) == 0 {
				t.Errorf("%s %s: %s", test.agent, test.action, r.Body)
			}
			// Who is told that a job is claimed is told by whom and until when.
			if test.code == "job_claimed" && !claimedUntil.MatchString(p.Error) {
				t.Errorf("%s %s: %s", test.agent, test.action, p.Error)
			}
		}
		var got struct{ Job job }
		s.Get("/api/jobs/"+id).Decode(t, &got)
		if got.Job.Status != test.after || (got.Job.ClaimedBy != nil) != (test.after == "claimed") {
			t.Errorf("%s %s: %+v", test.agent, test.action, got.Job)
		}
		if !slices.Contains(jobIDs(t, s, "status="+test.after), id) {
			t.Errorf("%s %s: not listed as %s", test.agent, test.action, test.after)
		}
	}
	var list apitest.List
	s.Get("/api/entries?for=ada").Decode(t, &list)
	var titles []string
	for _, e := range list.Entries {
		titles = append(titles, e.Agent+" "+e.Title)
	}
	if want := []string{"eve Result: Count birds", "bob Claimed: Count birds", "Bob Claimed: Count birds"}; !slices.Equal(titles, want) {
		t.Errorf("for the poster: %q", titles)
	}
	closed := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "Ada", "title": "Count trees", "body": "All of them"}).Job.ID
	if a := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "action": "close", "job_id": closed}); a.Job.Status != "closed" || a.Claim != nil || a.Result != nil {
		t.Errorf("%+v", a)
	}
	if got := jobIDs(t, s, ""); len(got) != 0 {
		t.Errorf("open: %v", got)
	}
	if got := jobIDs(t, s, "status=all&limit=1"); !slices.Equal(got, []string{closed, id}) {
		t.Errorf("all: %v", got)
	}
}

// TestJobClaimTTL holds that the setting is stamped into the claim, and that log
// time ends it.
func TestJobClaimTTL(t *testing.T) {
	s := start(t, func(c *api.Config) { c.ClaimTTL = 5 * time.Second })
	id := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	a := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "claim", "job_id": id})
	if a.Claim == nil || *a.Job.ClaimExpiresAt != a.Claim.CreatedAt+5000 {
		t.Fatalf("%+v", a)
	}
	for range 5 { // each command is a second later
		s.Backend.Apply(&command.Tick{})
	}
	a = onJobs(t, s, http.StatusCreated, map[string]any{"agent": "eve", "action": "claim", "job_id": id})
	if *a.Job.ClaimedBy != "eve" {
		t.Errorf("%+v", a)
	}
}

// TestJobRequestIDs is the request_id of every action, whatever the second body says.
func TestJobRequestIDs(t *testing.T) {
	s := start(t)
	other := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "eve", "title": "Another job", "body": "Do it all."}).Job.ID
	for i, action := range []map[string]any{
		{"agent": "Ada", "title": "Count birds", "body": "All of them"},
		{"agent": "Ada", "action": "claim", "job_id": other, "note": "Mine"},
		{"agent": "Ada", "action": "release", "job_id": other},
		{"agent": "Ada", "action": "result", "job_id": other, "result": "Done."},
		{"agent": "Ada", "action": "close", "job_id": "j2"},
	} {
		action["request_id"] = "job-request"
		first := onJobs(t, s, http.StatusCreated, action)
		if first.Duplicate {
			t.Errorf("%d: %+v", i, first)
		}
		action["agent"] = "ADA"
		for range 2 {
			again := onJobs(t, s, http.StatusOK, action)
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
	if got := jobIDs(t, s, "status=all"); len(got) != 2 {
		t.Errorf("jobs %v", got)
	}
}

// TestRetractJob is the retraction of a job's entry.
func TestRetractJob(t *testing.T) {
	s := start(t)
	id := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	retraction := map[string]any{"agent": "ada", "body": "Never mind", "supersedes": id, "relation": "retraction"}
	onJobs(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "claim", "job_id": id})
	r := s.Post("/api/entries", retraction)
	if p := apitest.CheckError(t, r); r.Status != http.StatusConflict || p.Code != "job_claimed" || p.Issues[0].Field != "relation" {
		t.Errorf("claimed: %d %s", r.Status, r.Body)
	}
	bad := map[string]any{"agent": "ada", "body": "x", "supersedes": id, "relation": "retraction"}
	r = s.Post("/api/entries", bad)
	p := apitest.CheckError(t, r)
	if r.Status != http.StatusUnprocessableEntity || len(p.Issues) != 2 {
		t.Errorf("claimed, and too short: %d %s", r.Status, r.Body)
	}
	if string(p.Example) != "{}" {
		t.Errorf("the example %s retracts nothing", p.Example)
	}
	onJobs(t, s, http.StatusCreated, map[string]any{"agent": "bob", "action": "release", "job_id": id})
	s.Publish(retraction)
	if got := jobIDs(t, s, "status=closed"); !slices.Equal(got, []string{id}) {
		t.Errorf("closed jobs %v", got)
	}
}

// TestIDsOfAllStyles holds that jobs and requests for help are entries everywhere.
func TestIDsOfAllStyles(t *testing.T) {
	s := start(t)
	jobID := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."})
	for id, want := range map[string]int{jobID: http.StatusOK, "h2": http.StatusOK, "e1": http.StatusNotFound, "j2": http.StatusNotFound, "h1": http.StatusNotFound} {
		r := s.Get("/api/entries/" + id)
		if r.Status != want {
			t.Errorf("%s: %d %s", id, r.Status, r.Body)
		}
		reply := s.Post("/api/entries", map[string]any{"agent": "bob", "body": "A reply", "reply_to": id})
		if (reply.Status == http.StatusCreated) != (want == http.StatusOK) {
			t.Errorf("reply to %s: %d %s", id, reply.Status, reply.Body)
		}
		for query, most := range map[string]int{"thread=": 2, "reply_to=": 1} {
			var list apitest.List
			s.Get("/api/entries?"+query+id).Decode(t, &list)
			if want == http.StatusOK && len(list.Entries) != most || want != http.StatusOK && len(list.Entries) != 0 {
				t.Errorf("%s%s: %v", query, id, ids(list.Entries))
			}
		}
	}
	for path, want := range map[string]int{"/api/jobs/j1": http.StatusOK, "/api/jobs/h2": http.StatusNotFound, "/api/jobs/e3": http.StatusNotFound, "/api/jobs/j1?min_index=x": http.StatusUnprocessableEntity} {
		if r := s.Get(path); r.Status != want {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	var list apitest.List
	s.Get("/api/entries?channel=human-help").Decode(t, &list)
	if len(list.Entries) != 2 || list.Entries[1].ID != "h2" {
		t.Errorf("human-help: %v", ids(list.Entries))
	}
}

// TestJobExamples sends the example of every rejection back: it must work, and
// write once at most.
func TestJobExamples(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	bodies := []map[string]any{
		{},
		{"agent": nil},
		{"agent": 7},
		{"agent": "?"},
		{"agent": "bob"},
		{"agent": "bob", "action": "steal"},
		{"agent": "bob", "action": 7},
		{"agent": "bob", "title": "x", "body": "Fine body"},
		{"agent": "bob", "title": "Fine", "body": long(5001)},
		{"agent": "bob", "title": true, "body": []int{1}},
		{"agent": "bob", "title": "Fine", "body": "Fine", "tags": strings.Split("123456789", "")},
		{"agent": "bob", "title": "Fine", "body": "Fine\x00", "tags": true},
		{"agent": "bob", "title": "Fine", "body": "Fine", "request_id": "short"},
		{"agent": "bob", "title": "Fine", "tags": []string{long(41), "ok"}},
		{"agent": "bob", "action": "claim"},
		{"agent": "bob", "action": "claim", "job_id": 1},
		{"agent": "bob", "action": "claim", "job_id": long(121)},
		{"agent": "bob", "action": "claim", "job_id": "j1", "note": long(1001)},
		{"agent": "ada", "action": "claim", "job_id": "j1", "note": 7},
		{"action": "claim", "job_id": "j1"},
		{"agent": "bob", "action": "result", "job_id": "j1"},
		{"agent": "bob", "action": "result", "job_id": "j9", "result": "x"},
		{"agent": "ada", "action": "result", "job_id": "j1", "result": long(5001)},
		{"agent": "bob", "action": "result", "job_id": "j2", "result": "x"},
		{"agent": "bob", "action": "release"},
		{"agent": "cyd", "action": "release", "job_id": 7},
		{"agent": "ada", "action": "close"},
		{"agent": "ada", "action": "close", "job_id": "j1", "request_id": "?"},
		{"agent": "bob", "action": "close", "job_id": ""},
	}
	for _, body := range bodies {
		s := start(t)
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count trees", "body": "All of them"})
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": "cyd", "action": "claim", "job_id": "j2"})
		rejectedPost(t, s, "/api/jobs", body)
	}
	s := start(t)
	for _, path := range []string{"/api/jobs?", "/api/human-requests?"} {
		for _, query := range []string{
			"limit=0", "limit=x", "cursor=x", "q=" + long(201), "q=%ff", "consistency=weak", "min_index=x", "limit=5&limit=6", "status=lost&agent=?", "status=open&status=done&agent=a&agent=b",
		} {
			rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, path+query, "")
		}
	}
}

// TestRejectedJobsPostNothing holds that the example of a 404 or 409 never posts a job:
// there is none, and the text says what can be done.
func TestRejectedJobsPostNothing(t *testing.T) {
	s := start(t)
	for _, title := range []string{"Count birds", "Count trees", "Count stones"} {
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": title, "body": "All of them"})
	}
	onJobs(t, s, http.StatusCreated, map[string]any{"agent": "cyd", "action": "claim", "job_id": "j2"})
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
		if string(p.Example) != "{}" || strings.Contains(p.Error, "example") {
			t.Errorf("%d: %s", i, r.Body)
		}
		if hand := strings.Contains(p.Error, "POST /api/entries with agent, body and reply_to j2"); hand != (body["action"] == "result") {
			t.Errorf("%d: %s", i, r.Body)
		}
	}
}

// TestExamplesNameNoOtherJob holds that an example acts on no job but the one that
// was asked for or the only one that the caller has claimed: who sends it back does
// nothing to the job of a stranger.
func TestExamplesNameNoOtherJob(t *testing.T) {
	long := strings.Repeat("x", command.MaxTarget+1)
	s := start(t)
	for _, poster := range []string{"ada", "ada", "eve", "bob", "ada"} { // j1 to j5
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": poster, "title": "Count birds", "body": "All of them"})
	}
	for claimant, job := range map[string]string{"bob": "j2", "cyd": "j3"} {
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": claimant, "action": "claim", "job_id": job})
	}
	onJobs(t, s, http.StatusCreated, map[string]any{"agent": "cyd", "action": "claim", "job_id": "j5"})
	for _, test := range []struct {
		agent, action string
		job           any
		result        string
		status        int
		want          string // the job of the example; "": it posts one
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
		{"bob", "result", "j1", "x", http.StatusUnprocessableEntity, ""},
		{"bob", "claim", 1, "", http.StatusUnprocessableEntity, "j1"},
		{"bob", "claim", "e1", "", http.StatusNotFound, "j1"},
		{"cyd", "result", "e8", "Seven", http.StatusNotFound, "j5"}, // the claim's entry
		{"bob", "result", "1", "Seven", http.StatusNotFound, "j1"},
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
		}
		if err := json.Unmarshal(apitest.CheckError(t, r).Example, &example); err != nil {
			t.Fatal(err)
		}
		action := test.action
		if test.want == "" {
			action = ""
		}
		if r.Status != test.status || example.JobID != test.want || example.Action != action {
			t.Errorf("%v: %d %s, want an example of %s on %q", fields, r.Status, r.Body, action, test.want)
		}
	}
}

// TestJobUnavailable is what an action says when the cluster cannot take it.
func TestJobUnavailable(t *testing.T) {
	s := start(t)
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "no answer"}
	}
	for path, body := range map[string]map[string]any{
		"/api/jobs":           {"agent": "ada", "title": "Count birds", "body": "All of them", "request_id": "retry-me-1"},
		"/api/jobs?":          {"agent": "ada", "action": "result", "job_id": "j99", "result": "Seven", "request_id": "retry-me-1"},
		"/api/human-requests": {"agent": "ada", "goal": "A goal", "requested_action": "Do it.", "request_id": "retry-me-1"},
	} {
		r := s.Post(path, body)
		p := apitest.CheckError(t, r)
		if r.Status != http.StatusServiceUnavailable || p.Code != "outcome_unknown" || !p.Retryable {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
		for field, value := range body {
			if !strings.Contains(string(p.Example), fmt.Sprintf("%q:%q", field, value)) {
				t.Errorf("%s: the example %s lacks %s", path, p.Example, field)
			}
		}
	}
}

// TestJobsByAgent is agent= and claimed_by= of GET /api/jobs (interface, 4.5).
func TestJobsByAgent(t *testing.T) {
	s := start(t)
	for i, agent := range []string{"Ada", "bob", "ada", "ada"} {
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": agent, "title": fmt.Sprintf("Count birds %d", i), "body": "All of them."}) // j1 to j4
	}
	for _, id := range []string{"j1", "j4"} {
		onJobs(t, s, http.StatusCreated, map[string]any{"agent": "Cyd", "action": "claim", "job_id": id}) // e5, e6
	}
	onJobs(t, s, http.StatusCreated, map[string]any{"agent": "eve", "action": "result", "job_id": "j3", "result": "Seven of them."})
	for query, want := range map[string]string{
		"agent=ADA":                            "",
		"agent=bob":                            "j2",
		"agent=ada&status=all":                 "j4 j3 j1",
		"author=ada&status=claimed":            "j4 j1",
		"from=ada&status=done":                 "j3",
		"agent=nobody&status=all":              "",
		"claimed_by=cyd":                       "j4 j1",
		"claimedBy=CYD&limit=1&status=all":     "j4 j1",
		"claimed_by=cyd&agent=bob":             "",
		"claimed_by=cyd&agent=ada&limit=1":     "j4 j1",
		"claimed_by=cyd&q=birds+3":             "j4",
		"claimed_by=eve":                       "",
		"agent=ada&status=claimed&q=birds":     "j4 j1",
		"agent=ada&status=all&q=birds&limit=1": "j4 j3 j1",
	} {
		if got := strings.Join(jobIDs(t, s, query), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"agent=?", "claimed_by=?", "claimed_by=cyd&status=open"} {
		rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/jobs?"+query, "")
	}
	var page struct{ NextCursor string }
	s.Get("/api/jobs?claimed_by=cyd&limit=1").Decode(t, &page)
	if r := s.Get("/api/jobs?claimed_by=eve&limit=1&cursor=" + page.NextCursor); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("the cursor of another list: %d %s", r.Status, r.Body)
	}
}
