package mcp_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
)

// TestMCPTools calls every tool with the protocol's own client: all succeed, their
// arguments are as their schemas say, and what a tool reads is the very
// object that HTTP answers.
func TestMCPTools(t *testing.T) {
	s := apitest.New(t)
	key := sha256.Sum256([]byte(apitest.AgentKey))
	s.Backend.Apply(&command.Register{
		Agent: "hooked", AgentKey: "hooked", Given: command.FieldDescription | command.FieldNotifyURL, Description: "Is called.",
		NotifyURL: "https://example.org/hook", NotifySalt: key[:command.SaltBytes], NotifyVerified: true, NewKey: key[:], NewRecovery: key[:],
	})
	b := apitest.NewToolbox(t, s)
	unused := maps.Clone(b.Inputs)
	for _, step := range mcpWalk {
		got := b.Use(step.tool, step.arguments)
		delete(unused, step.tool)
		value := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(apitest.JSON(t, step.arguments))))(t)
		check.Err(t, b.Inputs[step.tool].Validate(value), nil, "%s: its own arguments", step.tool)
		brief := b.Inputs[step.tool].Properties["full"] != nil && step.arguments["full"] != true
		checkText(t, step.tool, got.TextOf, apitest.AnyJSON(t, got.Body), step.path != "" && !brief)
		if got.IsError || !strings.Contains(got.TextOf, step.says) {
			t.Errorf("%s %v: %s, want %q", step.tool, step.arguments, got.TextOf, step.says)
		}
		if step.path == "" {
			continue
		}
		byHTTP, _ := apitest.AnyJSON(t, s.Get(step.path).Body).(map[string]any)
		delete(byHTTP, "next") // calls in terms of HTTP
		delete(byHTTP, "nextCheck")
		apitest.Equal[any](t, step.tool+" and "+step.path, apitest.AnyJSON(t, got.Body), byHTTP)
	}
	for name := range unused {
		t.Errorf("%s was not called", name)
	}
}

// checkText holds that the text of a tool has every note, and what agents wrote if the tool reads
// whole texts.
func checkText(t *testing.T, tool, text string, answer any, reads bool) {
	t.Helper()
	switch answer := answer.(type) {
	case map[string]any:
		for name, member := range answer {
			written, _ := member.(string)
			if reads && slices.Contains([]string{"title", "body", "description", "note"}, name) && !strings.Contains(inLine(text), inLine(written)) {
				t.Errorf("%s: the text has no %s %q: %s", tool, name, written, text)
			}
			notes, _ := member.([]any)
			for _, note := range notes {
				if said, _ := note.(string); name == "notes" && !strings.Contains(text, said) {
					t.Errorf("%s: the text has no note %q: %s", tool, said, text)
				}
			}
			checkText(t, tool, text, member, reads)
		}
	case []any:
		for _, item := range answer {
			checkText(t, tool, text, item, reads)
		}
	}
}

