package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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
	conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://")))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(apitest.Deadline)))
	return &talker{t, conn, bufio.NewReader(conn)}
}

func (c *talker) say(request string) {
	c.t.Helper()
	must.Get(io.WriteString(c, request))(c.t)
}

// read reads the answer to a request.
func (c *talker) read(req *http.Request) *apitest.Response {
	c.t.Helper()
	resp := must.Get(http.ReadResponse(c.in, req))(c.t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(c.t)
	return &apitest.Response{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

// ask sends a request and reads the status of its answer.
func (c *talker) ask(request string) int {
	c.t.Helper()
	c.say(request)
	return c.read(nil).Status
}

// A wait ends when its client leaves, on HTTP and as a tool, and when it sends its
// next request, which is answered too.
func TestWaitNoticesClient(t *testing.T) {
	s := apitest.New(t)
	gone := talk(t, s)
	gone.say(waitingHome)
	tool := apitest.ToolCall("home", `{"for":"ada","wait":60}`)
	model := talk(t, s)
	model.say(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(tool), tool))
	half := talk(t, s)
	half.say(waitingHome)
	await.Eventually(t, "three wait", func() bool { return s.Backend.Watchers() == 3 })
	for _, leaving := range []*talker{gone, model} {
		must.Do(t, leaving.Close())
	}
	await.Eventually(t, "their waits end", func() bool { return s.Backend.Watchers() == 1 })
	must.Do(t, half.Conn.(*net.TCPConn).CloseWrite())
	half.read(nil).Want(t, http.StatusOK)

	busy := talk(t, s)
	for range 3 {
		busy.say(waitingHome)
		await.Eventually(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
		busy.say("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		busy.read(nil).Want(t, http.StatusOK, `"forYou":[]`)
		busy.read(nil).Want(t, http.StatusOK, "ok\n")
	}
	// Both in one packet: the second is read before the first waits.
	busy.say(strings.Replace(waitingHome, "wait=60", "wait=1", 1) + "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 2 {
		busy.read(nil).Want(t, http.StatusOK)
	}
}

// A call of a tool that waits counts as several where its body is long.
func TestLongBodiesOfWaits(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{AddressWaits: 2} })
	short := talk(t, s)
	short.say(waitingHome)
	await.Eventually(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
	body := apitest.ToolCall("home", `{"agent":"ada","wait":60}`) + strings.Repeat(" ", 4<<10)
	long := talk(t, s)
	long.say(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	short.read(nil).Want(t, http.StatusOK, `"forYou":[]`)
	apitest.PublishFor(t, s, "ada")
	long.read(nil).Want(t, http.StatusOK, "forYou")
}

// Too many waits of an address end the oldest, without news or an error.
func TestWaitsAreShed(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{AddressWaits: 2} })
	clients := make([]*talker, 3)
	for i := range clients {
		clients[i] = talk(t, s)
		clients[i].say(waitingHome)
		await.Eventually(t, "it waits", func() bool { return s.Backend.Watchers() == min(i+1, 2) })
	}
	clients[0].read(nil).Want(t, http.StatusOK, `"forYou":[]`)
	apitest.PublishFor(t, s, "ada")
	for _, waiting := range clients[1:] {
		waiting.read(nil).Want(t, http.StatusOK).Lacks(t, `"forYou":[]`)
	}
}

// When all connections have a call, a further one gets health alone.
func TestHealthWhenFull(t *testing.T) {
	block, inside := make(chan struct{}), make(chan struct{}, 2)
	backend := apitest.NewBackend(t)
	backend.Reject = func(command.Sender, command.Payload) error {
		inside <- struct{}{}
		<-block
		return nil
	}
	s := apitest.Start(t, backend, func(c *api.Config) { c.Limits = guard.Limits{Connections: 1, AddressConnections: 9} })
	const entry = `{"agent":"bob","body":"Is anybody here?"}`
	writer := talk(t, s)
	writer.say(fmt.Sprintf("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(entry), entry))
	<-inside
	for range 2 {
		late := talk(t, s)
		late.say("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		late.read(nil).Want(t, http.StatusOK)
		late.say("GET /api/channels HTTP/1.1\r\nHost: x\r\n\r\n")
		late.read(nil).Want(t, http.StatusServiceUnavailable, `"code":"not_ready"`)
	}
	close(block)
	writer.read(nil).Want(t, http.StatusCreated)
	await.Eventually(t, "there is room again", func() bool { return s.Get("/api/channels").Status == http.StatusOK })
}

// A connection above the bound of its address gets an answer that says so.
func TestTooManyConnections(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{AddressConnections: 1} })
	first := talk(t, s)
	first.say(waitingHome)
	await.Eventually(t, "it waits", func() bool { return s.Backend.Watchers() == 1 })
	second := talk(t, s)
	second.say("GET /api/channels HTTP/1.1\r\nHost: x\r\n\r\n")
	second.read(nil).Want(t, http.StatusServiceUnavailable, `"code":"not_ready"`)
}

// TestAnswersHoldWhatTheySay: a list of short entries after one of long ones holds no
// buffer for long ones.
func TestAnswersHoldWhatTheySay(t *testing.T) {
	s := apitest.New(t)
	server := must.Get(api.New(api.Config{Config: op.Config{Backend: s.Backend}}))(t)
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

// longList is a request for 100 entries.
const longList = "GET /api/entries?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n"

// readSlowly leaves an answer unread until another client of the address gets 429, and returns
// the slow client. The system's buffers may hold a whole answer, so that it may take several.
func readSlowly(t testing.TB, s *apitest.Server, other *talker) (slow *talker) {
	t.Helper()
	await.Eventually(t, "an unread answer counts", func() bool {
		slow = talk(t, s)
		must.Do(t, slow.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
		slow.say(longList)
		must.Get(slow.in.Peek(1))(t)
		return other.ask(longList) == http.StatusTooManyRequests
	})
	return slow
}

// A client that reads slowly gets all of its answer; one that holds too much of them
// unread gets 429.
func TestUnreadAnswers(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.WriteRate, c.Limits = 0, guard.Limits{AnswerBytes: 8 << 20, AddressAnswerBytes: 3 << 20}
	})
	body := strings.Repeat("𠀀", 4990)
	for i := range 100 {
		s.Post("/api/entries", fmt.Sprintf(`{"agent":"bob","body":"%d %s"}`, i, body)).Must(t, http.StatusCreated)
	}
	other := talk(t, s)
	slow := readSlowly(t, s, other)
	if r := slow.read(nil); r.Status != http.StatusOK || len(r.Body) < 100*len(body) {
		t.Errorf("the slow reader got %d and %d bytes", r.Status, len(r.Body))
	}
	await.Eventually(t, "its share is free again", func() bool { return other.ask(longList) == http.StatusOK })
}

// heldListener accepts connections. Close of the first one waits.
type heldListener struct {
	net.Listener
	accepted atomic.Bool
	closing  chan struct{} // closed when the first connection begins to close
	release  chan struct{}
}

func (l *heldListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.accepted.Swap(true) {
		return conn, err
	}
	return &heldConn{Conn: conn, of: l}, nil
}

type heldConn struct {
	net.Conn
	of   *heldListener
	once sync.Once
}

func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.of.closing) })
	<-c.of.release
	return c.Conn.Close()
}

