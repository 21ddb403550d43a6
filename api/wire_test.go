package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// post is a raw request.
func post(headers, body string) string {
	return fmt.Sprintf("POST /api/entries HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
}

// bomb is a megabyte of zeroes in a kilobyte.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write(make([]byte, 1<<20)))(t)
	must.Do(t, w.Close())
	return b.String()
}

// TestBadInput is faults 16: every kind of bad input gets a 4xx with the Error
// object, and does not change the state.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	typed := "Content-Type: application/json\r\n"
	good := `{"body":"Hello"}`
	tests := map[string]struct {
		raw    string
		status int
		code   string
	}{
		"gzip bomb":                    {post(typed+"Content-Encoding: gzip\r\n", bomb(t)), 415, "unsupported_media_type"},
		"gzip bomb without a header":   {post(typed, bomb(t)), 400, "malformed_body"},
		"identity":                     {post(typed+"Content-Encoding: identity\r\n", good), 415, "unsupported_media_type"},
		"JSON 10,000 deep":             {post(typed, `{"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+"}"), 400, "malformed_body"},
		"keys twice":                   {post(typed, `{"body":"Hello","body":"again"}`), 400, "malformed_body"},
		"bad UTF-8":                    {post(typed, "{\"body\":\"Hello\xff\"}"), 400, "malformed_body"},
		"wrong types":                  {post(typed, `{"body":["Hello"],"tags":{"a":1}}`), 422, "validation_failed"},
		"body over 128 KiB":            {post(typed, `{"body":"`+strings.Repeat("x", 128<<10)+`"}`), 413, "body_too_large"},
		"body far over 128 KiB":        {post(typed, strings.Repeat("x", 900<<10)), 413, "body_too_large"},
		"announced body of 1 TB":       {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 1099511627776\r\n\r\n", 413, "body_too_large"},
		"chunks over 128 KiB":          {"POST /api/entries HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + "20001\r\n" + strings.Repeat("x", 0x20001) + "\r\n0\r\n\r\n", 413, "body_too_large"},
		"bad chunk":                    {"POST /api/entries HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", 400, "malformed_request"},
		"huge header":                  {"GET / HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, "headers_too_large"},
		"huge URL":                     {"GET /api/entries?q=" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "headers_too_large"},
		"very many parameters":         {"GET /api/entries?" + strings.Repeat("a&", 200) + " HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"broken multipart":             {post("Content-Type: multipart/form-data; boundary=x\r\n", "--x\r\nno"), 415, "unsupported_media_type"},
		"two Content-Lengths":          {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nContent-Length: 17\r\n\r\n" + good, 400, "malformed_request"},
		"the same length twice":        {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nContent-Length: 16\r\n\r\n" + good, 400, "malformed_request"},
		"length and chunks, long path": {"POST /" + strings.Repeat("a", 3000) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "malformed_request"},
		"a path of slashes":            {"GET /" + strings.Repeat("/", 30_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"},
		"length and chunks":            {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "malformed_request"},
		"two Hosts":                    {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "malformed_request"},
		"no Host":                      {"GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		"bare LF only":                 {"GET / HTTP/1.1\nHost: x\n\n", 408, "request_timeout"},
		"bare LF at the end":           {"GET / HTTP/1.1\r\nHost: x\n\r\n", 408, "request_timeout"},
		"bare LF in a header":          {"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", 400, "malformed_request"},
		"a space before the colon":     {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "malformed_request"},
		"a folded header":              {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, "malformed_request"},
		"an empty Host":                {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, "malformed_request"},
		"a Host of an empty port":      {"GET / HTTP/1.1\r\nHost: :\r\n\r\n", 400, "malformed_request"},
		"a Host that is none":          {"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400, "malformed_request"},
		"a Host with a quote":          {"GET / HTTP/1.1\r\nHost: x\"y\r\n\r\n", 400, "malformed_request"},
		"a host with a user":           {"GET / HTTP/1.1\r\nHost: ada@x\r\n\r\n", 400, "malformed_request"},
		"a host with a user, absolute": {"GET http://ada@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"two different hosts":          {"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"the port of another host":     {"GET http://x:81/docs HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"HTTP/1.0 in chunks":           {"POST /api/entries HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, "malformed_request"},
		"HTTP/1.2":                     {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"HTTP/0.9":                     {"GET / HTTP/0.9\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"HTTP/2.0":                     {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"negative Content-Length":      {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "malformed_request"},
		"no HTTP at all":               {"hello world\r\n\r\n", 400, "malformed_request"},
		"TLS":                          {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed_request"},
		"half a request, then silence": {"POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"body\":", 408, "request_timeout"},
	}
	before := s.Backend.Machine.Applied()
	var group sync.WaitGroup
	for name, test := range tests {
		if test.status == http.StatusRequestTimeout && testing.Short() {
			continue
		}
		group.Go(func() {
			c := talk(t, s)
			c.say(test.raw)
			r := c.read(nil)
			var problem apitest.Problem
			if err := json.Unmarshal(r.Body, &problem); err != nil {
				t.Errorf("%s: %d %s", name, r.Status, r.Body)
				return
			}
			if r.Status != test.status || problem.Code != test.code || problem.Docs == "" || r.Header.Get("X-Commons-Node") == "" {
				t.Errorf("%s: %d %s, want %d %s", name, r.Status, r.Body, test.status, test.code)
			}
		})
	}
	group.Wait()
	check.Equal(t, s.Backend.Machine.Applied(), before, "commands that reached the state machine")
}

// TestLongPath: a path that is too long is not parsed, whatever it would be normalized to.
func TestLongPath(t *testing.T) {
	c := talk(t, apitest.New(t))
	for slashes, hint := range map[int]bool{20: true, 3000: false} {
		c.say("GET " + strings.Repeat("/", slashes) + "api/entries HTTP/1.1\r\nHost: x\r\n\r\n")
		r := c.read(nil).Must(t, http.StatusNotFound)
		check.Equal(t, strings.Contains(string(r.Body), "Write it as /api/entries"), hint, "with %d slashes, the answer names what is meant", slashes)
	}
}

// TestGoodTargets sends what is unusual and well-formed.
func TestGoodTargets(t *testing.T) {
	s := apitest.New(t)
	for name, raw := range map[string]string{
		"absolute":              "GET http://x/livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"absolute, other case":  "GET http://X.example:80/livez HTTP/1.1\r\nHost: x.EXAMPLE:80\r\n\r\n",
		"HTTP/1.0":              "GET /livez HTTP/1.0\r\nHost: x\r\n\r\n",
		"HTTP/1.0 without Host": "GET /livez HTTP/1.0\r\n\r\n",
		"an @ in the query":     "GET /livez?for=@ada HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		apitest.Equal(t, name+": status", talk(t, s).ask(raw), http.StatusOK)
	}
}

// TestRejectedClientReadsTheAnswer holds that a client that goes on sending a body
// that is too large still gets to read why.
func TestRejectedClientReadsTheAnswer(t *testing.T) {
	s := apitest.New(t)
	for range 20 {
		s.Do(http.MethodPost, "/api/entries", strings.Repeat("x", 700<<10), "Content-Type", "text/plain").Must(t, http.StatusRequestEntityTooLarge)
	}
}

// TestRejectedClientMayFinishSending holds that a connection is not reset under a
// client that has yet to send the rest of what was rejected.
func TestRejectedClientMayFinishSending(t *testing.T) {
	s := apitest.New(t)
	c := talk(t, s)
	must.Equal(t, c.ask("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"), http.StatusRequestEntityTooLarge, "status")
	for range 200 {
		c.say(strings.Repeat("x", 1024))
	}
	// A reset that came too late for the writes shows here.
	check.Empty(t, must.Get(io.ReadAll(c.in))(t), "after the answer")
}

// TestPipelinedRequests is faults 15: mixed requests down one connection, which must not change
// fields that other requests stored or logged.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	const connections = 4
	total := 10_000
	if testing.Short() {
		total = 1000
	}
	var log await.Buffer
	s := apitest.New(t, func(c *api.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	var group sync.WaitGroup
	for c := range connections {
		group.Go(func() { pipeline(t, s, c, total/connections) })
	}
	group.Wait()
	found := 0
	for _, e := range apitest.Listed[apitest.Entry](t, s, "/api/entries?limit=100", "entries") {
		found++
		if want := pipelinedBody(e.Agent); e.Body != want || e.Title != "Title of "+e.Agent || e.Channel != "room-"+e.Agent[:2] ||
			len(e.Tags) != 2 || e.Tags[0] != "tag-"+e.Agent {
			t.Fatalf("a stored entry was altered: %+v", e)
		}
	}
	check.Equal(t, found, total*3/5, "entries")
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "msg=request") && !strings.Contains(line, "route=/api/entries") {
			t.Fatalf("a logged field was altered: %s", line)
		}
	}
}

// pipelinedBody is the body of an entry of TestPipelinedRequests. The bodies have many lengths, so
// that buffers are used again at shifting places.
func pipelinedBody(agent string) string {
	return "Body of " + agent + " " + strings.Repeat("x", int(agent[len(agent)-1]-'0')*37) + "."
}

// pipeline sends mixed requests without waiting, and checks each answer.
func pipeline(t *testing.T, s *apitest.Server, c, n int) {
	t.Helper()
	agent := func(i int) string { return fmt.Sprintf("p%d-%d", c, i) }
	conn := talk(t, s)
	_ = conn.SetDeadline(time.Now().Add(10 * apitest.Deadline))
	go func() {
		out := bufio.NewWriter(conn)
		for i := range n {
			a := agent(i)
			switch i % 5 {
			case 0:
				fmt.Fprint(out, post("Content-Type: application/json\r\n", fmt.Sprintf(
					`{"agent":%q,"body":%q,"title":"Title of %s","channel":"room-%s","tags":["tag-%s","x"],"request_id":"request-%s"}`, a, pipelinedBody(a), a, a[:2], a, a)))
			case 1:
				fmt.Fprint(out, post("Content-Type: application/x-www-form-urlencoded\r\n", fmt.Sprintf(
					"agent=%s&body=%s&title=Title+of+%s&channel=room-%s&tags=tag-%s,x", a, strings.ReplaceAll(pipelinedBody(a), " ", "%20"), a, a[:2], a)))
			case 2:
				fmt.Fprintf(out, "GET /api/entries?action=publish&confirm=write&request_id=request-%s&agent=%s&body=%s&title=Title+of+%s&channel=room-%s&tags=tag-%s,x HTTP/1.1\r\nHost: x\r\n\r\n",
					a, a, strings.ReplaceAll(pipelinedBody(a), " ", "+"), a, a[:2], a)
			case 3:
				fmt.Fprintf(out, "GET /api/entries/none-%s HTTP/1.1\r\nHost: x\r\n\r\n", a)
			case 4:
				fmt.Fprintf(out, "GET /api/entries?agent=%s&limit=1 HTTP/1.1\r\nHost: x\r\n\r\n", agent(i-4))
			}
		}
		_ = out.Flush()
	}()
	for i := range n {
		want := [...]int{201, 201, 201, 404, 200}[i%5]
		r := conn.read(nil)
		named := agent(i)
		switch i % 5 {
		case 3:
			named = "no such entry"
		case 4:
			named = agent(i - 4)
		}
		if r.Status != want || !strings.Contains(string(r.Body), named) {
			t.Errorf("answer %d: %d %s", i, r.Status, r.Body)
			return
		}
	}
}

// TestIdleConnectionIsClosed checks that a silent connection is closed, and not at once: another
// one that is silent for a while gets an answer.
func TestIdleConnectionIsClosed(t *testing.T) {
	longtest.SkipShort(t, "waits for the limit")
	t.Parallel()
	s := apitest.New(t)
	idle, late := talk(t, s), talk(t, s)
	// By the time that this one is answered, the server has seen those before it.
	for _, c := range []*talker{talk(t, s), late} {
		must.Equal(t, c.ask("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), http.StatusOK, "status")
	}
	check.Empty(t, must.Get(io.ReadAll(idle.in))(t), "the server did not close the connection")
}

// TestSlowReader is dropped, its place is free again, and it goes on from the last event
// that it has got: without a gap, and without a repeat.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const events = 600
	s := apitest.New(t, func(c *api.Config) { c.Limits.AddressStreams = 1 })
	conn := must.Get(net.Dial("tcp", s.Addr))(t)
	defer conn.Close()
	if tcp, is := conn.(*net.TCPConn); !is || tcp.SetReadBuffer(4<<10) != nil {
		t.Fatal("the buffer cannot be made small")
	}
	begin := state.FormatEventID("test", state.EventPlace{Index: s.Backend.Machine.Applied()})
	fmt.Fprintf(conn, "GET /api/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nLast-Event-ID: %s\r\n\r\n", begin)
	await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 1 })
	for range events { // more than the buffers between the two hold
		hello := apitest.PublishHello
		hello.Body = strings.Repeat("long ", 1000)
		s.Backend.Apply(&hello)
	}
	await.Eventually(t, "it happens", func() bool { return s.Backend.Watchers() == 0 }) // the answer was not read
	got, err := io.ReadAll(conn)
	ids := regexp.MustCompile(`(?m)^id: (\S+)\nevent: entry\ndata: .*\n\n`).FindAllSubmatch(got, -1)
	if len(ids) == 0 || len(ids) >= events {
		t.Fatalf("the slow reader got %d events, %v", len(ids), err)
	}
	st := apitest.OpenStream(t, s, "/api/events", string(ids[len(ids)-1][1]))
	for n := len(ids) + 1; n <= events; n++ {
		must.Equal(t, st.Next().String(), "entry "+state.FormatID(state.TypeEntry, uint64(n)), "after %d events it goes on", len(ids))
	}
}
