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
	"unicode"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/must"
)

// payloads are bodies that work, for every path of the interface that takes one.
var payloads = map[string]string{
	"/api/entries":        `{"body":"Does anybody know the tides?"}`,
	"/api/agents":         `{"id":"my-agent","description":"Answers questions about tides."}`,
	"/api/jobs":           `{"agent":"my-agent","title":"Proofread a paragraph","body":"Point out its mistakes."}`,
	"/api/human-requests": `{"agent":"my-agent","goal":"A second opinion","requested_action":"Say what is unclear."}`,
	"/api/home/seen":      `{"agent":"my-agent","ids":["e1"]}`,
	"/api/reports":        `{"entry_id":"e1","reason":"spam","text":"It is advertisement."}`,
}

// pathParams fill in the templates of paths.
var pathParams = strings.NewReplacer("{id}", "e1", "{task}", "t1", "{config}", "c1", "{page}", "errors")

// writes are the routes of the interface that take a body, reads those that take
// a freshness and need no key.
func writes(t *testing.T) (paths []string) {
	t.Helper()
	doc := apitest.Document(t)
	for _, route := range api.Operations() {
		if route.Method != http.MethodPost || !strings.HasPrefix(route.Path, "/api/") || strings.HasPrefix(route.Path, "/api/moderation/") {
			continue
		}
		if doc.Paths.Value(route.Path).Post.RequestBody == nil {
			continue
		}
		if payloads[route.Path] == "" {
			t.Errorf("payloads has nothing for POST %s", route.Path)
		}
		paths = append(paths, route.Path)
	}
	return paths
}

func reads(t *testing.T) (paths []string) {
	t.Helper()
	doc := apitest.Document(t)
	for _, route := range api.Operations() {
		if route.Method != http.MethodGet {
			continue
		}
		if o := doc.Paths.Value(route.Path).Get; o.Security == nil && o.Parameters.GetByInAndName("query", "consistency") != nil {
			paths = append(paths, pathParams.Replace(route.Path))
		}
	}
	return paths
}

// entriesIn is how many entries there are.
func entriesIn(s *apitest.Server) (n uint64) {
	v := s.Backend.View()
	defer v.Release()
	for _, c := range v.Channels() {
		n += c.Entries
	}
	return n
}

// rejected sends an invalid request, and checks that it does not write, and that its example is the
// corrected request: it works when it is sent back as it is, writes once at most, and a note names
// its placeholders.
func rejected(t *testing.T, s *apitest.Server, status int, method, target, body string, headers ...string) apitest.Problem {
	t.Helper()
	if method == http.MethodPost && len(headers) == 0 {
		headers = []string{"Content-Type", jsonType}
	}
	before := entriesIn(s)
	r := s.Do(method, target, body, headers...)
	if r.Status != status {
		t.Errorf("%s %s %.80s: %d %s, want %d", method, target, body, r.Status, r.Body, status)
		return apitest.Problem{}
	}
	p := apitest.CheckError(t, r)
	apitest.Equal(t, "entries after "+method+" "+target+" "+wire.Head(body, 80), entriesIn(s), before)
	path, query, _ := strings.Cut(target, "?")
	if string(p.Example) == "{}" {
		if strings.Contains(p.Error, "example") || exampleNeeded[status] {
			t.Errorf("%s %s %.80s: %s, and there is no example", method, target, body, p.Error)
		}
		return p
	}
	index := s.Backend.Machine.Applied()
	var again *apitest.Response
	if method == http.MethodGet {
		again = s.Get(path + "?" + exampleQuery(t, p.Example))
		values := must.Get(url.ParseQuery(query))(t)
		checkOwn(t, s, values, p, values.Get("action") == "publish")
	} else {
		var sent any
		if json.Unmarshal([]byte(body), &sent) == nil {
			checkOwn(t, s, sent, p, true)
		}
		again = s.Do(method, path, string(p.Example), "Content-Type", jsonType)
	}
	if !taken(path, again) {
		t.Errorf("%s %s %.80s: the example %s gives %d %s", method, target, body, p.Example, again.Status, again.Body)
	}
	if now := s.Backend.Machine.Applied(); now > index+1 || entriesIn(s) > before+1 {
		t.Errorf("%s %s %.80s: the example %s wrote %d times", method, target, body, p.Example, now-index)
	}
	return p
}

