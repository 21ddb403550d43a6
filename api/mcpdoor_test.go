package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// mcpAnswer is an answer of the tool interface.
type mcpAnswer struct {
	ID     any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// TestMCPDoor holds what is turned away before the protocol sees it, and in which
// forms a request may come.
func TestMCPDoor(t *testing.T) {
	s := start(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, test := range map[string]struct {
		body         string
		status, code int
		headers      []string
	}{
		"ping":               {ping, 200, 0, nil},
		"text id":            {strings.Replace(ping, ":1,", `:"a",`, 1), 200, 0, nil},
		"no accept":          {ping, 200, 0, []string{"Accept", ""}},
		"json alone":         {ping, 200, 0, []string{"Accept", "application/json"}},
		"stream alone":       {ping, 200, 0, []string{"Accept", "text/event-stream"}},
		"form":               {ping, 200, 0, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"mark":               {"\xef\xbb\xbf" + ping, 200, 0, nil},
		"session":            {ping, 200, 0, []string{"Mcp-Session-Id", "of-another-node"}},
		"resumed":            {ping, 200, 0, []string{"Last-Event-Id", "7"}},
		"foreign page":       {ping, 200, 0, []string{"Origin", "https://evil.example"}},
		"old version":        {ping, 200, 0, []string{"Mcp-Protocol-Version", "2025-03-26"}},
		"former version":     {ping, 400, -32022, []string{"Mcp-Protocol-Version", "1999-01-01"}},
		"later version":      {ping, 400, -32022, []string{"Mcp-Protocol-Version", "2999-01-01"}},
		"no version":         {ping, 400, -32022, []string{"Mcp-Protocol-Version", "junk"}},
		"neither":            {strings.Replace(ping, "ping", "pong", 1), 400, -32022, []string{"Mcp-Protocol-Version", "junk"}},
		"compressed":         {ping, 415, 0, []string{"Content-Encoding", "gzip"}},
		"xml":                {ping, 415, 0, []string{"Content-Type", "application/xml"}},
		"batch":              {"[" + ping + "]", 400, -32600, nil},
		"empty":              {"", 400, -32700, nil},
		"no json":            {"{", 400, -32700, nil},
		"key twice":          {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, -32700, nil},
		"argument twice":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home","arguments":{"for":"ada","for":"bob"}}}`, 400, -32700, nil},
		"too deep":           {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, 400, -32700, nil},
		"bad UTF-8":          {`{"jsonrpc":"2.0","id":1,"method":"` + "\xff" + `"}`, 400, -32700, nil},
		"half a pair":        {`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, 400, -32700, nil},
		"no jsonrpc":         {`{"id":1,"method":"ping"}`, 400, -32600, nil},
		"no method":          {`{"jsonrpc":"2.0","id":1}`, 400, -32600, nil},
		"number for method":  {`{"jsonrpc":"2.0","id":1,"method":1}`, 400, -32600, nil},
		"no id":              {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"stats"}}`, 400, -32600, nil},
		"fraction id":        {strings.Replace(ping, `:1,`, `:1.5,`, 1), 400, -32600, nil},
		"large id":           {strings.Replace(ping, `:1,`, `:9007199254740993,`, 1), 400, -32600, nil},
		"true id":            {strings.Replace(ping, `:1,`, `:true,`, 1), 400, -32600, nil},
		"unknown method":     {strings.Replace(ping, "ping", "pong", 1), 200, -32601, nil},
		"unknown method now": {strings.Replace(ping, "ping", "pong", 1), 404, -32601, []string{"Mcp-Protocol-Version", "2026-07-28"}},
		"subscription":       {strings.Replace(ping, "ping", "subscriptions/listen", 1), 200, -32601, nil},
		"prompts":            {strings.Replace(ping, "ping", "prompts/list", 1), 200, -32601, nil},
		"no params":          {strings.Replace(ping, "ping", "tools/call", 1), 400, -32600, nil},
		"unknown tool":       {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`, 200, -32602, nil},
		"unknown resource":   {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://nothing"}}`, 200, -32602, nil},
		"notification":       {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, 0, nil},
		"odd notification":   {`{"jsonrpc":"2.0","method":"notifications/odd"}`, 202, 0, nil},
		"response":           {`{"jsonrpc":"2.0","id":1,"result":{}}`, 202, 0, nil},
	} {
		headers := test.headers
		if !strings.Contains(strings.Join(headers, " "), "Content-Type") {
			headers = append([]string{"Content-Type", jsonType}, headers...)
		}
		r := s.Do(http.MethodPost, "/mcp", test.body, headers...)
		var answer mcpAnswer
		if test.status == http.StatusOK || test.code != 0 {
			r.Decode(t, &answer)
		}
		if r.Status != test.status || (answer.Error != nil) != (test.code != 0) || answer.Error != nil && answer.Error.Code != test.code {
			t.Errorf("%s: %d %s, want %d %d", name, r.Status, r.Body, test.status, test.code)
		}
		if test.status == http.StatusAccepted && len(r.Body) > 0 {
			t.Errorf("%s: a body: %s", name, r.Body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodPut} {
		r := s.Do(method, "/mcp", "", "Accept", "text/event-stream")
		if r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s: %d %s", method, r.Status, r.Header.Get("Allow"))
		}
	}
	if r := s.Do(http.MethodPost, "/mcp", strings.Repeat(" ", 129<<10)+ping, "Content-Type", jsonType); r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", r.Status)
	}
	if r := s.Do(http.MethodOptions, "/mcp", ""); r.Status != http.StatusNoContent || !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("preflight: %d %v", r.Status, r.Header)
	}
}

// TestMCPBehindALoadBalancer holds that the name by which a node is reached makes no
// difference, although the node listens on a loopback address here.
func TestMCPBehindALoadBalancer(t *testing.T) {
	s := start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/mcp", strings.NewReader(toolCall("publish_message", `{"agent":"ada","body":"Hello, all"}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "commons.example"
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode, err)
	}
	if text := answer.Result.Content[0].Text; !strings.Contains(text, "http://commons.example/api/entries/e1") {
		t.Errorf("%s", text)
	}
}

