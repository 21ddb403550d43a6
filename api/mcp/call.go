package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// toolCall is a call of a tool: its arguments as the operation takes them.
type toolCall struct {
	in wire.Invocation
	// unread is the error of arguments that cannot be read, or nil.
	unread *wire.Error
	// ignored are the names of arguments that the tool does not take, or sets itself.
	ignored []string
	// empty are the names of optional arguments that are an empty text. Models that fill in every
	// argument mean that these are left out.
	empty []string
	// problems are those of values with a wrong type, which the operation is not asked to validate.
	problems wire.Problems
	full     bool // the text shows everything
	// sound are the parameters of the right type. Only the operation can find problems in them.
	sound wire.Object
}

// read sorts the arguments of a call.
func (b *boundTool) read(raw json.RawMessage) *toolCall {
	t := &toolCall{}
	var fields []wire.Field
	if len(raw) > 0 && string(raw) != "null" {
		var err error
		fields, err = wire.ReadObject(raw)
		if errors.Is(err, wire.ErrNotObject) {
			t.unread = wire.Malformed(errors.New("the arguments must be an object"))
			return t
		}
		if err != nil {
			t.unread = wire.Malformed(fmt.Errorf("the arguments: %w", err))
			return t
		}
	}
	fields = slices.DeleteFunc(fields, func(f wire.Field) bool {
		name, _ := wire.Means(f.Name, b.takes)
		empty := f.Value == "" && name != "" && !slices.Contains(b.required, name)
		if empty {
			t.empty = append(t.empty, f.Name)
		}
		return empty
	})
	if b.body {
		b.readBody(t, fields)
		return t
	}
	doc := wire.Document{Fields: fields}
	unknown, lost := doc.Canonical(b.takes)
	for _, f := range append(unknown, lost...) {
		t.ignored = append(t.ignored, f.Name)
	}
	b.readQuery(t, doc.Fields)
	return t
}

// argMinIndex is an argument of every tool. It is a header over HTTP, and so in the document.
const argMinIndex = "min_index"

// readBody makes a request body from the arguments. It keeps unknown fields: the operation notes them.
func (b *boundTool) readBody(t *toolCall, fields []wire.Field) {
	for _, f := range fields {
		if value, fixed := b.Fixed[f.Name]; !fixed {
			t.in.Document.Fields = append(t.in.Document.Fields, f)
		} else if f.Value != value {
			t.ignored = append(t.ignored, f.Name)
		}
	}
	for name, value := range b.Fixed {
		t.in.Document.Fields = append(t.in.Document.Fields, wire.Field{name, value})
	}
}

// readQuery makes parameters from the arguments. All of these are text over HTTP; here each has a
// type of its own, and another type is a problem.
func (b *boundTool) readQuery(t *toolCall, fields []wire.Field) {
	for _, f := range fields {
		a, known := b.arguments[f.Name]
		if !known {
			a = argument{Schema: schema{Type: typeInteger}}
		}
		if f.Value == nil {
			continue
		}
		if !a.takes(f.Value) {
			t.problems.Add(f.Name, "%s", a.wanted())
			continue
		}
		if list, isList := f.Value.([]any); isList {
			if len(list) > wire.MaxParams {
				t.problems.Add(f.Name, "may have at most %d values", command.MaxValues)
				continue
			}
			for _, one := range list {
				t.in.Params = append(t.in.Params, wire.Pair{Name: f.Name, Value: wire.ListText(fmt.Sprint(one))})
			}
			t.sound = t.sound.With(f.Name, f.Value)
			continue
		}
		value := fmt.Sprint(f.Value)
		if n, isNumber := f.Value.(json.Number); isNumber {
			value = queryNumber(n)
		}
		if value == "" {
			continue
		}
		switch a.In {
		case inKey:
			t.in.EditKey = value
			continue
		case inTool:
			t.full = value == "true"
		case inPath:
			t.in.ID = value
		default:
			t.in.Params = append(t.in.Params, wire.Pair{f.Name, value})
		}
		t.sound = t.sound.With(f.Name, f.Value)
	}
	for _, name := range b.required {
		// The operation checks its required parameters itself, except the path parameter.
		if a := b.arguments[name]; a.In == inPath || !a.Required {
			b.require(t, name)
		}
	}
}

// queryNumber formats a number for a query: in JSON, 1.0 is a whole number, too. Other numbers stay
// as they are.
func queryNumber(n json.Number) string {
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= maxExact {
		return n.String()
	}
	return strconv.FormatInt(int64(f), 10)
}

// require adds the problem of an argument that is missing.
func (b *boundTool) require(t *toolCall, name string) {
	if !t.sound.Has(name) && !t.problems.Has(name) {
		t.problems.Add(name, "is required")
	}
}

// complete adds the required arguments to an example, as they were sent. An argument that the caller
// has to correct becomes a placeholder, and its name is returned. The example is never empty.
func (b *boundTool) complete(t *toolCall, example wire.Object) (whole wire.Object, open string) {
	for _, name := range b.required {
		if example.Has(name) {
			continue
		}
		at := slices.IndexFunc(t.sound, func(m wire.Field) bool { return m.Name == name })
		if at < 0 || t.problems.Has(name) {
			whole, open = whole.With(name, b.newest(b.operation)), name
			continue
		}
		whole = append(whole, t.sound[at])
	}
	for _, m := range example {
		if m.Name != argMinIndex {
			whole = append(whole, m)
		}
	}
	if len(whole) == 0 { // an argument without effect
		whole = wire.Object{{argMinIndex, 0}}
	}
	return whole, open
}