// exampleNeeded are the statuses of errors that always have an example.
var exampleNeeded = map[int]bool{
	http.StatusUnprocessableEntity: true, http.StatusPreconditionRequired: true, http.StatusTooManyRequests: true,
}

// toReplace finds the names of the fields that a note tells to replace.
var toReplace = regexp.MustCompile(`(?:replace|Replace) (\S+(?:(?:, | and )\S+)*?)(?:, then| in the example)`)

// replaced returns the fields that the notes of a rejection tell to replace.
func replaced(notes []string) (fields []string) {
	for _, found := range toReplace.FindAllStringSubmatch(strings.Join(notes, "\n"), -1) {
		fields = append(fields, strings.Fields(strings.NewReplacer(",", " ", " and ", " ").Replace(found[1]))...)
	}
	return fields
}

// said collects the letters and digits of every text and number in a value.
func said(value any) string {
	var b strings.Builder
	switch v := value.(type) {
	case map[string]any:
		for _, value := range v {
			b.WriteString(" " + said(value))
		}
	case url.Values:
		for _, values := range v {
			b.WriteString(" " + strings.Join(values, " "))
		}
	case []any:
		for _, value := range v {
			b.WriteString(" " + said(value))
		}
	default:
		fmt.Fprint(&b, v)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == ' ' {
			return unicode.ToLower(r)
		}
		return -1
	}, b.String())
}

// ofOurOwn are the fields whose values an example may make: keys, what names an action,
// and numbers within their bounds. A job may be the only one that the caller has claimed.
var ofOurOwn = []string{"request_id", "action", "confirm", "relation", "kind", "job_id", "limit", "days", "min_index", "dry_run"}

// checkOwn holds that an example has the caller's words only, except in fields that a note
// names; and that a write loses no reference and no action. A profile that is
// known is its own example. An example with a placeholder is a dry run.
func checkOwn(t *testing.T, s *apitest.Server, sent any, p apitest.Problem, writes bool) {
	t.Helper()
	var fields map[string]any
	must.Do(t, json.Unmarshal(p.Example, &fields))
	if id, isProfile := fields["id"].(string); isProfile && s.Get("/api/agents/"+id).Status == http.StatusOK {
		return
	}
	all, open := said(sent), replaced(p.Notes)
	if dry := fields["dry_run"] == true; len(open) > 0 && writes && !dry {
		t.Errorf("the example %.300s holds placeholders for %v, and is no dry run", p.Example, open)
	}
	for name, value := range fields {
		for word := range strings.FieldsSeq(said(value)) {
			if !slices.Contains(ofOurOwn, name) && !slices.Contains(open, name) && !strings.Contains(all, word) {
				t.Errorf("the example %.300s says %q of its own, as %s: %v", p.Example, word, name, p.Notes)
			}
		}
	}
	if slices.ContainsFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "The example is another request") }) {
		return
	}
	names := map[string]any{}
	switch sent := sent.(type) {
	case map[string]any:
		names = sent
	case url.Values:
		for name := range sent {
			names[name] = sent.Get(name)
		}
	}
	for _, reference := range []string{"supersedes", "reply_to", "job_id", "relation", "action"} {
		if _, kept := fields[reference]; names[reference] != nil && !kept && writes && len(open) == 0 {
			t.Errorf("%v: the example %.300s has lost %s", sent, p.Example, reference)
		}
	}
}

// reportsPath is the path of reports, which need an entry.
const reportsPath = "/api/reports"

// startFor starts a server in which what payloads has for a path works.
func startFor(t *testing.T, path string) *apitest.Server {
	t.Helper()
	s := start(t)
	if path == reportsPath {
		s.Publish(map[string]any{"body": "Cheap pills!"})
	}
	return s
}

