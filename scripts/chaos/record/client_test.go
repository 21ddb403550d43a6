package record

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		status int
		answer map[string]any
		want   Outcome
		id     string
	}{
		{201, map[string]any{"entry": map[string]any{"id": "e1"}, "duplicate": false}, Done, "e1"},
		{200, map[string]any{"result": map[string]any{"structuredContent": map[string]any{"entry": map[string]any{"id": "e2"}}}}, Done, "e2"},
		{200, map[string]any{"error": map[string]any{"code": -32000.0, "data": []any{map[string]any{"code": "not_enqueued"}}}}, Failed, ""},
		{200, map[string]any{"result": map[string]any{"isError": true, "structuredContent": map[string]any{"code": "outcome_unknown"}}}, Unknown, ""},
		{503, map[string]any{"code": "not_enqueued"}, Failed, ""},
		{503, map[string]any{"code": "outcome_unknown"}, Unknown, ""},
		{502, map[string]any{}, Unknown, ""},
		{500, map[string]any{"code": "internal"}, Unknown, ""},
		{409, map[string]any{"code": "job_done"}, Rejected, ""},
	} {
		c := Call{Kind: Publish}
		c.read(tc.status, tc.answer)
		check.Equal(t, c.Outcome, tc.want, "%d %v: outcome", tc.status, tc.answer)
		check.Equal(t, c.ID, tc.id, "%d %v: id", tc.status, tc.answer)
	}
}

// TestSentAndLost: a GET whose connection breaks is sent again by net/http, and finds
// no listener: it may have been written all the same. Without a connection it was not.
func TestSentAndLost(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var served int
	server := &http.Server{ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served == 1 {
			_, _ = io.WriteString(w, "{}")
			return
		}
		_ = listener.Close()
		panic(http.ErrAbortHandler)
	})
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	var h History
	cl := NewCaller(time.Now(), &http.Client{Transport: &http.Transport{}}, &h)
	ask := func() Outcome {
		c := Call{Kind: Publish}
		cl.send(t.Context(), &c, "http://"+listener.Addr().String(), request{method: http.MethodGet, path: "/", header: http.Header{}})
		return c.Outcome
	}
	for _, want := range []Outcome{Done, Unknown, Failed} {
		check.Equal(t, ask(), want, "ask")
	}
}

// TestSentTwice: the answer to a GET that net/http has sent again is that to the repetition:
// it proves neither that the call had no effect, nor that an earlier call had it.
func TestSentTwice(t *testing.T) {
	for answer, want := range map[string]Outcome{
		`{"entry":{"id":"e1"},"duplicate":true}`: Done,
		`{"code":"not_enqueued"}`:                Unknown,
	} {
		var served int
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if served++; served == 2 {
				panic(http.ErrAbortHandler)
			}
			if served == 3 && want != Done {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, answer)
		}))
		cl := NewCaller(time.Now(), server.Client(), &History{})
		ask := func() (c Call) {
			c.Kind = Publish
			cl.send(t.Context(), &c, server.URL, request{method: http.MethodGet, path: "/", header: http.Header{}})
			return c
		}
		check.Equal(t, ask().Resent, false, "%s: the first call was sent twice", answer)
		c := ask()
		check.Equal(t, c.Outcome, want, "%s: outcome", answer)
		check.Equal(t, c.Resent && served == 3, true, "%s: sent again", answer)
		server.Close()
	}
}

// TestSentByTheBalancer: a balancer may repeat a GET and what has an Idempotency-Key, so the
// only call may get the answer to its own repetition.
func TestSentByTheBalancer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"entry":{"id":"e1"},"duplicate":true}`)
	}))
	defer server.Close()
	node := &harness.Node{URL: server.URL}
	for _, balancer := range []*harness.Node{node, nil} {
		h := &History{}
		l := &lane{Crowd: &Crowd{Client: NewCaller(time.Now(), server.Client(), h), Balancer: balancer}, random: rand.New(rand.NewPCG(1, 1)), node: func() *harness.Node { return node }, header: http.Header{}}
		l.publish(t.Context(), "http", true, "")
		l.publish(t.Context(), "get", true, "")
		l.publish(t.Context(), "http", false, "")
		for i, c := range h.Calls {
			check.Equal(t, c.Resent, balancer != nil && i < 2, "call %d: repeated by the balancer", i)
		}
		check.Equal(t, len(h.Calls), 3, "calls")
	}
}