// A request that arrives on a connection that is about to be closed, to make room, is not answered
// as if it had been carried out.
func TestRequestOnClosingConnection(t *testing.T) {
	b := apitest.NewBackend(t)
	server := must.Get(api.New(api.Config{Config: op.Config{Backend: b, Limits: guard.Limits{AddressConnections: 1}}}))(t)
	ln := &heldListener{Listener: must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t), closing: make(chan struct{}), release: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	s := apitest.ServerAt(t, ln.Addr().String())
	idle := talk(t, s)
	must.Equal(t, idle.ask("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), http.StatusOK, "the first request")
	await.Eventually(t, "it is being closed, to make room", func() bool { // it is idle a moment after the answer
		must.Do(t, talk(t, s).Close())
		select {
		case <-ln.closing:
			return true
		default:
			return false
		}
	})
	body := `{"agent":"bob","body":"Is this written?"}`
	idle.say(fmt.Sprintf("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	idle.read(nil).Want(t, http.StatusServiceUnavailable, `"not_ready"`)
	close(ln.release)
	must.Do(t, idle.Close())
	ctx, cancel := context.WithTimeout(t.Context(), apitest.Deadline)
	defer cancel()
	must.Do(t, server.Shutdown(ctx))
	must.Do(t, <-served)
}

// The long answer to a write is sent although the address holds too much unread: an error would
// deny the write.
func TestWriteBesideUnreadAnswers(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.WriteRate, c.Limits = 0, guard.Limits{AddressAnswerBytes: 64 << 10} })
	write := func(i int) string {
		body := fmt.Sprintf(`{"agent":"bob","body":"%d %s"}`, i, strings.Repeat("𠀀", 4990))
		return fmt.Sprintf("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	other := talk(t, s)
	for i := range 100 {
		must.Equal(t, other.ask(write(i)), http.StatusCreated, "status of write %d", i)
	}
	readSlowly(t, s, other)
	other.say(write(100))
	other.read(nil).Want(t, http.StatusCreated)
}

// Calls that are wrong use up a budget of their own: reads and those of others go on.
func TestRejectionsAreCounted(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{Rejections: 1} })
	wrong := func() *apitest.Response {
		return s.Post("/api/entries", `{"agent":"bob","body":""}`)
	}
	// The budget grows again while a busy machine thinks, so each call follows others that
	// use it up.
	overBudget := func(what string, rejected func() bool) {
		t.Helper()
		await.Eventually(t, what+" is over the budget", func() bool { return wrong().Status == http.StatusTooManyRequests && rejected() })
	}
	overBudget("another wrong call", func() bool {
		r := wrong()
		if r.Status != http.StatusTooManyRequests {
			return false
		}
		return apitest.CheckError(t, r).Code == "rate_limited" && r.Header.Get("Retry-After") != ""
	})
	s.Get("/api/entries").Want(t, http.StatusOK)
	overBudget("a write by GET", func() bool { return s.Get("/api/entries?%61ction=publish&body=").Status == http.StatusTooManyRequests })
	tool := func(name, arguments string) *apitest.Response {
		return s.Post("/mcp", apitest.ToolCall(name, arguments))
	}
	tool("read_entries", `{}`).Want(t, http.StatusOK, `"entries":`)
	overBudget("a tool that writes", func() bool {
		return bytes.Contains(tool("publish_entry", `{"agent":"bob","body":"Anything."}`).Body, []byte("rate_limited"))
	})
	overBudget("a long call", func() bool {
		return tool("read_entries", `{"q":"`+strings.Repeat("x", 9<<10)+`"}`).Status == http.StatusTooManyRequests
	})
	s.Post("/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).Want(t, http.StatusOK, `-32004`)
	message := map[string]any{"message": map[string]any{"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Anything."}}}}
	overBudget("a message of A2A", func() bool {
		r := s.Post("/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message})
		return !bytes.Contains(r.Body, []byte(`"result"`))
	})
}

// Repeats of a write are free of the other limits: they use up the budget of wrong calls.
func TestRepeatsAreCounted(t *testing.T) {
	for name, call := range map[string]struct{ path, body string }{
		"an entry":                            {"/api/entries", `{"agent":"bob","body":"Written once.","request_id":"bob-entry-1"}`},
		"a registration":                      {"/api/agents", `{"id":"bob","description":"Says things once.","request_id":"bob-profile-1"}`},
		"a registration without a request_id": {"/api/agents", `{"id":"bob","description":"Says things once."}`},
		"a report":                            {apitest.ReportsPath, `{"entry_id":"e1","reason":"spam","text":"This is advertisement."}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{Rejections: 1} })
			s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills!"})
			await.Eventually(t, "the budget is used up", func() bool {
				return s.Post(call.path, call.body).Status == http.StatusTooManyRequests
			})
		})
	}
}

// Searches use up a budget by the steps that they take.
func TestSearchesAreCounted(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{ReadWork: 1} })
	var words strings.Builder
	for i := range 500 {
		fmt.Fprintf(&words, "aaa%d ", i)
	}
	s.Post("/api/entries", `{"agent":"bob","body":"`+words.String()+`"}`).Must(t, http.StatusCreated)
	s.Post("/api/jobs", `{"agent":"bob","title":"A job","body":"To be done."}`).Must(t, http.StatusCreated)
	const take = `{"agent":"eve","action":"claim","next":{},"request_id":"request-1"}`
	s.Post("/api/jobs", take).Must(t, http.StatusCreated)
	await.Eventually(t, "the budget is used up", func() bool { return s.Get("/api/entries?q=aaa").Status == http.StatusTooManyRequests })
	s.Get("/api/entries").Want(t, http.StatusOK)
	s.Post("/api/jobs", take).Want(t, http.StatusOK, `"duplicate":true`)
	s.Post("/api/jobs", strings.Replace(take, "-1", "-2", 1)).Want(t, http.StatusTooManyRequests)
}

// Feeds, and events of the past, use up the same budget.
func TestFeedsAndPastEventsAreCounted(t *testing.T) {
	for _, path := range []string{"/api/entries?format=atom", "/api/jobs?format=atom", "/api/events?event=claim&last_event_id=test-0-0"} {
		s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{ReadWork: 1} })
		publishLong(s, 60, "lorem ipsum ")
		await.Eventually(t, path+" has used the budget up", func() bool { return s.Get(path).Status == http.StatusTooManyRequests })
		s.Get("/api/jobs").Want(t, http.StatusOK)
	}
}

// Answers of all lengths arrive on one connection, also where a long one has no body
// because the request is a HEAD.
func TestAnswersOnOneConnection(t *testing.T) {
	s := apitest.New(t)
	body := strings.TrimSpace(strings.Repeat("long ", 700))
	for i := range 2 {
		s.Publish(map[string]any{"body": fmt.Sprint(body, i)})
	}
	c := talk(t, s)
	read := func(method, path string) string {
		t.Helper()
		c.say(method + " " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		return string(c.read(&http.Request{Method: method}).Must(t, http.StatusOK).Body)
	}
	for range 2 {
		must.Equal(t, strings.Count(read(http.MethodGet, "/api/entries"), body), 2, "a long answer bytes")
		must.Equal(t, read(http.MethodHead, "/api/entries"), "", "body of HEAD")
		check.Contains(t, read(http.MethodGet, "/api/channels"), "general", "a short answer")
	}
}

// Of requests that do not arrive, those that take the longest end when there are too
// many of one address, and are told why; what arrives as a whole is answered.
func TestSlowRequests(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.Limits = guard.Limits{AddressArrivals: 2} })
	const head = "POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 131072\r\n\r\n{"
	clients := make([]*talker, 3)
	for i := range clients {
		clients[i] = talk(t, s)
		clients[i].say(head)
		await.Eventually(t, "it arrives", func() bool {
			return i > 0 || strings.Contains(string(s.Get("/metrics").Body), "\ncommons_http_arrivals 1\n")
		})
	}
	clients[0].read(nil).Want(t, http.StatusTooManyRequests, "each as a whole")
	clients[2].say(strings.Repeat("x", 131071))
	clients[2].read(nil).Want(t, http.StatusBadRequest)
}

// fullListener is a listener of a process that, for some attempts, may open no more
// files.
type fullListener struct {
	net.Listener
	left atomic.Int64
}

func (l *fullListener) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestServerOutlivesFullProcess: the HTTP server below takes the error of accept for
// the end of its listener.
func TestServerOutlivesFullProcess(t *testing.T) {
	s := must.Get(api.New(api.Config{Config: op.Config{Backend: apitest.NewBackend(t)}}))(t)
	inner := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	ln := &fullListener{Listener: inner}
	ln.left.Store(3)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+inner.Addr().String()+"/livez", nil))(t)
	res := must.Get(client.Do(req))(t)
	_ = res.Body.Close() // its status is enough
	apitest.Equal(t, "status", res.StatusCode, http.StatusOK)
	check.Err(t, errors.Join(s.Shutdown(t.Context()), <-served), nil, "shutdown")
}

// TestCallsWaitUntilTheNodeHasJoined: what needs the state waits, what operators
// ask does not.
func TestCallsWaitUntilTheNodeHasJoined(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Joining = make(chan struct{})
	s := apitest.Start(t, b)
	statuses := make(chan int, 1)
	go func() {
		statuses <- s.Do(http.MethodPost, "/api/entries", "sent too early", "Content-Type", "text/plain").Status
	}()
	// The call for the measurements is the second one under way.
	apitest.InFlight(t, s, 2)
	select {
	case got := <-statuses:
		t.Fatalf("answered %d before the node had joined", got)
	default:
	}
	close(b.Joining)
	apitest.Equal(t, "status", <-statuses, http.StatusCreated)
}

// TestNodeOfNoClusterAnswersNothing: the state of a node that has joined no cluster
// is empty, and no answer may look as if the service were. The end of the server
// cuts the wait short.
func TestNodeOfNoClusterAnswersNothing(t *testing.T) {
	b := apitest.NewBackend(t)
	b.Joining = make(chan struct{})
	s := apitest.Start(t, b)
	requests := []struct{ method, path, body string }{
		{http.MethodGet, "/api/entries", ""},
		{http.MethodGet, "/api/home?for=ada", ""},
		{http.MethodPost, "/api/entries", `{"body":"sent too early"}`},
		{http.MethodPost, "/a2a", apitest.MessageRequest("SendMessage", "a", `[{"text":"latest"}]`)},
		{http.MethodPost, "/a2a/v1/message:send", `{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":"latest"}]}}`},
		{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_entries"}}`},
	}
	answers := make(chan *apitest.Response, len(requests))
	for _, request := range requests {
		go func() { answers <- s.Do(request.method, request.path, request.body, "Content-Type", apitest.JSONType) }()
	}
	apitest.InFlight(t, s, len(requests)+1)
	apitest.Shutdown(t, s)
	for range requests {
		r := (<-answers).Want(t, http.StatusServiceUnavailable)
		if p := apitest.RejectionIn(t, r); p.Code != "no_leader" || !p.Retryable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%v %s", r.Header, r.Body)
		}
	}
}

// TestNodeThatWasAwayShowsNothing: a node that has not caught up with purges answers only health,
// also to moderators.
func TestNodeThatWasAwayShowsNothing(t *testing.T) {
	b := apitest.NewBackend(t)
	b.CatchingUp = make(chan struct{})
	s := apitest.Start(t, b)
	s.Get("/status").Want(t, http.StatusOK)
	answer := make(chan *apitest.Response, 1)
	go func() { answer <- s.Get("/api/entries") }()
	apitest.InFlight(t, s, 2)
	apitest.Shutdown(t, s)
	(<-answer).Rejected(t, http.StatusServiceUnavailable, "behind", "", `"retryable":true`)
	if done := s.API.Operate("listRules", wire.Invocation{}); done.Rejection == nil || done.Rejection.Code != command.CodeBehind {
		t.Errorf("the operator is answered %d %s", done.Status, done.Body)
	}
}
