package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// checked holds every answer that a client of others gets against the OpenAPI
// document.
type checked struct {
	t         *testing.T
	transport http.RoundTripper
}

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	Check(c.t, req, &Response{Status: resp.StatusCode, Header: resp.Header, Body: body})
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// McpConnect is a session of the protocol's own client.
func McpConnect(t *testing.T, s *Server) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.URL + "/mcp", HTTPClient: &http.Client{Transport: checked{t, s.transport}}, MaxRetries: -1,
	}, nil)
	must.Do(t, err)
	t.Cleanup(func() {
		check.Err(t, session.Close(), nil, "close")
	})
	return session
}

// Toolbox are the tools of a server with their schemas, and a session to call them.
type Toolbox struct {
	t       *testing.T
	session *mcp.ClientSession
	Inputs  map[string]*jsonschema.Schema
}

// NewToolbox lists the tools and compiles their schemas.
func NewToolbox(t *testing.T, s *Server) *Toolbox {
	t.Helper()
	b := &Toolbox{t, McpConnect(t, s), map[string]*jsonschema.Schema{}}
	list := must.Get(b.session.ListTools(t.Context(), nil))(t)
	compile := func(name string, schema any) *jsonschema.Schema {
		t.Helper()
		compiler := jsonschema.NewCompiler()
		must.Do(t, compiler.AddResource("mem:"+name, schema))
		compiled, err := compiler.Compile("mem:" + name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return compiled
	}
	for _, tool := range list.Tools {
		b.Inputs[tool.Name] = compile(tool.Name+"/in", tool.InputSchema)
	}
	return b
}

// ToolResult is the result of a call of a tool.
type ToolResult struct {
	TextOf  string
	Body    []byte // the structured content
	IsError bool
}

// Problem is the Error object of a rejected call.
func (u *ToolResult) Problem(t *testing.T) (p Problem) {
	t.Helper()
	if err := json.Unmarshal(u.Body, &p); err != nil {
		t.Fatalf("%s: %v", u.Body, err)
	}
	return p
}

// Use calls a tool.
func (b *Toolbox) Use(tool string, arguments any) ToolResult {
	b.t.Helper()
	result, err := b.session.CallTool(b.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		b.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	body := must.Get(json.Marshal(result.StructuredContent))(b.t)
	if len(result.Content) != 1 {
		b.t.Fatalf("%s: %d contents", tool, len(result.Content))
	}
	text, isText := result.Content[0].(*mcp.TextContent)
	if !isText || text.Text == "" || strings.Contains(text.Text, "<no value>") {
		b.t.Fatalf("%s: %+v", tool, result.Content[0])
	}
	return ToolResult{text.Text, body, result.IsError}
}

// AnyJSON returns the JSON of a value as a client reads it.
func AnyJSON(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}

// JSON returns the JSON of a value.
func JSON(t *testing.T, value any) string {
	t.Helper()
	return string(must.Get(json.Marshal(value))(t))
}

// Args are the arguments of a call.
type Args = map[string]any

// OfHTTP finds what a model that has tools alone cannot follow.
var OfHTTP = regexp.MustCompile(`/api/|Authorization`)

// ToolCall is the body of a request that calls a tool. Arguments that are a string are JSON already.
func ToolCall(name string, arguments any) string {
	data, isText := arguments.(string)
	if !isText {
		encoded, _ := json.Marshal(arguments) // of texts and numbers
		data = string(encoded)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, data)
}

// CallTool calls a tool by a request of its own, which must be answered.
func CallTool(t *testing.T, s *Server, name string, arguments any, headers ...string) (*Response, ToolResult) {
	t.Helper()
	r := s.Post("/mcp", ToolCall(name, arguments), headers...).Must(t, http.StatusOK)
	return r, toolResult(t, r)
}

// toolResult returns the result of a tool that a response holds.
func toolResult(t *testing.T, r *Response) ToolResult {
	t.Helper()
	answer := Decoded[struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
	}](t, r).Result
	if len(answer.Content) == 0 {
		t.Fatalf("%s: %s", r.call, r.Body)
	}
	return ToolResult{answer.Content[0].Text, answer.StructuredContent, answer.IsError}
}
