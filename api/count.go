package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Counter is told of every call that somebody made of the service, whatever came
// of it. It is called by many goroutines and must be quick.
type Counter interface{ Count(call Counted) }

// Counted is a call as it is counted.
type Counted struct {
	At      time.Time
	Surface command.Surface
	Action  string // the operationId of the call in the OpenAPI document, or a finer name
	Client  string // what the User-Agent comes to: one of a fixed set of names
	// Sender is the fingerprint of the client's address; "" while the node cannot
	// tell, and for the operator's own agents. It is to be counted and not to be kept.
	Sender string
}

// surfaceOf is the surface that a path template belongs to; 0 for what is for
// operators, which is not counted.
func surfaceOf(template string) command.Surface {
	switch {
	case strings.HasPrefix(template, "/api/"):
		return command.SurfaceAPI
	case strings.HasPrefix(template, "/a2a"):
		return command.SurfaceA2A
	case strings.HasPrefix(template, "/mcp"):
		return command.SurfaceMCP
	case template == "/livez", template == "/readyz", template == "/status", template == "/metrics":
		return 0
	}
	return command.SurfaceWeb
}

// callPublish is the operationId of publishing, under which a GET counts that does.
const callPublish = "publishEntry"

// jobCalls are the names under which the actions of POST /api/jobs are counted.
var jobCalls = map[command.Op]string{
	command.OpPostJob: "postJob", command.OpClaimJob: "claimJob", command.OpFinishJob: "finishJob",
	command.OpReleaseJob: "releaseJob", command.OpCloseJob: "closeJob",
}

// operationIDs returns the operationIds of the OpenAPI document by method and
// path, such as "GET /api/entries/{id}".
func operationIDs() (map[string]string, error) {
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(openAPI), &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	ids := make(map[string]string)
	for path, operations := range doc.Paths {
		for method, o := range operations {
			ids[strings.ToUpper(method)+" "+path] = o.OperationID
		}
	}
	return ids, nil
}

// documented is a route's path as the OpenAPI document writes it.
func (rt *route) documented() string {
	segments := strings.Split(rt.path, "/")
	for i, s := range segments {
		if name, isParameter := strings.CutPrefix(s, ":"); isParameter {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

// counted is under what the calls of a route are counted.
type counted struct {
	surface command.Surface
	action  string
}

// nameCalls finds out under which names the routes are counted, and performed on
// behalf of another surface. Errors: a route is not in the OpenAPI document.
func (s *Server) nameCalls() error {
	ids, err := operationIDs()
	if err != nil {
		return err
	}
	for i := range s.routes {
		rt := &s.routes[i]
		id, documented := ids[rt.method+" "+rt.documented()]
		if !documented || id == "" || len(id) > command.MaxUsageLabel {
			return fmt.Errorf("%s %s has no operationId of at most %d bytes in the OpenAPI document", rt.method, rt.path, command.MaxUsageLabel)
		}
		surface := surfaceOf(rt.path)
		if surface != 0 {
			s.counted[rt] = counted{surface, id}
		}
		if surface == command.SurfaceAPI {
			s.operations[id] = rt
		}
	}
	return nil
}

// count tells the counter of an answered call. One that ran operations on behalf
// of another surface was counted as these.
func (c *call) count() {
	as, known := c.srv.counted[c.route]
	if c.srv.counter == nil || !known {
		return
	}
	if c.relay != nil {
		if c.rctx != nil && c.relay.calls.Load() > 0 {
			return
		}
		as.surface = c.relay.surface
	}
	action := c.action
	if action == "" {
		action = as.action
	}
	counted := Counted{
		At: c.srv.now(), Surface: as.surface, Action: action,
		Client: clientLabel(c.header(fiber.HeaderUserAgent)),
	}
	if !c.house {
		counted.Sender = c.srv.backend.Fingerprint(c.sender())
	}
	c.srv.counter.Count(counted)
}
