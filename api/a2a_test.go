package api_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// part is a part of an answer, in either version's form.
type part struct {
	Kind, Text string
	Data       json.RawMessage
}

// reply is an answered message.
type reply struct {
	Kind, MessageID, ContextID, Role string
	Parts, Content                   []part
}

// rpcAnswer is an answer of JSON-RPC.
type rpcAnswer struct {
	JSONRPC string
	ID      any
	Result  *struct {
		reply
		Message *reply
		Tasks   []any
	}
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// rpc sends a request of JSON-RPC and reads the answer, which has HTTP 200.
func rpc(t *testing.T, s *apitest.Server, body string, headers ...string) rpcAnswer {
	t.Helper()
	r := s.Do(http.MethodPost, "/a2a", body, append([]string{"Content-Type", jsonType}, headers...)...)
	if r.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, r.Status, r.Body)
	}
	var answer rpcAnswer
	r.Decode(t, &answer)
	if answer.JSONRPC != "2.0" || (answer.Result == nil) == (answer.Error == nil) {
		t.Fatalf("%s: %s", body, r.Body)
	}
	return answer
}

// say is a request that sends parts.
func say(method, id, parts string) string {
	role := "ROLE_USER"
	if method == "message/send" {
		role = "user"
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"message":{"messageId":%q,"role":%q,"parts":%s}}}`, method, id, role, parts)
}

// TestA2APublishes holds the forms of both versions, and that a messageId publishes
// once.
func TestA2APublishes(t *testing.T) {
	s := start(t)
	const parts = `[{"text":"Does anybody read this?"},{"text":"I do."},{"data":{"agent":"Ada","tags":["x"],"title":"A question"}}]`
	check := func(m *reply, role, kind string, duplicate bool) apitest.Published {
		t.Helper()
		if m == nil || m.Kind != kind || m.Role != role || m.MessageID == "" || m.ContextID == "" || len(m.Parts) != 2 {
			t.Fatalf("answer: %+v", m)
		}
		if kind == "message" && (m.Parts[0].Kind != "text" || m.Parts[1].Kind != "data") {
			t.Errorf("parts: %+v", m.Parts)
		}
		var p apitest.Published
		if err := json.Unmarshal(m.Parts[1].Data, &p); err != nil {
			t.Fatal(err)
		}
		if p.Duplicate != duplicate || p.Entry.Channel != "a2a" || p.Entry.Body != "Does anybody read this?\nI do." || p.Entry.Agent != "Ada" {
			t.Errorf("published %+v", p)
		}
		if duplicate != strings.Contains(m.Parts[0].Text, "This messageId was used before") {
			t.Errorf("duplicate is %v, and the text says: %s", duplicate, m.Parts[0].Text)
		}
		for _, want := range []string{p.Entry.ID, s.URL + "/api/entries/" + p.Entry.ID, "home?for=Ada"} {
			if !strings.Contains(m.Parts[0].Text, want) {
				t.Errorf("the text lacks %s: %s", want, m.Parts[0].Text)
			}
		}
		return p
	}
	first := rpc(t, s, say("SendMessage", "m1", parts))
	published := check(first.Result.Message, "ROLE_AGENT", "", false)
	again := rpc(t, s, say("message/send", "m1", parts))
	if p := check(&again.Result.reply, "agent", "message", true); p.Entry.ID != published.Entry.ID {
		t.Errorf("published twice: %s and %s", published.Entry.ID, p.Entry.ID)
	}
	if again.Result.ContextID != first.Result.Message.ContextID {
		t.Error("a repeat has another contextId")
	}
	r := s.Do(http.MethodPost, "/a2a/v1/message%3Asend", `{"message":{"role":"ROLE_USER","messageId":"m1","parts":`+parts+`}}`, "Content-Type", jsonType)
	var flat struct{ Message *reply }
	r.Decode(t, &flat)
	check(flat.Message, "ROLE_AGENT", "", true)
	if index := strconv.FormatUint(s.Backend.Machine.Applied(), 10); r.Header.Get("X-Commons-Index") != index {
		t.Errorf("index %s, want %s", r.Header.Get("X-Commons-Index"), index)
	}
	// A client's request_id is another key, be it what is made of a messageId.
	sum := sha256.Sum256([]byte("m2\x00"))
	for _, id := range []string{"m1234567", strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))} {
		s.Publish(map[string]any{"agent": "Ada", "body": "By HTTP", "request_id": id})
	}
	check(rpc(t, s, say("SendMessage", "m2", parts)).Result.Message, "ROLE_AGENT", "", false)
	var list apitest.List
	s.Get("/api/entries").Decode(t, &list)
	if len(list.Entries) != 4 {
		t.Errorf("%d entries, want 4", len(list.Entries))
	}
}

// TestA2ANotesIgnoredText holds that text in a data part is not dropped in silence.
func TestA2ANotesIgnoredText(t *testing.T) {
	s := start(t)
	for i, test := range []struct{ parts, note, body string }{
		{`[{"text":"By text"},{"data":{"body":"By data"}}]`, "says as body was ignored", "By text"},
		{`[{"data":{"content":"By data","text":"More","title":"A title"}},{"text":"By text"}]`, "says as content, text was ignored", "By text"},
		{`[{"text":"By text"},{"data":{"body":null,"title":"A title"}}]`, "", "By text"},
		{`[{"data":{"text":"By data"}}]`, "", "By data"},
	} {
		r := rpc(t, s, say("message/send", "i"+strconv.Itoa(i), test.parts))
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
	s := start(t)
	for _, message := range []string{
		`{"messageId":"c1","role":"ROLE_USER","content":[{"text":"By content"},{"data":{"data":{"agent":"bob"}}}],"contextId":"mine"}`,
		`{"message_id":"c1","role":"ROLE_USER","content":[{"text":"By content"},{"data":{"agent":"bob"}}],"context_id":"mine"}`,
	} {
		r := s.Do(http.MethodPost, "/a2a/v1/message:send", `{"message":`+message+`}`, "Content-Type", jsonType)
		var got struct{ Message reply }
		r.Decode(t, &got)
		if len(got.Message.Content) != 2 || got.Message.ContextID != "mine" || got.Message.Role != "ROLE_AGENT" ||
			!strings.Contains(string(got.Message.Content[1].Data), `"entry":{`) || !strings.Contains(got.Message.Content[0].Text, "e1 in channel a2a by bob") {
			t.Errorf("%s", r.Body)
		}
	}
	const ping = `{"message":{"kind":"message","message_id":"c2","role":"user","parts":[{"kind":"text","text":"ping"}]}}`
	for _, version := range []string{"", "0.3"} {
		r := s.Do(http.MethodPost, "/a2a/v1/message:send", ping, "Content-Type", jsonType, "A2A-Version", version)
		var got struct{ Message reply }
		if r.Decode(t, &got); got.Message.Kind != "message" || got.Message.Role != "agent" || !strings.HasPrefix(got.Message.Parts[0].Text, "Pong") {
			t.Errorf("%q: %s", version, r.Body)
		}
		for _, path := range []string{"/a2a/message:send", "/a2a/message%3Asend"} {
			r := s.Do(http.MethodPost, path, ping, "Content-Type", jsonType, "A2A-Version", version)
			var bare reply
			if r.Decode(t, &bare); bare.Kind != "message" || bare.Role != "agent" || len(bare.Parts) != 2 {
				t.Errorf("%s: %q: %s", path, version, r.Body)
			}
		}
	}
	for _, message := range []string{
		`{"messageId":"c3","role":"ROLE_USER","parts":[{"text":"ping"}]}`,
		`{"messageId":"c4","role":"ROLE_USER","content":[{"text":"ping"}]}`,
	} {
		r := s.Do(http.MethodPost, "/a2a/message:send", `{"message":`+message+`}`, "Content-Type", jsonType)
		var got struct{ Message *reply }
		if r.Decode(t, &got); got.Message == nil || got.Message.Role != "ROLE_AGENT" {
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
		r := s.Do(http.MethodPost, "/a2a/v1/message:send", `{"message":`+test.message+`}`, "Content-Type", jsonType, "A2A-Version", test.version)
		var got struct{ Message reply }
		if r.Decode(t, &got); r.Status != http.StatusOK || (len(got.Message.Content) > 0) != test.content || (len(got.Message.Parts) > 0) == test.content {
			t.Errorf("%s %q: %s", test.message, test.version, r.Body)
		}
	}
}

// TestA2ACommands holds what is answered and not published.
func TestA2ACommands(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "A text about otters"})
	for id, test := range map[string]struct{ text, has string }{
		"help":     {"help", "search <words>"},
		"slash":    {" /Help ", "search <words>"},
		"latest":   {"latest", "e1 [general] ada: A text about otters"},
		"search":   {"search Otter", "e1 [general]"},
		"nothing":  {"search walrus", "no such entries"},
		"empty":    {"search", "search <words>"},
		"channels": {"channels", "general (1)"},
		"ping":     {"Ping!", "Pong."},
		"ok":       {`Please reply with "OK" only.`, "OK."},
		"word":     {"Respond with the word pong", "PONG."},
		"there":    {"Are you there?", "Yes."},
	} {
		for _, parts := range []string{`[{"kind":"text","text":%q}]`, `[{"kind":"text","text":%q},{"kind":"data","data":{"agent":"ada"}}]`} {
			r := rpc(t, s, say("message/send", id, fmt.Sprintf(parts, test.text)))
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
		if r := rpc(t, s, say("SendMessage", id, parts)); r.Error != nil || !strings.HasPrefix(r.Result.Message.Parts[0].Text, "Published: ") {
			t.Errorf("%s: %+v", parts, r.Error)
		}
	}
}

// TestA2AHearsCommands holds that commands and signs of life are known whatever
// punctuation and letters they come in, and that ordinary texts are published.
func TestA2AHearsCommands(t *testing.T) {
	s := start(t)
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
		{"Reply with “OK”", "OK."},
		{"Reply with ‘OK’", "OK."},
		{"Reply with «OK»", "OK."},
		{"ping…", "Pong."},
		{"ping！", "Pong."},
		{"ｐｉｎｇ", "Pong."},
		{"**ping**", "Pong."},
		{"health-check", "OK."},
		{"'reply with the single word OK'", "OK."},
		{"reply with OK and nothing else", "OK."},
		{"Reply with one word: OK", "OK."},
		{`Please respond with "OK" to confirm you are alive`, "OK."},
		{"Is anyone there?", "Yes."},
		{"anybody there?", "Yes."},
	} {
		r := rpc(t, s, say("message/send", "c"+strconv.Itoa(i), fmt.Sprintf(`[{"text":%q}]`, test.text)))
		if r.Error != nil || !strings.Contains(r.Result.Parts[0].Text, test.has) {
			t.Errorf("%s: %+v %+v", test.text, r.Result, r.Error)
		}
	}
	if applied := s.Backend.Machine.Applied(); applied != 1 {
		t.Errorf("%d commands were applied, want none", applied-1)
	}
	for i, text := range []string{
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
		r := rpc(t, s, say("message/send", "p"+strconv.Itoa(i), fmt.Sprintf(`[{"text":%q}]`, text)))
		if r.Error != nil || !strings.HasPrefix(r.Result.Parts[0].Text, "Published: ") {
			t.Errorf("%s: %+v %+v", text, r.Result, r.Error)
		}
	}
}

// TestA2AVersions holds who decides between the versions.
func TestA2AVersions(t *testing.T) {
	s := start(t)
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
		r := rpc(t, s, say(test.method, "v", `[{"text":"ping"}]`), "A2A-Version", test.version)
		if r.Error != nil || (r.Result.Message == nil) != test.flat {
			t.Errorf("%+v: %+v", test, r)
		}
	}
	if r := s.Do(http.MethodPost, "/a2a?A2A-Version=3.0", say("SendMessage", "v", `[{"text":"ping"}]`), "Content-Type", jsonType); !strings.Contains(string(r.Body), "-32009") {
		t.Errorf("%s", r.Body)
	}
	for _, id := range []string{`"a"`, `1`, `1.5`, `null`} {
		r := s.Do(http.MethodPost, "/a2a", strings.Replace(say("ListTasks", "v", `[]`), `"id":7`, `"id":`+id, 1), "Content-Type", jsonType)
		if !strings.Contains(string(r.Body), `"id":`+id+`,`) || !strings.Contains(string(r.Body), `"tasks":[]`) {
			t.Errorf("id %s: %s", id, r.Body)
		}
	}
}

// TestA2AIsCounted holds that a message is counted once, as what it did.
func TestA2AIsCounted(t *testing.T) {
	var l ledger
	s := apitest.Start(t, apitest.NewBackend(t), func(c *api.Config) { c.Counter = &l })
	for _, text := range []string{"Hello, all", "latest", "help"} {
		rpc(t, s, say("SendMessage", text, fmt.Sprintf(`[{"text":%q}]`, text)))
	}
	rpc(t, s, `{}`)
	var got []string
	for _, call := range l.calls {
		if call.Surface != command.SurfaceA2A {
			t.Errorf("%+v", call)
		}
		got = append(got, call.Action)
	}
	if want := "publishEntry listEntries" + strings.Repeat(" callA2A", 2); strings.Join(got, " ") != want {
		t.Errorf("counted %v, want %s", got, want)
	}
}
