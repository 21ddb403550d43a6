package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// The message protocol (interface, 4.10 and 4.11) is version 0.3 and 1.0 of A2A, by
// JSON-RPC and by HTTP+JSON. This agent answers every message with a message, at
// once: it has no tasks, streams nothing and pushes nothing over this protocol.

// dialect is the form in which a client speaks the message protocol.
type dialect uint8

const (
	dialect10      dialect = iota // version 1.0
	dialect03                     // version 0.3
	dialect03Proto                // version 0.3 over HTTP, where parts are called content
)

// maxMethodShown is how much of an unknown method an error shows, in code points.
const maxMethodShown = 60

// headerA2AVersion names the version of the message protocol that a client speaks.
const headerA2AVersion = "A2A-Version"

// a2aMethod is what a method of JSON-RPC asks for.
type a2aMethod struct {
	dialect dialect
	answer  func(c *call, d dialect, params map[string]any) (wire.Object, *a2aError)
}

// a2aMethods are the methods of both versions by name.
var a2aMethods = map[string]a2aMethod{
	"SendMessage":                         {dialect10, sendMessage},
	"SendStreamingMessage":                {dialect10, refuseStream},
	"GetTask":                             {dialect10, findTask},
	"ListTasks":                           {dialect10, listTasks},
	"CancelTask":                          {dialect10, findTask},
	"SubscribeToTask":                     {dialect10, refuseStream},
	"CreateTaskPushNotificationConfig":    {dialect10, refusePush},
	"GetTaskPushNotificationConfig":       {dialect10, refusePush},
	"ListTaskPushNotificationConfigs":     {dialect10, refusePush},
	"DeleteTaskPushNotificationConfig":    {dialect10, refusePush},
	"GetExtendedAgentCard":                {dialect10, refuseExtendedCard},
	"message/send":                        {dialect03, sendMessage},
	"message/stream":                      {dialect03, refuseStream},
	"tasks/get":                           {dialect03, findTask},
	"tasks/list":                          {dialect03, listTasks},
	"tasks/cancel":                        {dialect03, findTask},
	"tasks/resubscribe":                   {dialect03, refuseStream},
	"tasks/pushNotificationConfig/set":    {dialect03, refusePush},
	"tasks/pushNotificationConfig/get":    {dialect03, refusePush},
	"tasks/pushNotificationConfig/list":   {dialect03, refusePush},
	"tasks/pushNotificationConfig/delete": {dialect03, refusePush},
	"agent/getAuthenticatedExtendedCard":  {dialect03, refuseExtendedCard},
}

// rpcRequest is a request of JSON-RPC.
type rpcRequest struct {
	id     any // a string, a json.Number or nil
	method string
	params any
}

// postA2A serves POST /a2a: JSON-RPC, whose errors come with HTTP 200.
func postA2A(c *call) error {
	var rpc rpcRequest
	d, unsupported := c.a2aDialect(dialect10)
	failed := rpc.read(c)
	if failed == nil {
		failed = unsupported // known now: which request that is
	}
	var result wire.Object
	if failed == nil {
		result, failed = c.answerMethod(&d, &rpc)
	}
	reply := wire.Object{{"jsonrpc", "2.0"}, {"id", rpc.id}}
	if failed != nil {
		failed.hint(c)
		failed.mend(d, &rpc)
		reply = reply.With("error", failed.rpc(d, c.a2aVersion() != ""))
	} else {
		reply = reply.With("result", result)
	}
	return c.answerObject(http.StatusOK, reply)
}

// answerMethod carries a method out. The header decides between the versions, and
// where there is none the method's name.
func (c *call) answerMethod(d *dialect, rpc *rpcRequest) (wire.Object, *a2aError) {
	method, known := a2aMethods[rpc.method]
	if !known {
		if c.a2aVersion() == "" && strings.Contains(rpc.method, "/") {
			*d = dialect03 // its methods are named so
		}
		return nil, newA2AError(a2aNoMethod, "There is no method "+wire.Shown(rpc.method, maxMethodShown)+". Send SendMessage or message/send.")
	}
	if c.a2aVersion() == "" {
		*d = method.dialect
	}
	params, isObject := rpc.params.(map[string]any)
	switch {
	case isObject:
	case rpc.params == nil:
		params = map[string]any{}
	default:
		return nil, newA2AError(a2aBadParams, "params must be an object.")
	}
	return method.answer(c, *d, params)
}

