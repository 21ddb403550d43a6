package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// sentBack is the outcome of a write, on any surface.
type sentBack struct {
	accepted bool
	problem  apitest.Problem // unless it was accepted
	tool     string          // the tool of which the example is a call
	shown    string          // the whole answer
}

// exampleSurface is a surface as examples see it: it sends fields, or an example as it is.
type exampleSurface struct {
	name string
	// takes reports whether the surface has this write.
	takes func(path string) bool
	send  func(path, tool string, fields map[string]any) sentBack
	again func(path, tool string, example json.RawMessage, key any) sentBack
}

// toolOf is the tool that runs a write.
func toolOf(path string, body map[string]any) string {
	if action, isText := body["action"].(string); isText && path == "/api/jobs" {
		if tool := map[string]string{"claim": "claim_job", "result": "submit_job_result", "release": "release_job", "close": "close_job"}[action]; tool != "" {
			return tool
		}
	}
	return map[string]string{
		"/api/entries": "publish_entry", "/api/agents": "register_agent", "/api/jobs": "post_job", "/api/human-requests": "request_human_help",
		reportsPath: "report_entry", seenPath: "mark_seen",
	}[path]
}

// flat returns fields as a form or a query holds them; false if one of them has no such form.
func flat(fields map[string]any) (url.Values, bool) {
	values := url.Values{}
	for name, value := range fields {
		switch value := value.(type) {
		case string:
			values.Set(name, value)
		case bool, float64:
			values.Set(name, fmt.Sprint(value))
		case []string:
			values.Set(name, strings.Join(value, ","))
		case []any:
			var items []string
			for _, item := range value {
				items = append(items, fmt.Sprint(item))
			}
			values.Set(name, strings.Join(items, ","))
		case map[string]any:
			data, err := json.Marshal(value)
			if err != nil {
				return nil, false
			}
			values.Set(name, string(data))
		default:
			return nil, false
		}
	}
	return values, true
}

// exampleTool finds the tool that a text names for its example.
var exampleTool = regexp.MustCompile(`\nExample: (\w+) `)

