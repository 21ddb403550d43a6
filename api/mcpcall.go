package api

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

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolCall is a call of a tool: its arguments as the operation takes them.
type toolCall struct {
	in invocation
	// unread says why the arguments could not be read at all; nil: they were.
	unread *Error
	// ignored are arguments that the tool does not take, or gives itself.
	ignored []string
	// problems are those that the operation cannot see: it is not asked to judge
	// what was sent in the place of a text.
	problems problems
	// sound are the parameters in which only the operation could see a problem.
	sound object
}

// read sorts the arguments of a call.
func (b *boundTool) read(raw json.RawMessage) *toolCall {
	t := &toolCall{}
	var fields []field
	if len(raw) > 0 && string(raw) != "null" {
		var err error
		fields, err = readObject(raw)
		if errors.Is(err, errNotObject) {
			t.unread = &Error{Code: codeMalformedBody, Message: "The arguments must be an object.", Example: b.example()}
			return t
		}
		if err != nil {
			t.unread = &Error{Code: codeMalformedBody, Message: "The arguments cannot be read: " + err.Error() + ".", Example: b.example()}
			return t
		}
	}
	doc := document{fields: fields}
	if b.synonym != "" && doc.get(b.as) == nil && doc.has(b.synonym) {
		fields = slices.DeleteFunc(fields, func(f field) bool { return f.name == b.as })
		for i := range fields {
			if fields[i].name == b.synonym {
				fields[i].name = b.as
			}
		}
	}
	if b.body {
		b.readBody(t, fields)
	} else {
		b.readQuery(t, fields)
	}
	return t
}

// readBody makes the body of a request of the arguments. Fields that nobody knows
// are left in: the operation notes them.
func (b *boundTool) readBody(t *toolCall, fields []field) {
	for _, f := range fields {
		at := slices.IndexFunc(b.fixed, func(p pair) bool { return p.name == f.name })
		if at < 0 {
			t.in.document.fields = append(t.in.document.fields, f)
		} else if f.value != b.fixed[at].value {
			t.ignored = append(t.ignored, f.name)
		}
	}
	for _, p := range b.fixed {
		t.in.document.fields = append(t.in.document.fields, field{p.name, p.value})
	}
}

// readQuery makes parameters of the arguments. All of these are text over HTTP;
// here each has a type of its own, and another one is a problem.
func (b *boundTool) readQuery(t *toolCall, fields []field) {
	for _, f := range fields {
		a, known := b.arguments[f.name]
		if !known && f.name == "min_index" { // a header over HTTP, and so in the document
			a, known = argument{schema: map[string]any{"type": typeInteger}}, true
		}
		if !known {
			t.ignored = append(t.ignored, f.name)
			continue
		}
		if f.value == nil {
			continue
		}
		if !a.takes(f.value) {
			t.problems.add(f.name, "%s", a.wanted())
			continue
		}
		value := fmt.Sprint(f.value)
		if n, isNumber := f.value.(json.Number); isNumber {
			value = queryNumber(n)
		}
		if value == "" {
			continue
		}
		switch a.in {
		case inKey:
			t.in.editKey = value
			continue
		case inPath:
			t.in.id = value
		default:
			t.in.params = append(t.in.params, pair{f.name, value})
		}
		t.sound = t.sound.with(f.name, f.value)
	}
	for _, name := range b.required {
		// What the operation itself requires beside its path it asks for itself.
		if a := b.arguments[name]; a.in == inPath || !a.required {
			b.require(t, name)
		}
	}
}

// queryNumber writes a number the way a query has it: to JSON 1.0 is a whole number,
// too. What is none stays as it is.
func queryNumber(n json.Number) string {
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= maxExact {
		return n.String()
	}
	return strconv.FormatInt(int64(f), 10)
}

// require adds the problem of an argument that is missing.
func (b *boundTool) require(t *toolCall, name string) {
	given := t.sound.has(name) || b.arguments[name].in == inKey && t.in.editKey != ""
	if !given && !t.problems.has(name) {
		t.problems.add(name, "is required")
	}
}

