package a2a_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// tckCall is a request in both bindings of version 1.0, and what the conformance kit
// demands of the answer. An empty method or path leaves a binding out.
type tckCall struct {
	rules          string // by the kit's own names
	method, params string // of JSON-RPC
	verb, path     string // of HTTP+JSON, which sends the same params
	headers        []string
	code, status   int    // of the error, or 0
	reason         string // of the error, or ""
	holds          string // a part of the answer
}

// The parameters that several calls send.
const (
	tckHello  = `{"message":{"messageId":"tck-1","role":"ROLE_USER","parts":[{"text":"Hello from the kit"}]}}`
	tckTask   = `{"id":"tck-nonexistent"}`
	tckConfig = `{"taskId":"t","id":"c","url":"https://example.com"}`
	tckTaskAt = "/a2a/v1/tasks/tck-nonexistent"
	tckPushAt = "/a2a/v1/tasks/t/pushNotificationConfigs"
)

// tckCalls are the rules of level MUST of the A2A project's conformance kit (a2a-tck,
// for version 1.0) that bind an agent which answers with messages alone. These do not
// apply:
//   - CORE-SEND-002, CORE-GET-001, CORE-CANCEL-001 and -002, CORE-MULTI-003, -005 and
//     -006, CORE-LIST, CORE-HIST-002, DM-TASK, DM-STATUS, DM-ART: there are no tasks, and a
//     list of them is rejected with UnsupportedOperation.
//   - CORE-STREAM, STREAM, JSONRPC-SSE-001, HTTP_JSON-SSE, PUSH: the card excludes streams
//     and pushes, so that CORE-CAP-001 and -002 apply in their place.
//   - CORE-CAP-004: no extension is required. CARD-SIGN: the card is not signed.
//     AUTH, CARD-EXT-001: no scheme is declared. GRPC: it is not listed.
//   - DM-SERIAL-003: no answer holds a timestamp of the protocol.
//   - VER-CLIENT, JSONRPC-SVC-002 and HTTP_JSON-SVC-002 bind clients.
//
// One departs: where A2A-Version is empty the method's name decides, as VER-SERVER-003 requires for a
// client of 0.3, and as a careless one of 1.0 needs.
var tckCalls = []tckCall{
	{"CORE-SEND-001 HTTP_JSON-URL-001", "SendMessage", tckHello, "POST", "/a2a/v1/message:send", nil, 0, 0, "", `"parts":[`},
	{"CORE-EXECUTION-MODE-001", "SendMessage", tckWith(`"configuration":{"returnImmediately":false}`), "POST", "/a2a/v1/message:send", nil, 0, 0, "", ""},
	{"CORE-EXECUTION-MODE-002", "SendMessage", tckWith(`"configuration":{"returnImmediately":true}`), "POST", "/a2a/v1/message:send", nil, 0, 0, "", ""},
	{"CORE-HIST-003 DM-SERIAL-005", "SendMessage", tckWith(`"configuration":{"historyLength":0},"metadata":{"a":1},"unheard_of":[]`), "POST", "/a2a/v1/message:send", nil, 0, 0, "", ""},
	{"CORE-MULTI-001a", "SendMessage", tckHello, "POST", "/a2a/v1/message:send", nil, 0, 0, "", `"contextId":"c-`},
	{"CORE-MULTI-002", "SendMessage", tckMessage(`"contextId":"tck-mine"`), "POST", "/a2a/v1/message:send", nil, 0, 0, "", `"contextId":"tck-mine"`},
	{"CORE-MULTI-002a", "SendMessage", tckMessage(`"contextId":"` + strings.Repeat("c", 201) + `"`), "POST", "/a2a/v1/message:send", nil, -32602, 400, "", "contextId"},
	{"CORE-MULTI-004", "SendMessage", tckMessage(`"taskId":"tck-nonexistent"`), "POST", "/a2a/v1/message:send", nil, -32001, 404, "TASK_NOT_FOUND", ""},
	{"CORE-SEND-003", "SendMessage", strings.Replace(tckHello, `"text":"Hello from the kit"`, `"raw":"dGNr","mediaType":"application/x-unsupported"`, 1), "POST", "/a2a/v1/message:send", nil, -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED", ""},
	{"CORE-ERR-001 JSONRPC-SVC-001", "NonExistentMethod", "{}", "", "", nil, -32601, 0, "", ""},
	{"CORE-ERR-002 DM-SERIAL-004", "SendMessage", "{}", "POST", "/a2a/v1/message:send", nil, -32602, 400, "", "message"},
	{"DM-SERIAL-004", "SendMessage", `{"message":{"role":"ROLE_USER","parts":[]}}`, "POST", "/a2a/v1/message:send", nil, -32602, 400, "", "messageId"},
	{"CORE-GET-002", "GetTask", tckTask, "GET", tckTaskAt, nil, -32001, 404, "TASK_NOT_FOUND", ""},
	{"CORE-CANCEL-003", "CancelTask", tckTask, "POST", tckTaskAt + ":cancel", nil, -32001, 404, "TASK_NOT_FOUND", ""},
	{"no tasks to list", "ListTasks", `{"pageSize":2}`, "GET", "/a2a/v1/tasks?pageSize=2", nil, -32004, 400, "UNSUPPORTED_OPERATION", ""},
	{"CORE-CAP-001 HTTP_JSON-URL-002", "CreateTaskPushNotificationConfig", tckConfig, "POST", tckPushAt, nil, -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
	{"CORE-CAP-001", "GetTaskPushNotificationConfig", tckConfig, "GET", tckPushAt + "/c", nil, -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
	{"CORE-CAP-001", "ListTaskPushNotificationConfigs", tckConfig, "GET", tckPushAt, nil, -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
	{"CORE-CAP-001", "DeleteTaskPushNotificationConfig", tckConfig, "DELETE", tckPushAt + "/c", nil, -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
	{"CORE-CAP-002", "SendStreamingMessage", tckHello, "POST", "/a2a/v1/message:stream", nil, -32004, 400, "UNSUPPORTED_OPERATION", ""},
	{"CORE-CAP-002", "SubscribeToTask", tckTask, "POST", tckTaskAt + ":subscribe", nil, -32004, 400, "UNSUPPORTED_OPERATION", ""},
	{"CORE-CAP-002", "SubscribeToTask", tckTask, "GET", tckTaskAt + ":subscribe", nil, -32004, 400, "UNSUPPORTED_OPERATION", ""},
	{"CORE-CAP-003 CARD-EXT-002", "GetExtendedAgentCard", "{}", "GET", "/a2a/v1/extendedAgentCard", nil, -32004, 400, "UNSUPPORTED_OPERATION", ""},
	{"VER-SERVER-001 VER-CLIENT-002", "SendMessage", tckHello, "POST", "/a2a/v1/message:send", []string{"A2A-Version", "1.0.7"}, 0, 0, "", ""},
	{"VER-SERVER-002", "SendMessage", tckHello, "POST", "/a2a/v1/message:send", []string{"A2A-Version", "99.0"}, -32009, 400, "VERSION_NOT_SUPPORTED", ""},
	{"VER-SERVER-003", "message/send", strings.Replace(tckHello, "ROLE_USER", "user", 1), "", "", []string{"A2A-Version", ""}, 0, 0, "", `"kind":"message"`},
}

// tckWith is the parameters of a greeting with others beside the message, and
// tckMessage with other members of the message.
func tckWith(more string) string { return strings.TrimSuffix(tckHello, "}") + "," + more + "}" }

func tckMessage(more string) string { return strings.TrimSuffix(tckHello, "}}") + "," + more + "}}" }

// TestConformance holds the mandatory rules of the A2A project's conformance kit.
func TestConformance(t *testing.T) {
	s := apitest.New(t)
	for i := range tckCalls {
		c := &tckCalls[i]
		headers := append([]string{"Content-Type", apitest.JSONType, "A2A-Version", "1.0"}, c.headers...)
		if c.headers != nil {
			headers = append([]string{"Content-Type", apitest.JSONType}, c.headers...)
		}
		r := s.Do(http.MethodPost, "/a2a", `{"jsonrpc":"2.0","id":"tck","method":"`+c.method+`","params":`+c.params+`}`, headers...)
		tckCheckRPC(t, c, r)
		if c.path == "" {
			continue
		}
		body := c.params
		if c.verb == http.MethodGet {
			body = ""
		}
		tckCheckHTTP(t, c, s.Do(c.verb, c.path, body, headers...))
	}
}

// tckCheckRPC holds an answer of JSON-RPC against JSONRPC-FMT-001 and -002, JSONRPC-ERR-001
// to -003 and JSONRPC-SSE-002.
func tckCheckRPC(t *testing.T, c *tckCall, r *apitest.Response) {
	t.Helper()
	answer, _ := apitest.AnyJSON(t, r.Body).(map[string]any)
	if r.Status != http.StatusOK || r.Header.Get("Content-Type") != apitest.JSONType || answer["jsonrpc"] != "2.0" || answer["id"] != "tck" || !strings.Contains(string(r.Body), c.holds) {
		t.Errorf("%s: %s: %d %s", c.rules, c.method, r.Status, r.Body)
	}
	if c.code == 0 {
		result, _ := answer["result"].(map[string]any)
		tckCheckResult(t, c, result)
		return
	}
	failed, _ := answer["error"].(map[string]any)
	keys := slices.Sorted(maps.Keys(failed))
	if !slices.Equal(keys, []string{"code", "data", "message"}) || failed["code"] != float64(c.code) || failed["message"] == "" {
		t.Errorf("%s: %s: error %s", c.rules, c.method, r.Body)
	}
	tckCheckInfo(t, c, failed["data"])
}

// tckCheckHTTP holds an answer of HTTP+JSON against HTTP_JSON-ERR-001 and -002 and
// HTTP_JSON-STATUS-001.
func tckCheckHTTP(t *testing.T, c *tckCall, r *apitest.Response) {
	t.Helper()
	answer, _ := apitest.AnyJSON(t, r.Body).(map[string]any)
	r.Has(t, c.holds)
	if c.status == 0 {
		r.Want(t, http.StatusOK)
		tckCheckResult(t, c, answer)
		return
	}
	failed, _ := answer["error"].(map[string]any)
	keys := slices.Sorted(maps.Keys(failed))
	if r.Status != c.status || failed["code"] != float64(c.status) || !slices.Equal(keys, []string{"code", "details", "message", "status"}) {
		t.Errorf("%s: %s: %d %s", c.rules, c.path, r.Status, r.Body)
	}
	tckCheckInfo(t, c, failed["details"])
}

// tckCheckInfo holds the details of an error: the first is an ErrorInfo.
func tckCheckInfo(t *testing.T, c *tckCall, details any) {
	t.Helper()
	list, _ := details.([]any)
	if len(list) == 0 {
		t.Errorf("%s: %s: details %v", c.rules, c.method, details)
		return
	}
	info, _ := list[0].(map[string]any)
	if info["@type"] != "type.googleapis.com/google.rpc.ErrorInfo" || info["domain"] != "a2a-protocol.org" || c.reason != "" && info["reason"] != c.reason {
		t.Errorf("%s: %s: info %v", c.rules, c.method, info)
	}
}

// tckCheckResult holds a message in an answer against DM-MSG-001 and -002, DM-PART-001,
// DM-SERIAL-001 and -002. A list of tasks has no message.
func tckCheckResult(t *testing.T, c *tckCall, result map[string]any) {
	t.Helper()
	if tasks, isList := result["tasks"].([]any); isList && len(tasks) == 0 {
		return
	}
	message, role := result, "agent" // of 0.3
	if inner, wrapped := result["message"].(map[string]any); wrapped {
		message, role = inner, "ROLE_AGENT"
	}
	parts, _ := message["parts"].([]any)
	if message["role"] != role || message["messageId"] == "" || message["messageId"] == nil || len(parts) == 0 || message["contextId"] == nil {
		t.Errorf("%s: %s: message %v", c.rules, c.method, message)
	}
	for _, value := range parts {
		part, _ := value.(map[string]any)
		delete(part, "kind") // of 0.3
		if _, isText := part["text"].(string); len(part) != 1 || !isText && part["data"] == nil {
			t.Errorf("%s: %s: part %v", c.rules, c.method, part)
		}
	}
	for name := range message {
		check.Lacks(t, name, "_", "%s: the member", c.rules)
	}
}

// TestCardConforms holds CARD-DISC-001, CARD-PROTO-001 and -002, CARD-STRUCT-001 and
// CARD-CACHE-001 and -002.
func TestCardConforms(t *testing.T) {
	s := apitest.New(t)
	r := s.Get("/.well-known/agent-card.json")
	var c struct {
		apitest.AgentCard
		Skills                                []struct{ Tags []string }
		DefaultInputModes, DefaultOutputModes []string
		Capabilities                          json.RawMessage
	}
	if r.Decode(t, &c); c.Name == "" || c.Description == "" || c.Version == "" || len(c.DefaultInputModes) == 0 || len(c.DefaultOutputModes) == 0 ||
		len(c.Capabilities) == 0 || len(c.Skills) == 0 || len(c.Skills[0].Tags) == 0 || r.Header.Get("ETag") == "" {
		t.Errorf("%s %v", r.Body, r.Header)
	}
	for _, i := range c.SupportedInterfaces {
		path, isHere := strings.CutPrefix(i.URL, s.URL)
		if i.ProtocolBinding == "HTTP+JSON" && i.ProtocolVersion == "1.0" {
			path += "/message:send"
		} else if i.ProtocolBinding == "HTTP+JSON" {
			path += "/v1/message:send"
		}
		if r := s.Post(path, "{}"); !isHere || r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed {
			t.Errorf("%+v: %d at %s", i, r.Status, path)
		}
	}
}
