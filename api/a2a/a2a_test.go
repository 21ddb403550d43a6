package a2a_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestA2APublishes holds the forms of both versions, and that a messageId publishes
// once.
func TestA2APublishes(t *testing.T) {
	s := apitest.New(t)
	const parts = `[{"text":"Does anybody read this?"},{"text":"I do."},{"data":{"agent":"Ada","tags":["x"],"title":"A question"}}]`
	check := func(m *apitest.ReplyA2A, role, kind string, duplicate bool) apitest.Published {
		t.Helper()
		if m == nil || m.Kind != kind || m.Role != role || m.MessageID == "" || m.ContextID == "" || len(m.Parts) != 2 {
			t.Fatalf("answer: %+v", m)
		}
		if kind == "message" && (m.Parts[0].Kind != "text" || m.Parts[1].Kind != "data") {
			t.Errorf("parts: %+v", m.Parts)
		}
		var p apitest.Published
		must.Do(t, json.Unmarshal(m.Parts[1].Data, &p))
		if p.Duplicate != duplicate || p.Entry.Channel != "a2a" || p.Entry.Body != "Does anybody read this?\nI do." || p.Entry.Agent != "Ada" {
			t.Errorf("published %+v", p)
		}
		apitest.Equal(t, m.Parts[0].Text, duplicate, strings.Contains(m.Parts[0].Text, "This messageId was used before"))
		for _, want := range []string{p.Entry.ID, s.URL + "/api/entries/" + p.Entry.ID, `{"command": "home", "agent": "Ada"}`, `"relation": "retraction", "agent": "Ada"}`} {
			check.Contains(t, m.Parts[0].Text, want, "the text")
		}
		return p
	}
	first := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "m1", parts))
	published := check(first.Result.Message, "ROLE_AGENT", "", false)
	again := apitest.RPC(t, s, apitest.MessageRequest("message/send", "m1", parts))
	if p := check(&again.Result.ReplyA2A, "agent", "message", true); p.Entry.ID != published.Entry.ID {
		t.Errorf("published twice: %s and %s", published.Entry.ID, p.Entry.ID)
	}
	apitest.Equal(t, "the contextId of a repeat", again.Result.ContextID, first.Result.Message.ContextID)
	r := s.Post("/a2a/v1/message%3Asend", `{"message":{"role":"ROLE_USER","messageId":"m1","parts":`+parts+`}}`)
	flat := apitest.Decoded[struct{ Message *apitest.ReplyA2A }](t, r)
	check(flat.Message, "ROLE_AGENT", "", true)
	r.WantHeader(t, "X-Commons-Index", strconv.FormatUint(s.Backend.Machine.Applied(), 10))
	// A client's request_id is another key, be it what is made of a messageId.
	sum := sha256.Sum256([]byte("m2\x00"))
	for _, id := range []string{"m1234567", strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))} {
		s.Publish(map[string]any{"agent": "Ada", "body": "By HTTP", "request_id": id})
	}
	check(apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "m2", parts)).Result.Message, "ROLE_AGENT", "", false)
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries"))
	if len(list.Entries) != 4 {
		t.Errorf("%d entries, want 4", len(list.Entries))
	}
}

// TestA2ANotesIgnoredText holds that text in a data part is not dropped in silence.
func TestA2ANotesIgnoredText(t *testing.T) {
	s := apitest.New(t)
	for i, test := range []struct{ parts, note, body string }{
		{`[{"text":"By text"},{"data":{"body":"By data"}}]`, "says as body was ignored", "By text"},
		{`[{"data":{"content":"By data","text":"More","title":"A title"}},{"text":"By text"}]`, "says as content, text was ignored", "By text"},
		{`[{"text":"By text"},{"data":{"body":null,"title":"A title"}}]`, "", "By text"},
		{`[{"data":{"text":"By data"}}]`, "", "By data"},
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("message/send", "i"+strconv.Itoa(i), test.parts))
		if r.Error != nil {
			t.Fatalf("%s: %+v", test.parts, r.Error)
		}
		said := r.Result.Parts[0].Text
		if !strings.Contains(said, test.note) || strings.Contains(said, "ignored") != (test.note != "") || !strings.Contains(string(r.Result.Parts[1].Data), `"body":"`+test.body+`"`) {
			t.Errorf("%s: %s %s", test.parts, said, r.Result.Parts[1].Data)
		}
	}
}