// surfacesOf are the surfaces of a server.
func surfacesOf(t *testing.T, s *apitest.Server) []exampleSurface {
	t.Helper()
	always := func(string) bool { return true }
	entries := func(path string) bool { return path == "/api/entries" }
	byHTTP := func(r *apitest.Response) (b sentBack) {
		b.accepted, b.shown = r.Status < http.StatusBadRequest, fmt.Sprintf("%d %s", r.Status, r.Body)
		if !b.accepted {
			b.problem = apitest.CheckError(t, r)
		}
		return b
	}
	withKey := func(example json.RawMessage, key any) map[string]any {
		fields, _ := anyJSON(t, example).(map[string]any)
		if key != nil {
			fields["edit_key"] = key
		}
		return fields
	}
	asForm := func(path string, fields map[string]any) sentBack {
		values, _ := flat(fields)
		return byHTTP(s.Do(http.MethodPost, path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
	}
	asQuery := func(path string, fields map[string]any) sentBack {
		values, _ := flat(fields)
		return byHTTP(s.Get(path + "?" + values.Encode()))
	}
	b := newToolbox(t, s)
	byTool := func(tool string, arguments any) (back sentBack) {
		got := b.use(tool, arguments)
		back.accepted, back.shown, back.tool = !got.isError, got.text, tool
		if found := exampleTool.FindStringSubmatch(got.text); found != nil {
			back.tool = found[1]
		}
		if got.isError {
			must.Do(t, json.Unmarshal(got.body, &back.problem))
		}
		return back
	}
	byRPC := func(body string) (back sentBack) {
		r := rpc(t, s, body)
		back.accepted, back.shown = r.Error == nil, fmt.Sprintf("%s %+v", mustJSON(t, r.Result), r.Error)
		if r.Error != nil {
			back.problem = problemOf(t, r.Error.Data)
		}
		return back
	}
	sent := 0
	message := func(method string) func(path, tool string, fields map[string]any) sentBack {
		return func(_, _ string, fields map[string]any) sentBack {
			sent++
			data := maps.Clone(fields)
			var parts []any
			if text, isText := data["body"].(string); isText {
				delete(data, "body")
				parts = append(parts, map[string]any{"text": text})
			}
			if len(data) > 0 || parts == nil {
				parts = append(parts, map[string]any{"data": data})
			}
			return byRPC(say(method, fmt.Sprint("sent-", sent), mustJSON(t, parts)))
		}
	}
	messageAgain := func(_, _ string, example json.RawMessage, _ any) sentBack { return byRPC(string(example)) }
	return []exampleSurface{
		{
			"JSON", always,
			func(path, _ string, fields map[string]any) sentBack { return byHTTP(s.Post(path, fields)) },
			func(path, _ string, example json.RawMessage, key any) sentBack {
				return byHTTP(s.Post(path, withKey(example, key)))
			},
		},
		{
			"form", always,
			func(path, _ string, fields map[string]any) sentBack { return asForm(path, fields) },
			func(path, _ string, example json.RawMessage, key any) sentBack {
				return asForm(path, withKey(example, key))
			},
		},
		{
			"GET", entries,
			func(path, _ string, fields map[string]any) sentBack {
				fields = maps.Clone(fields)
				fields["action"] = "publish"
				if fields["request_id"] != nil {
					fields["confirm"] = "write"
				}
				return asQuery(path, fields)
			},
			func(path, _ string, example json.RawMessage, _ any) sentBack {
				return asQuery(path, withKey(example, nil))
			},
		},
		{
			"tool", always,
			func(_, tool string, fields map[string]any) sentBack { return byTool(tool, fields) },
			func(_, tool string, example json.RawMessage, key any) sentBack {
				return byTool(tool, withKey(example, key))
			},
		},
		{"A2A 1.0", entries, message("SendMessage"), messageAgain},
		{"A2A 0.3", entries, message("message/send"), messageAgain},
	}
}

// placeholderText recognizes what stands for a value that only the client knows.
var placeholderText = regexp.MustCompile(`^Your .* characters\.$|^your-|^https://example\.org/your-`)

// checkExample holds that a rejection has an example that the surface takes as it is, that an
// example with a placeholder is a dry run, and that the notes name what to replace.
func checkExample(t rapid.TB, s *apitest.Server, surface *exampleSurface, path string, fields map[string]any, b sentBack) {
	t.Helper()
	what := fmt.Sprintf("%s to %s by %s", mustShort(fields), path, surface.name)
	if string(b.problem.Example) == "{}" || len(b.problem.Example) == 0 {
		t.Fatalf("%s: no example: %s", what, b.shown)
	}
	open := replaced(b.problem.Notes)
	dry := strings.Contains(string(b.problem.Example), `"dry_run":true`)
	var walk func(name string, value any)
	walk = func(name string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, value := range value {
				walk(name, value)
			}
		case []any:
			for _, item := range value {
				walk(name, item)
			}
		case string:
			if name == "text" && strings.HasPrefix(surface.name, "A2A") {
				name = "body"
			}
			if placeholderText.MatchString(value) && (!dry || !slices.Contains(open, name)) {
				t.Fatalf("%s: the example %s holds a placeholder for %s, the notes are %v", what, b.problem.Example, name, b.problem.Notes)
			}
		}
	}
	var example any
	if err := json.Unmarshal(b.problem.Example, &example); err != nil {
		t.Fatalf("%s: the example %s: %v", what, b.problem.Example, err)
	}
	walk("", example)
	if strings.Contains(string(b.problem.Example), op.EditKeyPrefix) {
		t.Fatalf("%s: the example %s holds a key", what, b.problem.Example)
	}
	var key any
	keyLeftOut := slices.Contains(b.problem.Notes, wire.KeyLeftOut)
	if keyLeftOut && !slices.ContainsFunc(b.problem.Issues, func(i client.Issue) bool { return i.Field == "edit_key" }) {
		key = fields["edit_key"]
	}
	if slices.Contains(open, "edit_key") && fields["edit_key"] == nil && path != seenPath { // which needs a key
		t.Fatalf("%s: the notes %v say to replace a key that was not sent", what, b.problem.Notes)
	}
	index := s.Backend.Machine.Applied()
	again := surface.again(path, b.tool, b.problem.Example, key)
	isProof := needsKey(path) && again.problem.Code == "proof_required" && keyLeftOut
	isWrongKey := key != nil && again.problem.Code == "wrong_edit_key" // the drawn key, which the example left out
	if !again.accepted && !isProof && !isWrongKey {
		t.Fatalf("%s: the example %s: %s", what, b.problem.Example, again.shown)
	}
	if now := s.Backend.Machine.Applied(); dry && now != index {
		t.Fatalf("%s: the example %s wrote %d times", what, b.problem.Example, now-index)
	}
}

func mustShort(fields map[string]any) string {
	data, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.300s", data)
}

// badValues are values that break rules of most fields.
var badValues = []any{
	nil, json.Number("7"), true, "", "x", "e99", "j99", "?", "a\x00bcd", strings.Repeat("é", 6000), "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
	[]any{},
	[]any{"", json.Number("3")},
	strings.Split("abcdefghijklmnopqrstuvwxyz", ""),
	map[string]any{"odd": "thing"},
}

// alwaysAnExample are the codes of the statuses 422 and 428.
var alwaysAnExample = []string{"validation_failed", "confirmation_required"}

// unboundedRejections turns off the limit of rejected calls.
func unboundedRejections(c *api.Config) { c.Limits.Rejections = guard.Unbounded }

// TestEveryFieldErrorHasAnExample breaks each field of each write in every way, and leaves each
// out, on every surface: no rejection is without an example, and each works as it is.
func TestEveryFieldErrorHasAnExample(t *testing.T) {
	if testing.Short() {
		t.Skip("sends one request after the other: long, and alike")
	}
	for _, test := range dryRuns {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := board(t, unboundedDryRuns, unboundedRejections)
			surfaces := surfacesOf(t, s)
			rejections, turn := 0, 0
			try := func(fields map[string]any) {
				for i := range surfaces {
					surface := &surfaces[i]
					if turn++; i > 0 && turn%longtest.Rounds(4, 1) != 0 {
						continue
					}
					if _, isFlat := flat(fields); !surface.takes(test.path) || !isFlat && (surface.name == "form" || surface.name == "GET") {
						continue
					}
					b := surface.send(test.path, toolOf(test.path, test.body), fields)
					if !b.accepted && slices.Contains(alwaysAnExample, b.problem.Code) {
						rejections++
						checkExample(t, s, surface, test.path, fields, b)
					}
				}
			}
			for _, name := range api.BodyFields()[test.path] {
				for _, value := range append(badValues, "leave it out") {
					fields := maps.Clone(test.body)
					fields["dry_run"] = true // so that a write without problems leaves the state alone
					if fields[name] = value; value == "leave it out" {
						delete(fields, name)
					}
					try(fields)
				}
			}
			try(map[string]any{})
			for _, body := range []string{"", "[1]", "7"} {
				r := s.Post(test.path, body)
				if p := apitest.CheckError(t, r); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(p.Example), `"dry_run":true`) {
					t.Errorf("POST %s %q: %d %s", test.path, body, r.Status, r.Body)
				}
			}
			if rejections == 0 {
				t.Error("nothing was rejected")
			}
		})
	}
}

