package api_test

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/internal/check"
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
	surfaces := []surfaceCall{
		{method: "GET", path: "/api/entries"},
		{method: "GET", path: "/api/entries?q=" + word},
		{method: "GET", path: "/api/entries?agent=" + word},
		{method: "GET", path: "/api/entries?tag=" + word},
		{method: "GET", path: "/api/entries?channel=" + channel},
		{method: "GET", path: "/api/entries?kind=knowledge"},
		{method: "GET", path: "/api/entries?for=bob"},
		{method: "GET", path: "/api/entries?reply_to=e4"},
		{method: "GET", path: "/api/entries?thread=e4"},
		{method: "GET", path: "/api/entries?thread=j6"},
		{method: "GET", path: "/api/entries?thread=j6&q=" + word},
		{method: "GET", path: "/api/entries/e1"},
		{method: "GET", path: "/api/entries/e3"},
		{method: "GET", path: "/api/entries/e4"},
		{method: "GET", path: "/api/entries/e7"},
		{method: "GET", path: "/api/entries/eb"},
		{method: "GET", path: "/api/channels"},
		{method: "GET", path: "/api/threads"},
		{method: "GET", path: "/api/agents"},
		{method: "GET", path: "/api/agents?q=" + word},
		{method: "GET", path: "/api/agents/dave"},
		{method: "GET", path: "/api/jobs?status=all"},
		{method: "GET", path: "/api/jobs?status=claimed"},
		{method: "GET", path: "/api/jobs?status=done&q=" + word},
		{method: "GET", path: "/api/jobs/j6"},
		{method: "GET", path: "/api/human-requests"},
		{method: "GET", path: "/api/human-requests?q=" + word},
		{method: "GET", path: "/api/home?for=bob"},
		{method: "GET", path: "/api/home?for=carol"},
		{method: "GET", path: "/api/home?for=dave"},
		{method: "GET", path: "/api/home?for=nobody"},
		{method: "GET", path: "/api/human-requests/h8"},
		{method: "GET", path: "/api/entries?format=atom"},
		{method: "GET", path: "/api/jobs?status=all&format=atom"},
		{method: "GET", path: "/api/events?limit=100&channel=general&last_event_id=" + first.LastEventID},
		{method: "GET", path: "/api/events?limit=100&q=" + word + "&last_event_id=" + first.LastEventID},
		{method: "GET", path: "/"},
		{method: "GET", path: "/channels"},
		{method: "GET", path: "/c/general"},
		{method: "GET", path: "/e/e1"},
		{method: "GET", path: "/e/e1?plain=1"},
		{method: "GET", path: "/e/e7"},
		{method: "GET", path: "/agents"},
		{method: "GET", path: "/a/dave"},
		{method: "GET", path: "/a/carol"},
		{method: "GET", path: "/jobs?status=all"},
		{method: "GET", path: "/human"},
		{method: "GET", path: "/search?channel=general"},
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
	}
	checkSurfaces(t, surfaces)
	ask := func(at surfaceCall) []byte {
		if at.method == http.MethodGet && !strings.HasPrefix(at.path, "/api/") {
			return bytes.ToLower(apitest.Visit(t, s, at.method, at.path, "", 0, "Accept", apitest.BrowserAccept).Body)
		}
		var headers []string
		if at.body != "" {
			headers = []string{"Content-Type", apitest.JSONType}
		}
		r := s.Do(at.method, at.path, at.body, headers...)
		if r.Status >= http.StatusInternalServerError {
			t.Errorf("%s %s %s: %d %s", at.method, at.path, at.body, r.Status, r.Body)
		}
		return bytes.ToLower(r.Body)
	}
	showThenHide(t, s, surfaces, ask, action, word)
	for _, at := range surfaces {
		check.Lacks(t, string(ask(at)), word, "%s %s %s still shows it", at.method, at.path, at.body)
	}
}

// showThenHide holds that each surface shows the word, and then hides all that holds it,
// or purges it.
func showThenHide(t *testing.T, s *apitest.Server, surfaces []surfaceCall, ask func(surfaceCall) []byte, action, word string) {
	t.Helper()
	for _, at := range surfaces {
		if answer := ask(at); bytes.Contains(answer, []byte(word)) == at.empty {
			t.Errorf("%s %s %s does not show the word beforehand: %s", at.method, at.path, at.body, answer)
		}
	}
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
	surfaces := []surfaceCall{
		{method: "GET", path: "/api/entries"},
		{method: "GET", path: "/api/entries/e1"},
		{method: "GET", path: "/api/entries?thread=e1"},
		{method: "GET", path: "/api/channels"},
		{method: "GET", path: "/api/threads"},
		{method: "GET", path: "/api/home?for=bob"},
		{method: "GET", path: "/api/home?for=eve"},
		{method: "GET", path: "/api/home?for=ada"},
		{method: "GET", path: "/api/events?limit=100&last_event_id=" + first.LastEventID},
		{method: "GET", path: "/"},
		{method: "GET", path: "/channels"},
		{method: "GET", path: "/c/general"},
		{method: "GET", path: "/e/e1"},
		{method: "GET", path: "/a/eve"},
		{method: "GET", path: "/search"},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("read_entries", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("get_entry", `{"id":"e1"}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("list_channels", `{}`)},
		{method: "POST", path: "/mcp", body: apitest.ToolCall("home", `{"for":"eve"}`)},
		{method: "POST", path: "/a2a", body: `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m1","role":"user","parts":[{"kind":"text","text":"channels"}]}}}`},
	}
	ask := func(at surfaceCall) string {
		if strings.HasPrefix(at.path, "/api/") || at.body != "" {
			return string(s.Do(at.method, at.path, at.body, "Content-Type", apitest.JSONType).Body)
		}
		return string(apitest.Visit(t, s, at.method, at.path, "", 0, "Accept", apitest.BrowserAccept).Body)
	}
	for _, at := range surfaces {
		check.Equal(t, strings.Contains(ask(at), name), true, "%s %s %s shows the name beforehand", at.method, at.path, at.body)
	}
	apitest.Moderate(t, s, "hide", map[string]any{"ids": []string{"e1"}, "reason": "a test"})
	s.Get("/api/entries/e1").Has(t, `"channel":"`+name+`"`) // which has another entry
	apitest.Moderate(t, s, "hide", map[string]any{"channel": name, "reason": "a test"})
	for _, at := range surfaces {
		check.Equal(t, strings.Contains(ask(at), name), false, "%s %s %s shows the name", at.method, at.path, at.body)
	}
	s.Get("/api/entries/e1").Has(t, `"channel":""`, `"reason":"a test"`)
	s.Get("/api/moderation/entries?channel="+name, "Authorization", "Bearer "+apitest.ModToken).Has(t, `"id":"e1"`, `"channel":"zyzzyva"`)
	apitest.Moderate(t, s, "unhide", map[string]any{"ids": []string{"e1"}})
	s.Get("/api/channels").Has(t, name)
}
