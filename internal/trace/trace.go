// Package trace takes part in traces as W3C Trace Context describes: it reads the parent of a
// call and passes it on. The program makes no spans.
package trace

import (
	"context"
	"regexp"
	"strings"
)

// Header is the header of HTTP, and the member of MCP's _meta, with the parent of a call.
const Header = "traceparent"

// A parent of version 00 has the version, the ids of trace and span, and flags, in hexadecimal
// digits with hyphens between them.
const (
	length               = 55
	traceBegin, traceEnd = 3, 35
	spanBegin, spanEnd   = 36, 52
)

// pattern matches the part that every version has. Later versions have more after a hyphen.
var pattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)`)

// Parent is a valid parent of version 00, or "".
type Parent string

// Parse returns the parent in a header. Of a later version it takes the part that version 00
// has. It returns "" for a value that the standard rejects.
func Parse(value string) Parent {
	switch {
	case !pattern.MatchString(value), value[:2] == "ff", value[:2] == "00" && len(value) > length,
		isZero(value[traceBegin:traceEnd]), isZero(value[spanBegin:spanEnd]):
		return ""
	}
	return Parent("00" + value[2:length])
}

func isZero(s string) bool { return strings.Trim(s, "0") == "" }

// TraceID returns the id of the trace. The parent must not be "".
func (p Parent) TraceID() string { return string(p[traceBegin:traceEnd]) }

// SpanID returns the id of the caller's span. The parent must not be "".
func (p Parent) SpanID() string { return string(p[spanBegin:spanEnd]) }

type key struct{}

// With returns a context for the work of a call with this parent.
func With(ctx context.Context, p Parent) context.Context {
	if p == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, p)
}

// From returns the parent of the call that a context belongs to, or "".
func From(ctx context.Context) Parent {
	p, _ := ctx.Value(key{}).(Parent)
	return p
}