// a2aVersion is the version that the client asks for; "" where it does not say.
func (c *call) a2aVersion() string {
	if version := c.header(headerA2AVersion); version != "" {
		return strings.TrimSpace(version)
	}
	pairs, err := c.query()
	if err != nil {
		return ""
	}
	at := slices.IndexFunc(pairs, func(p wire.Pair) bool { return p.Name == headerA2AVersion })
	if at < 0 {
		return ""
	}
	return strings.TrimSpace(pairs[at].Value)
}

// a2aDialect is how to speak to the client; the usual way where it does not say.
// A patch number makes no difference.
func (c *call) a2aDialect(usual dialect) (dialect, *a2aError) {
	version := c.a2aVersion()
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch {
	case version == "":
		return usual, nil
	case major == "1" && minor == "0":
		return dialect10, nil
	case major == "0" && minor == "3":
		return dialect03, nil
	}
	return usual, newA2AError(a2aNoVersion, "A2A-Version may be 1.0 or 0.3, or be left out.")
}

// read reads a request of JSON-RPC. A request without an id is answered, too, with
// id null: clients that forget it want to know what came of it.
func (rpc *rpcRequest) read(c *call) *a2aError {
	fields, failed := c.a2aBody()
	if failed != nil {
		return failed
	}
	doc := wire.Document{Fields: fields}
	switch id := doc.Get("id").(type) {
	case nil:
	case bool, []any, map[string]any:
		return newA2AError(a2aBadRequest, "id must be a string, a number or null.")
	default:
		rpc.id = id
	}
	var isText bool
	if rpc.method, isText = doc.Get("method").(string); !isText || rpc.method == "" {
		return newA2AError(a2aBadRequest, "method must be the name of a method, such as SendMessage.")
	}
	if doc.Get("jsonrpc") != "2.0" {
		return newA2AError(a2aBadRequest, `jsonrpc must be "2.0".`)
	}
	rpc.params = doc.Get("params")
	return nil
}

// a2aBody reads the body as a JSON object, whatever type it says it has.
func (c *call) a2aBody() ([]wire.Field, *a2aError) {
	h := &c.rctx.Request.Header
	if _, err := wire.MediaType(string(h.ContentType())); err != nil || len(h.ContentEncoding()) > 0 {
		return nil, newA2AError(a2aNoContentType, "Send the body as application/json, without a Content-Encoding.")
	}
	fields, err := wire.ReadObject(wire.TrimBOM(c.rctx.Request.Body()))
	switch {
	case errors.Is(err, wire.ErrNotObject):
		return nil, newA2AError(a2aBadRequest, "The body must be one JSON object; batches are not taken.")
	case err != nil:
		return nil, newA2AError(a2aUnparsable, "The body cannot be read as JSON: "+err.Error()+".")
	}
	return fields, nil
}

// The handlers of the HTTP+JSON binding.

// httpA2A is a handler of HTTP+JSON around what answers a method.
func httpA2A(answer func(c *call, d dialect, params map[string]any) (wire.Object, *a2aError)) func(*call) error {
	return func(c *call) error {
		d, failed := c.a2aDialect(dialect10)
		var result wire.Object
		if failed == nil {
			result, failed = answer(c, d, nil)
		}
		return c.answerA2A(result, failed)
	}
}

// answerA2A answers with a result, or with an error, over HTTP+JSON.
func (c *call) answerA2A(result wire.Object, failed *a2aError) error {
	if failed == nil {
		return c.answerObject(http.StatusOK, result)
	}
	failed.hint(c)
	return c.answerObject(failed.kind.status, failed.http())
}

// postMessage serves POST /a2a/v1/message:send, whose answer holds the message, and
// POST /a2a/message:send: clients of version 0.3 that add no v1 read the message itself.
func postMessage(c *call) error {
	d, failed := c.a2aDialect(dialect10)
	if failed != nil {
		return c.answerA2A(nil, failed)
	}
	fields, failed := c.a2aBody()
	if failed != nil {
		return c.answerA2A(nil, failed)
	}
	params := make(map[string]any, len(fields))
	for _, f := range fields {
		params[f.Name] = f.Value
	}
	d = httpDialect(d, c.a2aVersion() != "", params)
	result, failed := sendMessage(c, d, params)
	switch {
	case failed != nil:
		failed.mend(d, nil)
	case d == dialect03 && strings.HasPrefix(c.operation.path, a2aVersioned):
		result = wire.Object{{"message", result}}
	}
	return c.answerA2A(result, failed)
}