// TestDrawnRejectionsHaveExamples draws writes with several wrong fields, in earnest and as dry
// runs, on a state that changes with every example that is sent back.
func TestDrawnRejectionsHaveExamples(t *testing.T) {
	s := board(t, unboundedDryRuns, unboundedRejections)
	s.Backend.Apply(&command.SetSettings{WriteRate: new(int64)})
	surfaces := surfacesOf(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		test := dryRuns[rapid.IntRange(0, len(dryRuns)-1).Draw(rt, "write")]
		surface := &surfaces[rapid.IntRange(0, len(surfaces)-1).Draw(rt, "surface")]
		fields := maps.Clone(test.body)
		names := api.BodyFields()[test.path]
		for range rapid.IntRange(1, 4).Draw(rt, "wrong") {
			fields[rapid.SampledFrom(names).Draw(rt, "field")] = rapid.SampledFrom(badValues).Draw(rt, "value")
		}
		if _, isFlat := flat(fields); !surface.takes(test.path) || !isFlat && (surface.name == "form" || surface.name == "GET") {
			return
		}
		b := surface.send(test.path, toolOf(test.path, test.body), fields)
		if !b.accepted && slices.Contains(alwaysAnExample, b.problem.Code) {
			checkExample(rt, s, surface, test.path, fields, b)
		}
	})
}

