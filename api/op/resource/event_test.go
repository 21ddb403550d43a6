package resource_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// batch is the answer to a poll.
type batch struct {
	Events      []apitest.Event
	LastEventID string
	More        bool
	Reset       *struct{ Reason, Message string }
}

func poll(t *testing.T, s *apitest.Server, query string) (b batch, texts []string) {
	t.Helper()
	r := s.Get("/api/events?"+query).Must(t, http.StatusOK)
	r.Decode(t, &b)
	for _, e := range b.Events {
		texts = append(texts, e.String())
	}
	return b, texts
}

// TestStream follows what happens, goes on from ids, and filters.
func TestStream(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Before.", "agent": "ada"})
	all, den := apitest.OpenStream(t, s, "/api/events", ""), apitest.OpenStream(t, s, "/api/events?channel=den&agent=bob", "")
	for _, name := range []string{"X-Commons-Node", "X-Commons-Index", "Access-Control-Allow-Origin"} {
		if all.Header.Get(name) == "" {
			t.Errorf("a stream has no %s", name)
		}
	}
	all.Expect("ping")
	den.Expect("ping")
	from := all.ID
	s.Publish(map[string]any{"body": "One of Ada.", "agent": "ada", "channel": "den"})
	s.Publish(map[string]any{"body": "One of Bob.\nTwo lines\u2028three.", "agent": "bob", "channel": "den", "tags": []string{"sea"}})
	s.Post("/api/jobs", map[string]any{"action": "post", "agent": "ada", "title": "A job", "body": "Do it."})
	s.Post("/api/jobs", map[string]any{"action": "claim", "agent": "bob", "job_id": "j4"})
	s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "spam"}, IDs: []string{"e3"}})
	all.Expect("entry e2", "entry e3", "job j4 on j4", "claim e5 on j4", "hide e3")
	s.Publish(map[string]any{"body": "Two of Bob.", "agent": "bob", "channel": "den"})
	for { // when it looked decides whether it saw what is hidden now
		if got := den.Next().String(); got == "entry e6" {
			break
		} else if got != "entry e3" {
			t.Fatalf("a filtered stream says %q", got)
		}
	}
	again := apitest.OpenStream(t, s, "/api/events?last_event_id=nothing-1-1", from) // the header counts
	again.Expect("entry e2", "entry e3", "job j4 on j4")
	one := apitest.OpenStream(t, s, "/api/events", again.ID)
	if e := one.Next(); e.String() != "claim e5 on j4" || e.Entry.Agent != "bob" || e.Job.Status != "claimed" {
		t.Errorf("what comes next is %+v", e)
	}
	hidden := apitest.OpenStream(t, s, "/api/events?event=entry", from)
	hidden.Expect("entry e2")
	if e := hidden.Next(); e.String() != "entry e3" || e.Entry.Body != "" || e.Entry.Agent != "" {
		t.Errorf("a hidden entry is told of as %+v", e)
	}
	apitest.OpenStream(t, s, "/api/events?event=hide,claim", from).Expect("claim e5 on j4", "hide e3")
	apitest.OpenStream(t, s, "/api/events?thread=j4", from).Expect("job j4 on j4", "claim e5 on j4")
	apitest.OpenStream(t, s, "/api/events?for=ada", from).Expect("claim e5 on j4")
	apitest.OpenStream(t, s, "/api/events?q=two+of", from).Expect("entry e6")
	s.Do(http.MethodHead, "/api/events", "", "Accept", "text/event-stream").Want(t, http.StatusOK)
}

