package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// callTimeout is longer than a node keeps a write while leadership changes.
	callTimeout = 15 * time.Second
	maxAnswer   = 8 << 20
	idleConns   = 64 // kept per node
)

// notWritten are the errors which say that nothing was written.
var notWritten = map[string]bool{"not_enqueued": true, "no_leader": true, "disk_full": true, "behind": true, "not_ready": true, "rate_limited": true}

// client makes recorded calls.
type client struct {
	http    *http.Client
	history *history
	start   time.Time
}

func newClient(start time.Time, transport *http.Transport, h *history) *client {
	return &client{&http.Client{Timeout: callTimeout, Transport: transport}, h, start}
}

// request is what a call sends.
type request struct {
	method, path string
	body         any
	header       http.Header
}

// do makes a call at a node, fills its answer in, and records it.
func (cl *client) do(ctx context.Context, c *call, node *harness.Node, r request) {
	cl.doSeen(ctx, c, node, r, "")
}

// doSeen is do, and keeps the ids of a list in the answer.
func (cl *client) doSeen(ctx context.Context, c *call, node *harness.Node, r request, seen string) map[string]any {
	c.Node, c.Begin = node.Name, time.Since(cl.start)
	// The end of the run does not end a call that has begun: that would look like a fault.
	answer := cl.send(context.WithoutCancel(ctx), c, node.URL, r)
	c.End = time.Since(cl.start)
	if seen != "" {
		c.Seen = ids(answer, seen)
	}
	cl.history.add(c)
	return answer
}

func (cl *client) send(ctx context.Context, c *call, base string, r request) map[string]any {
	var body io.Reader = http.NoBody
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			panic(err) // we made this value ourselves
		}
		body = bytes.NewReader(data)
	}
	// Go itself sends a GET again when its connection breaks: an error of the second
	// attempt says nothing about the first.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, body)
	if err != nil {
		panic(err)
	}
	req.Header = r.header.Clone()
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.MinIndex > 0 {
		req.Header.Set("X-Commons-Min-Index", strconv.FormatUint(c.MinIndex, 10))
	}
	res, err := cl.http.Do(req)
	if err != nil {
		c.Outcome, c.Error = unknown, err.Error()
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && !sent.Load() {
			c.Outcome = failed
		}
		return nil
	}
	defer res.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		c.Outcome, c.Error = unknown, fmt.Sprintf("%s: %v", res.Status, err)
		return nil
	}
	c.Index, _ = strconv.ParseUint(res.Header.Get("X-Commons-Index"), 10, 64) // 0 where there is none
	c.Stale = res.Header.Get("X-Commons-Stale-Ms") != ""
	c.read(res.StatusCode, answer)
	return answer
}

// read reads an answer of any surface: all have the same objects, at different depths.
func (c *call) read(status int, answer map[string]any) {
	c.Code, _ = find[string](answer, "code")
	switch {
	case c.Code == "" && status < http.StatusMultipleChoices:
		c.Outcome = done
	case notWritten[c.Code]:
		c.Outcome = failed
	case c.Code == "outcome_unknown", c.Code == "" || status >= http.StatusInternalServerError:
		c.Outcome, c.Error = unknown, fmt.Sprintf("status %d", status)
	default:
		c.Outcome = rejected
	}
	if c.Outcome != done {
		return
	}
	if !c.Kind.writes() && c.Kind != look && c.Kind != subject {
		return
	}
	c.Duplicate, _ = find[bool](answer, "duplicate")
	of := map[kind]string{publish: "entry", subject: "entry", post: "job", claim: "claim", release: "job", result: "result", look: "job"}[c.Kind]
	if object, ok := find[map[string]any](answer, of); ok {
		c.ID, _ = object["id"].(string)
	}
	if object, ok := find[map[string]any](answer, "job"); ok {
		c.Status, _ = object["status"].(string)
		c.ClaimedBy, _ = object["claimedBy"].(string)
	}
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
func publication(c *call, header http.Header) request {
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
		return rpc("/mcp", "tools/call", map[string]any{"name": "publish_message", "arguments": fields})
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
		if object, ok := item.(map[string]any); ok {
			id, _ := object["id"].(string)
			found = append(found, id)
		}
	}
	return found
}