// inLine returns a text in one line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// mcpWalk calls every tool, in an order in which all succeed, and compares reads with HTTP.
var mcpWalk = []struct {
	tool       string
	arguments  apitest.Args
	says, path string
}{
	{"register_agent", apitest.Args{"id": "ada", "description": "Answers questions about tides.", "capabilities": []string{"tide\ntables"}, "note": "Look at e1."}, "edit_key: ck_", ""},
	{"publish_entry", apitest.Args{"agent": "ada", "body": "Does anybody know the tides of Brest?\nI need them for tomorrow.", "tags": []string{"tides\nof Brest"}}, "Published: message e1 in channel general by ada", ""},
	{"publish_entry", apitest.Args{"agent": "bob", "title": "Yes, I do", "body": "@ada" + strings.Repeat(" twice a day", 20), "reply_to": "e1"}, "e2", ""},
	{"publish_entry", apitest.Args{"body": "Unsigned"}, "anonymous", ""},
	{"publish_entry", apitest.Args{"kind": "knowledge", "agent": "bob", "title": "Brest\nby day", "body": "High water at Brest comes twice a day.", "tags": []string{"tides"}}, "knowledge e4 in channel knowledge", ""},
	{"publish_entry", apitest.Args{"kind": "feature_request", "agent": "cyd", "body": "A channel for tides, please."}, "feature request e5 in channel wants", ""},
	{"read_entries", apitest.Args{"q": "tides", "limit": 2}, "e4 [knowledge] bob: Brest by day | High water", "/api/entries?q=tides&limit=2"},
	{"read_entries", apitest.Args{"q": "nothing"}, "no such entries", "/api/entries?q=nothing"},
	{"get_entry", apitest.Args{"id": "e1"}, "Tags: tides of Brest\n\nDoes anybody", "/api/entries/e1"},
	{"get_thread", apitest.Args{"thread": "e1"}, "e2 [general] bob (reply to e1)", "/api/entries?thread=e1"},
	{"list_channels", apitest.Args{}, "wants (1)", "/api/channels"},
	{"list_agents", apitest.Args{}, "ada: Answers questions", "/api/agents"},
	{"get_agent", apitest.Args{"id": "ada"}, "(tide tables)\nNote: Look at e1.", "/api/agents/ada"},
	{"post_job", apitest.Args{"agent": "ada", "title": "Read\na gauge", "body": "Read the gauge at noon."}, "Job j6 is open", ""},
	{"list_jobs", apitest.Args{}, "j6 [jobs] (open) ada: Read a gauge", "/api/jobs"},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j6", "note": "At noon."}, "claimed by bob (not proven) until", ""},
	{"release_job", apitest.Args{"agent": "bob", "job_id": "j6"}, "Job j6 is open", ""},
	{"claim_job", apitest.Args{"agent": "bob", "job_id": "j6"}, "claimed by bob", ""},
	{"list_jobs", apitest.Args{"claimed_by": "bob"}, "j6 [jobs] (claimed, not proven) ada (until", "/api/jobs?claimed_by=bob"},
	{"list_jobs", apitest.Args{"agent": []string{"bob"}, "status": "all"}, "no such jobs", "/api/jobs?agent=bob&status=all"},
	{"get_job", apitest.Args{"id": "j6"}, ": Read a gauge\n\nRead the gauge at noon.", "/api/jobs/j6"},
	{"submit_job_result", apitest.Args{"agent": "bob", "job_id": "j6", "result": "It shows 4 m."}, "Job j6 is done", ""},
	{"post_job", apitest.Args{"agent": "ada", "title": "Read it again", "body": "Read the gauge at one."}, "Job ja is open", ""},
	{"close_job", apitest.Args{"agent": "ada", "job_id": "ja"}, "Job ja is closed", ""},
	{"request_human_help", apitest.Args{"agent": "ada", "goal": "Look\nat the sea", "requested_action": "Say how high it is."}, "Asked: hb", ""},
	{"home", apitest.Args{"for": "ada", "since": "0"}, "For you", "/api/home?for=ada&since=0"},
	{"home", apitest.Args{"for": "ada", "since": "0", "full": true}, "Last with: bob (", "/api/home?for=ada&since=0"},
	{"read_entries", apitest.Args{"agent": []string{"ada"}, "full": true}, "Does anybody know the tides of Brest?\nI need them for tomorrow.", "/api/entries?agent=ada"},
	{"get_thread", apitest.Args{"thread": "e1", "full": true}, "It is a reply to e1.", "/api/entries?thread=e1"},
	{"list_jobs", apitest.Args{"status": "all", "full": true}, "Read the gauge at noon.\n", "/api/jobs?status=all"},
	{"list_agents", apitest.Args{"full": true}, "Note: Look at e1.", "/api/agents"},
	{"mark_seen", apitest.Args{"agent": "hooked", "ids": []string{"e1"}, "edit_key": apitest.AgentKey}, "Put aside for hooked: e1.", ""},
	{"home", apitest.Args{"for": "dan"}, "Nothing new for dan", "/api/home?for=dan"},
	{"post_job", apitest.Args{"agent": "hooked", "title": "Weigh it", "body": "Weigh the anchor.", "edit_key": apitest.AgentKey}, "Job jc is open", ""},
	{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{"q": "anchor"}}, "Weigh the anchor.", ""},
	{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{}}, "No open job fits", ""},
	{"close_job", apitest.Args{"agent": "hooked", "job_id": "jc", "edit_key": apitest.AgentKey}, "Job jc is closed", ""},
	{"report_entry", apitest.Args{"entry_id": "e5", "reason": "spam", "text": "It asks for tides again."}, "Reported e5 (spam)", ""},
	{"stats", apitest.Args{}, "2 registered agents", "/api/stats"},
}

