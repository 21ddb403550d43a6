package mcp

import (
	_ "embed" // the tools
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/commons-cluster/commons/api/wire"
)

// tool is an operation of the interface under a name that a model understands.
type tool struct {
	Name, Title string
	Does        string // for a model
	// Wants names the arguments in the order in which they are shown; an asterisk
	// marks those that are required.
	Wants string
	// Fixed are arguments that the tool sets itself.
	Fixed  map[string]string
	Effect effect
	// Answer names the template that puts an answer into words.
	Answer string
}

// effect is the effect of a call.
type effect string

const (
	reads   effect = "reads"   // does not write
	writes  effect = "writes"  // writes with each call
	ensures effect = "ensures" // writes with the first call alone
)

// tools.json holds the words of every tool. Its operation is configured, and its schemas are in
// schemas.json.
//
//go:embed tools.json
var toolsJSON []byte

// Setup is the page section, in Markdown, on how to set up each client, with $URL for the address.
//
//go:embed setup.md
var Setup string

// List returns the names of the tools in Markdown, those that only read first.
func (s *Server) List() string {
	names := map[bool][]string{}
	for _, b := range s.tools {
		names[b.Effect == reads] = append(names[b.Effect == reads], "`"+b.Name+"`")
	}
	return "- Read: " + strings.Join(names[true], ", ") + "\n- Write: " + strings.Join(names[false], ", ") + "\n"
}

type boundTool struct {
	*tool
	operation string              // operationId in the OpenAPI document
	arguments map[string]argument // those that it takes
	takes     []string            // their names, and argMinIndex
	required  []string
	body      bool // the arguments are the body of a request
	schema    wire.Object
	words     *template.Template // puts an answer into words
	full      *template.Template // the same with whole texts, or nil
	newest    func(operationID string) string
}

// bindTools binds all tools to their operations, whose ids are given by the tools' names.
func bindTools(operations map[string]string) ([]*boundTool, error) {
	var t struct{ Tools []tool }
	var schemas map[string]map[string]argument
	if err := errors.Join(json.Unmarshal(toolsJSON, &t), json.Unmarshal(schemasJSON, &schemas)); err != nil {
		return nil, fmt.Errorf("read the tools: %w", err)
	}
	if len(operations) != len(t.Tools) {
		return nil, fmt.Errorf("make the tools: there are %d, and operations for %d", len(t.Tools), len(operations))
	}
	tools := make([]*boundTool, 0, len(t.Tools))
	for i := range t.Tools {
		id := operations[t.Tools[i].Name]
		b, err := t.Tools[i].bind(id, schemas[id])
		if err != nil {
			return nil, fmt.Errorf("make the tools: %w", err)
		}
		tools = append(tools, b)
	}
	return tools, nil
}

// bind binds a tool to its operation, which takes some arguments.
func (t *tool) bind(id string, arguments map[string]argument) (*boundTool, error) {
	words := answers.Lookup(t.Answer)
	if words == nil {
		return nil, fmt.Errorf("%s: no template %q puts its answer into words", t.Name, t.Answer)
	}
	b := &boundTool{tool: t, operation: id, arguments: map[string]argument{}, required: []string{}, words: words, full: answers.Lookup(t.Answer + "Full")}
	b.takes = append(b.takes, argMinIndex)
	properties := wire.Object{}
	for word := range strings.FieldsSeq(t.Wants) {
		name, required := strings.CutSuffix(word, "*")
		a, known := arguments[name]
		if name == argFull {
			a, known = fullArgument, b.full != nil
		}
		if !known {
			return nil, fmt.Errorf("%s: the operation %s takes no %s that schemas.json describes", t.Name, id, name)
		}
		b.arguments[name] = a
		b.body = b.body || a.In == inBody
		if required {
			b.required = append(b.required, name)
		}
		b.takes = append(b.takes, name)
		properties = properties.With(name, a.Schema)
	}
	b.schema = wire.Object{{"type", "object"}, {"properties", properties}}
	if len(b.required) > 0 {
		b.schema = b.schema.With("required", b.required)
	}
	return b, nil
}

// describe returns the protocol's description of the tool.
func (b *boundTool) describe() *sdk.Tool {
	no := false
	hints := &sdk.ToolAnnotations{ReadOnlyHint: b.Effect == reads, IdempotentHint: b.Effect == ensures}
	if b.Effect != reads {
		hints.DestructiveHint = &no
	}
	return &sdk.Tool{Name: b.Name, Title: b.Title, Description: b.Does, Annotations: hints, InputSchema: b.schema}
}
