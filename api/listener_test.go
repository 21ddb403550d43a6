package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/fsm/command"
)

const waitingHome = "GET /api/home?for=ada&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n"

// talker is a client that writes its requests byte by byte.
type talker struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func talk(t testing.TB, s *apitest.Server) *talker {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &talker{t, conn, bufio.NewReader(conn)}
}

func (c *talker) say(request string) {
	c.t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads one answer.
func (c *talker) hear() (status int, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(read)
}

// until polls for a condition.
func until(t testing.TB, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// A wait ends when its client leaves, on HTTP and as a tool, and when it sends its
// next request, which is answered too.
func TestWaitNoticesClient(t *testing.T) {
	s := start(t)
	gone := talk(t, s)
	gone.say(waitingHome)
	const tool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home","arguments":{"for":"ada","wait":60}}}`
	model := talk(t, s)
	model.say(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(tool), tool))
	half := talk(t, s)
	half.say(waitingHome)
	until(t, "three wait", func() bool { return s.Backend.Watchers() == 3 })
	for _, leaving := range []*talker{gone, model} {
		if err := leaving.Close(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "their waits end", func() bool { return s.Backend.Watchers() == 1 })
	if err := half.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if status, body := half.hear(); status != http.StatusOK {
		t.Errorf("who closed its half got %d %s", status, body)
	}

	busy := talk(t, s)
	for range 3 {
		busy.say(waitingHome)
		until(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
		busy.say("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		if status, body := busy.hear(); status != http.StatusOK || !strings.Contains(body, `"forYou":[]`) {
			t.Errorf("the wait was answered %d %s", status, body)
		}
		if status, body := busy.hear(); status != http.StatusOK || body != "ok\n" {
			t.Errorf("what was sent behind it was answered %d %s", status, body)
		}
	}
	// Both in one packet: the second is read before the first waits.
	busy.say(strings.Replace(waitingHome, "wait=60", "wait=1", 1) + "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 2 {
		if status, body := busy.hear(); status != http.StatusOK {
			t.Errorf("one of two requests in one packet was answered %d %s", status, body)
		}
	}
}

// A call of a tool that waits counts as several where its body is long.
func TestLongBodiesOfWaits(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{AddressWaits: 2} })
	short := talk(t, s)
	short.say(waitingHome)
	until(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home","arguments":{"agent":"ada","wait":60}}}` + strings.Repeat(" ", 4<<10)
	long := talk(t, s)
	long.say(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if status, body := short.hear(); status != http.StatusOK || !strings.Contains(body, `"forYou":[]`) {
		t.Errorf("the wait that gave way was answered %d %s", status, body)
	}
	publishFor(t, s, "ada")
	if status, body := long.hear(); status != http.StatusOK || !strings.Contains(body, "forYou") {
		t.Errorf("the long one was answered %d %s", status, body)
	}
}

// Too many waits of an address end the oldest: nothing new, and no error.
func TestWaitsAreShed(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{AddressWaits: 2} })
	clients := make([]*talker, 3)
	for i := range clients {
		clients[i] = talk(t, s)
		clients[i].say(waitingHome)
		until(t, "it waits", func() bool { return s.Backend.Watchers() == min(i+1, 2) })
	}
	if status, body := clients[0].hear(); status != http.StatusOK || !strings.Contains(body, `"forYou":[]`) {
		t.Errorf("the oldest wait was answered %d %s", status, body)
	}
	publishFor(t, s, "ada")
	for _, waiting := range clients[1:] {
		if status, body := waiting.hear(); status != http.StatusOK || strings.Contains(body, `"forYou":[]`) {
			t.Errorf("a wait within the bound was answered %d %s", status, body)
		}
	}
}

// publishFor publishes something that concerns an agent.
func publishFor(t testing.TB, s *apitest.Server, agent string) {
	t.Helper()
	if r := s.Do(http.MethodPost, "/api/entries", `{"agent":"bob","body":"@`+agent+`, look at this."}`, "Content-Type", jsonType); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
}

// When all connections have a call, a further one gets health and nothing else.
func TestHealthWhenFull(t *testing.T) {
	block, inside := make(chan struct{}), make(chan struct{}, 2)
	backend := apitest.NewBackend(t)
	backend.Reject = func(command.Sender, command.Payload) error {
		inside <- struct{}{}
		<-block
		return nil
	}
	s := apitest.Start(t, backend, func(c *api.Config) { c.Guard = guard.Limits{Connections: 1, AddressConnections: 9} })
	const entry = `{"agent":"bob","body":"Is anybody here?"}`
	writer := talk(t, s)
	writer.say(fmt.Sprintf("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(entry), entry))
	<-inside
	for range 2 {
		late := talk(t, s)
		late.say("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		if status, body := late.hear(); status != http.StatusOK {
			t.Errorf("health: %d %s", status, body)
		}
		late.say("GET /api/channels HTTP/1.1\r\nHost: x\r\n\r\n")
		if status, body := late.hear(); status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"not_ready"`) {
			t.Errorf("another call: %d %s", status, body)
		}
	}
	close(block)
	if status, body := writer.hear(); status != http.StatusCreated {
		t.Errorf("the write: %d %s", status, body)
	}
	until(t, "there is room again", func() bool { return s.Get("/api/channels").Status == http.StatusOK })
}

// A connection above the bound of its address gets an answer that says so.
func TestTooManyConnections(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{AddressConnections: 1} })
	first := talk(t, s)
	first.say(waitingHome)
	until(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
	second := talk(t, s)
	second.say("GET /api/channels HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, body := second.hear(); status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"not_ready"`) {
		t.Errorf("a connection too many was answered %d %s", status, body)
	}
}

// TestAnswersHoldWhatTheySay: a list of short entries after one of long ones holds no
// buffer for long ones.
func TestAnswersHoldWhatTheySay(t *testing.T) {
	s := start(t)
	server, err := api.New(api.Config{Backend: s.Backend})
	if err != nil {
		t.Fatal(err)
	}
	const entries = 30
	for range entries {
		s.Publish(map[string]any{"agent": "bob", "channel": "long", "body": strings.Repeat("𠀀", 4990)})
		s.Publish(map[string]any{"agent": "bob", "channel": "short", "body": "Hello"})
	}
	for _, short := range []string{"/api/entries?limit=30&channel=short", "/api/home?for=bob&brief=1"} {
		if length, _ := api.Held(server, "/api/entries?limit=30&channel=long"); length < entries*16<<10 {
			t.Fatalf("the long list has %d bytes", length)
		}
		if length, capacity := api.Held(server, short); length == 0 || capacity > 2*length+16<<10 {
			t.Errorf("%s: %d bytes hold %d", short, length, capacity)
		}
	}
}

// A client that reads slowly gets all of its answer; one that holds too much of them
// unread gets 429.
func TestUnreadAnswers(t *testing.T) {
	s := start(t, func(c *api.Config) {
		c.WriteRate, c.Guard = 0, guard.Limits{AnswerBytes: 8 << 20, AddressAnswerBytes: 3 << 20}
	})
	body := strings.Repeat("𠀀", 4990)
	for i := range 100 {
		if r := s.Do(http.MethodPost, "/api/entries", fmt.Sprintf(`{"agent":"bob","body":"%d %s"}`, i, body), "Content-Type", jsonType); r.Status != http.StatusCreated {
			t.Fatalf("%d %.300s", r.Status, r.Body)
		}
	}
	const list = "GET /api/entries?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n"
	var slow *talker
	other := talk(t, s)
	until(t, "the answer counts", func() bool { // the system's buffers may hold a whole one
		slow = talk(t, s)
		if err := slow.Conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		slow.say(list)
		if _, err := slow.in.Peek(1); err != nil {
			t.Fatal(err)
		}
		other.say(list)
		status, _ := other.hear()
		return status == http.StatusTooManyRequests
	})
	if status, got := slow.hear(); status != http.StatusOK || len(got) < 100*len(body) {
		t.Errorf("the slow reader got %d and %d bytes", status, len(got))
	}
	until(t, "its share is free again", func() bool {
		other.say(list)
		status, _ := other.hear()
		return status == http.StatusOK
	})
}

// Calls that are wrong use up a budget of their own: reads and those of others go on.
func TestRejectionsAreCounted(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{Rejections: 1} })
	wrong := func() *apitest.Response {
		return s.Do(http.MethodPost, "/api/entries", `{"agent":"bob","body":""}`, "Content-Type", jsonType)
	}
	until(t, "the budget is used up", func() bool { return wrong().Status == http.StatusTooManyRequests })
	r := wrong()
	if problem := apitest.CheckError(t, r); problem.Code != "rate_limited" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := s.Get("/api/entries"); r.Status != http.StatusOK {
		t.Errorf("a read: %d %s", r.Status, r.Body)
	}
	if r := s.Get("/api/entries?%61ction=publish&body="); r.Status != http.StatusTooManyRequests {
		t.Errorf("a write by GET: %d %s", r.Status, r.Body)
	}
	tool := func(text string) *apitest.Response {
		return s.Post("/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": json.RawMessage(text)})
	}
	if r := tool(`{"name":"read_entries","arguments":{}}`); r.Status != http.StatusOK || !bytes.Contains(r.Body, []byte(`"entries":`)) {
		t.Errorf("a tool that reads: %d %s", r.Status, r.Body)
	}
	if r := tool(`{"name":"publish_message","arguments":{"agent":"bob","body":"Anything."}}`); !bytes.Contains(r.Body, []byte("rate_limited")) {
		t.Errorf("a tool that writes: %d %s", r.Status, r.Body)
	}
	if r := tool(`{"name":"read_entries","arguments":{"q":"` + strings.Repeat("x", 9<<10) + `"}}`); r.Status != http.StatusTooManyRequests {
		t.Errorf("a long call: %d %s", r.Status, r.Body)
	}
	if r := s.Post("/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}); r.Status != http.StatusOK || !bytes.Contains(r.Body, []byte(`"tasks"`)) {
		t.Errorf("a read of A2A: %d %s", r.Status, r.Body)
	}
	message := map[string]any{"message": map[string]any{"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Anything."}}}}
	if r := s.Post("/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}); bytes.Contains(r.Body, []byte(`"result"`)) {
		t.Errorf("a message of A2A: %d %s", r.Status, r.Body)
	}
}