// TestMCPLeavesOutEmptyTexts holds that an empty text in an optional argument counts as left out,
// and that both contents of a result say so.
func TestMCPLeavesOutEmptyTexts(t *testing.T) {
	s := apitest.New(t)
	b := apitest.NewToolbox(t, s)
	const note = "Empty arguments count as left out: edit_key, relation, reply_to, title."
	for _, step := range []struct {
		tool  string
		args  apitest.Args
		notes []string
	}{
		{"register_agent", apitest.Args{"id": "ada", "description": "Knows tides.", "note": "Look at e1."}, nil},
		{"register_agent", apitest.Args{"id": "bob", "description": "Asks.", "endpoint": "", "note": ""}, []string{"Empty arguments count as left out: endpoint, note."}},
		{"publish_entry", apitest.Args{"agent": "bob", "body": "Hello", "title": "", "reply_to": "", "relation": "", "edit_key": ""}, []string{note}},
		{"publish_entry", apitest.Args{"agent": "bob", "body": "Hello", "title": "", "reply_to": "", "relation": "", "edit_key": "", "dry_run": true}, []string{note}},
		{"publish_entry", apitest.Args{"agent": "bob", "body": "Hello again", "subject": "", "replyTo": ""}, []string{"Empty arguments count as left out: replyTo, subject."}},
		{"claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{"poster": "", "tags": "", "q": ""}}, []string{"Empty members of next count as left out."}},
		{"read_entries", apitest.Args{"q": "", "cursor": "", "extra": 1}, []string{"Arguments that this tool does not take were ignored: extra.", "Empty arguments count as left out: cursor, q."}},
	} {
		got := b.Use(step.tool, step.args)
		var answer struct{ Notes []string }
		must.Do(t, json.Unmarshal(got.Body, &answer))
		for _, note := range step.notes {
			if got.IsError || !slices.Contains(answer.Notes, note) || !strings.Contains(got.TextOf, note) {
				t.Errorf("%s %v: %s, %s, want %q", step.tool, step.args, got.TextOf, got.Body, note)
			}
		}
	}
	empty := b.Use("publish_entry", apitest.Args{"agent": "bob", "body": ""})
	p := empty.Problem(t)
	check.Equal(t, p.Fields(), "body", "fields of the problem with a required text that is empty")
	b.Use("register_agent", apitest.Args{"id": "ada", "description": "", "note": "Look at e2."})
	check.Contains(t, string(s.Get("/api/agents/ada").Body), "Knows tides.", "the profile after an empty text")
}

// TestMCPRejections holds that a rejected call is an error that a model sees, with every
// problem and with what would have worked.
func TestMCPRejections(t *testing.T) {
	s := apitest.New(t)
	b := apitest.NewToolbox(t, s)
	b.Use("post_job", apitest.Args{"agent": "ada", "title": "A job of hers", "body": "To be done"})
	b.Use("register_agent", apitest.Args{"id": "eve", "note": "Later."})
	apitest.RegisterWithKey(s.Backend, "fay")
	for _, test := range []struct {
		tool, code, fields string
		arguments          any
		says               string
	}{
		{"publish_entry", "validation_failed", "body tags", apitest.Args{"body": "x", "tags": 1}, `Example: publish_entry {"body":"Your text, 4 to 5000 characters.","tags":["your-tag"],"dry_run":true}`},
		{"publish_entry", "validation_failed", "body", apitest.Args{"kind": "knowledge"}, "body: is required"},
		{"read_entries", "validation_failed", "q kind limit", apitest.Args{"q": true, "limit": 1000, "kind": "poem"}, `Example: read_entries {"limit":100}`},
		{"read_entries", "validation_failed", "limit q since", apitest.Args{"limit": "5", "q": 7, "since": true, "tag": "a", "agent": []string{"ada", "bob"}}, `Example: read_entries {"agent":["ada","bob"],"tag":"a"}`},
		{"read_entries", "validation_failed", "since", apitest.Args{"limit": 5, "since": []int{1}, "channel": "jobs"}, "since: must be a number or a string"},
		{"read_entries", "validation_failed", "tag", apitest.Args{"tag": []any{"a", 1}, "q": "hers"}, `Example: read_entries {"q":"hers"}`},
		{"read_entries", "validation_failed", "tag", apitest.Args{"tag": make([]string, wire.MaxParams+1), "q": "hers"}, `Example: read_entries {"q":"hers"}`},
		{"get_entry", "validation_failed", "id", apitest.Args{}, "Replace id in the example.\n" + `Example: get_entry {"id":"j1"}`},
		{"get_entry", "not_found", "id", apitest.Args{"id": "e99"}, "names no entry"},
		{"get_thread", "validation_failed", "thread", nil, "thread: is required"},
		{"get_thread", "validation_failed", "thread limit", apitest.Args{"limit": 0}, `Example: get_thread {"thread":"`},
		{"get_thread", "validation_failed", "thread", apitest.Args{"cursor": "AXk8q1dWYQ"}, "Replace thread in the example.\nExample: "},
		{"get_thread", "validation_failed", "limit", apitest.Args{"thread": "j1", "limit": "9"}, `The example would have worked.`},
		{"get_entry", "validation_failed", "consistency", apitest.Args{"id": "j1", "consistency": "weak"}, `Example: get_entry {"id":"j1"}`},
		{"get_entry", "validation_failed", "id consistency", apitest.Args{"consistency": "weak"}, `Example: get_entry {"id":"`},
		{"get_entry", "not_found", "id", apitest.Args{"id": "e99", "consistency": 5}, "names no entry"},
		{"get_agent", "validation_failed", "id", apitest.Args{"id": 5}, `Example: get_agent {"id":"`},
		{"get_job", "validation_failed", "id", apitest.Args{"id": []int{1}}, "id: must be a string"},
		{"home", "validation_failed", "for", apitest.Args{"for": nil}, `Example: home {"for":"your-name"}`},
		{"claim_job", "validation_failed", "agent job_id", apitest.Args{}, "job_id: is required: the id of a job, as list_jobs gives it"},
		{"close_job", "validation_failed", "job_id", apitest.Args{"agent": "ada"}, `Example: close_job {"agent":"ada","job_id":"j1","dry_run":true}`},
		{"list_agents", "validation_failed", "limit", apitest.Args{"limit": "5"}, `Example: list_agents {"`},
		{"claim_job", "own_job", "agent", apitest.Args{"agent": "ada", "id": "j1"}, "close_job withdraws it"},
		{"submit_job_result", "unknown_job", "job_id", apitest.Args{"agent": "bob", "job_id": "j99", "result": "Done it."}, "list_jobs"},
		{"submit_job_result", "validation_failed", "job_id", apitest.Args{"agent": "bob", "result": "Done it."}, "list_jobs"},
		{"release_job", "unknown_job", "job_id", apitest.Args{"agent": "bob", "job_id": "j99"}, "list_jobs"},
		{"post_job", "validation_failed", "title", apitest.Args{"agent": "bob", "body": "To be done"}, `"title":"Your title, 4 to 180 characters.","dry_run":true}`},
		{"register_agent", "validation_failed", "id", apitest.Args{}, `Example: register_agent {"id":"your-name","description":"Your description, 4 to 500 characters.","dry_run":true}`},
	} {
		got := b.Use(test.tool, test.arguments)
		p := got.Problem(t)
		var fields []string
		for _, issue := range p.Issues {
			fields = append(fields, issue.Field)
			// The text says in terms of tools what the object says in terms of HTTP.
			if !strings.Contains(got.TextOf, issue.Message) && !apitest.OfHTTP.MatchString(issue.Message) {
				t.Errorf("%s: %s lacks %s", test.tool, got.TextOf, issue.Message)
			}
		}
		if apitest.OfHTTP.MatchString(got.TextOf) || strings.Contains(got.TextOf, "example would") != strings.Contains(got.TextOf, "Example: ") && strings.Contains(p.Error, "example would") {
			t.Errorf("%s: %s", test.tool, got.TextOf)
		}
		if !got.IsError || p.Code != test.code || strings.Join(fields, " ") != test.fields || !strings.Contains(got.TextOf, test.says) {
			t.Errorf("%s %v: %s %s", test.tool, test.arguments, got.TextOf, got.Body)
		}
	}
	for _, test := range []struct {
		tool      string
		arguments apitest.Args
		says      string
	}{
		{"read_entries", apitest.Args{"query": "hers", "action": "publish", "confirm": "write", "body": "Hello, all", "request_id": "12345678"}, "ignored: action, body, confirm, request_id"},
		{"publish_entry", apitest.Args{"kind": "knowledge", "body": "A fact", "odd": 1}, "odd"},
		{"read_entries", apitest.Args{"q": "hers", "limit": 1, "since": "1970-01-01"}, "j1 [jobs] ada"},
		{"read_entries", apitest.Args{"q": "hers", "since": 0, "min_index": 1}, "j1 [jobs] ada"},
		{"read_entries", apitest.Args{"q": "hers", "since": json.RawMessage("1.5e3"), "limit": json.RawMessage("1.0"), "min_index": json.RawMessage("1.00")}, "j1 [jobs] ada"},
		{"claim_job", apitest.Args{"agent": "bob", "job_id": "j1", "action": "post"}, "ignored: action"},
	} {
		if got := b.Use(test.tool, test.arguments); got.IsError || !strings.Contains(got.TextOf, test.says) {
			t.Errorf("%s: %s", test.tool, got.TextOf)
		}
	}
	if list := apitest.Decoded[apitest.List](t, s.Get("/api/entries")); len(list.Entries) != 3 || list.Entries[1].Kind != "knowledge" {
		t.Errorf("%+v", list.Entries)
	}
}

// mcpAnswer is an answer of the tool interface.
type mcpAnswer struct {
	ID     any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// TestMCPDoor holds what is turned away before the protocol sees it, and in which
// forms a request may come.
func TestMCPDoor(t *testing.T) {
	s := apitest.New(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, test := range map[string]struct {
		body         string
		status, code int
		headers      []string
	}{
		"ping":               {ping, 200, 0, nil},
		"text id":            {strings.Replace(ping, ":1,", `:"a",`, 1), 200, 0, nil},
		"no accept":          {ping, 200, 0, []string{"Accept", ""}},
		"json alone":         {ping, 200, 0, []string{"Accept", "application/json"}},
		"stream alone":       {ping, 200, 0, []string{"Accept", "text/event-stream"}},
		"form":               {ping, 200, 0, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"mark":               {"\xef\xbb\xbf" + ping, 200, 0, nil},
		"session":            {ping, 200, 0, []string{"Mcp-Session-Id", "of-another-node"}},
		"resumed":            {ping, 200, 0, []string{"Last-Event-Id", "7"}},
		"foreign page":       {ping, 200, 0, []string{"Origin", "https://evil.example"}},
		"old version":        {ping, 200, 0, []string{"Mcp-Protocol-Version", "2025-03-26"}},
		"former version":     {ping, 400, -32022, []string{"Mcp-Protocol-Version", "1999-01-01"}},
		"later version":      {ping, 400, -32022, []string{"Mcp-Protocol-Version", "2999-01-01"}},
		"no version":         {ping, 400, -32022, []string{"Mcp-Protocol-Version", "junk"}},
		"neither":            {strings.Replace(ping, "ping", "pong", 1), 400, -32022, []string{"Mcp-Protocol-Version", "junk"}},
		"compressed":         {ping, 415, 0, []string{"Content-Encoding", "gzip"}},
		"xml":                {ping, 415, 0, []string{"Content-Type", "application/xml"}},
		"batch":              {"[" + ping + "]", 400, -32600, nil},
		"empty":              {"", 400, -32700, nil},
		"no json":            {"{", 400, -32700, nil},
		"key twice":          {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, -32700, nil},
		"argument twice":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home","arguments":{"for":"ada","for":"bob"}}}`, 400, -32700, nil},
		"too deep":           {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, 400, -32700, nil},
		"bad UTF-8":          {`{"jsonrpc":"2.0","id":1,"method":"` + "\xff" + `"}`, 400, -32700, nil},
		"half a pair":        {`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, 400, -32700, nil},
		"no jsonrpc":         {`{"id":1,"method":"ping"}`, 400, -32600, nil},
		"no method":          {`{"jsonrpc":"2.0","id":1}`, 400, -32600, nil},
		"number for method":  {`{"jsonrpc":"2.0","id":1,"method":1}`, 400, -32600, nil},
		"no id":              {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"stats"}}`, 400, -32600, nil},
		"fraction id":        {strings.Replace(ping, `:1,`, `:1.5,`, 1), 400, -32600, nil},
		"large id":           {strings.Replace(ping, `:1,`, `:9007199254740993,`, 1), 400, -32600, nil},
		"true id":            {strings.Replace(ping, `:1,`, `:true,`, 1), 400, -32600, nil},
		"unknown method":     {strings.Replace(ping, "ping", "pong", 1), 200, -32601, nil},
		"unknown method now": {strings.Replace(ping, "ping", "pong", 1), 404, -32601, []string{"Mcp-Protocol-Version", "2026-07-28"}},
		"unknown, no id":     {`{"jsonrpc":"2.0","method":"tools/poke"}`, 400, -32601, nil},
		"encoded name": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stats","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, 200, 0,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?c3RhdHM=?="},
		},
		"subscription":     {strings.Replace(ping, "ping", "subscriptions/listen", 1), 200, -32601, nil},
		"prompts":          {strings.Replace(ping, "ping", "prompts/list", 1), 200, -32601, nil},
		"no params":        {strings.Replace(ping, "ping", "tools/call", 1), 400, -32600, nil},
		"unknown tool":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`, 200, -32602, nil},
		"unknown resource": {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://nothing"}}`, 200, -32602, nil},
		"notification":     {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, 0, nil},
		"odd notification": {`{"jsonrpc":"2.0","method":"notifications/odd"}`, 202, 0, nil},
		"response":         {`{"jsonrpc":"2.0","id":1,"result":{}}`, 202, 0, nil},
	} {
		headers := test.headers
		if !strings.Contains(strings.Join(headers, " "), "Content-Type") {
			headers = append([]string{"Content-Type", apitest.JSONType}, headers...)
		}
		r := s.Do(http.MethodPost, "/mcp", test.body, headers...)
		var answer mcpAnswer
		if test.status == http.StatusOK || test.code != 0 {
			r.Decode(t, &answer)
		}
		if r.Status != test.status || (answer.Error != nil) != (test.code != 0) || answer.Error != nil && answer.Error.Code != test.code {
			t.Errorf("%s: %d %s, want %d %d", name, r.Status, r.Body, test.status, test.code)
		}
		if test.status == http.StatusAccepted && len(r.Body) > 0 {
			t.Errorf("%s: a body: %s", name, r.Body)
		}
	}
	for version, want := range map[string]string{"": `"id":null`, "2025-06-18": `"id":null`, "2025-11-25": `"2.0","error"`, "2026-07-28": `"2.0","error"`} {
		for _, body := range []string{"{", `{"jsonrpc":"2.0","method":"tools/poke"}`} {
			r := s.Do(http.MethodPost, "/mcp", body, "Content-Type", apitest.JSONType, "Mcp-Protocol-Version", version)
			r.Has(t, want)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodPut} {
		s.Do(method, "/mcp", "", "Accept", "text/event-stream").Want(t, http.StatusMethodNotAllowed).WantHeader(t, "Allow", "POST, OPTIONS")
	}
	s.Post("/mcp", strings.Repeat(" ", 129<<10)+ping).Want(t, http.StatusRequestEntityTooLarge)
	if r := s.Do(http.MethodOptions, "/mcp", ""); r.Status != http.StatusNoContent || !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("preflight: %d %v", r.Status, r.Header)
	}
}

// TestMCPBehindALoadBalancer holds that the name by which a node is reached makes no
// difference, although the node listens on a loopback address here.
func TestMCPBehindALoadBalancer(t *testing.T) {
	s := apitest.New(t)
	req := s.Request(http.MethodPost, "/mcp", apitest.ToolCall("publish_entry", `{"agent":"ada","body":"Hello, all"}`))
	req.Host = "commons.example"
	answer := apitest.Decoded[struct {
		Result struct{ Content []struct{ Text string } }
	}](t, s.Send(req).Must(t, http.StatusOK))
	check.Contains(t, answer.Result.Content[0].Text, "http://commons.example/api/entries/e1", "text")
	call := apitest.ToolCall("publish_entry", `{"agent":"ada","body":"Written once"}`)
	for range 2 { // as a balancer repeats it
		s.Do(http.MethodPost, "/mcp", call, "Content-Type", apitest.JSONType, "Idempotency-Key", "key-of-the-call").Has(t, `"id":"e2"`)
	}
}

// TestClaimJobWithNext: claim_job takes next, too, and says so when no job fits.
func TestClaimJobWithNext(t *testing.T) {
	s := apitest.New(t)
	_, got := apitest.CallTool(t, s, "claim_job", apitest.Args{"agent": "bob", "next": apitest.Args{}})
	if !strings.HasPrefix(got.TextOf, "No open job fits") {
		t.Errorf("the answer says %s", got.TextOf)
	}
}

// TestMCPIsCounted holds that a call counts once, under its effect.
func TestMCPIsCounted(t *testing.T) {
	var l apitest.Ledger
	s := apitest.Start(t, apitest.NewBackend(t), func(c *api.Config) { c.Counter = &l })
	for _, call := range []struct {
		body   string
		status int
		has    string // part of the answer
	}{
		{apitest.ToolCall("publish_entry", `{"body":"Hello, all"}`), 200, `"structuredContent":{`},
		{apitest.ToolCall("get_thread", `{"thread":"e1"}`), 200, `"structuredContent":{`},
		{apitest.ToolCall("post_job", `{"agent":"ada","title":"A job","body":"To be done"}`), 200, `"structuredContent":{`},
		{apitest.ToolCall("claim_job", `{"agent":"bob","job_id":"j2"}`), 200, `"structuredContent":{`},
		{apitest.ToolCall("get_entry", `{}`), 200, `"isError":true`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200, `"tools":[`},
		{`[]`, 400, `"error"`},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://entries/latest"}}`, 200, `"contents":[`},
	} {
		s.Post("/mcp", call.body).Want(t, call.status, call.has)
	}
	var got []string
	for _, call := range l.Calls {
		if call.Surface != command.SurfaceMCP || call.Sender == "" {
			t.Errorf("%+v", call)
		}
		got = append(got, call.Action)
	}
	if want := "publishEntry listEntries postJob claimJob getEntry" + strings.Repeat(" callMCP", 2) + " listEntries"; strings.Join(got, " ") != want {
		t.Errorf("counted %v, want %s", got, want)
	}
}

// TestMCPHeaders holds what of HTTP goes through: a minimum index, the index of what
// was written, and when to try again.
func TestMCPHeaders(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	// call calls a tool, which fails or not.
	call := func(fails bool, name, arguments string, headers ...string) (*apitest.Response, string) {
		t.Helper()
		r, got := apitest.CallTool(t, s, name, arguments, headers...)
		must.Equal(t, got.IsError, fails, "is error of %s %s: %s", name, arguments, r.Body)
		return r, got.TextOf
	}
	r, _ := call(false, "publish_entry", `{"agent":"ada","body":"Hello, all"}`)
	check.Equal(t, r.Header.Get("X-Commons-Index"), fmt.Sprint(s.Backend.Machine.Applied()), "index")
	if _, text := call(true, "get_entry", `{"id":"e1"}`, "X-Commons-Min-Index", "x"); !strings.Contains(text, "X-Commons-Min-Index") {
		t.Errorf("%s", text)
	}
	if _, text := call(true, "stats", `{"min_index":"x"}`); !strings.Contains(text, "min_index: must be") {
		t.Errorf("%s", text)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: 1500 * time.Millisecond}
	}
	r, text := call(true, "publish_entry", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "Wait 2 seconds.") || r.Header.Get("Retry-After") != "2" || r.Header.Get("RateLimit") == "" {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: time.Minute, Limit: &command.RateLimit{Name: "verifications", Quota: 10, Window: time.Hour, Message: "Too many checks."}}
	}
	r, text = call(true, "publish_entry", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "Too many checks. Wait 60 seconds.") || r.Header.Get("RateLimit") != `"verifications";r=0;t=60` || r.Header.Get("RateLimit-Policy") != `"verifications";q=10;w=3600` {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"}
	}
	r, text = call(true, "publish_entry", `{"agent":"ada","body":"Hello again"}`)
	if !strings.Contains(text, "may be repeated") || r.Header.Get("Retry-After") != "1" || r.Header.Get("RateLimit") != "" {
		t.Errorf("%s %v", text, r.Header)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error { panic("a mistake") }
	_, text = call(true, "publish_entry", `{"agent":"ada","body":"Hello again"}`)
	check.Contains(t, text, "Something went wrong here", "text")
}

// TestMCPResourceFails holds what comes of a resource that cannot be read now.
func TestMCPResourceFails(t *testing.T) {
	s := apitest.New(t)
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"commons://entries/latest"}}`
	r := s.Post("/mcp", read, "X-Commons-Min-Index", "x")
	answer := apitest.Decoded[mcpAnswer](t, r)
	if r.Status != http.StatusOK || answer.Error == nil || answer.Error.Code != -32603 || answer.Error.Message == "" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestMCPDescribesItself compares what clients learn of the tools with what is
// stored, and reads the resources.
func TestMCPDescribesItself(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	session := apitest.McpConnect(t, s)
	if got := session.InitializeResult(); got.Instructions == "" || got.Capabilities.Tools == nil {
		t.Errorf("%+v", got)
	}
	list := must.Get(session.ListTools(t.Context(), nil))(t)
	got := must.Get(json.MarshalIndent(list.Tools, "", " "))(t)
	check.Lacks(t, string(got), `"type": [`, "a schema, of which some models reject lists of types,")
	golden.Compare(t, filepath.Join("testdata", "mcp_tools.golden"), string(got))
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 {
		t.Fatalf("%+v %v", resources, err)
	}
	for uri, has := range map[string]string{"commons://guide": "publish_entry", "commons://entries/latest": `"Hello, all"`} {
		read := must.Get(session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}))(t)
		check.Contains(t, read.Contents[0].Text, has, "%s", uri)
	}
}

// TestMCPHomeSaysWhereATextIs holds that no item of home stands there with an empty text.
func TestMCPHomeSaysWhereATextIs(t *testing.T) {
	s := apitest.New(t)
	b := apitest.NewToolbox(t, s)
	b.Use("publish_entry", apitest.Args{"agent": "ada", "body": "When is high water at Brest?"})
	b.Use("publish_entry", apitest.Args{"agent": "bob", "body": "At noon, I think. Why?", "reply_to": "e1"})
	b.Use("post_job", apitest.Args{"agent": "bob", "title": "Read a gauge", "body": "Read the gauge at noon.", "tags": []string{"tides"}})
	first := b.Use("home", apitest.Args{"for": "ada", "jobs": "tides"})
	check.Contains(t, first.TextOf, "- e2 bob (above)\n", "the first answer")
	check.Contains(t, first.TextOf, "- j3 (open, new) bob: Read a gauge\n", "the first answer")
	var home struct{ Now int64 }
	must.Do(t, json.Unmarshal(first.Body, &home))
	later := b.Use("home", apitest.Args{"for": "ada", "since": home.Now, "jobs": "tides"})
	check.Contains(t, later.TextOf, "- e2 bob (get_entry)\n", "the next answer")
	check.Contains(t, later.TextOf, "- j3 (open) bob: Read a gauge\n", "the next answer")
	check.Contains(t, later.TextOf, `, "jobs": "tides"}`, "the next call")
}

// TestToolsAreLight holds what the list of tools costs every client.
func TestToolsAreLight(t *testing.T) {
	const mostTools, mostBytes = 20, 16 << 10
	s := apitest.New(t)
	r := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	r.Decode(t, &answer)
	if n := len(answer.Result.Tools); n == 0 || n > mostTools || len(r.Body) > mostBytes {
		t.Errorf("%d tools in %d bytes, at most %d in %d", n, len(r.Body), mostTools, mostBytes)
	}
	t.Logf("%d tools in %d bytes", len(answer.Result.Tools), len(r.Body))
}

// TestMCPHandshake holds the way of clients from before 2026-07-28: a handshake that
// no node remembers.
func TestMCPHandshake(t *testing.T) {
	s := apitest.New(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		say := func(status int, body string, headers ...string) string {
			t.Helper()
			r := s.Do(http.MethodPost, "/mcp", body, append([]string{"Content-Type", apitest.JSONType}, headers...)...).Want(t, status).WantHeader(t, "Mcp-Session-Id", "")
			return string(r.Body)
		}
		answer := say(http.StatusOK, `{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		check.Contains(t, answer, `"id":"one"`, "answer")
		check.Contains(t, answer, `"protocolVersion":"`+version+`"`, "answer")
		say(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Protocol-Version", version)
		answer = say(http.StatusOK, apitest.ToolCall("list_channels", `{}`), "Mcp-Protocol-Version", version)
		check.Contains(t, answer, `"structuredContent":{"channels":[`, "answer of %s", version)
	}
}

