package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/internal/must"
)

// TestNoSurfaceShowsWhatIsHidden is the table of surfaces: each is asked for a word, shows it, and
// no longer shows it when all texts with it are hidden or purged.
func TestNoSurfaceShowsWhatIsHidden(t *testing.T) {
	for _, action := range []string{"hide", "purge"} {
		t.Run(action, func(t *testing.T) { testSurfaces(t, action) })
	}
}

// wordless are the operations that show no text of others, or that the table of surfaces cannot
// ask, with the reason.
var wordless = map[string]string{
	"publishEntry": "", "registerAgent": "", "actOnJob": "", "askHuman": "", // repeats are in the table, new ones answer with what was sent
	"listDeliveries": "for the owner's key alone; dropping what waits is tested in fsm", "testDelivery": "a test event", "markSeen": "ids alone",
	"block": "a rule", "freeze": "a rule", "watch": "a rule", "undo": "texts, for moderators", "listRules": "rules, for moderators",
	"reportEntry": "answers with what was sent", "listReports": "texts, for moderators", "resolveReports": "texts, for moderators",
	"selectEntries": "texts, for moderators", "moderationLog": "ids, for moderators", "hide": "texts, for moderators", "unhide": "texts, for moderators",
	"callA2A":     "a repeat is in the table; the same operations as below /a2a/v1",
	"sendMessage": "as callA2A", "callMCP": "its tools are listed by themselves",
	"getSkill": "a document", "getSecurity": "a document", "getAgentCard": "a document", "getAgentCard03": "a document",
	"getIndex": "a document", "getOverview": "a document", "getAllPages": "a document", "getDocs": "a document",
	"getDocsPage": "a document", "getOpenAPI": "a document", "getPythonClient": "a file", "getJavaScriptClient": "a file",
	"getLive": "of the node", "getReady": "of the node", "getStatus": "of the node", "getMetrics": "of the node",
	"pageCluster": "of nodes", "pageConnect": "a document", "pageReport": "a form, of the id that was given", "pageSendReport": "a redirect", "pagePublish": "answers with what was sent", "pageAsset": "a file", "getRobots": "a file", "pageIcon": "a file",
	"getCluster": "of nodes", "getMeasured": "of the node",
}

// wordlessTools are the tools that the table does not ask.
var wordlessTools = []string{
	"publish_entry", "register_agent",
	"post_job", "claim_job", "submit_job_result", "release_job", "close_job", "request_human_help", "mark_seen", "report_entry",
}

// surfaceCall is a call that shows a word where it is not hidden.
type surfaceCall struct {
	method, path, body string
	empty              bool // the answer never shows it
}

// gets are calls by GET.
func gets(paths ...string) (calls []surfaceCall) {
	for _, path := range paths {
		calls = append(calls, surfaceCall{method: http.MethodGet, path: path})
	}
	return calls
}

// checkShown holds that each call shows a word, or that none does. Pages are read as a browser does.
func checkShown(t *testing.T, s *apitest.Server, calls []surfaceCall, word string, shown bool) {
	t.Helper()
	for _, at := range calls {
		var r *apitest.Response
		switch {
		case at.body != "":
			r = s.Do(at.method, at.path, at.body, "Content-Type", apitest.JSONType)
		case strings.HasPrefix(at.path, "/api/"):
			r = s.Get(at.path)
		default:
			r = apitest.Visit(t, s, at.method, at.path, "", 0, "Accept", apitest.BrowserAccept).Response
		}
		if answer := strings.ToLower(string(r.Body)); r.Status >= http.StatusInternalServerError || strings.Contains(answer, word) != (shown && !at.empty) {
			t.Errorf("%s %s %s: %d, want %s shown: %t: %s", at.method, at.path, at.body, r.Status, word, shown && !at.empty, answer)
		}
	}
}

// checkSurfaces checks that every operation and every tool is asked, or is in wordless.
func checkSurfaces(t *testing.T, surfaces []surfaceCall) {
	t.Helper()
	for _, o := range api.AllOperations() {
		id := strings.TrimSuffix(o.ID, "Unversioned")
		template := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(o.Path), "[^/?]+") + `(\?.*)?$`)
		asked := slices.ContainsFunc(surfaces, func(at surfaceCall) bool {
			return at.method == o.Method && template.MatchString(at.path)
		})
		if _, is := wordless[id]; !is && !asked {
			t.Errorf("%s (%s %s) is not in the table of surfaces", o.ID, o.Method, o.Path)
		}
		for _, tool := range o.Tools {
			asked := slices.ContainsFunc(surfaces, func(at surfaceCall) bool { return strings.Contains(at.body, `"name":"`+tool+`"`) })
			if !asked && !slices.Contains(wordlessTools, tool) {
				t.Errorf("the tool %s is not in the table of surfaces", tool)
			}
		}
	}
}

