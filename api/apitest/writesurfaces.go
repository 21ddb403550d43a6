package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/internal/must"
)

// WriteResult is the outcome of a write, on any surface.
type WriteResult struct {
	Accepted  bool
	Problem   Problem // unless it was accepted
	Tool      string  // the tool of which the example is a call
	ShownPage string  // the whole answer
}

// WriteSurface is a surface as examples see it: it sends fields, or an example as it is.
type WriteSurface struct {
	Name string
	// takes reports whether the surface has this write.
	Takes func(path string) bool
	Send  func(path, tool string, fields map[string]any) WriteResult
	Again func(path, tool string, example json.RawMessage, key any) WriteResult
}

// ToolOf is the tool that runs a write.
func ToolOf(path string, body map[string]any) string {
	if action, isText := body["action"].(string); isText && path == "/api/jobs" {
		if tool := map[string]string{"claim": "claim_job", "result": "submit_job_result", "release": "release_job", "close": "close_job"}[action]; tool != "" {
			return tool
		}
	}
	return map[string]string{
		"/api/entries": "publish_entry", "/api/agents": "register_agent", "/api/jobs": "post_job", "/api/human-requests": "request_human_help",
		ReportsPath: "report_entry", SeenPath: "mark_seen",
	}[path]
}

// Flat returns fields as a form or a query holds them; false if one of them has no such form.
func Flat(fields map[string]any) (url.Values, bool) {
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

// ExampleTool finds the tool that a text names for its example.
var ExampleTool = regexp.MustCompile(`\nExample: (\w+) `)

// WriteSurfaces are the surfaces of a server.
func WriteSurfaces(t *testing.T, s *Server) []WriteSurface { //nolint:funlen // a table
	t.Helper()
	always := func(string) bool { return true }
	entries := func(path string) bool { return path == "/api/entries" }
	byHTTP := func(r *Response) (b WriteResult) {
		b.Accepted, b.ShownPage = r.Status < http.StatusBadRequest, fmt.Sprintf("%d %s", r.Status, r.Body)
		if !b.Accepted {
			b.Problem = CheckError(t, r)
		}
		return b
	}
	withKey := func(example json.RawMessage, key any) map[string]any {
		fields, _ := AnyJSON(t, example).(map[string]any)
		if key != nil {
			fields["edit_key"] = key
		}
		return fields
	}
	asForm := func(path string, fields map[string]any) WriteResult {
		values, _ := Flat(fields)
		return byHTTP(s.Do(http.MethodPost, path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
	}
	asQuery := func(path string, fields map[string]any) WriteResult {
		values, _ := Flat(fields)
		return byHTTP(s.Get(path + "?" + values.Encode()))
	}
	b := NewToolbox(t, s)
	byTool := func(tool string, arguments any) (back WriteResult) {
		got := b.Use(tool, arguments)
		back.Accepted, back.ShownPage, back.Tool = !got.IsError, got.TextOf, tool
		if found := ExampleTool.FindStringSubmatch(got.TextOf); found != nil {
			back.Tool = found[1]
		}
		if got.IsError {
			must.Do(t, json.Unmarshal(got.Body, &back.Problem))
		}
		return back
	}
	byRPC := func(body string) (back WriteResult) {
		r := RPC(t, s, body)
		back.Accepted, back.ShownPage = r.Error == nil, fmt.Sprintf("%s %+v", JSON(t, r.Result), r.Error)
		if r.Error != nil {
			back.Problem = ProblemA2A(t, r.Error.Data)
		}
		return back
	}
	sent := 0
	message := func(method string) func(path, tool string, fields map[string]any) WriteResult {
		return func(_, _ string, fields map[string]any) WriteResult {
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
			return byRPC(MessageRequest(method, fmt.Sprint("sent-", sent), JSON(t, parts)))
		}
	}
	messageAgain := func(_, _ string, example json.RawMessage, _ any) WriteResult { return byRPC(string(example)) }
	return []WriteSurface{
		{
			"JSON", always,
			func(path, _ string, fields map[string]any) WriteResult { return byHTTP(s.Post(path, fields)) },
			func(path, _ string, example json.RawMessage, key any) WriteResult {
				return byHTTP(s.Post(path, withKey(example, key)))
			},
		},
		{
			"form", always,
			func(path, _ string, fields map[string]any) WriteResult { return asForm(path, fields) },
			func(path, _ string, example json.RawMessage, key any) WriteResult {
				return asForm(path, withKey(example, key))
			},
		},
		{
			"GET", entries,
			func(path, _ string, fields map[string]any) WriteResult {
				fields = maps.Clone(fields)
				fields["action"] = "publish"
				if fields["request_id"] != nil {
					fields["confirm"] = "write"
				}
				return asQuery(path, fields)
			},
			func(path, _ string, example json.RawMessage, _ any) WriteResult {
				return asQuery(path, withKey(example, nil))
			},
		},
		{
			"tool", always,
			func(_, tool string, fields map[string]any) WriteResult { return byTool(tool, fields) },
			func(_, tool string, example json.RawMessage, key any) WriteResult {
				return byTool(tool, withKey(example, key))
			},
		},
		{"A2A 1.0", entries, message("SendMessage"), messageAgain},
		{"A2A 0.3", entries, message("message/send"), messageAgain},
	}
}

// UnboundedRejections turns off the limit of rejected calls.
func UnboundedRejections(c *api.Config) { c.Limits.Rejections = guard.Unbounded }
