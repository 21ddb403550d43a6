package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/must"
)

// FuzzToolArguments holds that no arguments make a tool's decoder panic, that a tool
// gives its own arguments whatever the client sends, and that one which reads cannot
// be made to write.
func FuzzToolArguments(f *testing.F) {
	tools := must.Get(bindTools(operations))(f)
	for _, seed := range []string{
		`{"body":"Hello, all","agent":"ada","tags":["a"],"kind":"message","type":"poem"}`,
		`{"action":"post","job_id":"j1","id":"j2","agent":null}`,
		`{"id":1,"thread":true,"limit":"10","min_index":{},"consistency":[]}`,
		`{"for":"ada","since":1.5e3,"wait":60,"action":"publish","confirm":"write"}`,
		`[]`, `null`, ``, `{"a":1,"a":2}`, `{"id":"\ud800"}`, `"x"`,
	} {
		for i := range tools {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, arguments string) {
		b := tools[int(number)%len(tools)]
		call := b.read(json.RawMessage(arguments))
		if call.unread != nil {
			return
		}
		for name, value := range b.Fixed {
			if got := call.in.Document.Get(name); got != value {
				t.Errorf("%s: %s is %v", b.Name, name, got)
			}
		}
		if !b.body && len(call.in.Document.Fields) > 0 {
			t.Errorf("%s reads, and has a body: %v", b.Name, call.in.Document.Fields)
		}
		for _, p := range call.in.Params {
			if p.Name == "action" || p.Name == "confirm" {
				t.Errorf("%s: the parameter %s", b.Name, p.Name)
			}
		}
		for _, name := range b.required {
			if b.arguments[name].In == inPath && call.in.ID == "" && !call.problems.Has(name) {
				t.Errorf("%s: %s is missing, and nothing says so", b.Name, name)
			}
		}
	})
}

// FuzzPostMCP holds that no body makes the tool interface panic or answer with what
// is no message of the protocol. There is no operation behind the tools.
func FuzzPostMCP(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"x"}}`,
		`{"jsonrpc":"2.0","id":-1,"method":"resources/read","params":{"uri":"commons://guide","_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":-1,"method":"resources/read","params":{"uri":"commons:/` + "\x7f" + `guide"}}`, // a control character that JSON need not escape
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_entry","arguments":{"id":"e1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `[{}]`, `{"jsonrpc":"2.0","id":1,"result":{}}`, ``,
	} {
		f.Add(seed, "")
		f.Add(seed, "2025-11-25")
		f.Add(seed, "2026-07-28")
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, body, version string) {
		reply := s.Post(&posted{body: []byte(body), version: version})
		if reply.Status == http.StatusAccepted && len(reply.Body) == 0 {
			return
		}
		var answer struct {
			JSONRPC       string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(reply.Body, &answer); err != nil || answer.JSONRPC != "2.0" || (answer.Result == nil) == (answer.Error == nil) {
			t.Fatalf("%q: %d %s (%v)", body, reply.Status, reply.Body, err)
		}
		if reply.Status >= http.StatusInternalServerError {
			t.Errorf("%q: %d %s", body, reply.Status, reply.Body)
		}
	})
}

// posted is a message to a service that has no operations.
type posted struct {
	Request
	body    []byte
	version string
}

func (r *posted) Body() []byte    { return r.body }
func (r *posted) BaseURL() string { return "https://commons.example" }

func (r *posted) Header(name string) string {
	switch name {
	case "Content-Type":
		return wire.MediaJSON
	case HeaderVersion:
		return r.version
	}
	return ""
}

func (r *posted) HeadersWith(string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) { _ = r.version == "" || yield(HeaderVersion, r.version) }
}

func (r *posted) Perform(string, wire.Invocation) wire.Performed {
	rejection := &wire.Error{Code: wire.CodeNotFound, Message: "There is no such operation."}
	return wire.Performed{Status: rejection.Status(), Body: rejection.Object().AppendJSON(nil), Rejection: rejection}
}

// operations are the operations of the tools. The service checks at start that each of its
// operations has a tool.
var operations = map[string]string{
	"home": "home", "mark_seen": "markSeen", "report_entry": "reportEntry", "read_entries": "listEntries", "get_entry": "getEntry", "get_thread": "listEntries", "list_channels": "listChannels",
	"publish_entry": "publishEntry",
	"list_agents":   "listAgents", "get_agent": "getAgent", "register_agent": "registerAgent",
	"list_jobs": "listJobs", "get_job": "getJob", "post_job": "actOnJob", "claim_job": "actOnJob", "submit_job_result": "actOnJob",
	"release_job": "actOnJob", "close_job": "actOnJob",
	"request_human_help": "askHuman", "stats": "getStats",
}

// document is the OpenAPI document.
func document(tb testing.TB) string {
	tb.Helper()
	text := must.Get(os.ReadFile("../openapi.json"))(tb)
	return string(text)
}

func newServer(tb testing.TB) *Server {
	tb.Helper()
	s, err := New(Config{
		Operations: operations, Version: "test",
		Logger: slog.New(slog.DiscardHandler), Panicked: func(string, any) {},
	})
	must.Do(tb, err)
	return s
}

// TestEveryActionIsATool holds that each action of a job is a tool, and that a name
// stands for one tool.
func TestEveryActionIsATool(t *testing.T) {
	doc, err := readDocument(document(t))
	must.Do(t, err)
	jobs, err := doc.operation("actOnJob")
	must.Do(t, err)
	want, _ := jobs.full["action"]["enum"].([]any)
	tools, err := bindTools(operations)
	must.Do(t, err)
	names, actions := map[string]bool{}, map[any]bool{}
	for _, b := range tools {
		if names[b.Name] {
			t.Errorf("there are two tools %s", b.Name)
		}
		names[b.Name] = true
		if action, fixed := b.Fixed["action"]; fixed {
			actions[action] = true
		}
	}
	for _, action := range want {
		if !actions[action] {
			t.Errorf("no tool can %s a job", action)
		}
	}
	if len(want) == 0 || len(actions) != len(want) {
		t.Errorf("tools for %v, want %v", actions, want)
	}
}

// TestPanicOfALibrary holds that a panic outside of an operation, on a goroutine of the
// protocol's library, is an error and not the end of the process.
func TestPanicOfALibrary(t *testing.T) {
	s := newServer(t)
	handle := s.recover(func(context.Context, string, sdk.Request) (sdk.Result, error) {
		var nobody *exchange
		return nil, fmt.Errorf("%s", nobody.srv.cfg.Version)
	})
	if result, err := handle(t.Context(), "tools/call", nil); result != nil || err == nil || strings.Contains(err.Error(), "pointer") {
		t.Errorf("%v %v", result, err)
	}
}

// Calls of one tool run at the same time and do not change the tool.
func TestToolsAreOnlyRead(t *testing.T) {
	tools := must.Get(bindTools(operations))(t)
	for _, b := range tools {
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() { b.read(json.RawMessage(`{"limit": 1, "min_index": 1, "none": 1}`)) })
		}
		calls.Wait()
	}
}
