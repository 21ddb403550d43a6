package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
)

// placeholderText recognizes what stands for a value that only the client knows.
var placeholderText = regexp.MustCompile(`^Your .* characters\.$|^your-|^https://example\.org/your-`)

// checkExample holds that a rejection has an example that the surface takes as it is, that an
// example with a placeholder is a dry run, and that the notes name what to replace.
func checkExample(t rapid.TB, s *apitest.Server, surface *apitest.WriteSurface, path string, fields map[string]any, b apitest.WriteResult) {
	t.Helper()
	what := fmt.Sprintf("%s to %s by %s", mustShort(fields), path, surface.Name)
	if string(b.Problem.Example) == "{}" || len(b.Problem.Example) == 0 {
		t.Fatalf("%s: no example: %s", what, b.ShownPage)
	}
	open := apitest.FieldsToReplace(b.Problem.Notes)
	dry := strings.Contains(string(b.Problem.Example), `"dry_run":true`)
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
			if name == "text" && strings.HasPrefix(surface.Name, "A2A") {
				name = "body"
			}
			if placeholderText.MatchString(value) && (!dry || !slices.Contains(open, name)) {
				t.Fatalf("%s: the example %s holds a placeholder for %s, the notes are %v", what, b.Problem.Example, name, b.Problem.Notes)
			}
		}
	}
	var example any
	if err := json.Unmarshal(b.Problem.Example, &example); err != nil {
		t.Fatalf("%s: the example %s: %v", what, b.Problem.Example, err)
	}
	walk("", example)
	if strings.Contains(string(b.Problem.Example), op.EditKeyPrefix) {
		t.Fatalf("%s: the example %s holds a key", what, b.Problem.Example)
	}
	var key any
	keyLeftOut := slices.Contains(b.Problem.Notes, wire.KeyLeftOut)
	asksKey := slices.ContainsFunc(b.Problem.Issues, func(i client.Issue) bool { return i.Field == "edit_key" })
	if keyLeftOut && !asksKey {
		key = fields["edit_key"]
	}
	if slices.Contains(open, "edit_key") && fields["edit_key"] == nil && path != apitest.SeenPath { // which needs a key
		if asksKey { // of a name that an earlier example has protected
			return
		}
		t.Fatalf("%s: the notes %v say to replace a key that was not sent", what, b.Problem.Notes)
	}
	index := s.Backend.Machine.Applied()
	again := surface.Again(path, b.Tool, b.Problem.Example, key)
	isProof := apitest.NeedsKey(path) && again.Problem.Code == "proof_required" && keyLeftOut
	isWrongKey := key != nil && again.Problem.Code == "wrong_edit_key" // the drawn key, which the example left out
	if !again.Accepted && !isProof && !isWrongKey {
		t.Fatalf("%s: the example %s: %s", what, b.Problem.Example, again.ShownPage)
	}
	if now := s.Backend.Machine.Applied(); dry && now != index {
		t.Fatalf("%s: the example %s wrote %d times", what, b.Problem.Example, now-index)
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

// TestEveryFieldErrorHasAnExample breaks each field of each write in every way, and leaves each
// out, on every surface: no rejection is without an example, and each works as it is.
func TestEveryFieldErrorHasAnExample(t *testing.T) {
	longtest.SkipShort(t, "sends one request after the other: long, and alike")
	for _, test := range dryRuns {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := apitest.Board(t, apitest.UnboundedDryRuns, apitest.UnboundedRejections)
			surfaces := apitest.WriteSurfaces(t, s)
			rejections, turn := 0, 0
			try := func(fields map[string]any) {
				for i := range surfaces {
					surface := &surfaces[i]
					if turn++; i > 0 && turn%longtest.Rounds(4, 1) != 0 {
						continue
					}
					if _, isFlat := apitest.Flat(fields); !surface.Takes(test.path) || !isFlat && (surface.Name == "form" || surface.Name == "GET") {
						continue
					}
					b := surface.Send(test.path, apitest.ToolOf(test.path, test.body), fields)
					if !b.Accepted && slices.Contains(alwaysAnExample, b.Problem.Code) {
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
	s := apitest.Board(t, apitest.UnboundedDryRuns, apitest.UnboundedRejections)
	s.Backend.Apply(&command.SetSettings{WriteRate: new(int64)})
	surfaces := apitest.WriteSurfaces(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		test := dryRuns[rapid.IntRange(0, len(dryRuns)-1).Draw(rt, "write")]
		surface := &surfaces[rapid.IntRange(0, len(surfaces)-1).Draw(rt, "surface")]
		fields := maps.Clone(test.body)
		names := api.BodyFields()[test.path]
		for range rapid.IntRange(1, 4).Draw(rt, "wrong") {
			fields[rapid.SampledFrom(names).Draw(rt, "field")] = rapid.SampledFrom(badValues).Draw(rt, "value")
		}
		if _, isFlat := apitest.Flat(fields); !surface.Takes(test.path) || !isFlat && (surface.Name == "form" || surface.Name == "GET") {
			return
		}
		b := surface.Send(test.path, apitest.ToolOf(test.path, test.body), fields)
		if !b.Accepted && slices.Contains(alwaysAnExample, b.Problem.Code) {
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
			s := apitest.Board(t)
			surfaces, limited := apitest.WriteSurfaces(t, s), []apitest.WriteResult(nil)
			for _, surface := range surfaces {
				if !surface.Takes(test.path) {
					continue
				}
				fields := maps.Clone(test.body)
				if surface.Name == "GET" {
					fields["request_id"] = "limited-1"
				}
				s.Backend.Reject = func(command.Sender, command.Payload) error { return &command.RateLimited{RetryAfter: 1e9} }
				b := surface.Send(test.path, apitest.ToolOf(test.path, test.body), fields)
				s.Backend.Reject = nil
				check.Equal(t, b.Problem.Code, "rate_limited", "by %s: %s: code", surface.Name, b.ShownPage)
				check.Lacks(t, string(b.Problem.Example), "dry_run", "by %s: %s: example", surface.Name, b.ShownPage)
				words := maps.Clone(fields)
				if delete(words, "edit_key"); surface.Name == "tool" {
					delete(words, "action") // the tool
				}
				for word := range strings.FieldsSeq(apitest.WordsOf(words)) {
					check.Contains(t, apitest.WordsOf(apitest.AnyJSON(t, b.Problem.Example)), word, "by %s: the words of the example %s", surface.Name, b.Problem.Example)
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
	s := apitest.Board(t, func(c *api.Config) {
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
		"a test delivery":  {"POST", apitest.DeliveriesPath + "/test", "", `{"dry_run":false}`},
		"a call of a tool": {"POST", "/mcp", apitest.ToolCall("publish_entry", `{"edit_key":"ck_secret","tags":"`+whole+`"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.Do(test.method, test.path, test.body, "Content-Type", apitest.JSONType)
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
