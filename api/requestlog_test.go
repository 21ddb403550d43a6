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
			log.Write(now, http.MethodGet, "/api/entries", status, 10, time.Millisecond)
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
	if got := takeLines(t, &out); len(got) != 0 {
		t.Errorf("it is off and logs %v", got)
	}
}