// TestA2AContent holds the form of 0.3 over HTTP, where parts are called content.
func TestA2AContent(t *testing.T) {
	s := apitest.New(t)
	for _, message := range []string{
		`{"messageId":"c1","role":"ROLE_USER","content":[{"text":"By content"},{"data":{"data":{"agent":"bob"}}}],"contextId":"mine"}`,
		`{"message_id":"c1","role":"ROLE_USER","content":[{"text":"By content"},{"data":{"agent":"bob"}}],"context_id":"mine"}`,
	} {
		r := s.Post("/a2a/v1/message:send", `{"message":`+message+`}`)
		got := apitest.Decoded[struct{ Message apitest.ReplyA2A }](t, r)
		if len(got.Message.Content) != 2 || got.Message.ContextID != "mine" || got.Message.Role != "ROLE_AGENT" ||
			!strings.Contains(string(got.Message.Content[1].Data), `"entry":{`) || !strings.Contains(got.Message.Content[0].Text, "e1 in channel a2a by bob") {
			t.Errorf("%s", r.Body)
		}
	}
	const ping = `{"message":{"kind":"message","message_id":"c2","role":"user","parts":[{"kind":"text","text":"ping"}]}}`
	for _, version := range []string{"", "0.3"} {
		r := s.Post("/a2a/v1/message:send", ping, "A2A-Version", version)
		if got := apitest.Decoded[struct{ Message apitest.ReplyA2A }](t, r); got.Message.Kind != "message" || got.Message.Role != "agent" || !strings.HasPrefix(got.Message.Parts[0].Text, "Published") {
			t.Errorf("%q: %s", version, r.Body)
		}
		for _, path := range []string{"/a2a/message:send", "/a2a/message%3Asend"} {
			r := s.Post(path, ping, "A2A-Version", version)
			if bare := apitest.Decoded[apitest.ReplyA2A](t, r); bare.Kind != "message" || bare.Role != "agent" || len(bare.Parts) != 2 {
				t.Errorf("%s: %q: %s", path, version, r.Body)
			}
		}
	}
	for _, message := range []string{
		`{"messageId":"c3","role":"ROLE_USER","parts":[{"text":"ping"}]}`,
		`{"messageId":"c4","role":"ROLE_USER","content":[{"text":"ping"}]}`,
	} {
		r := s.Post("/a2a/message:send", `{"message":`+message+`}`)
		if got := apitest.Decoded[struct{ Message *apitest.ReplyA2A }](t, r); got.Message == nil || got.Message.Role != "ROLE_AGENT" {
			t.Errorf("%s: %s", message, r.Body)
		}
	}
	// A version that was stated decides, and null is absent.
	for _, test := range []struct {
		message, version string
		content          bool
	}{
		{`{"messageId":"c5","role":"ROLE_USER","content":[{"text":"ping"}]}`, "1.0", false},
		{`{"messageId":"c6","role":"ROLE_USER","content":[{"text":"ping"}]}`, "0.3", true},
		{`{"messageId":null,"message_id":"c7","role":"ROLE_USER","parts":null,"content":[{"text":"ping"}]}`, "", true},
	} {
		r := s.Post("/a2a/v1/message:send", `{"message":`+test.message+`}`, "A2A-Version", test.version)
		if got := apitest.Decoded[struct{ Message apitest.ReplyA2A }](t, r); r.Status != http.StatusOK || (len(got.Message.Content) > 0) != test.content || (len(got.Message.Parts) > 0) == test.content {
			t.Errorf("%s %q: %s", test.message, test.version, r.Body)
		}
	}
}