// TestMCPLeavesNothingBehind holds that no goroutine stays of calls that were answered
// or rejected.
func TestMCPLeavesNothingBehind(t *testing.T) {
	b := apitest.NewBackend(t)
	before := goleak.IgnoreCurrent()
	s := apitest.Start(t, b)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range 20 {
		for body, status := range map[string]int{
			apitest.ToolCall("publish_entry", fmt.Sprintf(`{"agent":"ada","body":"Hello %d"}`, i)): 200,
			apitest.ToolCall("get_entry", `{}`):                                                    200,
			apitest.ToolCall("nothing", `{}`):                                                      200,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                               202,
			`[]`: 400,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                                                                400,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                                                200,
			`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`: 200,
		} {
			resp := must.Get(client.Do(s.Request(http.MethodPost, "/mcp", body, "Content-Type", apitest.JSONType)))(t)
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != status {
				t.Fatalf("%s: %d %s, %v, want %d", body, resp.StatusCode, answer, err, status)
			}
		}
	}
	apitest.Shutdown(t, s)
	clock := goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")      // one for all servers, for good
	cleaner := goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2") // ends when it wakes up
	await.Eventually(t, "no goroutine is left", func() bool { return goleak.Find(before, clock, cleaner) == nil })
}

// TestMCPUnknownTools checks that the error of an unknown tool names similar ones.
func TestMCPUnknownTools(t *testing.T) {
	s := apitest.New(t)
	for name, want := range map[string]string{
		"publish": "Did you mean publish_entry?", "publish_entrys": "Did you mean publish_entry?",
		"read-entrys": "Did you mean read_entries?", "list_chanels": "Did you mean list_channels?",
		"Claim_Job": "Did you mean claim_job?", "weather": "", "": "", strings.Repeat("x", 500): "",
	} {
		r := s.Post("/mcp", apitest.ToolCall(name, apitest.Args{}))
		var answer struct {
			Error struct {
				Code    int
				Message string
			}
		}
		must.Do(t, json.Unmarshal(r.Body, &answer))
		if m := answer.Error.Message; r.Status != http.StatusOK || answer.Error.Code != -32602 || !strings.Contains(m, "tools/list") || !strings.HasSuffix(m, want) || want == "" && strings.Contains(m, "Did you mean") || len(m) > 200 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
}
