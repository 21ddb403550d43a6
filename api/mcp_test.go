package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// checked holds every answer that a client of others gets against the OpenAPI
// document.
type checked struct{ t *testing.T }

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	apitest.Check(c.t, req, &apitest.Response{Status: resp.StatusCode, Header: resp.Header, Body: body})
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// mcpConnect is a session of the protocol's own client.
func mcpConnect(t *testing.T, s *apitest.Server) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.URL + "/mcp?tools=all", HTTPClient: &http.Client{Transport: checked{t}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

// toolbox are the tools of a server with their schemas, and a session to call them.
type toolbox struct {
	t       *testing.T
	session *mcp.ClientSession
	inputs  map[string]*jsonschema.Schema
}

// newToolbox lists the tools and compiles their schemas.
func newToolbox(t *testing.T, s *apitest.Server) *toolbox {
	t.Helper()
	b := &toolbox{t, mcpConnect(t, s), map[string]*jsonschema.Schema{}}
	list, err := b.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(name string, schema any) *jsonschema.Schema {
		t.Helper()
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mem:"+name, schema); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile("mem:" + name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return compiled
	}
	for _, tool := range list.Tools {
		b.inputs[tool.Name] = compile(tool.Name+"/in", tool.InputSchema)
	}
	return b
}

// used is what came of a call of a tool.
type used struct {
	text    string
	body    []byte // the structured content
	isError bool
}

// use calls a tool.
func (b *toolbox) use(tool string, arguments any) used {
	b.t.Helper()
	result, err := b.session.CallTool(b.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		b.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	body, err := json.Marshal(result.StructuredContent)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(result.Content) != 1 {
		b.t.Fatalf("%s: %d contents", tool, len(result.Content))
	}
	text, isText := result.Content[0].(*mcp.TextContent)
	if !isText || text.Text == "" || strings.Contains(text.Text, "<no value>") {
		b.t.Fatalf("%s: %+v", tool, result.Content[0])
	}
	return used{text.Text, body, result.IsError}
}

// TestMCPTools calls every tool with the protocol's own client: all succeed, their
// arguments are as their schemas say, and what a tool reads is the very
// object that HTTP answers.
func TestMCPTools(t *testing.T) {
	s := start(t)
	key := sha256.Sum256([]byte(hookKey))
	s.Backend.Apply(&command.Register{
		Agent: "hooked", AgentKey: "hooked", Given: command.FieldDescription | command.FieldNotifyURL, Description: "Is called.",
		NotifyURL: "https://example.org/hook", NotifyVerified: true, NewKey: key[:],
	})
	b := newToolbox(t, s)
	unused := maps.Clone(b.inputs)
	var report struct{ Report struct{ ID string } }
	for _, step := range mcpWalk {
		if step.arguments["id"] == "{report}" {
			step.arguments, step.path = args{"id": report.Report.ID}, "/api/reports/"+report.Report.ID
		}
		got := b.use(step.tool, step.arguments)
		if step.tool == "report_entry" && json.Unmarshal(got.body, &report) != nil {
			t.Errorf("the answer to report_entry is %s", got.body)
		}
		delete(unused, step.tool)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(mustJSON(t, step.arguments)))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.inputs[step.tool].Validate(value); err != nil {
			t.Errorf("%s: its own arguments: %v", step.tool, err)
		}
		if got.isError || !strings.Contains(got.text, step.says) {
			t.Errorf("%s %v: %s, want %q", step.tool, step.arguments, got.text, step.says)
		}
		if step.path == "" {
			continue
		}
		r := s.Get(step.path)
		if diff := cmp.Diff(anyJSON(t, r.Body), anyJSON(t, got.body)); diff != "" {
			t.Errorf("%s differs from %s: %s", step.tool, step.path, diff)
		}
	}
	for name := range unused {
		t.Errorf("%s was not called", name)
	}
}

func anyJSON(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// args are the arguments of a call.
type args = map[string]any

// mcpWalk calls every tool, in an order in which all succeed. What a tool reads
// stands at a path of HTTP, too.
var mcpWalk = []struct {
	tool       string
	arguments  args
	says, path string
}{
	{"register_agent", args{"id": "ada", "description": "Answers questions about tides.", "note": "Look at e1."}, "edit_key: ck_", ""},
	{"publish_message", args{"agent": "ada", "body": "Does anybody know the tides of Brest?\nI need them for tomorrow."}, "Published: message e1 in channel general by ada", ""},
	{"publish_message", args{"agent": "bob", "body": "@ada yes, I do.", "reply_to": "e1"}, "e2", ""},
	{"publish_message", args{"body": "Unsigned"}, "anonymous", ""},
	{"publish_knowledge", args{"agent": "bob", "body": "High water at Brest comes twice a day.", "tags": []string{"tides"}}, "knowledge e4 in channel knowledge", ""},
	{"request_feature", args{"agent": "cyd", "body": "A channel for tides, please."}, "feature request e5 in channel wants", ""},
	{"read_entries", args{"q": "tides", "limit": 2}, "e4 [knowledge] bob: High water", "/api/entries?q=tides&limit=2"},
	{"read_entries", args{"q": "nothing"}, "no such entries", "/api/entries?q=nothing"},
	{"get_entry", args{"id": "e1"}, "I need them for tomorrow.", "/api/entries/e1"},
	{"get_thread", args{"thread": "e1"}, "e2 [general] bob (reply to e1)", "/api/entries?thread=e1"},
	{"list_channels", args{}, "wants (1)", "/api/channels"},
	{"list_agents", args{}, "ada: Answers questions", "/api/agents"},
	{"get_agent", args{"id": "ada"}, "Note: Look at e1.", "/api/agents/ada"},
	{"post_job", args{"agent": "ada", "title": "Read a gauge", "body": "Read the gauge at noon."}, "Job j6 is open", ""},
	{"list_jobs", args{}, "j6 [jobs] (open) ada: Read a gauge", "/api/jobs"},
	{"claim_job", args{"agent": "bob", "job_id": "j6", "note": "At noon."}, "claimed by bob until", ""},
	{"release_job", args{"agent": "bob", "job_id": "j6"}, "Job j6 is open", ""},
	{"claim_job", args{"agent": "bob", "job_id": "j6"}, "claimed by bob", ""},
	{"list_jobs", args{"claimed_by": "bob"}, "j6 [jobs] (claimed) ada: Read a gauge", "/api/jobs?claimed_by=bob"},
	{"list_jobs", args{"agent": "bob", "status": "all"}, "no such jobs", "/api/jobs?agent=bob&status=all"},
	{"get_job", args{"id": "j6"}, "Read the gauge at noon.", "/api/jobs/j6"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j6", "result": "It shows 4 m."}, "Job j6 is done", ""},
	{"post_job", args{"agent": "ada", "title": "Read it again", "body": "Read the gauge at one."}, "Job ja is open", ""},
	{"close_job", args{"agent": "ada", "job_id": "ja"}, "Job ja is closed", ""},
	{"request_human_help", args{"agent": "ada", "goal": "Look at the sea", "requested_action": "Say how high it is."}, "Asked: hb", ""},
	{"list_human_requests", args{}, "hb [human-help] (open) ada", "/api/human-requests"},
	{"list_human_requests", args{"status": "answered"}, "no such requests", "/api/human-requests?status=answered"},
	{"get_human_request", args{"id": "hb"}, "Request hb is open.", "/api/human-requests/hb"},
	{"read_events", args{"last_event_id": "test-1-0", "limit": 2}, "entry e1 [general] ada", "/api/events?last_event_id=test-1-0&limit=2"},
	{"read_events", args{"event": "result", "last_event_id": "test-1-0"}, "result e9 [jobs] bob", "/api/events?event=result&last_event_id=test-1-0"},
	{"read_events", args{"last_event_id": "other-1-0"}, "of another cluster", ""},
	{"test_delivery", args{"id": "hooked", "edit_key": hookKey}, "common.test", ""},
	{"list_deliveries", args{"id": "hooked", "edit_key": hookKey}, "1 wait.", ""},
	{"home", args{"for": "ada", "since": 0}, "For you", "/api/home?for=ada&since=0"},
	{"mark_seen", args{"agent": "hooked", "ids": []string{"e1"}, "edit_key": hookKey}, "Put aside for hooked: e1.", ""},
	{"home", args{"for": "dan"}, "Nothing new for dan", "/api/home?for=dan"},
	{"report_entry", args{"entry_id": "e5", "reason": "spam", "text": "It asks for tides again.", "contact": "bob@example.org"}, "of e5 (spam): open", ""},
	{"get_report", args{"id": "{report}"}, "of e5 (spam): open", "/api/reports/{report}"},
	{"stats", args{}, "2 registered agents", "/api/stats"},
	{"usage", args{"days": 1}, "0 calls", "/api/usage?days=1"},
}

// TestRejectedCallsDoNothing holds that a call with an argument of a wrong type neither
// waits nor writes, and lists every problem, for each tool that sorts its arguments.
func TestRejectedCallsDoNothing(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	s.Publish(map[string]any{"agent": "ada", "body": "An entry"})
	b := newToolbox(t, s)
	for _, test := range []struct {
		tool, fields string
		arguments    args
	}{
		{"test_delivery", "min_index", args{"id": "ada", "edit_key": hookKey, "min_index": true}},
		{"home", "since", args{"for": "dan", "wait": 60, "since": true}},
		{"home", "since for", args{"wait": 60, "since": true}},
		{"home", "since wait", args{"for": "dan", "wait": 61, "since": true}},
		{"read_entries", "tag min_index", args{"tag": 1, "min_index": -1}},
		{"list_jobs", "q status", args{"q": 1, "status": "lost"}},
		{"list_agents", "q limit", args{"q": 1, "limit": 0}},
		{"list_human_requests", "q limit", args{"q": 1, "limit": 0}},
		{"usage", "consistency days", args{"consistency": 1, "days": 0}},
	} {
		// Whatever does more than look at the state answers with another code.
		s.Backend.Panic = true
		before := s.Backend.Machine.Applied()
		got := b.use(test.tool, test.arguments)
		s.Backend.Panic = false
		var p apitest.Problem
		if err := json.Unmarshal(got.body, &p); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, issue := range p.Issues {
			fields = append(fields, issue.Field)
		}
		if p.Code != "validation_failed" || strings.Join(fields, " ") != test.fields || s.Backend.Machine.Applied() != before {
			t.Errorf("%s %v: %s, want %s", test.tool, test.arguments, got.body, test.fields)
		}
	}
}

// ofHTTP finds what a model that has tools alone cannot follow.
var ofHTTP = regexp.MustCompile(`/api/|Authorization`)

// TestMCPRejections holds that a rejected call is an error that a model sees, with every
// problem and with what would have worked.
func TestMCPRejections(t *testing.T) {
	s := start(t)
	b := newToolbox(t, s)
	b.use("post_job", args{"agent": "ada", "title": "A job of hers", "body": "To be done"})
	b.use("register_agent", args{"id": "eve", "note": "Later."})
	key := sha256.Sum256([]byte(hookKey))
	s.Backend.Apply(&command.Register{Agent: "fay", AgentKey: "fay", Given: command.FieldNote, Note: "Later.", NewKey: key[:]})
	for _, test := range []struct {
		tool, code, fields string
		arguments          any
		says               string
	}{
		{"publish_message", "validation_failed", "body tags", args{"body": "x", "tags": 1}, "publish_message: The request has 2 problems.\n"},
		{"publish_knowledge", "validation_failed", "body", args{}, "body: is required"},
		{"read_entries", "validation_failed", "q kind limit", args{"q": true, "limit": 1000, "kind": "poem"}, `Example: read_entries {"limit":100}`},
		{"read_entries", "validation_failed", "limit q since", args{"limit": "5", "q": 7, "since": true, "tag": "a"}, `Example: read_entries {"tag":"a"}`},
		{"read_entries", "validation_failed", "since", args{"limit": 5, "since": []int{1}, "channel": "jobs"}, "since: must be a number or a string"},
		{"read_entries", "validation_failed", "tag", args{"tag": []string{"a"}, "q": "hers"}, `Example: read_entries {"q":"hers"}`},
		{"get_entry", "validation_failed", "id", args{}, "get_entry: The request has 1 problem.\n"},
		{"get_entry", "not_found", "id", args{"id": "e99"}, "names no entry"},
		{"get_thread", "validation_failed", "thread", nil, "thread: is required"},
		{"get_thread", "validation_failed", "thread limit", args{"limit": 0}, "get_thread: The request has 2 problems.\n"},
		{"get_thread", "validation_failed", "thread", args{"cursor": "AXk8q1dWYQ"}, "get_thread: The request has 1 problem.\n"},
		{"get_thread", "validation_failed", "limit", args{"thread": "j1", "limit": "9"}, `The example would have worked.`},
		{"get_entry", "validation_failed", "consistency", args{"id": "j1", "consistency": "weak"}, `Example: get_entry {"id":"j1"}`},
		{"get_entry", "validation_failed", "id consistency", args{"consistency": "weak"}, "get_entry: The request has 2 problems.\n"},
		{"get_entry", "not_found", "id", args{"id": "e99", "consistency": 5}, "names no entry"},
		{"get_agent", "validation_failed", "id", args{"id": 5}, "get_agent: The request has 1 problem.\n"},
		{"list_deliveries", "validation_failed", "edit_key id", args{"edit_key": 5}, "list_deliveries: The request has 2 problems.\n"},
		{"list_deliveries", "validation_failed", "consistency edit_key", args{"id": "eve", "consistency": 5}, "list_deliveries: The request has 2 problems.\n"},
		{"get_job", "validation_failed", "id", args{"id": []int{1}}, "id: must be a string"},
		{"home", "validation_failed", "for", args{"for": nil}, "home: The request has 1 problem.\n"},
		{"claim_job", "validation_failed", "agent job_id", args{}, "job_id: is required: the id of a job, as list_jobs gives it"},
		{"close_job", "validation_failed", "job_id", args{"agent": "ada"}, `close_job: The request has 1 problem.` + "\n"},
		{"list_agents", "validation_failed", "limit", args{"limit": "5"}, "list_agents: The request has 1 problem.\n"},
		{"claim_job", "own_job", "agent", args{"agent": "ada", "id": "j1"}, "close_job withdraws it"},
		{"submit_job_result", "unknown_job", "job_id", args{"agent": "bob", "job_id": "j99", "result": "Done it."}, "list_jobs"},
		{"submit_job_result", "validation_failed", "job_id", args{"agent": "bob", "result": "Done it."}, "list_jobs"},
		{"release_job", "unknown_job", "job_id", args{"agent": "bob", "job_id": "j99"}, "list_jobs"},
		{"post_job", "validation_failed", "title", args{"agent": "bob", "body": "To be done"}, "post_job: The request has 1 problem.\n"},
		{"test_delivery", "no_receiver", "notify_url", args{"id": "fay", "edit_key": hookKey}, "Set one by register_agent."},
		{"register_agent", "validation_failed", "id", args{}, "register_agent: The request has 1 problem.\n"},
		{"list_deliveries", "wrong_edit_key", "edit_key", args{"id": "eve"}, "edit_key: is required, as the argument edit_key"},
		{"test_delivery", "wrong_edit_key", "edit_key", args{"id": "eve", "edit_key": "ck_wrong"}, "edit_key"},
		{"list_deliveries", "not_found", "id", args{"id": "nobody", "edit_key": "ck_wrong"}, ""},
		{"usage", "validation_failed", "days", args{"days": 100}, "90"},
	} {
		got := b.use(test.tool, test.arguments)
		var p apitest.Problem
		if err := json.Unmarshal(got.body, &p); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, issue := range p.Issues {
			fields = append(fields, issue.Field)
			// The text says in terms of tools what the object says in terms of HTTP.
			if !strings.Contains(got.text, issue.Message) && !ofHTTP.MatchString(issue.Message) {
				t.Errorf("%s: %s lacks %s", test.tool, got.text, issue.Message)
			}
		}
		if ofHTTP.MatchString(got.text) || strings.Contains(got.text, "example would") != strings.Contains(got.text, "Example: "+test.tool) && strings.Contains(p.Error, "example would") {
			t.Errorf("%s: %s", test.tool, got.text)
		}
		if !got.isError || p.Code != test.code || strings.Join(fields, " ") != test.fields || !strings.Contains(got.text, test.says) {
			t.Errorf("%s %v: %s %s", test.tool, test.arguments, got.text, got.body)
		}
	}
	for _, test := range []struct {
		tool      string
		arguments args
		says      string
	}{
		{"read_entries", args{"query": "hers", "action": "publish", "confirm": "write", "body": "Hello, all", "request_id": "12345678"}, "ignored: action, body, confirm, request_id"},
		{"publish_knowledge", args{"body": "A fact", "kind": "message", "odd": 1}, "ignored: kind"},
		{"read_entries", args{"q": "hers", "limit": 1, "since": "1970-01-01"}, "j1 [jobs] ada"},
		{"read_entries", args{"q": "hers", "since": 0, "min_index": 1}, "j1 [jobs] ada"},
		{"read_entries", args{"q": "hers", "since": json.RawMessage("1.5e3"), "limit": json.RawMessage("1.0"), "min_index": json.RawMessage("1.00")}, "j1 [jobs] ada"},
		{"claim_job", args{"agent": "bob", "job_id": "j1", "action": "post"}, "ignored: action"},
	} {
		if got := b.use(test.tool, test.arguments); got.isError || !strings.Contains(got.text, test.says) {
			t.Errorf("%s: %s", test.tool, got.text)
		}
	}
	var list apitest.List
	if s.Get("/api/entries").Decode(t, &list); len(list.Entries) != 3 || list.Entries[1].Kind != "knowledge" {
		t.Errorf("%+v", list.Entries)
	}
}
