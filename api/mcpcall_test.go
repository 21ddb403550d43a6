package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/fsm/command"
)

// FuzzToolArguments holds that no arguments make a tool's decoder panic, that a tool
// gives its own arguments whatever the client sends, and that one which reads cannot
// be made to write.
func FuzzToolArguments(f *testing.F) {
	for _, seed := range []string{
		`{"body":"Hello, all","agent":"ada","tags":["a"],"kind":"message","type":"poem"}`,
		`{"action":"post","job_id":"j1","id":"j2","agent":null}`,
		`{"id":1,"thread":true,"limit":"10","min_index":{},"consistency":[]}`,
		`{"for":"ada","since":1.5e3,"wait":60,"action":"publish","confirm":"write"}`,
		`[]`, `null`, ``, `{"a":1,"a":2}`, `{"id":"\ud800"}`, `"x"`,
	} {
		for i := range mcpTools {
			f.Add(uint8(i), seed)
		}
	}
	tools, err := bindTools(toolOperations())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, number uint8, arguments string) {
		b := tools[int(number)%len(tools)]
		call := b.read(json.RawMessage(arguments))
		if call.unread != nil {
			return
		}
		for _, p := range b.fixed {
			if got := call.in.Document.Get(p.Name); got != p.Value {
				t.Errorf("%s: %s is %v", b.name, p.Name, got)
			}
		}
		if !b.body && len(call.in.Document.Fields) > 0 {
			t.Errorf("%s reads, and has a body: %v", b.name, call.in.Document.Fields)
		}
		for _, p := range call.in.Params {
			if p.Name == "action" || p.Name == "confirm" {
				t.Errorf("%s: the parameter %s", b.name, p.Name)
			}
		}
		for _, name := range b.required {
			if b.arguments[name].in == inPath && call.in.ID == "" && !call.problems.Has(name) {
				t.Errorf("%s: %s is missing, and nothing says so", b.name, name)
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
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_entry","arguments":{"id":"e1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `[{}]`, `{"jsonrpc":"2.0","id":1,"result":{}}`, ``,
	} {
		f.Add(seed, "")
		f.Add(seed, "2025-11-25")
		f.Add(seed, "2026-07-28")
	}
	s := &Server{backend: silent{}, table: operationTable()}
	var err error
	if s.tools, err = bindTools(toolOperations()); err != nil {
		f.Fatal(err)
	}
	handler := s.newMCP()
	s.mcp = func() http.Handler { return handler }
	f.Fuzz(func(t *testing.T, body, version string) {
		var req fasthttp.Request
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType(contentJSON)
		req.Header.Set(headerMCPVersion, version)
		req.SetBodyString(body)
		var rctx fasthttp.RequestCtx
		rctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
		c := s.newCall(&rctx)
		c.operation = &operation{path: "/mcp", surface: command.SurfaceMCP}
		if err := postMCP(c); err != nil {
			c.fail(err)
		}
		if c.out.StatusCode() == http.StatusAccepted && len(c.out.Body()) == 0 {
			return
		}
		var answer struct {
			JSONRPC       string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(c.out.Body(), &answer); err != nil || answer.JSONRPC != "2.0" || (answer.Result == nil) == (answer.Error == nil) {
			t.Fatalf("%q: %d %s (%v)", body, c.out.StatusCode(), c.out.Body(), err)
		}
		if c.out.StatusCode() >= http.StatusInternalServerError {
			t.Errorf("%q: %d %s", body, c.out.StatusCode(), c.out.Body())
		}
	})
}

// silent is a backend that tells its status and nothing else.
type silent struct{ Backend }

func (silent) Status() Status { return Status{Version: "test"} }

// TestSchemasHoldNoExamples holds that what OpenAPI alone knows is taken out of the
// schemas of tools, and a property of that name is not.
func TestSchemasHoldNoExamples(t *testing.T) {
	var schema any
	const document = `{"example":1,"properties":{"example":{"type":"string","example":"x"},"a":{"items":[{"example":[]}]}},"anyOf":[{"example":{}}]}`
	if err := json.Unmarshal([]byte(document), &schema); err != nil {
		t.Fatal(err)
	}
	withoutExamples(schema)
	got, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"anyOf":[{}],"properties":{"a":{"items":[{}]},"example":{"type":"string"}}}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestExamplesHoldWhatIsRequired holds that a call of a tool which reads, or that a
// path names, can be shown with all that it requires.
func TestExamplesHoldWhatIsRequired(t *testing.T) {
	tools, err := bindTools(toolOperations())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range tools {
		for _, name := range b.required {
			if !b.body && !b.example().Has(name) {
				t.Errorf("%s: its example lacks %s: %v", b.name, name, b.example())
			}
		}
	}
}

// TestEveryOperationIsATool holds that nothing of the interface is left out, and that
// no two tools have a name.
func TestEveryOperationIsATool(t *testing.T) {
	actions := map[string]bool{}
	names := map[string]bool{}
	for i := range mcpTools {
		tool := &mcpTools[i]
		if names[tool.name] {
			t.Errorf("there are two tools %s", tool.name)
		}
		names[tool.name] = true
		for _, p := range tool.fixed {
			if p.Name == fieldAction.name {
				actions[p.Value] = true
			}
		}
	}
	for _, o := range interfaceOperations() {
		for tool := range strings.FieldsSeq(o.tools) {
			if !names[tool] {
				t.Errorf("%s is run by %s, which is no tool", o.id, tool)
			}
		}
		if o.tools == "" {
			t.Errorf("%s is no tool", o.id)
		}
	}
	for action := range jobActions {
		if !actions[action] {
			t.Errorf("no tool can %s a job", action)
		}
	}
}

// TestPanicOfALibrary holds that a panic outside of an operation, on a goroutine of the
// protocol's library, is an error and not the end of the process.
func TestPanicOfALibrary(t *testing.T) {
	s, err := New(Config{Backend: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	handle := s.recoverMCP(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		var nobody *exchange
		return nil, fmt.Errorf("%s", nobody.base)
	})
	if result, err := handle(t.Context(), "tools/call", nil); result != nil || err == nil || strings.Contains(err.Error(), "pointer") {
		t.Errorf("%v %v", result, err)
	}
}