// toolCall is the body of a request that calls a tool.
func toolCall(name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
}

// TestMCPIsCounted holds that a call counts once, as what it did.
func TestMCPIsCounted(t *testing.T) {
	var l ledger
	s := apitest.Start(t, apitest.NewBackend(t), func(c *api.Config) { c.Counter = &l })
	for _, call := range []struct {
		body   string
		status int
		has    string // part of the answer
	}{
		{toolCall("publish_message", `{"body":"Hello, all"}`), 200, `"structuredContent":{`},
		{toolCall("get_thread", `{"thread":"e1"}`), 200, `"structuredContent":{`},
		{toolCall("post_job", `{"agent":"ada","title":"A job","body":"To be done"}`), 200, `"structuredContent":{`},
		{toolCall("claim_job", `{"agent":"bob","job_id":"j2"}`), 200, `"structuredContent":{`},
		{toolCall("get_entry", `{}`), 200, `"isError":true`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200, `"tools":[`},
		{`[]`, 400, `"error"`},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://entries/latest"}}`, 200, `"contents":[`},
	} {
		if r := s.Do(http.MethodPost, "/mcp", call.body, "Content-Type", jsonType); r.Status != call.status || !strings.Contains(string(r.Body), call.has) {
			t.Errorf("%s: %d %s, want %d with %s", call.body, r.Status, r.Body, call.status, call.has)
		}
	}
	var got []string
	for _, call := range l.calls {
		if call.Surface != command.SurfaceMCP || call.Sender == "" {
			t.Errorf("%+v", call)
		}
		got = append(got, call.Action)
	}
	if want := "publishEntry listEntries postJob claimJob getEntry" + strings.Repeat(" callMCP", 2) + " listEntries"; strings.Join(got, " ") != want {
		t.Errorf("counted %v, want %s", got, want)
	}
}

