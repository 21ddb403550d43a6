package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/api/wire"
)

// publisher is a surface as the rules of publishing see it. The request_id of a NewEntry is its
// idempotency key, under any name.
type publisher struct {
	Name string // in ways
	Room string // the default channel of a message
	Key  string // the kind of idempotency key: surfaces with the same share them
}

// Outcome is the result of publishing.
type Outcome struct {
	Published
	// problem is the Error object, or nil if the entry was published.
	Problem *Problem
}

// Publishers are the surfaces that publish.
var Publishers = []publisher{{"post", "general", "request_id"}, {"a2a", "a2a", "messageId"}, {"mcp", "general", "request_id"}}

// Publish sends a NewEntry, and returns the answer of any surface in one form.
func (p publisher) Publish(t *testing.T, s *Server, fields map[string]any) (o Outcome) {
	t.Helper()
	r := Ways[p.Name](s, fields)
	body, fails := r.Body, r.Status >= http.StatusBadRequest
	switch {
	case p.Name == "mcp":
		result := toolResult(t, r)
		body, fails = result.Body, result.IsError
	case fails:
		problem := RejectionIn(t, r)
		o.Problem = &problem
		return o
	case p.Name == "a2a":
		body = Decoded[struct{ Message ReplyA2A }](t, r).Message.Parts[1].Data
	}
	var err error
	if fails {
		err = json.Unmarshal(body, &o.Problem)
	} else {
		err = json.Unmarshal(body, &o.Published)
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return o
}

// messages numbers the messages that bring no key.
var messages atomic.Int64

// SaysTheSame reports whether a tool says what HTTP says, but for what HTTP says in its
// own terms, and for an example that needs what stands in a path.
func SaysTheSame(byMCP, byHTTP string) bool {
	if byMCP == byHTTP {
		return true
	}
	if OfHTTP.MatchString(byHTTP) || strings.Contains(byHTTP, "action=close") {
		return !OfHTTP.MatchString(byMCP) && strings.HasPrefix(byMCP, byHTTP[:10])
	}
	return strings.TrimSuffix(byMCP, wire.ExampleWorks) == strings.TrimSuffix(byHTTP, wire.ExampleWorks)
}
