package apitest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/must"
)

// Event is an event as a client reads it.
type Event struct {
	ID, Event string
	Entry     *Entry
	Job       *struct{ ID, Status string }
	Profile   string
	Reason    string // of a reset
}

func (e Event) String() string {
	text := e.Event + e.Profile + e.Reason
	if e.Entry != nil {
		text += " " + e.Entry.ID
	}
	if e.Job != nil {
		text += " on " + e.Job.ID
	}
	return text
}

// EventStream is an open stream of events.
type EventStream struct {
	t      *testing.T
	Header http.Header
	Close  context.CancelFunc
	lines  *bufio.Reader
	// ID is that of the newest event, the one to go on from.
	ID string
}

// RequestStream sends a request for a stream.
func RequestStream(t *testing.T, s *Server, path, id string, header ...string) (*http.Response, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil))(t)
	req.Header.Set("Accept", "text/event-stream")
	if id != "" {
		req.Header.Set("Last-Event-ID", id)
	}
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res := must.Get(s.transport.RoundTrip(req))(t)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res, cancel
}

// OpenStream opens a stream of events behind an event.
func OpenStream(t *testing.T, s *Server, path, id string, header ...string) *EventStream {
	t.Helper()
	res, cancel := RequestStream(t, s, path, id, header...) //nolint:bodyclose // at the end of the test
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("%s: %d %v", path, res.StatusCode, res.Header)
	}
	st := &EventStream{t: t, Header: res.Header, Close: cancel, lines: bufio.NewReader(res.Body)}
	if got := st.block(); !strings.HasPrefix(got, "retry: ") {
		t.Fatalf("a stream begins with %q", got)
	}
	return st
}

// block returns the next lines up to an empty one; "" at the end.
func (st *EventStream) block() string {
	st.t.Helper()
	var b strings.Builder
	for {
		line, err := st.lines.ReadString('\n')
		if err != nil {
			return ""
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// Next returns the next event.
func (st *EventStream) Next() Event {
	st.t.Helper()
	block := st.block()
	var id, event, data string
	if _, err := fmt.Sscanf(block, "id: %s\nevent: %s\ndata: ", &id, &event); err != nil {
		st.t.Fatalf("a block is %q: %v", block, err)
	}
	_, data, _ = strings.Cut(block, "data: ")
	var e Event
	if err := json.Unmarshal([]byte(data), &e); err != nil || e.ID != id || e.Event != event {
		st.t.Fatalf("a block is %q: %v", block, err)
	}
	if event != "ping" && event != "reset" {
		CheckValue(st.t, []byte(data), "Happening")
	}
	st.ID = id
	return e
}

// Expect reads so many events.
func (st *EventStream) Expect(want ...string) {
	st.t.Helper()
	for _, one := range want {
		must.Equal(st.t, st.Next().String(), one, "line of the stream")
	}
}

// OneEvent is a stream that ends after the first event that is not a ping.
type OneEvent struct {
	io.ReadCloser

	seen strings.Builder
}

func (r *OneEvent) Read(p []byte) (int, error) {
	if _, event, found := strings.Cut(r.seen.String(), "event: entry\n"); found && strings.Contains(event, "\n\n") {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := r.ReadCloser.Read(p[:1])
	r.seen.Write(p[:n])
	return n, err
}