// TestMCPHeaders holds what of HTTP goes through: a minimum index, the index of what
// was written, and when to try again.
func TestMCPHeaders(t *testing.T) {
	s := start(t)
	// call calls a tool, which fails or not.
	call := func(fails bool, name, arguments string, headers ...string) (*apitest.Response, string) {
		t.Helper()
		r := s.Do(http.MethodPost, "/mcp", toolCall(name, arguments), append([]string{"Content-Type", jsonType}, headers...)...)
		var answer struct {
			Result struct {
				Content []struct{ Text string }
				IsError bool
			}
		}
		r.Decode(t, &answer)
		if r.Status != http.StatusOK || len(answer.Result.Content) == 0 || answer.Result.IsError != fails {
			t.Fatalf("%s %s: %d %s", name, arguments, r.Status, r.Body)
		}
		return r, answer.Result.Content[0].Text
	}
	r, _ := call(false, "publish_message", `{"agent":"ada","body":"Hello, all"}`)
	if index := fmt.Sprint(s.Backend.Machine.Applied()); r.Header.Get("X-Commons-Index") != index {
		t.Errorf("index %s, want %s", r.Header.Get("X-Commons-Index"), index)
	}
	if _, text := call(true, "get_entry", `{"id":"e1"}`, "X-Commons-Min-Index", "x"); !strings.Contains(text, "X-Commons-Min-Index") {
		t.Errorf("%s", text)
	}
	if _, text := call(true, "stats", `{"min_index":"x"}`); !strings.Contains(text, "min_index: must be") {
		t.Errorf("%s", text)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: 1500 * time.Millisecond}
	}
	r, text := call(true, "publish_message", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "Wait 2 seconds.") || r.Header.Get("Retry-After") != "2" || r.Header.Get("RateLimit") == "" {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: time.Minute, Limit: &command.RateLimit{Name: "verifications", Quota: 10, Window: time.Hour, Message: "Too many checks."}}
	}
	r, text = call(true, "publish_message", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "Too many checks. Wait 60 seconds.") || r.Header.Get("RateLimit") != `"verifications";r=0;t=60` || r.Header.Get("RateLimit-Policy") != `"verifications";q=10;w=3600` {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}
	}
	r, text = call(true, "publish_message", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "may be repeated") || r.Header.Get("Retry-After") != "1" || r.Header.Get("RateLimit") != "" {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error { panic("a mistake") }
	if _, text = call(true, "publish_message", `{"agent":"ada","body":"Hello again"}`); !strings.Contains(text, "Something went wrong here") {
		t.Errorf("%s", text)
	}
}

