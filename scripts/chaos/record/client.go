// Package record has the clients that work with the cluster during a run. They record each
// call with its answer, for package check.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

// CallTimeout is longer than a node keeps a write while leadership changes, and than the
// balancer waits for a node to answer a write: 20 s for tools.
const CallTimeout = 25 * time.Second

// notWritten are the errors of writes that certainly had no effect.
var notWritten = map[string]bool{"not_enqueued": true, "no_leader": true, "disk_full": true, "behind": true, "not_ready": true, "rate_limited": true}

// Caller makes recorded calls, each once, by every surface. The outcomes that the interface
// reports are under test, so it does not use package client to read answers.
type Caller struct {
	http    *http.Client
	history *History
	start   time.Time
}

// NewCaller returns a caller that records calls with times since start.
func NewCaller(start time.Time, h *http.Client, to *History) *Caller {
	return &Caller{&http.Client{Timeout: CallTimeout, Transport: h.Transport}, to, start}
}

// request is the content of a call.
type request struct {
	method, path string
	body         any
	header       http.Header
}

// do makes a call at a node, fills its answer in, and records it.
func (cl *Caller) do(ctx context.Context, c *Call, node *harness.Node, r request) map[string]any {
	c.Node, c.Begin = node.Name, time.Since(cl.start)
	// The end of the run does not end a call that has begun: that would look like a fault.
	answer := cl.send(context.WithoutCancel(ctx), c, node.URL, r)
	c.End = time.Since(cl.start)
	if list := lists[c.Kind]; list != "" {
		c.Seen = ids(answer, list)
	}
	cl.history.add(c)
	return answer
}

// Subject publishes an entry that moderators may hide, from an address. An empty agent is anonymous.
func (cl *Caller) Subject(ctx context.Context, node *harness.Node, agent, text, address string) *Call {
	c := &Call{Client: address, Surface: "http", Kind: Subject, Agent: agent, Text: text}
	fields := map[string]any{"body": text}
	if agent != "" {
		fields["agent"] = agent
	}
	cl.do(ctx, c, node, request{http.MethodPost, "/api/entries", fields, http.Header{"X-Forwarded-For": {address}}})
	return c
}

// lists are the names of lists whose ids are recorded.
var lists = map[Kind]string{List: "entries", Plain: "entries", Strong: "entries", Home: "forYou"}

func (cl *Caller) send(ctx context.Context, c *Call, base string, r request) map[string]any {
	body := ""
	if r.body != nil {
		body = string(harness.Got(json.Marshal(r.body)))
	}
	// Go itself sends a GET again when its connection breaks: the answer is that
	// to the second attempt, and the first may have had its effect.
	var sent atomic.Int32
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }})
	headers := make([]string, 0, 4+2*len(r.header))
	if c.MinIndex > 0 {
		headers = append(headers, "X-Commons-Min-Index", strconv.FormatUint(c.MinIndex, 10))
	}
	if c.RequestID != "" {
		headers = append(headers, "Idempotency-Key", c.RequestID) // as our clients do: a balancer may repeat the call
	}
	for name := range r.header {
		headers = append(headers, name, r.header.Get(name))
	}
	res, err := raw.Do(ctx, cl.http, r.method, base+r.path, body, headers...)
	c.Resent = c.Resent || sent.Load() > 1
	if err != nil {
		c.Outcome, c.Error = Unknown, err.Error()
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && sent.Load() == 0 {
			c.Outcome = Failed
		}
		return nil
	}
	var answer map[string]any
	if err := res.Decode(&answer); err != nil {
		c.Outcome, c.Error = Unknown, err.Error()
		return nil
	}
	c.Shown = c.Kind == Peek && strings.Contains(string(res.Body), c.Text)
	c.Index, _ = strconv.ParseUint(res.Header.Get("X-Commons-Index"), 10, 64) // 0 without the header
	c.read(res.Status, answer)
	return answer
}

// read reads an answer of any surface: all have the same objects, at different depths.
func (c *Call) read(status int, answer map[string]any) {
	c.Code, _ = find[string](answer, "code")
	switch {
	case c.Code == "" && status < http.StatusMultipleChoices:
		c.Outcome = Done
	case notWritten[c.Code] && !c.Resent:
		c.Outcome = Failed
	case notWritten[c.Code], c.Code == "outcome_unknown", c.Code == "" || status >= http.StatusInternalServerError:
		c.Outcome, c.Error = Unknown, fmt.Sprintf("status %d", status)
	default:
		c.Outcome = Rejected
	}
	if c.Outcome != Done {
		return
	}
	if !c.Kind.Writes() && c.Kind != Look && c.Kind != Subject {
		return
	}
	c.Duplicate, _ = find[bool](answer, "duplicate")
	if object, ok := find[map[string]any](answer, objects[c.Kind]); ok {
		c.ID, _ = object["id"].(string)
	}
	if object, ok := find[map[string]any](answer, "job"); ok {
		c.Status, _ = object["status"].(string)
		c.ClaimedBy, _ = object["claimedBy"].(string)
		if c.Kind == Take {
			c.Job, _ = object["id"].(string)
		}
	}
}

// objects are the names of the objects whose ids are recorded.
var objects = map[Kind]string{
	Publish: "entry", Subject: "entry", Post: "job", Claim: "claim", Take: "claim", Release: "job", Result: "result", Look: "job", Close: "job",
}

// find returns the member with a name and of type T, at any depth of an answer.
func find[T any](value any, member string) (found T, ok bool) {
	switch value := value.(type) {
	case map[string]any:
		if found, ok := value[member].(T); ok {
			return found, true
		}
		for _, inner := range value {
			if found, ok := find[T](inner, member); ok {
				return found, true
			}
		}
	case []any:
		for _, inner := range value {
			if found, ok := find[T](inner, member); ok {
				return found, true
			}
		}
	}
	return found, false
}

// publication is the request that publishes an entry through a surface.
func publication(c *Call, header http.Header) request {
	fields := map[string]any{"agent": c.Agent, "body": c.Text}
	if c.RequestID != "" {
		fields["request_id"] = c.RequestID
	}
	if c.Supersedes != "" {
		fields["supersedes"], fields["relation"] = c.Supersedes, "correction"
	}
	rpc := func(path, method string, params any) request {
		header := header.Clone()
		header.Set("Accept", "application/json, text/event-stream")
		return request{http.MethodPost, path, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, header}
	}
	switch c.Surface {
	case "mcp":
		return rpc("/mcp", "tools/call", map[string]any{"name": "publish_entry", "arguments": fields})
	case "a2a":
		return rpc("/a2a", "message/send", map[string]any{"message": map[string]any{
			"kind": "message", "role": "user", "messageId": c.RequestID,
			"parts": []any{map[string]any{"kind": "text", "text": c.Text}, map[string]any{"kind": "data", "data": map[string]any{"agent": c.Agent}}},
		}})
	case "get":
		query := url.Values{"action": {"publish"}, "confirm": {"write"}}
		for name, value := range fields {
			query.Set(name, value.(string))
		}
		return request{http.MethodGet, "/api/entries?" + query.Encode(), nil, header}
	}
	return request{http.MethodPost, "/api/entries", fields, header}
}

// ids returns the ids of the items of a list in an answer.
func ids(answer map[string]any, list string) []string {
	items, _ := answer[list].([]any)
	found := make([]string, 0, len(items))
	for _, item := range items {
		id, _ := find[string](item, "id")
		found = append(found, id)
	}
	return found
}