// perform runs the operation. If the tool itself finds problems in the arguments, the operation only
// validates.
func (b *boundTool) perform(r wire.Performer, t *toolCall) wire.Performed {
	if t.unread != nil {
		return rejected(t.unread)
	}
	t.in.CheckOnly = t.problems.Any()
	done := r.Perform(b.operation, t.in)
	switch {
	case done.Rejection != nil && done.Rejection.Code == wire.CodeRateLimited && !b.body:
		limited := *done.Rejection
		limited.Example, _ = b.complete(t, t.sound)
		return rejected(&limited)
	case done.Rejection != nil && done.Rejection.Code != wire.CodeInvalid, done.Rejection == nil && !t.in.CheckOnly, b.body:
		return done
	case done.Rejection == nil: // the other arguments are an example that works
		return rejected(b.invalid(t, t.sound))
	}
	own := t.problems
	// A cursor that fits no more may be the next page under the filter at fault.
	filters := slices.ContainsFunc(own.List, func(i wire.Issue) bool { return !slices.Contains(wire.PageParams, i.Field) })
	for _, issue := range done.Rejection.Issues {
		if !own.Has(issue.Field) && (issue.Field != "cursor" || !filters) {
			t.problems.List = append(t.problems.List, issue)
		}
	}
	more := b.invalid(t, done.Rejection.Example)
	more.Notes = append(slices.Clone(done.Rejection.Notes), more.Notes...)
	return rejected(more)
}

// invalid is the error of parameters that break rules.
func (b *boundTool) invalid(t *toolCall, example wire.Object) *wire.Error {
	if t.in.CheckOnly { // the operation did not check these
		for _, name := range b.required {
			b.require(t, name)
		}
	}
	whole, open := b.complete(t, example)
	e := wire.Invalid(t.problems.List, whole)
	if open != "" {
		e.Notes = []string{"Replace " + open + " in the example."}
	}
	return e
}

// rejected returns the result of an operation that was not run.
func rejected(e *wire.Error) wire.Performed {
	return wire.Performed{Status: e.Status(), Body: e.Object().AppendJSON(nil), Rejection: e}
}

// call runs a call of the tool.
func (b *boundTool) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	x, known := ctx.Value(exchangeKey{}).(*exchange)
	if !known {
		return nil, failed(wire.Internal())
	}
	t := b.read(req.Params.Arguments)
	if parent, is := req.Params.GetMeta()[trace.Header].(string); is {
		t.in.Trace = trace.Parse(parent)
	}
	done, notes := b.perform(x, t), t.notes()
	if done.Status >= http.StatusBadRequest {
		return x.reject(b, done.Rejection, notes), nil
	}
	words := b.words
	if t.full {
		words = b.full
	}
	text := string(done.Body)
	structured, err := x.srv.structured(done.Body, notes)
	if err == nil {
		text, err = wire.Say(words, x.BaseURL(), structured.AppendJSON(nil))
	}
	if err != nil {
		x.srv.cfg.Logger.ErrorContext(ctx, "cannot write an answer as text", "tool", b.Name, "err", err)
	}
	return toolResult(text, structured), nil
}

// toolResult returns a result with both contents: a text, and an object. Clients show their model
// one or both, so each is complete.
func toolResult(text string, structured any) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: strings.TrimSpace(text)}},
		StructuredContent: structured,
	}
}

// structured returns the answer of an operation as structured content: with the tool's own notes,
// and without the next calls in terms of HTTP, for which the text names tools.
func (s *Server) structured(body []byte, notes []string) (wire.Object, error) {
	fields, err := wire.ReadObject(body)
	if err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	answer := slices.DeleteFunc(wire.Object(fields), func(m wire.Field) bool { return m.Name == "next" || m.Name == "nextCheck" })
	all := slices.Clone(notes)
	if at := answer.Index("notes"); at >= 0 {
		own, _ := answer[at].Value.([]any)
		for _, note := range own {
			all = append(all, s.words.Replace(fmt.Sprint(note)))
		}
		answer[at].Value = wire.NonNil(all)
	} else if len(all) > 0 {
		answer = answer.With("notes", all)
	}
	return answer, nil
}

// reject returns the result of a rejected call, an error for the model to see.
func (x *exchange) reject(b *boundTool, e *wire.Error, notes []string) *sdk.CallToolResult {
	x.rejection.Store(e)
	shown := x.srv.inTools(b, e)
	shown.Notes = slices.Concat(notes, shown.Notes)
	result := toolResult(b.rejection(shown, x.srv.exampleTool(b, e.Example).Name), json.RawMessage(shown.Object().AppendJSON(nil)))
	result.IsError = true
	return result
}

// exampleTool returns the tool for an example: the operation's tool with the fixed arguments of the
// example, which need not be the rejected one.
func (s *Server) exampleTool(b *boundTool, example wire.Object) *boundTool {
	for _, other := range s.tools {
		if other.operation != b.operation {
			continue
		}
		if slices.ContainsFunc(example, func(m wire.Field) bool { return other.Fixed[m.Name] != "" && other.Fixed[m.Name] == m.Value }) {
			return other
		}
	}
	return b
}

// inTools turns a rejection in terms of HTTP into one in terms of a tool.
func (s *Server) inTools(b *boundTool, e *wire.Error) *wire.Error {
	shown := *e
	shown.Message = s.words.Replace(e.Message)
	shown.Issues, shown.Notes, shown.Example = slices.Clone(e.Issues), slices.Clone(e.Notes), nil
	for i := range shown.Issues {
		shown.Issues[i].Message = s.words.Replace(shown.Issues[i].Message)
	}
	for i, note := range shown.Notes {
		shown.Notes[i] = s.words.Replace(note)
	}
	for _, m := range e.Example {
		if _, fixed := b.Fixed[m.Name]; !fixed {
			shown.Example = append(shown.Example, m)
		}
	}
	return &shown
}
