package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// stopTimeout is how long a server may take to stop at the end of a test.
const stopTimeout = 20 * time.Second

// Server is the interface on a loopback port.
type Server struct {
	Backend *Backend
	// API is the server itself. It is stopped at the end of the test.
	API *api.Server
	// Addr is host:port, URL the same as a base of paths.
	Addr, URL string

	tb        testing.TB
	transport *http.Transport
}

// Start serves a backend until the test ends. Configure may change the
// configuration before.
func Start(tb testing.TB, b *Backend, configure ...func(*api.Config)) *Server {
	tb.Helper()
	cfg := api.Config{Config: op.Config{Backend: b}}
	for _, change := range configure {
		change(&cfg)
	}
	server := must.Get(api.New(cfg))(tb)
	ln := must.Get((&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0"))(tb)
	s := ServerAt(tb, ln.Addr().String())
	s.Backend, s.API = b, server
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		s.closeIdle(ctx)
		_ = ln.Close()
		check.Err(tb, <-served, nil, "serve")
		if err := server.Shutdown(ctx); !errors.Is(err, net.ErrClosed) {
			check.Err(tb, err, nil, "stop the server")
		}
	})
	return s
}

// closeIdle closes the connections that no request uses, and waits until the server has noticed: a
// Shutdown looks for the end of the others every 100 ms.
func (s *Server) closeIdle(ctx context.Context) {
	s.transport.CloseIdleConnections()
	_ = await.Until(ctx, 50*time.Millisecond, time.Millisecond, func() error { // others end in Shutdown
		if s.API.Guard.Connections() > 0 {
			return errors.New("connections are open")
		}
		return nil
	})
}

// ServerAt is an interface that is served at an address already, without its backend.
func ServerAt(tb testing.TB, addr string) *Server {
	tb.Helper()
	return &Server{Addr: addr, URL: "http://" + addr, tb: tb, transport: &http.Transport{}}
}

// Do sends a request and checks the response against the OpenAPI document. Headers
// are names and values by turns.
func (s *Server) Do(method, path, body string, headers ...string) *Response {
	s.tb.Helper()
	req := s.Request(method, path, body, headers...)
	r := s.Send(req)
	r.call = fmt.Sprintf("%s %s %.120s", method, path, body)
	Check(s.tb, req, r)
	checkExample(s.tb, req, r)
	return r
}

// Request returns a request to the server. Headers are names and values by turns.
func (s *Server) Request(method, path, body string, headers ...string) *http.Request {
	s.tb.Helper()
	req := must.Get(http.NewRequestWithContext(s.tb.Context(), method, s.URL+path, strings.NewReader(body)))(s.tb)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// Send sends a request and reads the response, which it neither checks nor follows.
func (s *Server) Send(req *http.Request) *Response {
	s.tb.Helper()
	resp, err := s.transport.RoundTrip(req)
	must.Do(s.tb, err)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))(s.tb)
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: data, call: req.Method + " " + req.URL.RequestURI()}
}

// checkExample holds that an error of a status that always has an example has one, on every
// surface. Invalid writes of moderators are exempt.
func checkExample(tb testing.TB, req *http.Request, r *Response) {
	tb.Helper()
	order := req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/api/moderation/")
	if !bytes.Contains(r.Body, []byte(`"example":{}`)) {
		return
	}
	for _, code := range []string{"validation_failed", "confirmation_required", "rate_limited"} {
		if bytes.Contains(r.Body, []byte(`"code":"`+code+`"`)) && (!order || code == "rate_limited") {
			tb.Errorf("%s %s: %d %s: no example", req.Method, req.URL, r.Status, r.Body)
		}
	}
}

// Get is Do without a body.
func (s *Server) Get(path string, headers ...string) *Response {
	s.tb.Helper()
	return s.Do(http.MethodGet, path, "", headers...)
}

// Post sends a value as JSON. A string is JSON already.
func (s *Server) Post(path string, value any, headers ...string) *Response {
	s.tb.Helper()
	body, isText := value.(string)
	if !isText {
		body = string(must.Get(json.Marshal(value))(s.tb))
	}
	return s.Do(http.MethodPost, path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// Entry is an entry.
type Entry = client.Entry

// Published is the answer to a write.
type Published = client.Published

// List is the answer to a list.
type List struct {
	Entries    []Entry
	NextCursor *string
}

// Problem is the Error object.
type Problem struct {
	Error  string
	Issues []client.Issue
	// Example is as it was sent, so that it can be sent back.
	Example   json.RawMessage
	Docs      string
	Code      string
	Retryable bool
	Notes     []string
}

// Publish posts an entry and insists on 201.
func (s *Server) Publish(entry map[string]any) Entry {
	s.tb.Helper()
	return Decoded[Published](s.tb, s.Post("/api/entries", entry).Must(s.tb, http.StatusCreated)).Entry
}

// JSONType is the media type of JSON.
const JSONType = "application/json"

// New serves an empty state.
func New(t *testing.T, configure ...func(*api.Config)) *Server {
	t.Helper()
	return Start(t, NewBackend(t), append([]func(*api.Config){UnboundedDryRuns}, configure...)...)
}

// IDs are the ids of a list's entries.
func IDs(entries []Entry) []string {
	out := make([]string, 0, len(entries))
	for i := range entries {
		out = append(out, entries[i].ID)
	}
	return out
}

// InFlight waits until a server works on n requests, that for the measurements among them.
func InFlight(t *testing.T, s *Server, n int) {
	t.Helper()
	await.Eventually(t, fmt.Sprint(n, " requests are under way"), func() bool {
		return strings.Contains(string(s.Get("/metrics").Body), fmt.Sprint("commons_http_requests_in_flight ", n, "\n"))
	})
}

// Shutdown stops a server, which must not take long.
func Shutdown(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	defer cancel()
	must.Do(t, s.API.Shutdown(ctx))
}

// PublishFor publishes something that concerns an agent.
func PublishFor(t testing.TB, s *Server, agent string) {
	t.Helper()
	s.Post("/api/entries", `{"agent":"bob","body":"@`+agent+`, look at this."}`).Must(t, http.StatusCreated)
}

// RejectionIn is the Error object that an answer is, or that stands among the details of
// an error of the message protocol.
func RejectionIn(t *testing.T, r *Response) Problem {
	t.Helper()
	var protocol struct {
		Error struct{ Details json.RawMessage }
	}
	if json.Unmarshal(r.Body, &protocol) != nil { // error is a sentence
		return CheckError(t, r)
	}
	return ProblemA2A(t, protocol.Error.Details)
}

// Deadline is how long a test waits for what must happen.
const Deadline = time.Minute

// PublicURL sets the public address of a server.
func PublicURL(c *api.Config) { c.PublicURL = "https://commons.example" }