func testSurfaces(t *testing.T, action string) {
	t.Helper()
	s := apitest.WithModerator(t)
	const word = "zyzzyva"
	channel := word + "-den"
	send := func(path, body string) string { // {"agent": …}, with a request_id
		t.Helper()
		r := s.Post(path, body)
		must.Equal(t, r.Status, http.StatusCreated, "status of %s %s %s", path, body, r.Body)
		return string(r.Body)
	}
	first := apitest.Decoded[struct{ LastEventID string }](t, s.Get("/api/events"))
	question := `{"agent":"` + word + `","body":"Where is @bob and the ` + word + `?","title":"A ` + word + `","tags":["` + word + `"],"request_id":"request-1"}`
	note := `{"agent":"` + word + `","kind":"knowledge","body":"A note on ` + word + `","tags":["` + word + `","bees"],"request_id":"request-2"}`
	job := `{"agent":"carol","title":"A job for ` + word + `","body":"Find a ` + word + `.","request_id":"request-3"}`
	help := `{"agent":"carol","goal":"See a ` + word + `","requested_action":"Look at the ` + word + `","context":"` + word + `","constraints":"` + word + `","request_id":"request-4"}`
	profile := `{"id":"dave","description":"Draws a ` + word + `.","note":"` + word + `","endpoint":"https://` + word + `.example","capabilities":["` + word + `"]}`
	send("/api/entries", question)                                                                                  // e1
	send("/api/entries", `{"agent":"bob","body":"An answer without the word, @`+word+`","reply_to":"e1"}`)          // e2: mentions it
	send("/api/entries", note)                                                                                      // e3
	send("/api/entries", `{"agent":"bob","body":"Plain words.","tags":["bees"]}`)                                   // e4
	send("/api/entries", `{"agent":"`+word+`","body":"An answer of my own","reply_to":"e4"}`)                       // e5
	send("/api/jobs", job)                                                                                          // j6
	send("/api/jobs", `{"agent":"bob","action":"claim","job_id":"j6"}`)                                             // e7
	send("/api/human-requests", help)                                                                               // h8
	send("/api/jobs", `{"agent":"carol","title":"Another `+word+`","body":"Find another one."}`)                    // j9
	send("/api/jobs", `{"agent":"bob","action":"claim","job_id":"j9"}`)                                             // ea
	send("/api/jobs", `{"agent":"bob","action":"result","job_id":"j9","result":"Found.","request_id":"request-5"}`) // eb
	send("/api/agents", profile)
	send("/api/entries", `{"agent":"bob","body":"Plain words.","channel":"`+channel+`"}`) // ec

	message := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m1","role":"user","parts":[{"kind":"text","text":"A ` + word + ` by message"}]}}}`
	s.Post("/a2a", message) // ec
	surfaces := append(gets(
		"/api/entries", "/api/entries?q="+word, "/api/entries?agent="+word, "/api/entries?tag="+word,
		"/api/entries?channel="+channel, "/api/entries?kind=knowledge", "/api/entries?for=bob",
		"/api/entries?reply_to=e4", "/api/entries?thread=e4", "/api/entries?thread=j6",
		"/api/entries?thread=j6&q="+word, "/api/entries/e1", "/api/entries/e3", "/api/entries/e4", "/api/entries/e7",
		"/api/entries/eb", "/api/channels", "/api/threads", "/api/agents", "/api/agents?q="+word, "/api/agents/dave",
		"/api/jobs?status=all", "/api/jobs?status=claimed", "/api/jobs?status=done&q="+word, "/api/jobs/j6",
		"/api/human-requests", "/api/human-requests?q="+word, "/api/home?for=bob", "/api/home?for=carol",
		"/api/home?for=dave", "/api/home?for=nobody", "/api/human-requests/h8", "/api/entries?format=atom",
		"/api/jobs?status=all&format=atom", "/api/events?limit=100&channel=general&last_event_id="+first.LastEventID,
		"/api/events?limit=100&q="+word+"&last_event_id="+first.LastEventID, "/", "/channels", "/c/general",
		"/e/e1", "/e/e1?plain=1", "/e/e7", "/agents", "/a/dave", "/a/carol", "/jobs?status=all", "/human",
		"/search?channel=general",
	), []surfaceCall{
		{method: "GET", path: "/stats", empty: true},
		{method: "GET", path: "/api/stats", empty: true},
		{method: "GET", path: "/api/usage", empty: true},
		{method: "POST", path: "/api/entries", body: note},
		{method: "POST", path: "/api/jobs", body: job},
		{method: "POST", path: "/api/jobs", body: `{"agent":"bob","action":"result","job_id":"j9","result":"Found.","request_id":"request-5"}`},
		{method: "POST", path: "/api/human-requests", body: help},
		{method: "POST", path: "/api/agents", body: `{"id":"dave","description":"Mine now.","edit_key":"` + op.EditKeyPrefix + strings.Repeat("a", 52) + `"}`},
		{method: "POST", path: "/a2a", body: message},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("read_entries", `{"q":"`+word+`"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_entry", `{"id":"e1"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_entry", `{"id":"e7"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_thread", `{"thread":"e4"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("list_channels", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("list_agents", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_agent", `{"id":"dave"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("list_jobs", `{"status":"all"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_job", `{"id":"j6"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("home", `{"for":"bob"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("stats", `{}`), empty: true},
	}...)
	checkSurfaces(t, surfaces)
	checkShown(t, s, surfaces, word, true)
	hideWord(t, s, action, word)
	checkShown(t, s, surfaces, word, false)
}

// hideWord hides all that holds a word, or purges it.
func hideWord(t *testing.T, s *apitest.Server, action, word string) {
	t.Helper()
	hidden := apitest.Moderate(t, s, "hide", map[string]any{"words": word, "reason": "a test"})
	if hidden.Changed != 7 || hidden.Next != nil {
		t.Fatalf("hidden were %+v", hidden)
	}
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e5", "ec"}, "profiles": []string{"Dave"}, "reason": "a test"})
	if action == "purge" {
		// Some of them are shown again: what is purged need not be hidden before.
		apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1", "j6"}, "reason": "a test"})
		purged := apitest.Purge(t, s, map[string]any{"ids": []string{"e1", "e2", "e3", "e5", "j6", "h8", "j9", "ec", "ed"}, "reason": "a test"})
		if purged.Matched != 9 || purged.Changed != 9 || purged.Next != nil {
			t.Fatalf("purged were %+v", purged)
		}
		apitest.Moderate(t, s, "unhide", map[string]any{"profiles": []string{"dave"}, "reason": "a test"})
		must.Equal(t, apitest.Purge(t, s, map[string]any{"profiles": []string{"dave"}, "reason": "a test"}).Changed, 1, "purged")
		if again := apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1", "j6"}, "reason": "a test"}); again.Changed != 0 {
			t.Errorf("what is purged is shown again: %+v", again)
		}
	}
}

// TestNoSurfaceNamesAnEmptyChannel: the name of a channel without shown entries is in no answer, also
// not in those about the hidden entries. Moderators see it.
func TestNoSurfaceNamesAnEmptyChannel(t *testing.T) {
	s := apitest.WithModerator(t)
	const name = "zyzzyva"
	first := apitest.Decoded[struct{ LastEventID string }](t, s.Get("/api/events"))
	ada := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Ada", "description": "An agent of the tests"}).EditKey
	s.Publish(map[string]any{"agent": "eve", "body": "In a channel with a bad name, for @ada?", "channel": name})
	s.Publish(map[string]any{"edit_key": ada, "body": "Another one", "channel": name})
	s.Publish(map[string]any{"agent": "bob", "body": "An answer elsewhere", "reply_to": "e1", "channel": "den"})
	surfaces := append(gets(
		"/api/entries", "/api/entries/e1", "/api/entries?thread=e1", "/api/channels", "/api/threads",
		"/api/home?for=bob", "/api/home?for=eve", "/api/home?for=ada",
		"/api/events?limit=100&last_event_id="+first.LastEventID, "/", "/channels", "/c/general", "/e/e1", "/a/eve",
		"/search",
	), []surfaceCall{
		{method: "POST", path: "/mcp", body: apitest.ToolCall("read_entries", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_entry", `{"id":"e1"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("list_channels", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("home", `{"for":"eve"}`)},
		{method: "POST", path: "/a2a", body: `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m1","role":"user","parts":[{"kind":"text","text":"channels"}]}}}`},
	}...)
	checkShown(t, s, surfaces, name, true)
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "a test"})
	s.Get("/api/entries/e1").Has(t, `"channel":"`+name+`"`) // which has another entry
	apitest.Moderate(t, s, "hide", map[string]any{"channel": name, "reason": "a test"})
	checkShown(t, s, surfaces, name, false)
	s.Get("/api/entries/e1").Has(t, `"channel":""`, `"reason":"a test"`)
	s.Get("/api/moderation/entries?channel="+name, "Authorization", "Bearer "+apitest.ModToken).Has(t, `"id":"e1"`, `"channel":"zyzzyva"`)
	apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1"}})
	s.Get("/api/channels").Has(t, name)
}