// TestMCPResourceFails holds what comes of a resource that cannot be read now.
func TestMCPResourceFails(t *testing.T) {
	s := start(t)
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://entries/latest"}}`
	r := s.Do(http.MethodPost, "/mcp", read, "Content-Type", jsonType, "X-Commons-Min-Index", "x")
	var answer mcpAnswer
	r.Decode(t, &answer)
	if r.Status != http.StatusOK || answer.Error == nil || answer.Error.Code != -32603 || answer.Error.Message == "" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestMCPDescribesItself compares what clients learn of the tools with what is
// stored, and reads the resources.
func TestMCPDescribesItself(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	session := mcpConnect(t, s)
	if got := session.InitializeResult(); got.Instructions == "" || got.Capabilities.Tools == nil {
		t.Errorf("%+v", got)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(list.Tools, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "mcp_tools.golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the tools are others than those in %s; look at them and write it anew with -update", file)
	}
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 {
		t.Fatalf("%+v %v", resources, err)
	}
	for uri, has := range map[string]string{"commons://guide": "publish_message", "commons://entries/latest": `"Hello, all"`} {
		read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || !strings.Contains(read.Contents[0].Text, has) {
			t.Errorf("%s: %+v %v", uri, read, err)
		}
	}
}

// TestToolsAreLight holds what the list of tools costs every client, which tools are left
// out of it, and that these work all the same.
func TestToolsAreLight(t *testing.T) {
	const most, mostEach = 20 << 10, 1174 // the latter is what GitHub's server takes for each
	s := start(t)
	list := func(path string) (names []string, bytes int) {
		r := s.Do(http.MethodPost, path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", jsonType)
		var answer struct {
			Result struct{ Tools []struct{ Name string } }
		}
		r.Decode(t, &answer)
		for _, tool := range answer.Result.Tools {
			names = append(names, tool.Name)
		}
		return names, len(r.Body)
	}
	few, bytes := list("/mcp")
	if bytes > most || bytes > mostEach*len(few) {
		t.Errorf("%d tools in %d bytes", len(few), bytes)
	}
	all, more := list("/mcp?tools=all")
	hidden := slices.DeleteFunc(all, func(name string) bool { return slices.Contains(few, name) })
	if want := []string{"get_human_request", "get_report", "list_deliveries", "read_events", "stats", "test_delivery", "usage"}; !slices.Equal(hidden, want) || more > mostEach*len(all) {
		t.Errorf("unlisted are %v, want %v; %d bytes", hidden, want, more)
	}
	r := s.Do(http.MethodPost, "/mcp", toolCall("stats", "{}"), "Content-Type", jsonType)
	if !strings.Contains(string(r.Body), "registered agents") {
		t.Errorf("%s", r.Body)
	}
	t.Logf("%d tools in %d bytes", len(few), bytes)
}

// TestMCPHandshake holds the way of clients from before 2026-07-28: a handshake that
// no node remembers.
func TestMCPHandshake(t *testing.T) {
	s := start(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		say := func(status int, body string, headers ...string) string {
			t.Helper()
			r := s.Do(http.MethodPost, "/mcp", body, append([]string{"Content-Type", jsonType}, headers...)...)
			if r.Status != status || r.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s: %s: %d %s", version, body, r.Status, r.Body)
			}
			return string(r.Body)
		}
		answer := say(http.StatusOK, `{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		if !strings.Contains(answer, `"id":"one"`) || !strings.Contains(answer, `"protocolVersion":"`+version+`"`) {
			t.Errorf("%s", answer)
		}
		say(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Protocol-Version", version)
		if answer = say(http.StatusOK, toolCall("list_channels", `{}`), "Mcp-Protocol-Version", version); !strings.Contains(answer, `"structuredContent":{"channels":[`) {
			t.Errorf("%s: %s", version, answer)
		}
	}
}

// TestMCPLeavesNothingBehind holds that no goroutine stays of calls that were answered
// or rejected.
func TestMCPLeavesNothingBehind(t *testing.T) {
	b := apitest.NewBackend(t)
	before := goleak.IgnoreCurrent()
	server, addr := serve(t, b)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range 20 {
		for body, status := range map[string]int{
			toolCall("publish_message", fmt.Sprintf(`{"agent":"ada","body":"Hello %d"}`, i)): 200,
			toolCall("get_entry", `{}`):                              200,
			toolCall("nothing", `{}`):                                200,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`: 202,
			`[]`: 400,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                                                                400,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                                                200,
			`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`: 200,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", jsonType)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != status {
				t.Fatalf("%s: %d %s, %v, want %d", body, resp.StatusCode, answer, err, status)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	clock := goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")      // one for all servers, for good
	cleaner := goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2") // ends when it wakes up
	eventually(t, func() bool { return goleak.Find(before, clock, cleaner) == nil })
}

// TestMCPUnknownTools: the error of a tool that there is none of names what there is.
func TestMCPUnknownTools(t *testing.T) {
	s := start(t)
	for name, want := range map[string]string{
		"publish": "Did you mean publish_message?", "read-entry": "Did you mean read_entries?", "list_chanels": "Did you mean list_channels?",
		"Claim_Job": "Did you mean claim_job?", "weather": "", "": "", strings.Repeat("x", 500): "",
	} {
		r := s.Do(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, name), "Content-Type", jsonType)
		var answer struct {
			Error struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(r.Body, &answer); err != nil {
			t.Fatal(err)
		}
		if m := answer.Error.Message; r.Status != http.StatusOK || answer.Error.Code != -32602 || !strings.Contains(m, "tools/list") || !strings.HasSuffix(m, want) || want == "" && strings.Contains(m, "Did you mean") || len(m) > 200 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
}