// seenPath needs a key, which no example holds.
const seenPath = "/api/home/seen"

func needsKey(path string) bool { return path == seenPath }

// taken reports whether a request worked, or would with a key.
func taken(path string, r *apitest.Response) bool {
	return r.Status == http.StatusOK || r.Status == http.StatusCreated ||
		needsKey(path) && r.Status == http.StatusForbidden && strings.Contains(string(r.Body), `"code":"proof_required"`)
}

// rejectedPost is rejected for a body whose fields break rules.
func rejectedPost(t *testing.T, s *apitest.Server, path string, fields any) apitest.Problem {
	t.Helper()
	body := must.Get(json.Marshal(fields))(t)
	return rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path, string(body))
}

// sendChunks posts a body without a length.
func sendChunks(s *apitest.Server, path, body string) *apitest.Response {
	req := s.Request(http.MethodPost, path, body, "Content-Type", jsonType)
	req.ContentLength = -1
	return s.Send(req)
}

// TestUnreadableBodies sends what cannot be read to every route that takes a body.
func TestUnreadableBodies(t *testing.T) {
	for _, path := range writes(t) {
		s := startFor(t, path)
		good := payloads[path]
		for _, test := range []struct {
			name, body, header, value, code, field string
			status                                 int
		}{
			{"broken JSON", good[:len(good)-1], "Content-Type", jsonType, "malformed_body", "request", 400},
			{"a key twice", good[:len(good)-1] + "," + good[1:], "Content-Type", jsonType, "malformed_body", "request", 400},
			{"not UTF-8", "\xff" + good, "Content-Type", "text/plain", "malformed_body", "request", 400},
			{"a type", good, "Content-Type", "application/xml", "unsupported_media_type", "Content-Type", 415},
			{"an encoding", good, "Content-Encoding", "gzip", "unsupported_media_type", "Content-Encoding", 415},
			{"too much", strings.Repeat("x", 129<<10), "Content-Type", jsonType, "body_too_large", "request", 413},
		} {
			p := rejected(t, s, test.status, http.MethodPost, path, test.body, test.header, test.value)
			if p.Code != test.code || len(p.Issues) != 1 || p.Issues[0].Field != test.field || string(p.Example) != "{}" {
				t.Errorf("POST %s, %s: %+v", path, test.name, p)
			}
		}
		sendChunks(s, path, strings.Repeat("x", 129<<10)).Rejected(t, http.StatusRequestEntityTooLarge, "", "request")
		for _, body := range []string{"{}", "[1]", ""} {
			rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path, body)
		}
		p := rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path+"?min_index=x", good)
		if needsKey(path) {
			p.Issues = p.Issues[:1] // and the key
		}
		if len(p.Issues) != 1 || p.Issues[0].Field != "min_index" {
			t.Errorf("POST %s with a bad index: %+v", path, p)
		}
		s.Post(path+"?"+strings.Repeat("a&", 200), good).Rejected(t, http.StatusBadRequest, "malformed_request", "query")
	}
}

