package api_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// takeLines returns what was logged so far, and forgets it.
func takeLines(t *testing.T, log *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(log.String()) {
		var m map[string]any
		must.Do(t, json.Unmarshal([]byte(line), &m))
		out = append(out, m)
	}
	log.Reset()
	return out
}

func TestRequestLogIsASample(t *testing.T) {
	var out bytes.Buffer
	log := api.NewRequestLog(slog.New(slog.NewJSONHandler(&out, nil)), 2)
	now := time.Now()
	write := func(times, status int) {
		for range times {
			log.Write(now, http.MethodGet, "/api/entries", status, 10, time.Millisecond, "")
		}
	}
	write(5, http.StatusOK)
	write(1, http.StatusServiceUnavailable)
	if got := takeLines(t, &out); len(got) != 3 || got[0]["level"] != "INFO" || got[2]["level"] != "WARN" || got[2]["status"] != float64(http.StatusServiceUnavailable) {
		t.Errorf("logged %v", got)
	}
	now = now.Add(time.Second)
	write(1, http.StatusOK)
	if got := takeLines(t, &out); len(got) != 1 || got[0]["leftOut"] != float64(3) || got[0]["route"] != "/api/entries" {
		t.Errorf("a second later %v", got)
	}
	log = api.NewRequestLog(slog.New(slog.NewJSONHandler(&out, nil)), 0)
	write(5, http.StatusOK)
	check.Equal(t, len(takeLines(t, &out)), 0, "lines while it is off")
}

// TestRequestLogNamesTheTrace: a call's parent is in its line, from the header, and from the
// _meta of a tool's call, which comes first.
func TestRequestLogNamesTheTrace(t *testing.T) {
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const meta = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for name, tc := range map[string]struct {
		path, body string
		headers    []string
		trace      any
		span       any
	}{
		"a header":         {"/api/entries", `{"agent":"eve","body":"traced"}`, []string{"traceparent", header}, header[3:35], header[36:52]},
		"two headers":      {"/api/entries", `{"agent":"eve","body":"twice"}`, []string{"traceparent", header, "traceparent", header}, nil, nil},
		"an invalid value": {"/api/entries", `{"agent":"eve","body":"invalid"}`, []string{"traceparent", strings.ToUpper(header)}, nil, nil},
		"a tool": {
			"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home","arguments":{},"_meta":{"traceparent":"` + meta + `"}}}`,
			[]string{"traceparent", header, "Accept", "application/json, text/event-stream"},
			meta[3:35], meta[36:52],
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out await.Buffer
			s := apitest.New(t, func(cfg *api.Config) {
				cfg.RequestLog, cfg.Logger = 10, slog.New(slog.NewJSONHandler(&out, nil))
			})
			headers := append([]string{"Content-Type", apitest.JSONType}, tc.headers...)
			res := s.Send(s.Request(http.MethodPost, tc.path, tc.body, headers...))
			for _, line := range takeLines(t, bytes.NewBufferString(out.String())) {
				if line["msg"] == "request" {
					check.Equal(t, line["traceId"], tc.trace, "the line %v: line", line)
					check.Equal(t, line["spanId"], tc.span, "the line %v: line", line)
					return
				}
			}
			t.Errorf("no request is logged; status %d", res.Status)
		})
	}
}
