package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestA2AErrors holds every error of the protocol by JSON-RPC in both versions.
func TestA2AErrors(t *testing.T) {
	s := start(t)
	const ok = `[{"text":"Hello, all"}]`
	message := func(m string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":` + m + `}}`
	}
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	for _, test := range []struct {
		body, reason string
		code         int
		headers      []string
	}{
		{`{"jsonrpc": "2.0", "method": "SendMess`, "PARSE_ERROR", -32700, nil},
		{`hello`, "PARSE_ERROR", -32700, nil},
		{``, "PARSE_ERROR", -32700, nil},
		{`{"jsonrpc":"2.0","jsonrpc":"2.0"}`, "PARSE_ERROR", -32700, nil},
		{`[` + say("SendMessage", "b", ok) + `]`, "INVALID_REQUEST", -32600, nil},
		{`"text"`, "INVALID_REQUEST", -32600, nil},
		{`{}`, "INVALID_REQUEST", -32600, nil},
		{`{"jsonrpc":"1.0","id":7,"method":"SendMessage"}`, "INVALID_REQUEST", -32600, nil},
		{`{"id":7,"method":"SendMessage"}`, "INVALID_REQUEST", -32600, nil},
		{`{"jsonrpc":"2.0","id":{},"method":"SendMessage"}`, "INVALID_REQUEST", -32600, nil},
		{`{"jsonrpc":"2.0","id":7,"method":3}`, "INVALID_REQUEST", -32600, nil},
		{call("Nothing", `{}`), "METHOD_NOT_FOUND", -32601, nil},
		{call("SendMessage", `[]`), "INVALID_PARAMS", -32602, nil},
		{call("SendMessage", `{}`), "INVALID_PARAMS", -32602, nil},
		{call("SendMessage", `{"message":"Hello"}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"role":"user","parts":` + ok + `}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","parts":` + ok + `}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"ROLE_AGENT","parts":` + ok + `}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user"}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","parts":[]}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","parts":[{}]}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","parts":[{"text":1}]}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","parts":[{"data":[1]}]}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","parts":[{"text":"Hello","data":{}}]}`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"` + strings.Repeat("a", 201) + `","role":"user","parts":` + ok + `}`), "INVALID_PARAMS", -32602, nil},
		{say("SendMessage", "a", `[{"text":"x"}]`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","taskId":"t1","parts":` + ok + `}`), "TASK_NOT_FOUND", -32001, nil},
		{call("GetTask", `{"id":"t1"}`), "TASK_NOT_FOUND", -32001, nil},
		{call("CancelTask", `{"id":"t1"}`), "TASK_NOT_FOUND", -32001, nil},
		{call("GetTask", `{}`), "INVALID_PARAMS", -32602, nil},
		{call("GetTask", `null`), "INVALID_PARAMS", -32602, nil},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask"}`, "INVALID_PARAMS", -32602, nil},
		{`{"jsonrpc":"2.0","id":7,"method":"CancelTask"}`, "INVALID_PARAMS", -32602, nil},
		{`{"jsonrpc":"2.0","id":7,"method":"SendMessage"}`, "INVALID_PARAMS", -32602, nil},
		{call("ListTasks", `{"pageSize":0}`), "INVALID_PARAMS", -32602, nil},
		{call("ListTasks", `{"pageSize":5.5}`), "INVALID_PARAMS", -32602, nil},
		{call("ListTasks", `{"pageSize":1e99}`), "INVALID_PARAMS", -32602, nil},
		{call("ListTasks", `{"pageSize":true}`), "INVALID_PARAMS", -32602, nil},
		{call("SendStreamingMessage", `{}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{call("SubscribeToTask", `{"id":"t1"}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{call("CreateTaskPushNotificationConfig", `{}`), "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, nil},
		{call("SendMessage", `{"message":{"messageId":"a","role":"user","parts":`+ok+`},"configuration":{"taskPushNotificationConfig":{"url":"https://a.example"}}}`), "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, nil},
		{call("GetExtendedAgentCard", `{}`), "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, nil},
		{say("SendMessage", "a", `[{"raw":"aGVsbG8="}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{say("SendMessage", "a", `[{"url":"https://a.example/x.png"}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{say("SendMessage", "a", `[{"kind":"file","file":{"uri":"https://a.example/x.png"}}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{say("SendMessage", "a", `[{"kind":"video","text":"x"}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{say("SendMessage", "a", ok), "CONTENT_TYPE_NOT_SUPPORTED", -32005, []string{"Content-Encoding", "gzip"}},
		{say("SendMessage", "a", ok), "VERSION_NOT_SUPPORTED", -32009, []string{"A2A-Version", "2.0"}},
		{say("SendMessage", "a", ok), "VERSION_NOT_SUPPORTED", -32009, []string{"A2A-Version", "0.2"}},
	} {
		r := rpc(t, s, test.body, test.headers...)
		if r.Error == nil || r.Error.Code != test.code || r.Error.Message == "" {
			t.Errorf("%s: %+v, want %d", test.body, r.Error, test.code)
			continue
		}
		if strings.Contains(test.body, `"id":7`) && test.body[0] == '{' && r.ID != 7.0 && test.headers == nil {
			t.Errorf("%s: id %v", test.body, r.ID)
		}
		var details []struct {
			Type           string `json:"@type"`
			Reason, Domain string
		}
		if err := json.Unmarshal(r.Error.Data, &details); err != nil || details[0].Type != "type.googleapis.com/google.rpc.ErrorInfo" ||
			details[0].Reason != test.reason || details[0].Domain != "a2a-protocol.org" {
			t.Errorf("%s: data %s", test.body, r.Error.Data)
		}
	}
	// The A2A project's first client of 0.3 reads the data of an error as an object and
	// states no version; the later one states it and reads a list.
	for method, code := range map[string]int{
		"nothing/at/all": -32601, "message/send": -32602, "message/stream": -32004, "tasks/resubscribe": -32004, "tasks/get": -32001, "tasks/cancel": -32001,
		"tasks/pushNotificationConfig/set": -32003, "tasks/pushNotificationConfig/list": -32003,
		"agent/getAuthenticatedExtendedCard": -32007,
	} {
		var data struct{ Reason, Domain string }
		r := rpc(t, s, call(method, `{"id":"t1"}`))
		if r.Error == nil || r.Error.Code != code || json.Unmarshal(r.Error.Data, &data) != nil || data.Reason == "" || data.Domain != "a2a-protocol.org" {
			t.Errorf("%s: %+v", method, r.Error)
		}
		var list []struct{ Reason string }
		r = rpc(t, s, call(method, `{"id":"t1"}`), "A2A-Version", "0.3")
		if r.Error == nil || r.Error.Code != code || json.Unmarshal(r.Error.Data, &list) != nil || list[0].Reason != data.Reason {
			t.Errorf("%s of 0.3 as stated: %+v", method, r.Error)
		}
	}
	if s.Backend.Machine.Applied() != 1 {
		t.Error("an error wrote something")
	}
}

// TestA2AOverHTTP holds the errors and the other paths of HTTP+JSON, with the v1 and
// without.
func TestA2AOverHTTP(t *testing.T) {
	s := start(t)
	const message = `{"message":{"messageId":"h","role":"ROLE_USER","parts":[{"text":"x"}]}}`
	for _, test := range []struct {
		method, path, body string
		status             int
		name, reason       string
		headers            []string
	}{
		{http.MethodPost, "/a2a/v1/message:send", message, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", nil},
		{http.MethodPost, "/a2a/v1/message%3asend", `{`, 400, "INVALID_ARGUMENT", "PARSE_ERROR", nil},
		{http.MethodPost, "/a2a/v1/message:send", message, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", []string{"A2A-Version", "9.0"}},
		{http.MethodPost, "/a2a/v1/message:stream", message, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodGet, "/a2a/v1/tasks?pageSize=x", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMS", nil},
		{http.MethodGet, "/a2a/v1/tasks/t1", "", 404, "NOT_FOUND", "TASK_NOT_FOUND", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1:cancel", "", 404, "NOT_FOUND", "TASK_NOT_FOUND", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1:subscribe", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1", "", 400, "INVALID_ARGUMENT", "INVALID_REQUEST", nil},
		{http.MethodGet, "/a2a/v1/tasks/t1/pushNotificationConfigs", "", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1/pushNotificationConfigs", "{}", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodDelete, "/a2a/v1/tasks/t1/pushNotificationConfigs/c", "", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodGet, "/a2a/v1/extendedAgentCard", "", 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", nil},
		{http.MethodGet, "/a2a/v1/card", "", 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", nil},
	} {
		for _, path := range []string{test.path, strings.Replace(test.path, "/v1", "", 1)} {
			r := s.Do(test.method, path, test.body, append(test.headers, "Content-Type", jsonType)...)
			var got struct {
				Error struct {
					Code    int
					Status  string
					Message string
					Details []struct{ Reason string }
				}
			}
			r.Decode(t, &got)
			if r.Status != test.status || got.Error.Code != test.status || got.Error.Status != test.name || got.Error.Details[0].Reason != test.reason {
				t.Errorf("%s %s: %d %s", test.method, path, r.Status, r.Body)
			}
		}
	}
	for _, base := range []string{"/a2a/v1", "/a2a"} {
		if r := s.Get(base + "/tasks?pageSize=5"); string(r.Body) != `{"tasks":[],"totalSize":0,"pageSize":5,"nextPageToken":""}` {
			t.Errorf("%s: %s", base, r.Body)
		}
		if r := s.Do(http.MethodGet, base+"/message:send", ""); r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s: %d %v", base, r.Status, r.Header)
		}
	}
}

// TestA2APartIssues holds that a part that is wrong is the one issue of its message.
func TestA2APartIssues(t *testing.T) {
	s := start(t)
	for parts, want := range map[string]string{
		`[{"text":5}]`:                              "parts[0].text",
		`[{"text":"Hello"},"text"]`:                 "parts[1]",
		`[{"text":5},{"data":{"kind":"poem"}}]`:     "parts[0].text kind",
		`[{"data":{"title":"No text"}}]`:            "body",
		`[{"text":"Hello","data":{"agent":"ada"}}]`: "parts[0]",
	} {
		r := rpc(t, s, say("SendMessage", "p", parts))
		if r.Error == nil {
			t.Errorf("%s: %+v", parts, r.Result)
			continue
		}
		var fields []string
		for _, issue := range problemOf(t, r.Error.Data).Issues {
			fields = append(fields, issue.Field)
		}
		if strings.Join(fields, " ") != want {
			t.Errorf("%s: issues %v, want %s", parts, fields, want)
		}
	}
}

// TestA2AUnreached holds that what never reaches the protocol is told in its form.
func TestA2AUnreached(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	for _, test := range []struct {
		method, path, body string
		status             int
		name, reason, code string
	}{
		{http.MethodGet, "/a2a/v1/nothing", "", 404, "NOT_FOUND", "METHOD_NOT_FOUND", "not_found"},
		{http.MethodPost, "/a2a/v1//message:send", "{}", 404, "NOT_FOUND", "METHOD_NOT_FOUND", "not_found"},
		{http.MethodGet, "/a2a/v1/message:send", "", 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND", "method_not_allowed"},
		{"PROPFIND", "/a2a/message:send", "", 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND", "method_not_allowed"},
		{http.MethodPost, "/a2a/v1/message:send", strings.Repeat("x", 129<<10), 413, "INVALID_ARGUMENT", "INVALID_REQUEST", "body_too_large"},
	} {
		r := s.Do(test.method, test.path, test.body, "Content-Type", jsonType)
		var got struct {
			Error struct {
				Code    int
				Status  string
				Message string
				Details []struct{ Reason string }
			}
		}
		r.Decode(t, &got)
		if r.Status != test.status || got.Error.Code != test.status || got.Error.Status != test.name || got.Error.Message == "" ||
			got.Error.Details[0].Reason != test.reason || rejectionIn(t, r).Code != test.code {
			t.Errorf("%s %s: %d %s", test.method, test.path, r.Status, r.Body)
		}
	}
	if r := s.Get("/a2a"); r.Status != http.StatusMethodNotAllowed || apitest.CheckError(t, r).Code != "method_not_allowed" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestA2AExamples holds that a rejection lists every problem, and that its example
// works when it is sent back as it is, where there is one.
func TestA2AExamples(t *testing.T) {
	s := start(t)
	for i, message := range []string{
		`{"messageId":"","role":"poet","parts":[{"text":"x"},{"data":{"kind":"poem","tags":[1],"agent":"a"}}]}`,
		`{"messageId":"ex-%d%s","role":"user","parts":[{"kind":"text","text":"Hello"},{"kind":"data","data":{"reply_to":"e99","agent":"ada"}}]}`,
		`{"messageId":"ex-%d%s","role":"ROLE_USER","parts":[{"data":{"title":"No text"}}]}`,
		`{"messageId":"ex-%d%s","role":"ROLE_USER","content":[{"text":"x"}]}`,
		`{"role":"user"}`,
		`{"messageId":"ex-%d%s","role":"poet","parts":[{"text":"Fine text"},{"data":{"agent":"ada","tags":["a"],"title":"x"}}]}`,
	} {
		named := func(who string) string {
			if !strings.Contains(message, "%d") {
				return message
			}
			return fmt.Sprintf(message, i, who)
		}
		for _, method := range []string{"SendMessage", "message/send"} {
			r := rpc(t, s, `{"jsonrpc":"2.0","id":"x","method":"`+method+`","params":{"message":`+named(method)+`}}`)
			if r.Error == nil || r.Error.Code != -32602 {
				t.Fatalf("%s: %+v", message, r)
			}
			problem := problemOf(t, r.Error.Data)
			if len(problem.Issues) == 0 || problem.Code != "validation_failed" || i == 0 && len(problem.Issues) < 6 {
				t.Errorf("%s: %+v", message, problem)
			}
			if want := strings.Contains(message, `"role":"poet"`) && strings.Contains(message, "Fine text"); want == (string(problem.Example) == "{}") {
				t.Errorf("%s: the example %s", message, problem.Example)
			} else if !want {
				continue
			}
			if again := rpc(t, s, string(problem.Example)); again.Error != nil {
				t.Errorf("%s: the example %s: %+v", message, problem.Example, again.Error)
			}
		}
		bad := s.Do(http.MethodPost, "/a2a/v1/message:send", `{"message":`+named("http")+`}`, "Content-Type", jsonType)
		var got struct {
			Error struct{ Details json.RawMessage }
		}
		bad.Decode(t, &got)
		example := problemOf(t, got.Error.Details).Example
		if string(example) == "{}" {
			continue
		}
		if r := s.Do(http.MethodPost, "/a2a/v1/message:send", string(example), "Content-Type", jsonType); r.Status != http.StatusOK {
			t.Errorf("%s: the example %s: %s", message, example, r.Body)
		}
	}
}

// TestA2ACommandExamples holds that the example in the rejection of a command is a
// command: a client that sends it publishes nothing.
func TestA2ACommandExamples(t *testing.T) {
	s := start(t)
	applied := s.Backend.Machine.Applied()
	long := strings.Repeat("x", command.MaxSearch+1)
	for _, test := range []struct {
		text, want string
		behind     bool
		headers    []string
	}{
		{"search " + long, "search " + long[:command.MaxSearch], false, nil},
		{"search otters", "search otters", true, []string{"X-Commons-Min-Index", "1"}},
		{"search otters", "search otters", false, []string{"X-Commons-Min-Index", "abc"}},
		{"Latest", "latest", true, []string{"X-Commons-Min-Index", "1"}},
		{"/latest", "latest", false, []string{"X-Commons-Min-Index", "abc"}},
		{"channels", "channels", true, []string{"X-Commons-Min-Index", "1"}},
		{"channels", "channels", false, []string{"X-Commons-Min-Index", "abc"}},
	} {
		for _, method := range []string{"SendMessage", "message/send"} {
			s.Backend.Behind = test.behind
			r := rpc(t, s, say(method, "c", fmt.Sprintf(`[{"text":%q},{"data":{"agent":"ada"}}]`, test.text)), test.headers...)
			s.Backend.Behind = false
			if r.Error == nil {
				t.Errorf("%s %v: %+v", test.text, test.headers, r.Result)
				continue
			}
			example := problemOf(t, r.Error.Data).Example
			if !strings.Contains(string(example), `"text":"`+test.want+`"`) {
				t.Errorf("%s: the example %s", test.text, example)
			}
			if again := rpc(t, s, string(example)); again.Error != nil {
				t.Errorf("%s: the example %s: %+v", test.text, example, again.Error)
			}
		}
	}
	if now := s.Backend.Machine.Applied(); now != applied {
		t.Errorf("%d commands were applied", now-applied)
	}
}

// problemOf is the Error object in the data of an error of either version.
func problemOf(t *testing.T, data json.RawMessage) apitest.Problem {
	t.Helper()
	var details []struct {
		Type  string `json:"@type"`
		Value apitest.Problem
	}
	if json.Unmarshal(data, &details) == nil {
		return details[len(details)-1].Value
	}
	var p apitest.Problem
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return p
}

// TestA2ALimits holds what a limit and an unavailable cluster come to.
func TestA2ALimits(t *testing.T) {
	s := start(t)
	var cause error
	s.Backend.Reject = func(command.Sender, command.Payload) error { return cause }
	const http10 = `{"message":{"messageId":"l","role":"ROLE_USER","parts":[{"text":"Hello"}]}}`
	for _, test := range []struct {
		cause  error
		code   int
		status int
		name   string
	}{
		{&command.RateLimited{RetryAfter: 2 * time.Second}, -32000, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"},
		{&command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}, -32000, http.StatusServiceUnavailable, "UNAVAILABLE"},
		{errors.New("a mistake"), -32603, http.StatusInternalServerError, "INTERNAL"},
	} {
		cause = test.cause
		r := rpc(t, s, say("message/send", "l", `[{"text":"Hello"}]`))
		if r.Error == nil || r.Error.Code != test.code {
			t.Fatalf("%v: %+v", cause, r)
		}
		over := s.Do(http.MethodPost, "/a2a/v1/message:send", http10, "Content-Type", jsonType)
		if over.Status != test.status || !strings.Contains(string(over.Body), `"status":"`+test.name+`"`) {
			t.Errorf("%v: %d %s", cause, over.Status, over.Body)
		}
		if test.status == http.StatusTooManyRequests && (!strings.Contains(r.Error.Message, "2 seconds") ||
			!strings.Contains(string(r.Error.Data), `"retryAfter":"2"`) || over.Header.Get("Retry-After") != "2" || over.Header.Get("RateLimit-Policy") == "") {
			t.Errorf("%+v %s %v", r.Error, r.Error.Data, over.Header)
		}
		if test.status == http.StatusServiceUnavailable && problemOf(t, r.Error.Data).Code != "not_enqueued" {
			t.Errorf("%s", r.Error.Data)
		}
	}
}