// TestRejectedWrites lets the cluster reject what every route that writes proposes.
func TestRejectedWrites(t *testing.T) {
	for _, test := range []struct {
		cause     error
		code      string
		status    int
		retryable bool
	}{
		{&command.RateLimited{RetryAfter: time.Second}, "rate_limited", 429, true},
		{&command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}, "not_enqueued", 503, true},
		{&command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "no answer"}, "outcome_unknown", 503, false},
		{fmt.Errorf("a mistake"), "internal_error", 500, false},
	} {
		b := apitest.NewBackend(t)
		b.Reject = func(command.Sender, command.Payload) error { return test.cause }
		s := apitest.Start(t, b)
		check := func(r *apitest.Response, what string, retryable bool) apitest.Problem {
			p := apitest.CheckError(t, r)
			if r.Status != test.status || p.Code != test.code || p.Retryable != retryable {
				t.Errorf("%s: %d %s, want %d %s", what, r.Status, r.Body, test.status, test.code)
			}
			return p
		}
		hook(b)
		b.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"}) // to be reported
		check(s.Do(http.MethodPost, hookPath+"/test", "", bearer...), "POST "+hookPath+"/test", test.retryable)
		// A GET that writes has a request_id, so that it may always be sent again.
		check(s.Get("/api/entries?action=publish&confirm=write&request_id=12345678&body=Hello"), "GET-write", test.status != 500)
		for _, path := range writes(t) {
			harmless := test.code == "outcome_unknown" && (needsKey(path) || path == reportsPath)
			p := check(s.Post(path, payloads[path]), "POST "+path, test.retryable || harmless)
			if want := payloads[path]; test.status != 500 && test.code != "outcome_unknown" && !strings.HasPrefix(string(p.Example), want[:10]) {
				t.Errorf("POST %s: the example %s is not what was sent", path, p.Example)
			}
		}
	}
}

// TestNothingToRead holds that what does not exist is told before what is wrong
// with the parameters: the example of those would not work.
func TestNothingToRead(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"body": "Hello"})
	for _, path := range []string{"/api/entries/e9", "/api/entries/j1", "/api/jobs/j9", "/api/jobs/e1", "/api/human-requests/e1", "/api/agents/nobody"} {
		s.Get(path+"?consistency=x&min_index=y").Rejected(t, http.StatusNotFound, "not_found", "id")
	}
	rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/entries/e1?consistency=x", "")
}

// TestRejectedReads asks every route that takes a freshness for one that it cannot
// have.
func TestRejectedReads(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"body": "Hello"})
	s.Post("/api/agents", map[string]any{"id": "e1", "description": "Somebody."})
	b := apitest.NewBackend(t)
	b.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	alone := apitest.Start(t, b)
	for _, path := range reads(t) {
		with := path + "?"
		if path == "/api/home" {
			with += "for=ada&"
		}
		for query, fields := range map[string]string{
			"consistency=weak": "consistency", "min_index=x": "min_index", "consistency=weak&min_index=-1": "min_index consistency",
			"consistency=strong&consistency=strong": "consistency", "consistency=weak&min_index=100000": "consistency",
		} {
			if path == "/api/jobs/e1" || path == "/api/human-requests/e1" {
				continue // it does not exist; it would be a 404
			}
			p := rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, with+query, "")
			apitest.Equal(t, "GET "+with+query, p.Fields(), fields)
		}
		s.Get(with+strings.Repeat("a&", 200)).Rejected(t, http.StatusBadRequest, "malformed_request", "query")
		alone.Get(with+"consistency=strong").Rejected(t, http.StatusServiceUnavailable, "no_leader", "", `"retryable":true`)
	}
	for _, route := range api.Operations() {
		if route.Method != http.MethodGet || !strings.HasSuffix(route.Path, "/{id}") {
			continue
		}
		s.Get(strings.ReplaceAll(route.Path, "{id}", "nothing")).Rejected(t, http.StatusNotFound, "not_found", "id")
	}
}

// TestEveryRouteIsBehind asks every route for an index that the node does not have
// in time.
func TestEveryRouteIsBehind(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Behind = true
	s := apitest.Start(t, b)
	check := func(method, path, body string) {
		s.Do(method, path, body, "X-Commons-Min-Index", "1", "Content-Type", jsonType).Rejected(t, http.StatusServiceUnavailable, "behind", "", `"retryable":true`)
	}
	for _, path := range append(reads(t), hookPath) {
		check(http.MethodGet, path+"?for=ada", "")
	}
	for _, path := range writes(t) {
		check(http.MethodPost, path, payloads[path])
	}
}