// httpDialect tells how a client of HTTP+JSON speaks, which need not say it: the
// forms of version 0.3 know content and the role user.
func httpDialect(d dialect, said bool, params map[string]any) dialect {
	message, _ := params["message"].(map[string]any)
	switch {
	case said && d == dialect10:
	case message["content"] != nil && message["parts"] == nil:
		return dialect03Proto
	case !said && message["role"] == "user":
		return dialect03
	}
	return d
}

// findTask answers whoever asks for a task: there is none. params is nil where the path
// names the task.
func findTask(_ *call, _ dialect, params map[string]any) (wire.Object, *a2aError) {
	if params != nil {
		if id, isText := params["id"].(string); !isText || id == "" {
			return nil, newA2AError(a2aBadParams, "id must name a task.")
		}
	}
	return nil, noTask()
}

func noTask() *a2aError {
	return newA2AError(a2aNoTask, "There is no such task: every message is answered at once, by a message.")
}

// maxTaskPage and defaultTaskPage bound the page size of a list of tasks.
const (
	maxTaskPage     = 100
	defaultTaskPage = 50
)

// listTasks answers with the empty list of tasks.
func listTasks(_ *call, _ dialect, params map[string]any) (wire.Object, *a2aError) {
	size := defaultTaskPage
	if value := params["pageSize"]; value != nil {
		n, ok := wholeNumber(value)
		if !ok || n < 1 || n > maxTaskPage {
			return nil, newA2AError(a2aBadParams, "pageSize must be a whole number from 1 to 100.")
		}
		size = n
	}
	return wire.Object{{"tasks", []string{}}, {"totalSize", 0}, {"pageSize", size}, {"nextPageToken", ""}}, nil
}

// getTasks serves GET /a2a/v1/tasks.
func getTasks(c *call) error {
	return httpA2A(func(c *call, d dialect, _ map[string]any) (wire.Object, *a2aError) {
		pairs, err := c.query()
		if err != nil {
			return nil, newA2AError(a2aBadRequest, "The query cannot be read.")
		}
		params := map[string]any{}
		for _, p := range pairs {
			params[p.Name] = p.Value
		}
		return listTasks(c, d, params)
	})(c)
}

// verbSubscribe ends the path of a subscription, which is a GET in version 1.0.
const verbSubscribe = ":subscribe"

// getTask serves GET /a2a/v1/tasks/{task}: {id} and {id}:subscribe.
func getTask(c *call) error {
	answer := findTask
	if strings.HasSuffix(c.param("task"), verbSubscribe) {
		answer = refuseStream
	}
	return httpA2A(answer)(c)
}

// postTask serves POST /a2a/v1/tasks/{task}: {id}:cancel and {id}:subscribe.
func postTask(c *call) error {
	answer := findTask
	switch {
	case strings.HasSuffix(c.param("task"), verbSubscribe):
		answer = refuseStream
	case !strings.HasSuffix(c.param("task"), ":cancel"):
		answer = refuseVerb
	}
	return httpA2A(answer)(c)
}

func refuseVerb(*call, dialect, map[string]any) (wire.Object, *a2aError) {
	return nil, newA2AError(a2aBadRequest, "A POST to a task ends in :cancel or :subscribe.")
}

func refuseStream(*call, dialect, map[string]any) (wire.Object, *a2aError) {
	return nil, newA2AError(a2aUnsupported, "Nothing is streamed: send the message with SendMessage (message/send, message:send).")
}

func refusePush(*call, dialect, map[string]any) (wire.Object, *a2aError) {
	return nil, newA2AError(a2aNoPush, "There are no push notifications for tasks. A profile's notify_url at POST /api/agents takes replies and mentions.")
}

func refuseExtendedCard(*call, dialect, map[string]any) (wire.Object, *a2aError) {
	return nil, newA2AError(a2aNoExtendedCard, "There is no extended card: the one at /.well-known/agent-card.json says everything.")
}
