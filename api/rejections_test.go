package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
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

// startFor starts a server in which what payloads has for a path works.
func startFor(t *testing.T, path string) *apitest.Server {
	t.Helper()
	s := apitest.New(t)
	if path == apitest.ReportsPath {
		s.Publish(map[string]any{"body": "Cheap pills!"})
	}
	return s
}

// sendChunks posts a body without a length.
func sendChunks(s *apitest.Server, path, body string) *apitest.Response {
	req := s.Request(http.MethodPost, path, body, "Content-Type", apitest.JSONType)
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
			{"broken JSON", good[:len(good)-1], "Content-Type", apitest.JSONType, "malformed_body", "request", 400},
			{"a key twice", good[:len(good)-1] + "," + good[1:], "Content-Type", apitest.JSONType, "malformed_body", "request", 400},
			{"not UTF-8", "\xff" + good, "Content-Type", "text/plain", "malformed_body", "request", 400},
			{"a type", good, "Content-Type", "application/xml", "unsupported_media_type", "Content-Type", 415},
			{"an encoding", good, "Content-Encoding", "gzip", "unsupported_media_type", "Content-Encoding", 415},
			{"too much", strings.Repeat("x", 129<<10), "Content-Type", apitest.JSONType, "body_too_large", "request", 413},
		} {
			p := apitest.Rejected(t, s, test.status, http.MethodPost, path, test.body, test.header, test.value)
			if p.Code != test.code || len(p.Issues) != 1 || p.Issues[0].Field != test.field || string(p.Example) != "{}" {
				t.Errorf("POST %s, %s: %+v", path, test.name, p)
			}
		}
		sendChunks(s, path, strings.Repeat("x", 129<<10)).Rejected(t, http.StatusRequestEntityTooLarge, "", "request")
		for _, body := range []string{"{}", "[1]", ""} {
			apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path, body)
		}
		p := apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path+"?min_index=x", good)
		if apitest.NeedsKey(path) {
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
		apitest.RegisterAda(b)
		b.Apply(&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Title: "Pills", Body: "Pills, cheap"}) // to be reported
		check(s.Do(http.MethodPost, apitest.DeliveriesPath+"/test", "", apitest.Bearer...), "POST "+apitest.DeliveriesPath+"/test", test.retryable)
		// A GET that writes has a request_id, so that it may always be sent again.
		check(s.Get("/api/entries?action=publish&confirm=write&request_id=12345678&body=Hello"), "GET-write", test.status != 500)
		for _, path := range writes(t) {
			harmless := test.code == "outcome_unknown" && (apitest.NeedsKey(path) || path == apitest.ReportsPath)
			p := check(s.Post(path, payloads[path]), "POST "+path, test.retryable || harmless)
			if want := payloads[path]; test.status != 500 && test.code != "outcome_unknown" && !strings.HasPrefix(string(p.Example), want[:10]) {
				t.Errorf("POST %s: the example %s is not what was sent", path, p.Example)
			}
		}
	}
}

// TestRejectedReads asks every route that takes a freshness for one that it cannot
// have.
func TestRejectedReads(t *testing.T) {
	s := apitest.New(t)
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
			p := apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, with+query, "")
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
		s.Do(method, path, body, "X-Commons-Min-Index", "1", "Content-Type", apitest.JSONType).Rejected(t, http.StatusServiceUnavailable, "behind", "", `"retryable":true`)
	}
	for _, path := range append(reads(t), apitest.DeliveriesPath) {
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
		r := s.Do(method, path, body, "X-Commons-Min-Index", "1", "Content-Type", apitest.JSONType)
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
	s := apitest.New(t)
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
			if p := apitest.RejectionIn(t, r); r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != allow || p.Code != "method_not_allowed" {
				t.Errorf("%s %s: %d, Allow %q, want %q: %s", method, path, r.Status, r.Header.Get("Allow"), allow, r.Body)
			}
		}
		s.Do(http.MethodOptions, path, "").Want(t, http.StatusNoContent).WantHeader(t, "Allow", allow)
		r := s.Get(strings.TrimSuffix(path, "/") + "/no/such/place")
		if p := apitest.RejectionIn(t, r); r.Status != http.StatusNotFound || p.Code != "not_found" {
			t.Errorf("below %s: %d %s", path, r.Status, r.Body)
		}
	}
}