// complete adds to an example of parameters what the tool requires: the argument
// that was sent, where it is sound, else one of the OpenAPI document. It reports
// whether one is of the document: whether that works nobody knows.
func (b *boundTool) complete(t *toolCall, example object) (whole object, madeUp bool) {
	whole = object{}
	for _, name := range b.required {
		if example.has(name) {
			continue
		}
		at := slices.IndexFunc(t.sound, func(m member) bool { return m.name == name })
		if at >= 0 {
			whole = append(whole, t.sound[at])
		} else if a := b.arguments[name]; a.example != nil {
			whole, madeUp = whole.with(name, a.example), true
		}
	}
	return append(whole, example...), madeUp
}

// example are arguments that can be read.
func (b *boundTool) example() object {
	o, _ := b.complete(&toolCall{}, nil)
	return o
}

// perform runs the operation. Where the tool has something against the arguments
// itself, the operation is only asked what else is wrong with them.
func (b *boundTool) perform(r *relay, t *toolCall) performed {
	if t.unread != nil {
		return refused(t.unread)
	}
	t.in.trial = t.problems.any()
	done := r.perform(b.operation, t.in)
	switch {
	case done.refusal != nil && done.refusal.Code != codeInvalid, done.refusal == nil && !t.in.trial, b.body:
		return done
	case done.refusal == nil: // the other arguments are an example that works
		return refused(b.invalid(t, t.sound))
	}
	own := t.problems
	// A cursor that fits no more may be the next page under the filter at fault.
	filters := slices.ContainsFunc(own.list, func(i Issue) bool { return !slices.Contains(pageParams, i.Field) })
	for _, issue := range done.refusal.Issues {
		if !own.has(issue.Field) && (issue.Field != "cursor" || !filters) {
			t.problems.list = append(t.problems.list, issue)
		}
	}
	more := b.invalid(t, done.refusal.Example)
	more.Notes = done.refusal.Notes
	return refused(more)
}

// invalid is the error of parameters that break rules.
func (b *boundTool) invalid(t *toolCall, example object) *Error {
	if t.in.trial { // what the operation had no occasion to ask for
		for _, name := range b.required {
			b.require(t, name)
		}
	}
	whole, madeUp := b.complete(t, example)
	e := invalid(t.problems.list, whole)
	if madeUp {
		e.Message = countProblems(t.problems.list) + " The example shows the form."
	}
	return e
}

// refused is what an operation comes to that was not run.
func refused(e *Error) performed {
	return performed{status: e.status(), body: e.object().appendJSON(nil), refusal: e}
}

// call carries a call of the tool out.
func (b *boundTool) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	x, known := ctx.Value(exchangeKey{}).(*exchange)
	if !known {
		return nil, failedMCP(internalError())
	}
	t := b.read(req.Params.Arguments)
	done, ignored := b.perform(x.relay, t), ignoredNote(t.ignored)
	if done.status >= http.StatusBadRequest {
		return x.refuse(b, done.refusal, ignored), nil
	}
	w := &mcpWriter{base: x.base}
	if ignored != "" {
		w.line("%s", ignored)
	}
	if err := b.text(w, done.body); err != nil {
		x.relay.srv.log.ErrorContext(ctx, "an answer cannot be put into words", "tool", b.name, "err", err)
		return toolResult(string(done.body), done.body), nil
	}
	return toolResult(w.String(), done.body), nil
}

// toolResult is a result of both kinds: a text, and the object that HTTP answers.
func toolResult(text string, body []byte) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: strings.TrimSpace(text)}},
		StructuredContent: json.RawMessage(body),
	}
}

// refuse is the result of a call that was refused: an error for the model to see.
func (x *exchange) refuse(b *boundTool, e *Error, ignored string) *mcp.CallToolResult {
	x.refusal.Store(e)
	shown := *e
	if ignored != "" {
		shown.Notes = append([]string{ignored}, e.Notes...)
	}
	w := &mcpWriter{base: x.base}
	w.refusal(b, &shown)
	result := toolResult(w.String(), shown.object().appendJSON(nil))
	result.IsError = true
	return result
}