// TestPollEvents asks for batches.
func TestPollEvents(t *testing.T) {
	s := apitest.New(t)
	first, texts := poll(t, s, "wait=0")
	if len(texts) > 0 || first.LastEventID == "" || first.More || first.Reset != nil {
		t.Errorf("the first poll: %+v", first)
	}
	for range 5 {
		s.Publish(map[string]any{"body": "Hello, all.", "agent": "ada"})
	}
	b, texts := poll(t, s, "limit=3&last_event_id="+first.LastEventID)
	if !slices.Equal(texts, []string{"entry e1", "entry e2", "entry e3"}) || !b.More || b.LastEventID != b.Events[2].ID {
		t.Errorf("the second poll: %v %+v", texts, b)
	}
	b, texts = poll(t, s, "limit=3&last_event_id="+b.LastEventID)
	if !slices.Equal(texts, []string{"entry e4", "entry e5"}) || b.More {
		t.Errorf("the third poll: %v %+v", texts, b)
	}
	b, texts = poll(t, s, "agent=bob&wait=0&last_event_id="+first.LastEventID)
	if len(texts) > 0 || b.More || b.LastEventID == first.LastEventID {
		t.Errorf("a poll in vain: %v %+v", texts, b)
	}
	got := make(chan []string, 1)
	go func() {
		_, texts := poll(t, s, "wait=60&agent=bob&last_event_id="+b.LastEventID)
		got <- texts
	}()
	await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 1 })
	s.Publish(map[string]any{"body": "Not for this one.", "agent": "ada"})
	s.Publish(map[string]any{"body": "Hello from Bob.", "agent": "bob"})
	apitest.Equal(t, "a poll that waited", <-got, []string{"entry e7"})
	await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 0 })
}

// TestEventsThatCannotGoOn: of another cluster, not an id, too far ahead.
func TestEventsThatCannotGoOn(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello, all.", "agent": "ada"})
	index := s.Backend.Machine.Applied()
	other := state.FormatEventID("other", state.EventPlace{Index: 1, Number: 1})
	if b, _ := poll(t, s, "last_event_id="+other); b.Reset == nil || b.Reset.Reason != "other_cluster" || !strings.HasPrefix(b.LastEventID, "test-") {
		t.Errorf("a poll from another cluster: %+v", b)
	}
	st := apitest.OpenStream(t, s, "/api/events", other)
	st.Expect("resetother_cluster")
	s.Publish(map[string]any{"body": "Hello again.", "agent": "ada"})
	st.Expect("entry e2")
	for _, id := range []string{"x", "test-1", "test-01-1", "test-1-x", strings.Repeat("x", 200)} {
		apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/events?last_event_id="+id, "")
	}
	for _, query := range []string{"event=none", "event=entry,", "wait=61", "limit=0", "channel=x", "q=%00"} {
		apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/events?"+query, "")
	}
	ahead := apitest.OpenStream(t, s, "/api/events", state.FormatEventID("test", state.EventPlace{Index: index + 3, Number: 1}))
	ahead.Expect("ping")
	for range 4 {
		s.Publish(map[string]any{"body": "Hello again.", "agent": "ada"})
	}
	if e := ahead.Next(); e.String() != "entry e5" { // index+1 was e2
		t.Errorf("a stream ahead of its node goes on with %v", e)
	}
	s.Backend.Behind = true
	s.Get("/api/events?last_event_id=" + state.FormatEventID("test", state.EventPlace{Index: index, Number: 1}))
	s.Get("/api/events?last_event_id=test-1-1").Want(t, http.StatusServiceUnavailable)
}

// TestStreamsAreBounded for each address, and release their resources.
func TestStreamsAreBounded(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits.AddressStreams = 2 })
	one, two := apitest.OpenStream(t, s, "/api/events", ""), apitest.OpenStream(t, s, "/api/events", "")
	one.Expect("ping")
	two.Expect("ping")
	check.Equal(t, s.Backend.Watchers(), 1, "watchers for two streams")
	r := s.Get("/api/events", "Accept", "text/event-stream")
	if r.Status != http.StatusTooManyRequests || !strings.Contains(r.Header.Get("RateLimit"), "streams") {
		t.Errorf("one stream more: %d %s", r.Status, r.Body)
	}
	poll(t, s, "wait=0")
	one.Close()
	await.Eventually(t, "it happens", func() bool {
		res, cancel := apitest.RequestStream(t, s, "/api/events", "")
		defer cancel()
		return res.StatusCode == http.StatusOK
	})
	two.Close()
	await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 0 })
}

