package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestCallsWaitUntilTheNodeHasJoined: what needs the state waits, what operators
// ask does not.
func TestCallsWaitUntilTheNodeHasJoined(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Joining = make(chan struct{})
	_, addr := serve(t, b)
	statuses := make(chan int, 1)
	go func() {
		res, err := http.Post("http://"+addr+"/api/entries", "text/plain", strings.NewReader("sent too early"))
		if err != nil {
			statuses <- 0
			return
		}
		_ = res.Body.Close()
		statuses <- res.StatusCode
	}()
	// The call for the measurements is the second one under way.
	eventually(t, func() bool { return strings.Contains(metricsOf(t, addr), "commons_http_requests_in_flight 2") })
	select {
	case got := <-statuses:
		t.Fatalf("answered %d before the node had joined", got)
	default:
	}
	close(b.Joining)
	if got := <-statuses; got != http.StatusCreated {
		t.Errorf("status %d once the node had joined, want 201", got)
	}
}

// TestNodeOfNoClusterAnswersNothing: the state of a node that has joined no cluster
// is empty, and no answer may look as if the service were. The end of the server
// cuts the wait short.
func TestNodeOfNoClusterAnswersNothing(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Joining = make(chan struct{})
	server, addr := serve(t, b)
	requests := []struct{ method, path, body string }{
		{http.MethodGet, "/api/entries", ""},
		{http.MethodGet, "/api/home?for=ada", ""},
		{http.MethodPost, "/api/entries", `{"body":"sent too early"}`},
		{http.MethodPost, "/a2a", say("SendMessage", "a", `[{"text":"latest"}]`)},
		{http.MethodPost, "/a2a/v1/message:send", `{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":"latest"}]}}`},
		{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_entries"}}`},
	}
	answers := make(chan *apitest.Response, len(requests))
	s := apitest.At(t, addr)
	for _, request := range requests {
		go func() { answers <- s.Do(request.method, request.path, request.body, "Content-Type", jsonType) }()
	}
	eventually(t, func() bool {
		return strings.Contains(metricsOf(t, addr), fmt.Sprintf("commons_http_requests_in_flight %d", len(requests)+1))
	})
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for range requests {
		r := <-answers
		p := rejectionIn(t, r)
		if r.Status != http.StatusServiceUnavailable || p.Code != "no_leader" || !p.Retryable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
}

// TestNodeThatWasAwayShowsNothing: not before it knows what was purged meanwhile, to no
// moderator either. What says how the node is doing is answered.
func TestNodeThatWasAwayShowsNothing(t *testing.T) {
	b := apitest.NewBackend(t)
	b.CatchingUp = make(chan struct{})
	server, addr := serve(t, b)
	s := apitest.At(t, addr)
	if r := s.Get("/status"); r.Status != http.StatusOK {
		t.Errorf("/status: %d", r.Status)
	}
	answer := make(chan *apitest.Response, 1)
	go func() { answer <- s.Get("/api/entries") }()
	eventually(t, func() bool { return strings.Contains(metricsOf(t, addr), "commons_http_requests_in_flight 2") })
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-answer
	if p := rejectionIn(t, r); r.Status != http.StatusServiceUnavailable || p.Code != "behind" || !p.Retryable {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if done := server.Operate("listRules", wire.Invocation{}); done.Rejection == nil || done.Rejection.Code != command.CodeBehind {
		t.Errorf("the operator is answered %d %s", done.Status, done.Body)
	}
}

// rejectionIn is the Error object that an answer is, or that stands among the details of
// an error of the message protocol.
func rejectionIn(t *testing.T, r *apitest.Response) apitest.Problem {
	t.Helper()
	var protocol struct {
		Error struct{ Details json.RawMessage }
	}
	if json.Unmarshal(r.Body, &protocol) != nil { // error is a sentence
		return apitest.CheckError(t, r)
	}
	return problemOf(t, protocol.Error.Details)
}