// TestA2ACommands holds what is answered and not published.
func TestA2ACommands(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "title": "A text\nabout otters", "body": "They swim."})
	for id, test := range map[string]struct{ text, has string }{
		"help":     {"help", "search <words>"},
		"slash":    {" /Help ", "search <words>"},
		"latest":   {"latest", "e1 [general] ada: A text about otters"},
		"search":   {"search Otter", "e1 [general]"},
		"nothing":  {"search walrus", "no such entries"},
		"empty":    {"search", "search <words>"},
		"channels": {"channels", "general (1)"},
	} {
		for _, parts := range []string{`[{"kind":"text","text":%q}]`, `[{"kind":"text","text":%q},{"kind":"data","data":{"agent":"ada"}}]`} {
			r := apitest.RPC(t, s, apitest.MessageRequest("message/send", id, fmt.Sprintf(parts, test.text)))
			if r.Error != nil || !strings.Contains(r.Result.Parts[0].Text, test.has) || len(r.Result.Parts[1].Data) == 0 {
				t.Errorf("%s: %+v", test.text, r)
			}
		}
	}
	for id, parts := range map[string]string{
		"filed":   `[{"text":"help"},{"data":{"channel":"general"}}]`,
		"longer":  `[{"text":"help me, please"}]`,
		"lines":   `[{"text":"search\nand find"}]`,
		"replies": `[{"text":"ping"},{"data":{"reply_to":"e1"}}]`,
	} {
		if r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", id, parts)); r.Error != nil || !strings.HasPrefix(r.Result.Message.Parts[0].Text, "Published: ") {
			t.Errorf("%s: %+v", parts, r.Error)
		}
	}
}

// TestA2AHearsCommands: commands are known in any punctuation and letters, and every
// other text is published.
func TestA2AHearsCommands(t *testing.T) {
	s := apitest.New(t)
	for i, test := range []struct{ text, has string }{
		{"HELP!", "search <words>"},
		{"help.", "search <words>"},
		{"help?", "search <words>"},
		{`"help"`, "search <words>"},
		{"Latest!", "no such entries"},
		{"/latest", "no such entries"},
		{"channels?", "The channels"},
		{"Search: hello", "no such entries"},
		{"search：hello", "no such entries"},
		{"search\thello", "no such entries"},
		{"search : hello", "no such entries"},
		{"**search** hello", "no such entries"},
		{"search\u00a0hello", "no such entries"},
		{"Search?", "Say what to search for"},
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("message/send", "c"+strconv.Itoa(i), fmt.Sprintf(`[{"text":%q}]`, test.text)))
		if r.Error != nil || !strings.Contains(r.Result.Parts[0].Text, test.has) {
			t.Errorf("%s: %+v %+v", test.text, r.Result, r.Error)
		}
	}
	check.Equal(t, s.Backend.Machine.Applied(), 1, "commands that were applied")
	for i, text := range []string{
		"ping",
		"Are you there?",
		"What can you do?",
		`Please reply with "OK" only.`,
		"Is anyone there who knows tides?",
		"Help me, please",
		"help wanted: a reader of tide tables",
		"Latest tides?",
		"channels of the river",
		"search-engine news",
		"Research: hello",
		"Status: all nodes are green",
		"Test results: 5 passed",
		"Reply with OK if you know the tides",
		"Answer yes or no: is the tide high?",
		"Please respond with a word about tides",
		"ping me when the tide is high",
		"ping\npong",
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("message/send", "p"+strconv.Itoa(i), fmt.Sprintf(`[{"text":%q}]`, text)))
		if r.Error != nil || !strings.HasPrefix(r.Result.Parts[0].Text, "Published: ") {
			t.Errorf("%s: %+v %+v", text, r.Result, r.Error)
		}
	}
}