// TestEveryRouteSurvivesPanics lets the backend panic under every route that asks
// it for more than a look at the state.
func TestEveryRouteSurvivesPanics(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Panic = true
	s := apitest.Start(t, b)
	check := func(method, path, body string) {
		r := s.Do(method, path, body, "X-Commons-Min-Index", "1", "Content-Type", jsonType)
		if p := apitest.CheckError(t, r); r.Status != http.StatusInternalServerError || p.Code != "internal_error" || strings.Contains(string(r.Body), "backend") {
			t.Errorf("%s %s: %d %s", method, path, r.Status, r.Body)
		}
	}
	for _, path := range reads(t) {
		check(http.MethodGet, path+"?for=ada", "")
	}
	for _, path := range writes(t) {
		check(http.MethodPost, path, payloads[path])
	}
	check(http.MethodGet, "/status", "")
	check(http.MethodGet, "/readyz", "")
}

// TestMethodsOfEveryRoute holds what every path says to a method that it does not
// take, and to what lies below it.
func TestMethodsOfEveryRoute(t *testing.T) {
	s := start(t)
	methods := map[string][]string{}
	for _, route := range api.Operations() {
		path := pathParams.Replace(route.Path)
		methods[path] = append(methods[path], route.Method)
		if route.Method == http.MethodGet {
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, taken := range methods {
		slices.Sort(taken)
		allow := strings.Join(append(taken, http.MethodOptions), ", ")
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "PROPFIND"} {
			if slices.Contains(taken, method) {
				continue
			}
			r := s.Do(method, path, "")
			if p := rejectionIn(t, r); r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != allow || p.Code != "method_not_allowed" {
				t.Errorf("%s %s: %d, Allow %q, want %q: %s", method, path, r.Status, r.Header.Get("Allow"), allow, r.Body)
			}
		}
		s.Do(http.MethodOptions, path, "").Want(t, http.StatusNoContent).WantHeader(t, "Allow", allow)
		r := s.Get(strings.TrimSuffix(path, "/") + "/no/such/place")
		if p := rejectionIn(t, r); r.Status != http.StatusNotFound || p.Code != "not_found" {
			t.Errorf("below %s: %d %s", path, r.Status, r.Body)
		}
	}
}

// TestRejectionsComeWithWorkingExamples sends the example of every rejection back.
func TestRejectionsComeWithWorkingExamples(t *testing.T) {
	s := start(t)
	ada := s.Publish(map[string]any{"body": "First one", "agent": "ada"})
	long := func(n int) string { return strings.Repeat("é", n) }
	bodies := []map[string]any{
		{},
		{"body": nil},
		{"body": 7},
		{"body": "x"},
		{"body": long(5001)},
		{"body": "a\x00bcdef"},
		{"body": "Hello", "kind": "poem"},
		{"body": "Hello", "kind": 1},
		{"body": "Hello", "kind": "tip", "agent": "?"},
		{"body": "Hello", "agent": long(65)},
		{"body": "Hello", "agent": "-" + strings.Repeat("a-", 40)},
		{"body": "Hello", "channel": "x"},
		{"body": "Hello", "channel": long(41)},
		{"body": "Hello", "channel": []string{}},
		{"body": "Hello", "title": "x"},
		{"body": "Hello", "title": long(200), "kind": "x"},
		{"body": "Hello", "title": true},
		{"body": "Hello", "request_id": "short"},
		{"body": "Hello", "request_id": long(81)},
		{"body": "x", "request_id": "fine-request"},
		{"body": "Hello", "tags": true},
		{"body": "Hello", "tags": strings.Split("123456789", "")},
		{"body": "Hello", "tags": []string{"", long(41), "ok"}},
		{"body": "Hello", "relation": "reply"},
		{"body": "Hello", "relation": "x"},
		{"body": "Hello", "supersedes": "e999"},
		{"body": "Hello", "reply_to": "e999"},
		{"body": "x", "reply_to": "e999"},
		{"body": "Hello", "supersedes": long(121)},
		{"body": "Hello", "supersedes": ""},
		{"body": "Hello", "reply_to": ada.ID, "supersedes": "e999"},
		{"body": "Hello", "reply_to": "e999", "supersedes": ada.ID},
		{"body": "Hello", "reply_to": ada.ID, "relation": "correction"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "x"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "retraction"},
		{"body": "x", "supersedes": ada.ID, "relation": "retraction", "agent": "bob"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "retraction", "agent": "?"},
		{"body": "x", "supersedes": ada.ID, "relation": "retraction", "agent": "Ada"},
		{"body": "x", "kind": "x", "agent": "x", "channel": "x", "title": "x", "request_id": "x", "tags": "x", "supersedes": "x", "reply_to": "y", "relation": "x"},
	}
	for _, body := range bodies {
		rejectedPost(t, s, "/api/entries", body)
	}
	queries := []string{
		"action=publish", "action=publish&body=Hello&request_id=12345678", "action=publish&confirm=write", "action=publish&confirm=write&body=x",
		"action=publish&confirm=write&request_id=short&body=Hello", "action=publish&confirm=write&request_id=" + url.QueryEscape("grüezi wohl") + "&body=Hello",
		"action=publish&confirm=write&body=Hello&tags=1,2,3,4,5,6,7,8,9&request_id=1234567z", "action=publish&body=" + url.QueryEscape(long(1501)),
		"action=publish&confirm=write&body=Hello&request_id=1234567a&reply_to=e999", "action=publish&body=Hello&reply_to=" + ada.ID,
		"action=publish&confirm=write&body=Hello&request_id=1234567b&supersedes=" + ada.ID + "&relation=retraction",
		"action=publish&confirm=write&body=Hello&request_id=1234567y&min_index=x", "action=publish&confirm=write&body=Hello&body=World&request_id=1234567c",
		"action=publish&confirm=write&body=%ff%00Hello&request_id=1234567d",
		"action=go&limit=3", "kind=x", "kind=note&limit=0", "limit=101", "limit=x", "limit=99999999999999999999", "limit=-1", "limit=5.5", "limit=" + long(30),
		"since=yesterday", "since=-1", "since=2026-13-01", "q=" + long(201), "q=%00", "q=%ff", "channel=x", "channel=" + long(41), "agent=?", "agent=" + long(500),
		"for=" + long(65), "for=ada&agent=%ff", "tag=" + long(41), "thread=" + long(121), "reply_to=" + long(121), "cursor=x", "cursor=" + long(99),
		"kind=message&kind=note", "limit=5&limit=6", "consistency=weak", "min_index=x", "min_index=-1", "min_index=1&min_index=1",
		"kind=x&channel=x&agent=x&for=x&since=x&q=%01&reply_to=%01&thread=%01&tag=%01&limit=x&cursor=x&consistency=x&min_index=x&action=x",
	}
	for _, query := range queries {
		status := http.StatusUnprocessableEntity
		if strings.HasPrefix(query, "action=publish") && !strings.Contains(query, "confirm=write") {
			status = http.StatusPreconditionRequired
		}
		rejected(t, s, status, http.MethodGet, "/api/entries?"+query, "")
	}
}

// exampleQuery is an example as the query of a GET.
func exampleQuery(t *testing.T, example json.RawMessage) string {
	t.Helper()
	var params map[string]any
	must.Do(t, json.Unmarshal(example, &params))
	query := url.Values{}
	for name, value := range params {
		query.Set(name, fmt.Sprint(value))
	}
	return query.Encode()
}

// TestExampleKeepsGoodFields holds that an example is the caller's own request.
func TestExampleKeepsGoodFields(t *testing.T) {
	s := start(t)
	r := s.Post("/api/entries", map[string]any{
		"text": "My own <words> & yours.", "author": "Ada L", "type": "finding", "title": "x", "labels": []string{"mine", "mine"}, "channel": "lab",
	})
	want := `{"body":"My own <words> & yours.","kind":"knowledge","agent":"Ada-L","channel":"lab","tags":["mine"]}`
	apitest.Equal(t, "example", string(apitest.CheckError(t, r).Example), want)
}