// TestStreamIsChunked checks that each piece of a stream is a chunk, so that clients which read in
// blocks see an event at once.
func TestStreamIsChunked(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	for version, chunked := range map[string]bool{"1.0": false, "1.1": true} {
		t.Run(version, func(t *testing.T) {
			conn := must.Get(net.Dial("tcp", s.Addr))(t)
			defer conn.Close()
			must.Do(t, conn.SetDeadline(time.Now().Add(apitest.Deadline)))
			fmt.Fprintf(conn, "GET /api/events HTTP/%s\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", version)
			in := bufio.NewReader(conn)
			line := func() string { return strings.TrimRight(must.Get(in.ReadString('\n'))(t), "\r\n") }
			header := map[string]string{}
			for at := line(); at != ""; at = line() {
				name, value, _ := strings.Cut(at, ": ")
				header[name] = value
			}
			check.Equal(t, header["Transfer-Encoding"] == "chunked", chunked, "the stream is chunked")
			check.Equal(t, header["Connection"], "close", "Connection")
			if !chunked {
				check.Equal(t, line(), "retry: 1000", "first line")
				return
			}
			chunk := func() string {
				size := must.Get(strconv.ParseInt(line(), 16, 32))(t)
				data := make([]byte, size)
				must.Get(io.ReadFull(in, data))(t)
				check.Equal(t, line(), "", "the end of a chunk")
				return string(data)
			}
			check.Equal(t, chunk(), "retry: 1000\n\n", "the first chunk")
			chunk() // the position
			apitest.PublishFor(t, s, "ada")
			if got := chunk(); !strings.HasSuffix(got, "\n\n") || !strings.Contains(got, "\nevent: entry\n") {
				t.Errorf("a chunk is %q, want an event", got)
			}
		})
	}
}

// TestShutdownEndsStreams at once, so that clients can tell it from the end of the node.
func TestShutdownEndsStreams(t *testing.T) {
	var conn net.Conn
	t.Run("served", func(t *testing.T) {
		t.Cleanup(func() { // runs after the server was stopped
			got, err := io.ReadAll(conn)
			if !bytes.HasSuffix(got, []byte("\r\n0\r\n\r\n")) {
				t.Errorf("the stream ends with %q, %v", got, err)
			}
			_ = conn.Close()
		})
		s := apitest.New(t)
		conn = must.Get(net.Dial("tcp", s.Addr))(t)
		must.Do(t, conn.SetDeadline(time.Now().Add(apitest.Deadline)))
		fmt.Fprint(conn, "GET /api/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
		await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 1 })
	})
}

// TestEventsOfSeveral follows entries of several channels and authors, and with a phrase, by polls
// and by a stream.
func TestEventsOfSeveral(t *testing.T) {
	s := apitest.New(t)
	begin := apitest.Decoded[struct{ LastEventID string }](t, s.Get("/api/events")).LastEventID
	for _, entry := range []map[string]any{
		{"body": "Red birds sing", "agent": "ada", "channel": "den"},  // e1
		{"body": "Birds, red", "agent": "bob", "channel": "hall"},     // e2
		{"body": "Red birds fly", "agent": "cyd", "channel": "attic"}, // e3
	} {
		s.Publish(entry)
	}
	for query, want := range map[string]string{
		"channel=den,hall":                   "e1 e2",
		"agent=ada&agent=cyd&kind=note,tip":  "e1 e3",
		"q=%22red+birds%22":                  "e1 e3",
		"q=birds+-sing&channel=den,hall,all": "e2",
	} {
		polled := apitest.Decoded[struct {
			Events []struct{ Entry apitest.Entry }
		}](t, s.Get("/api/events?"+query+"&last_event_id="+begin))
		var got []string
		for _, event := range polled.Events {
			got = append(got, event.Entry.ID)
		}
		check.Equal(t, strings.Join(got, " "), want, "%s: events", query)
	}
}