// TestA2AVersions holds who decides between the versions.
func TestA2AVersions(t *testing.T) {
	s := apitest.New(t)
	for _, test := range []struct {
		method, version string
		flat            bool
	}{
		{"SendMessage", "", false},
		{"message/send", "", true},
		{"SendMessage", "1.0", false},
		{"message/send", "0.3", true},
		{"message/send", "0.3.0", true},
		{"message/send", "1.0", false},
		{"SendMessage", "0.3", true},
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest(test.method, "v", `[{"text":"ping"}]`), "A2A-Version", test.version)
		if r.Error != nil || (r.Result.Message == nil) != test.flat {
			t.Errorf("%+v: %+v", test, r)
		}
	}
	s.Post("/a2a?A2A-Version=3.0", apitest.MessageRequest("SendMessage", "v", `[{"text":"ping"}]`)).Has(t, "-32009")
	for _, id := range []string{`"a"`, `1`, `1.5`, `null`} {
		s.Post("/a2a", strings.Replace(apitest.MessageRequest("SendMessage", "v", `[{"text":"ping"}]`), `"id":7`, `"id":`+id, 1)).Has(t, `"id":`+id+`,`, `"result":`)
	}
}

// TestA2AIsCounted holds that a message is counted once, under its effect.
func TestA2AIsCounted(t *testing.T) {
	var l apitest.Ledger
	s := apitest.Start(t, apitest.NewBackend(t), func(c *api.Config) { c.Counter = &l })
	for _, text := range []string{"Hello, all", "latest", "help"} {
		apitest.RPC(t, s, apitest.MessageRequest("SendMessage", text, fmt.Sprintf(`[{"text":%q}]`, text)))
	}
	apitest.RPC(t, s, `{}`)
	var got []string
	for _, call := range l.Calls {
		check.Equal(t, call.Surface, command.SurfaceA2A, "surface of %+v", call)
		got = append(got, call.Action)
	}
	check.Equal(t, strings.Join(got, " "), "publishEntry listEntries"+strings.Repeat(" callA2A", 2), "counted")
}

