package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
)

// stopTimeout is how long a server may take to stop at the end of a test.
const stopTimeout = 20 * time.Second

// Server is the interface on a loopback port.
type Server struct {
	Backend *Backend
	// Addr is host:port, URL the same as a base of paths.
	Addr, URL string

	tb testing.TB
}

// Start serves a backend until the test ends. Configure may change the
// configuration before.
func Start(tb testing.TB, b *Backend, configure ...func(*api.Config)) *Server {
	tb.Helper()
	cfg := api.Config{Backend: b}
	for _, change := range configure {
		change(&cfg)
	}
	server, err := api.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	s := At(tb, ln.Addr().String())
	s.Backend = b
	return s
}

// At is an interface that is served at an address already, without its backend.
func At(tb testing.TB, addr string) *Server {
	tb.Helper()
	return &Server{Addr: addr, URL: "http://" + addr, tb: tb}
}

// Response is an answer, read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request and checks the answer against the OpenAPI document. Headers
// are name and value by turns.
func (s *Server) Do(method, path, body string, headers ...string) *Response {
	s.tb.Helper()
	req, err := http.NewRequestWithContext(s.tb.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.tb.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.tb.Fatal(err)
	}
	r := &Response{Status: resp.StatusCode, Header: resp.Header, Body: data}
	Check(s.tb, req, r)
	return r
}

// Get is Do without a body.
func (s *Server) Get(path string, headers ...string) *Response {
	s.tb.Helper()
	return s.Do(http.MethodGet, path, "", headers...)
}

// Post sends a value as JSON.
func (s *Server) Post(path string, value any) *Response {
	s.tb.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(value); err != nil {
		s.tb.Fatal(err)
	}
	return s.Do(http.MethodPost, path, b.String(), "Content-Type", "application/json")
}

// Decode reads a JSON answer into v.
func (r *Response) Decode(tb testing.TB, v any) {
	tb.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		tb.Fatalf("%d %s: %v", r.Status, r.Body, err)
	}
}

// Entry is the part of an entry that tests look at.
type Entry struct {
	ID, Kind, Channel, Agent, Title, Body string
	Tags                                  []string
	CreatedAt                             int64
	Supersedes, Relation                  *string
	SupersededBy                          []struct{ ID, Agent, Relation string }
	SupersededByCount                     int
	House                                 bool
}

// Published is the answer to a write.
type Published struct {
	Entry     Entry
	Duplicate bool
	Notes     []string
}

// List is the answer to a list.
type List struct {
	Entries    []Entry
	NextCursor *string
}

// Problem is the Error object.
type Problem struct {
	Error  string
	Issues []struct{ Field, Message string }
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
	r := s.Post("/api/entries", entry)
	if r.Status != http.StatusCreated {
		s.tb.Fatalf("publish %v: %d %s", entry, r.Status, r.Body)
	}
	var p Published
	r.Decode(s.tb, &p)
	return p.Entry
}
