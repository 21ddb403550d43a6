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
)

// toolCall is a call of a tool: its arguments as the operation takes them.
type toolCall struct {
	in wire.Invocation
	// unread says why the arguments could not be read at all; nil: they were.
	unread *wire.Error
	// ignored are arguments that the tool does not take, or gives itself.
	ignored []string
	// problems are those that the operation cannot see: it is not asked to validate
	// what was sent in the place of a text.
	problems wire.Problems
	// sound are the parameters in which only the operation could see a problem.
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
	if b.body {
		b.readBody(t, fields)
		return t
	}
	doc := wire.Document{Fields: fields}
	unknown, lost, _ := doc.Canonical(b.takes)
	for _, f := range append(unknown, lost...) {
		t.ignored = append(t.ignored, f.Name)
	}
	b.readQuery(t, doc.Fields)
	return t
}

// argMinIndex is a header over HTTP, and so in the document.
const argMinIndex = "min_index"

// readBody makes the body of a request of the arguments. Unknown fields
// are left in: the operation notes them.
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

// readQuery makes parameters of the arguments. All of these are text over HTTP;
// here each has a type of its own, and another one is a problem.
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
		case inPath:
			t.in.ID = value
		default:
			t.in.Params = append(t.in.Params, wire.Pair{f.Name, value})
		}
		t.sound = t.sound.With(f.Name, f.Value)
	}
	for _, name := range b.required {
		// What the operation requires beside its path parameter, it asks for itself.
		if a := b.arguments[name]; a.In == inPath || !a.Required {
			b.require(t, name)
		}
	}
}

// queryNumber writes a number for a query: in JSON, 1.0 is a whole number, too. Other
// numbers stay as they are.
func queryNumber(n json.Number) string {
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= maxExact {
		return n.String()
	}
	return strconv.FormatInt(int64(f), 10)
}

// require adds the problem of an argument that is missing.
func (b *boundTool) require(t *toolCall, name string) {
	given := t.sound.Has(name) || b.arguments[name].In == inKey && t.in.EditKey != ""
	if !given && !t.problems.Has(name) {
		t.problems.Add(name, "is required")
	}
}

// complete adds to an example of parameters what the tool requires, as it was sent. The
// result is empty if the caller has to correct that.
func (b *boundTool) complete(t *toolCall, example wire.Object) wire.Object {
	whole := wire.Object{}
	for _, name := range b.required {
		if example.Has(name) {
			continue
		}
		at := slices.IndexFunc(t.sound, func(m wire.Field) bool { return m.Name == name })
		if at < 0 || t.problems.Has(name) {
			return wire.Object{}
		}
		whole = append(whole, t.sound[at])
	}
	return append(whole, example...)
}

// perform runs the operation. If the tool itself finds problems in the arguments, the
// operation is only asked for further problems.
func (b *boundTool) perform(r wire.Performer, t *toolCall) wire.Performed {
	if t.unread != nil {
		return rejected(t.unread)
	}
	t.in.Trial = t.problems.Any()
	done := r.Perform(b.operation, t.in)
	switch {
	case done.Rejection != nil && done.Rejection.Code != wire.CodeInvalid, done.Rejection == nil && !t.in.Trial, b.body:
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
	more.Notes = done.Rejection.Notes
	return rejected(more)
}

// invalid is the error of parameters that break rules.
func (b *boundTool) invalid(t *toolCall, example wire.Object) *wire.Error {
	if t.in.Trial { // what the operation had no occasion to ask for
		for _, name := range b.required {
			b.require(t, name)
		}
	}
	return wire.Invalid(t.problems.List, b.complete(t, example))
}

// rejected is the result of an operation that was not run.
func rejected(e *wire.Error) wire.Performed {
	return wire.Performed{Status: e.Status(), Body: e.Object().AppendJSON(nil), Rejection: e}
}

// call carries a call of the tool out.
func (b *boundTool) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	x, known := ctx.Value(exchangeKey{}).(*exchange)
	if !known {
		return nil, failed(wire.Internal())
	}
	t := b.read(req.Params.Arguments)
	done, ignored := b.perform(x, t), ignoredNote(t.ignored)
	if done.Status >= http.StatusBadRequest {
		return x.reject(b, done.Rejection, ignored), nil
	}
	text, err := wire.Say(b.words, x.BaseURL(), done.Body)
	if err != nil {
		x.srv.cfg.Logger.ErrorContext(ctx, "cannot write an answer as text", "tool", b.Name, "err", err)
		return toolResult(string(done.Body), done.Body), nil
	}
	return toolResult(ignored+"\n"+text, done.Body), nil
}

// toolResult is a result of both kinds: a text, and the object that HTTP answers.
func toolResult(text string, body []byte) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: strings.TrimSpace(text)}},
		StructuredContent: json.RawMessage(body),
	}
}

// reject is the result of a call that was rejected: an error for the model to see.
func (x *exchange) reject(b *boundTool, e *wire.Error, ignored string) *sdk.CallToolResult {
	x.rejection.Store(e)
	shown := x.srv.inTools(b, e)
	if ignored != "" {
		shown.Notes = append([]string{ignored}, shown.Notes...)
	}
	result := toolResult(b.rejection(shown), shown.Object().AppendJSON(nil))
	result.IsError = true
	return result
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