// TestA2AErrors holds every error of the protocol by JSON-RPC in both versions.
func TestA2AErrors(t *testing.T) {
	s := apitest.New(t)
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
		{`[` + apitest.MessageRequest("SendMessage", "b", ok) + `]`, "INVALID_REQUEST", -32600, nil},
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
		{apitest.MessageRequest("SendMessage", "a", `[{"text":"x"}]`), "INVALID_PARAMS", -32602, nil},
		{message(`{"messageId":"a","role":"user","taskId":"t1","parts":` + ok + `}`), "TASK_NOT_FOUND", -32001, nil},
		{call("GetTask", `{"id":"t1"}`), "TASK_NOT_FOUND", -32001, nil},
		{call("CancelTask", `{"id":"t1"}`), "TASK_NOT_FOUND", -32001, nil},
		{`{"jsonrpc":"2.0","id":7,"method":"SendMessage"}`, "INVALID_PARAMS", -32602, nil},
		{call("ListTasks", `{"pageSize":0}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{call("SendStreamingMessage", `{}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{call("SubscribeToTask", `{"id":"t1"}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{call("CreateTaskPushNotificationConfig", `{}`), "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, nil},
		{call("SendMessage", `{"message":{"messageId":"a","role":"user","parts":`+ok+`},"configuration":{"taskPushNotificationConfig":{"url":"https://a.example"}}}`), "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, nil},
		{call("GetExtendedAgentCard", `{}`), "UNSUPPORTED_OPERATION", -32004, nil},
		{apitest.MessageRequest("SendMessage", "a", `[{"raw":"aGVsbG8="}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{apitest.MessageRequest("SendMessage", "a", `[{"url":"https://a.example/x.png"}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{apitest.MessageRequest("SendMessage", "a", `[{"kind":"file","file":{"uri":"https://a.example/x.png"}}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{apitest.MessageRequest("SendMessage", "a", `[{"kind":"video","text":"x"}]`), "CONTENT_TYPE_NOT_SUPPORTED", -32005, nil},
		{apitest.MessageRequest("SendMessage", "a", ok), "CONTENT_TYPE_NOT_SUPPORTED", -32005, []string{"Content-Encoding", "gzip"}},
		{apitest.MessageRequest("SendMessage", "a", ok), "VERSION_NOT_SUPPORTED", -32009, []string{"A2A-Version", "2.0"}},
		{apitest.MessageRequest("SendMessage", "a", ok), "VERSION_NOT_SUPPORTED", -32009, []string{"A2A-Version", "0.2"}},
	} {
		r := apitest.RPC(t, s, test.body, test.headers...)
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
		r := apitest.RPC(t, s, call(method, `{"id":"t1"}`))
		if r.Error == nil || r.Error.Code != code || json.Unmarshal(r.Error.Data, &data) != nil || data.Reason == "" || data.Domain != "a2a-protocol.org" {
			t.Errorf("%s: %+v", method, r.Error)
		}
		var list []struct{ Reason string }
		r = apitest.RPC(t, s, call(method, `{"id":"t1"}`), "A2A-Version", "0.3")
		if r.Error == nil || r.Error.Code != code || json.Unmarshal(r.Error.Data, &list) != nil || list[0].Reason != data.Reason {
			t.Errorf("%s of 0.3 as stated: %+v", method, r.Error)
		}
	}
	apitest.Equal(t, "commands applied", s.Backend.Machine.Applied(), 1)
}

// restFailure is an error of the protocol's HTTP+JSON form.
type restFailure struct {
	Error struct {
		Code    int
		Status  string
		Message string
		Details []struct{ Reason string }
	}
}

// TestA2AMediaType checks that HTTP+JSON answers in application/a2a+json if the client
// sends or accepts it, and in application/json otherwise (A2A 1.0.1, 14.1.1).
func TestA2AMediaType(t *testing.T) {
	s := apitest.New(t)
	const message = `{"message":{"messageId":"media-type-%d","role":"ROLE_USER","parts":[{"text":"Which media type is this?"}]}}`
	for i, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"Content-Type", "application/a2a+json"}, "application/a2a+json"},
		{[]string{"Content-Type", "application/json", "Accept", "application/a2a+json"}, "application/a2a+json"},
		{[]string{"Content-Type", "application/json"}, "application/json"},
	} {
		headers := slices.Concat(test.headers, []string{"A2A-Version", "1.0"})
		for _, base := range []string{"/a2a/v1", "/a2a"} {
			s.Do(http.MethodPost, base+"/message:send", fmt.Sprintf(message, i), headers...).Want(t, http.StatusOK).WantHeader(t, "Content-Type", test.want)
			s.Do(http.MethodPost, base+"/message:send", "{}", headers...).Want(t, http.StatusBadRequest).WantHeader(t, "Content-Type", test.want)
		}
	}
}

// TestA2AOverHTTP holds the errors and the other paths of HTTP+JSON, with the v1 and
// without.
func TestA2AOverHTTP(t *testing.T) {
	s := apitest.New(t)
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
		{http.MethodGet, "/a2a/v1/tasks?pageSize=x", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodGet, "/a2a/v1/tasks/", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodGet, "/a2a/v1/tasks/t1", "", 404, "NOT_FOUND", "TASK_NOT_FOUND", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1:cancel", "", 404, "NOT_FOUND", "TASK_NOT_FOUND", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1:subscribe", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodGet, "/a2a/v1/tasks/t1%3Asubscribe", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{"PROPFIND", "/a2a/v1/tasks/t1", "", 404, "NOT_FOUND", "TASK_NOT_FOUND", nil},
		{http.MethodGet, "/a2a/v1/tasks/t1/pushNotificationConfigs", "", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodPost, "/a2a/v1/tasks/t1/pushNotificationConfigs", "{}", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodDelete, "/a2a/v1/tasks/t1/pushNotificationConfigs/c", "", 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", nil},
		{http.MethodGet, "/a2a/v1/extendedAgentCard", "", 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", nil},
		{http.MethodGet, "/a2a/v1/card", "", 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", nil},
	} {
		for _, path := range []string{test.path, strings.Replace(test.path, "/v1", "", 1)} {
			r := s.Do(test.method, path, test.body, append(test.headers, "Content-Type", apitest.JSONType)...)
			got := apitest.Decoded[restFailure](t, r)
			if r.Status != test.status || got.Error.Code != test.status || got.Error.Status != test.name || got.Error.Details[0].Reason != test.reason {
				t.Errorf("%s %s: %d %s", test.method, path, r.Status, r.Body)
			}
		}
	}
	for _, base := range []string{"/a2a/v1", "/a2a"} {
		s.Get(base+"/message:send").Want(t, http.StatusMethodNotAllowed).WantHeader(t, "Allow", "POST, OPTIONS")
	}
}

// TestA2APartIssues holds that a part that is wrong is the one issue of its message.
func TestA2APartIssues(t *testing.T) {
	s := apitest.New(t)
	for parts, want := range map[string]string{
		`[{"text":5}]`:                              "parts[0].text",
		`[{"text":"Hello"},"text"]`:                 "parts[1]",
		`[{"text":5},{"data":{"kind":"poem"}}]`:     "parts[0].text kind",
		`[{"data":{"title":"No text"}}]`:            "body",
		`[{"text":"Hello","data":{"agent":"ada"}}]`: "parts[0]",
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "p", parts))
		if r.Error == nil {
			t.Errorf("%s: %+v", parts, r.Result)
			continue
		}
		var fields []string
		for _, issue := range apitest.ProblemA2A(t, r.Error.Data).Issues {
			fields = append(fields, issue.Field)
		}
		check.Equal(t, strings.Join(fields, " "), want, "%s: issues", parts)
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
		r := s.Do(test.method, test.path, test.body, "Content-Type", apitest.JSONType)
		got := apitest.Decoded[restFailure](t, r)
		if r.Status != test.status || got.Error.Code != test.status || got.Error.Status != test.name || got.Error.Message == "" ||
			got.Error.Details[0].Reason != test.reason || apitest.RejectionIn(t, r).Code != test.code {
			t.Errorf("%s %s: %d %s", test.method, test.path, r.Status, r.Body)
		}
	}
	if r := s.Get("/a2a"); r.Status != http.StatusMethodNotAllowed || apitest.CheckError(t, r).Code != "method_not_allowed" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestA2ACommandExamples checks that the example in the rejection of a command is a command: a
// client that sends it does not publish.
func TestA2ACommandExamples(t *testing.T) {
	s := apitest.New(t)
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
			r := apitest.RPC(t, s, apitest.MessageRequest(method, "c", fmt.Sprintf(`[{"text":%q},{"data":{"agent":"ada"}}]`, test.text)), test.headers...)
			s.Backend.Behind = false
			if r.Error == nil {
				t.Errorf("%s %v: %+v", test.text, test.headers, r.Result)
				continue
			}
			example := apitest.ProblemA2A(t, r.Error.Data).Example
			check.Contains(t, string(example), `"text":"`+test.want+`"`, "%s: the example", test.text)
			if again := apitest.RPC(t, s, string(example)); again.Error != nil {
				t.Errorf("%s: the example %s: %+v", test.text, example, again.Error)
			}
		}
	}
	check.Equal(t, s.Backend.Machine.Applied(), applied, "commands that were applied")
}

// TestA2ADataCommands checks that the commands of data parts do not publish, that their parameters
// reach the operation, and the example of a rejection is a command that works.
func TestA2ADataCommands(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "A text about otters"})
	s.Publish(map[string]any{"agent": "bob", "title": "Otters,\n@ada", "body": "They swim.", "kind": "knowledge"})
	s.Post("/api/jobs", map[string]any{"agent": "cyd", "title": "Count\notters", "body": "All of them"}).Want(t, http.StatusCreated)
	s.Post("/api/jobs", map[string]any{"agent": "cyd", "title": "Count seals", "body": "All of them"}).Want(t, http.StatusCreated)
	s.Post("/api/jobs", map[string]any{"agent": "dee", "action": "claim", "job_id": "j4"}).Want(t, http.StatusCreated)
	applied := s.Backend.Machine.Applied()
	for i, test := range []struct{ parts, text, data string }{
		{`[{"data":{"command":"home","agent":"ada"}}]`, "For you:\ne2 bob: Otters, @ada\nNot answered by you yet:\ne2 bob\nOpen jobs:\nj3 cyd: Count otters\n", `"forYou":[{"id":"e2"`},
		{`[{"data":{"command":"home","for":"nobody","brief":true}}]`, "For you: nothing new.", `"agent":"nobody"`},
		{`[{"data":{"command":"jobs"}}]`, "j3 (open) cyd: Count otters", `"jobs":[{"id":"j3"`},
		{`[{"data":{"command":"jobs","status":"claimed"}}]`, "j4 (claimed, not proven) cyd: Count seals", `"jobs":[{"id":"j4"`},
		{`[{"data":{"command":"jobs","status":"done"}}]`, "There are no such jobs", `"jobs":[]`},
		{`[{"data":{"command":" Search ","q":"otters","limit":1,"kind":"knowledge"}}]`, "e2 [knowledge] bob", `"entries":[{"id":"e2"`},
		{`[{"data":{"command":"search","q":"otters","brief":true}}]`, "Found, newest first: j3 e2 e1.", `"ids":["j3","e2","e1"]`},
		{`[{"data":{"command":"jobs","brief":true}}]`, "Jobs: j3.", `"ids":["j3"]`},
		{`[{"data":{"command":"jobs","brief":true,"status":"done"}}]`, "There are no such jobs", `"ids":[]`},
		{`[{"data":{"command":"search","channel":["general"]}}]`, "e1 [general] ada", `"entries":[{"id":"e1"`},
		{`[{"text":"my home"},{"data":{"command":"read","id":"e1"}}]`, "The text of your message was not published", `"entry":{"id":"e1"`},
	} {
		for _, method := range []string{"SendMessage", "message/send"} {
			r := apitest.RPC(t, s, apitest.MessageRequest(method, "order-"+strconv.Itoa(i), test.parts))
			if r.Error != nil {
				t.Errorf("%s: %+v", test.parts, r.Error)
				continue
			}
			m := r.Result.ReplyA2A
			if r.Result.Message != nil {
				m = *r.Result.Message
			}
			if !strings.Contains(m.Parts[0].Text, test.text) || !strings.Contains(string(m.Parts[1].Data), test.data) {
				t.Errorf("%s: %s %s", test.parts, m.Parts[0].Text, m.Parts[1].Data)
			}
		}
	}
	members, values := make([]string, wire.MaxParams), make([]string, wire.MaxParams+1)
	for i := range values {
		values[i] = `"v` + strconv.Itoa(i) + `"`
	}
	for i := range members {
		members[i] = values[i] + `:"x"`
	}
	for _, test := range []struct{ parts, field, example string }{
		{`[{"data":{"command":"jobs",` + strings.Join(members, ",") + `}}]`, "parts[0].data", `"parts":`},
		{`[{"data":{"command":"jobs","tags":[` + strings.Join(values, ",") + `]}}]`, "parts[0].data", `"parts":`},
		{`[{"data":{"command":"search","tag":"[` + strings.ReplaceAll(strings.Join(values, ","), `"`, `\"`) + `]"}}]`, "tag", `{"data":{"command":"search"`},
		{`[{"data":{"command":"delete"}}]`, "command", `{"data":{"command":"jobs"}}`},
		{`[{"text":"x"},{"data":{"command":7,"agent":"ada"}}]`, "command", `{"data":{"command":"jobs"}}`},
		{`[{"data":{"command":"jobs","status":"lost","limit":500}}]`, "status", `{"data":{"command":"jobs","limit":100}}`},
		{`[{"data":{"command":"home","agent":"ada","since":"yore"}}]`, "since", `{"data":{"command":"home","agent":"ada"}}`},
		{`[{"data":{"command":"jobs","status":"done","format":"atom"}}]`, "format", `{"data":{"command":"jobs","status":"done"`},
		{`[{"data":{"command":"search","q":["a","b"]}}]`, "q", `{"data":{"command":"search"`},
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "wrong", test.parts))
		if r.Error == nil {
			t.Errorf("%s: %+v", test.parts, r.Result)
			continue
		}
		problem := apitest.ProblemA2A(t, r.Error.Data)
		if problem.Issues[0].Field != test.field || !strings.Contains(string(problem.Example), test.example) {
			t.Errorf("%s: %+v %s", test.parts, problem.Issues, problem.Example)
		}
		if again := apitest.RPC(t, s, string(problem.Example)); again.Error != nil {
			t.Errorf("%s: the example %s: %+v", test.parts, problem.Example, again.Error)
		}
	}
	publishes := `[{"data":{"command":"search","action":"publish","confirm":"write","body":"Hello all"}}]`
	if r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "read-only", publishes)); r.Error == nil || apitest.ProblemA2A(t, r.Error.Data).Issues[0].Field != "action" {
		t.Errorf("a command that publishes: %+v", r)
	}
	weak := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "weak", `[{"data":{"command":"read","id":"e1","consistency":"weak"}}]`))
	if problem := apitest.ProblemA2A(t, weak.Error.Data); apitest.RPC(t, s, string(problem.Example)).Error != nil {
		t.Errorf("the example of a command that reads an entry: %s", problem.Example)
	}
	noID := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "", `[{"data":{"command":"jobs","status":"lost"}}]`))
	if problem := apitest.ProblemA2A(t, noID.Error.Data); len(problem.Issues) != 2 || apitest.RPC(t, s, string(problem.Example)).Error != nil {
		t.Errorf("a command without an id: %+v %s", problem.Issues, problem.Example)
	}
	if r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "lost", `[{"data":{"command":"read","id":"e99"}}]`)); r.Error == nil || apitest.ProblemA2A(t, r.Error.Data).Code != "not_found" {
		t.Errorf("an unknown entry: %+v", r)
	}
	for _, test := range []struct{ parts, field string }{
		{`[{"data":{"command":"read","id":"e99"}}]`, "id"},
		{`[{"data":{"command":"read"}}]`, "id"},
	} {
		r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "", test.parts))
		problem := apitest.ProblemA2A(t, r.Error.Data)
		check.Equal(t, problem.Issues[len(problem.Issues)-1].Field, test.field, "%s without an id: the field of the last problem", test.parts)
		keyed := strings.Contains(test.parts, "edit_key")
		if strings.Contains(string(problem.Example), apitest.AgentKey) || keyed != slices.Contains(problem.Notes, wire.KeyLeftOut) {
			t.Errorf("%s without an id: the example %s with %q", test.parts, problem.Example, problem.Notes)
		}
		if !keyed {
			if again := apitest.RPC(t, s, string(problem.Example)); again.Error != nil {
				t.Errorf("%s without an id: the example %s: %+v", test.parts, problem.Example, again.Error)
			}
		}
	}
	check.Equal(t, s.Backend.Machine.Applied(), applied, "commands that were applied")
}

// TestA2ARetracts checks that the data part in the answer to a publication retracts it.
func TestA2ARetracts(t *testing.T) {
	s := apitest.New(t)
	part := regexp.MustCompile(`data part (\{"supersedes".*\})`)
	for i, data := range []string{`{}`, `{"agent":"ada"}`} {
		published := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "first-"+strconv.Itoa(i), `[{"text":"Sent too early"},{"data":`+data+`}]`))
		found := part.FindStringSubmatch(published.Result.Message.Parts[0].Text)
		if found == nil {
			t.Fatalf("no data part in %s", published.Result.Message.Parts[0].Text)
		}
		r := apitest.RPC(t, s, apitest.MessageRequest("SendMessage", "second-"+strconv.Itoa(i), `[{"text":"Sent too early, sorry"},{"data":`+found[1]+`}]`))
		if r.Error != nil || !strings.Contains(string(r.Result.Message.Parts[1].Data), `"relation":"retraction"`) {
			t.Errorf("%s: %+v", found[1], r)
		}
	}
}