// Repeats of a write are free of the other limits: they use up the budget of wrong calls.
func TestRepeatsAreCounted(t *testing.T) {
	for name, call := range map[string]struct{ path, body string }{
		"an entry":                            {"/api/entries", `{"agent":"bob","body":"Written once.","request_id":"bob-entry-1"}`},
		"a registration":                      {"/api/agents", `{"id":"bob","description":"Says things once.","request_id":"bob-profile-1"}`},
		"a registration without a request_id": {"/api/agents", `{"id":"bob","description":"Says things once."}`},
		"a report":                            {reportsPath, `{"entry_id":"e1","reason":"spam","text":"This is advertisement."}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(c *api.Config) { c.Guard = guard.Limits{Rejections: 1} })
			s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills!"})
			until(t, "the budget is used up", func() bool {
				return s.Do(http.MethodPost, call.path, call.body, "Content-Type", jsonType).Status == http.StatusTooManyRequests
			})
		})
	}
}

// Searches use up a budget by the steps that they take.
func TestSearchesAreCounted(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{ReadWork: 1} })
	var words strings.Builder
	for i := range 500 {
		fmt.Fprintf(&words, "aaa%d ", i)
	}
	if r := s.Do(http.MethodPost, "/api/entries", `{"agent":"bob","body":"`+words.String()+`"}`, "Content-Type", jsonType); r.Status != http.StatusCreated {
		t.Fatalf("%d %.300s", r.Status, r.Body)
	}
	until(t, "the budget is used up", func() bool { return s.Get("/api/entries?q=aaa").Status == http.StatusTooManyRequests })
	if r := s.Get("/api/entries"); r.Status != http.StatusOK {
		t.Errorf("a list: %d %s", r.Status, r.Body)
	}
}

// Feeds, and events of the past, use up the same budget.
func TestFeedsAndPastEventsAreCounted(t *testing.T) {
	for _, path := range []string{"/api/entries?format=atom", "/api/jobs?format=jsonfeed", "/api/events?event=claim&last_event_id=test-0-0"} {
		s := start(t, func(c *api.Config) { c.Guard = guard.Limits{ReadWork: 1} })
		publishLong(s, 60, "lorem ipsum ")
		until(t, path+" has used the budget up", func() bool { return s.Get(path).Status == http.StatusTooManyRequests })
		if r := s.Get("/api/jobs"); r.Status != http.StatusOK {
			t.Errorf("a list: %d %s", r.Status, r.Body)
		}
	}
}

// Answers of all lengths arrive on one connection, also where a long one has no body
// because the client asked for none.
func TestAnswersOnOneConnection(t *testing.T) {
	s := start(t)
	body := strings.TrimSpace(strings.Repeat("long ", 700))
	for i := range 2 {
		s.Publish(map[string]any{"body": fmt.Sprint(body, i)})
	}
	c := talk(t, s)
	_ = c.SetDeadline(time.Now().Add(8 * time.Second)) // what hangs is noticed soon
	read := func(method, path string) string {
		t.Helper()
		c.say(method + " " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d, %v", method, path, resp.StatusCode, err)
		}
		return string(got)
	}
	for range 2 {
		if got := read(http.MethodGet, "/api/entries"); strings.Count(got, body) != 2 {
			t.Fatalf("a long answer: %d bytes, %.60q", len(got), got)
		}
		if got := read(http.MethodHead, "/api/entries"); got != "" {
			t.Fatalf("HEAD: %q", got)
		}
		if got := read(http.MethodGet, "/api/channels"); !strings.Contains(got, "general") {
			t.Fatalf("a short answer: %q", got)
		}
	}
}

// Of requests that do not arrive, those that take the longest end when there are too
// many of one address, and are told why; what arrives as a whole is answered.
func TestSlowRequests(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Guard = guard.Limits{AddressArrivals: 2} })
	const head = "POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 131072\r\n\r\n{"
	clients := make([]*talker, 3)
	for i := range clients {
		clients[i] = talk(t, s)
		clients[i].say(head)
		until(t, "it arrives", func() bool {
			return i > 0 || strings.Contains(string(s.Get("/metrics").Body), "\ncommons_http_arrivals 1\n")
		})
	}
	if status, body := clients[0].hear(); status != http.StatusTooManyRequests || !strings.Contains(body, "each as a whole") {
		t.Errorf("the slowest was answered %d %s", status, body)
	}
	clients[2].say(strings.Repeat("x", 131071))
	if status, _ := clients[2].hear(); status != http.StatusBadRequest {
		t.Errorf("what arrived was answered %d", status)
	}
}