// TestLimitedWritesAreTheirExample: the example of a 429 is the request itself without its key,
// and works later, on every surface.
func TestLimitedWritesAreTheirExample(t *testing.T) {
	for _, test := range dryRuns {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := board(t)
			surfaces, limited := surfacesOf(t, s), []sentBack(nil)
			for _, surface := range surfaces {
				if !surface.takes(test.path) {
					continue
				}
				fields := maps.Clone(test.body)
				if surface.name == "GET" {
					fields["request_id"] = "limited-1"
				}
				s.Backend.Reject = func(command.Sender, command.Payload) error { return &command.RateLimited{RetryAfter: 1e9} }
				b := surface.send(test.path, toolOf(test.path, test.body), fields)
				s.Backend.Reject = nil
				check.Equal(t, b.problem.Code, "rate_limited", "by %s: %s: code", surface.name, b.shown)
				check.Lacks(t, string(b.problem.Example), "dry_run", "by %s: %s: example", surface.name, b.shown)
				words := maps.Clone(fields)
				if delete(words, "edit_key"); surface.name == "tool" {
					delete(words, "action") // the tool
				}
				for word := range strings.FieldsSeq(said(words)) {
					check.Contains(t, said(anyJSON(t, b.problem.Example)), word, "by %s: the words of the example %s", surface.name, b.problem.Example)
				}
				limited = append(limited, b)
			}
			// The other surfaces say the same of it, and most of these writes are made once.
			checkExample(t, s, &surfaces[0], test.path, test.body, limited[0])
		})
	}
}

// TestExamplesOverABudget: who has used up what the node itself limits gets the request back.
func TestExamplesOverABudget(t *testing.T) {
	still := time.Now()
	s := board(t, func(c *api.Config) {
		c.Limits.Rejections, c.Limits.DryRuns, c.Limits.ReadWork = 1, 1, 1
		c.Limits.Now = func() time.Time { return still } // budgets do not grow
	})
	for _, path := range []string{"/api/entries?action=publish", "/api/entries?q=tide"} {
		for range 100 {
			if s.Get(path).Status == http.StatusTooManyRequests {
				break
			}
		}
	}
	whole := strings.Repeat("A long text. ", 800) // more than a read of MCP has
	for name, test := range map[string]struct{ method, path, body, want string }{
		"a write":          {"POST", "/api/entries", `{"text":"Hello","edit_key":"ck_secret"}`, `{"body":"Hello"}`},
		"a wrong write":    {"POST", "/api/entries", `{"text":"x"}`, `{"body":"Your text, 4 to 5000 characters.","dry_run":true}`},
		"a dry run":        {"POST", "/api/entries", `{"body":"Hello","dry_run":true}`, `{"body":"Hello","dry_run":true}`},
		"an unread body":   {"POST", "/api/entries", `{"body`, `{"min_index":0}`},
		"a GET":            {"GET", "/api/entries?action=publish&confirm=write&request_id=12345678&body=Hello", "", `{"action":"publish","confirm":"write","body":"Hello","request_id":"12345678"}`},
		"a search":         {"GET", "/api/entries?q=tide&limit=3", "", `{"q":"tide","limit":"3"}`},
		"a test delivery":  {"POST", hookPath + "/test", "", `{"dry_run":false}`},
		"a call of a tool": {"POST", "/mcp", toolCall("publish_entry", `{"edit_key":"ck_secret","tags":"`+whole+`"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.Do(test.method, test.path, test.body, "Content-Type", jsonType)
			p := apitest.CheckError(t, r)
			if r.Status != http.StatusTooManyRequests || test.want != "" && string(p.Example) != test.want {
				t.Errorf("%d %s, want the example %s", r.Status, r.Body, test.want)
			}
			if string(p.Example) == "{}" || strings.Contains(string(p.Example), "ck_secret") {
				t.Errorf("the example %s", p.Example)
			}
		})
	}
}
