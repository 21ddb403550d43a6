package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// what was sent in the place of a text, and not run where missing says so.
	problems problems
	missing  bool
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
		switch a.in {
		case inPath:
			t.in.id = value
		case inKey:
			t.in.editKey = value
		default:
			t.in.params = append(t.in.params, pair{f.name, value})
			t.sound = t.sound.with(f.name, f.value)
		}
	}
	for _, name := range b.required {
		// What the operation itself requires beside its path it asks for itself.
		if a := b.arguments[name]; a.in != inPath && a.required {
			continue
		}
		has := slices.ContainsFunc(t.in.params, func(p pair) bool { return p.name == name && p.value != "" })
		if a := b.arguments[name]; a.in == inPath {
			has = t.in.id != ""
		}
		if !has {
			t.missing = true
			if !t.problems.has(name) {
				t.problems.add(name, "is required")
			}
		}
	}
}

// example are arguments that can be read.
func (b *boundTool) example() object {
	o := object{}
	for _, name := range b.required {
		if a := b.arguments[name]; a.example != nil {
			o = o.with(name, a.example)
		}
	}
	return o
}

// perform runs the operation, and adds to what it has against the arguments what
// only the tool could see.
func (b *boundTool) perform(r *relay, t *toolCall) performed {
	switch {
	case t.unread != nil:
		return refused(t.unread)
	case t.missing:
		return refused(&Error{Code: codeInvalid, Message: "Arguments are missing.", Issues: t.problems.list, Example: b.example()})
	}
	done := r.perform(b.operation, t.in)
	switch {
	case !t.problems.any():
		return done
	case done.refusal == nil: // the other arguments are an example that works
		return refused(invalid(t.problems.list, t.sound))
	case done.refusal.Code != codeInvalid:
		return done
	}
	for _, issue := range done.refusal.Issues {
		if !t.problems.has(issue.Field) {
			t.problems.list = append(t.problems.list, issue)
		}
	}
	more := invalid(t.problems.list, done.refusal.Example)
	more.Notes = done.refusal.Notes
	return refused(more)
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
