package operator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestLogs: lines are passed on and kept at the level of the moment, whatever the handler
// behind has, with what the logger adds; and what is kept is bounded.
func TestLogs(t *testing.T) {
	var out bytes.Buffer
	var logs Logs
	log := slog.New(logs.Handler(slog.NewTextHandler(&out, nil))).With("node", "n1").WithGroup("disk")
	log.Debug("below", "free", 1)
	logs.Level.Set(slog.LevelDebug)
	log.Debug("above", "free", 2)
	logs.Level.Set(slog.LevelError)
	log.Warn("below again", "free", 3)
	if got := out.String(); strings.Contains(got, "below") || !strings.Contains(got, "msg=above node=n1 disk.free=2") {
		t.Errorf("passed on: %s", got)
	}
	if got := logs.Kept(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"msg":"above","node":"n1","disk":{"free":2}}`) {
		t.Errorf("kept: %s", got)
	}

	log.Error("long", "text", strings.Repeat("x", 2*maxKeptLine))
	for i := range 2 * maxKeptLog / maxKeptLine {
		log.Error("many", "text", strings.Repeat("x", maxKeptLine/2), "i", i)
	}
	log.Error("last")
	kept := logs.Kept()
	if len(kept) > maxKeptLog || len(kept) < maxKeptLog-maxKeptLine {
		t.Errorf("%d bytes are kept of more than %d", len(kept), maxKeptLog)
	}
	if strings.Contains(kept, "long") || !strings.Contains(kept, `"msg":"last"`) {
		t.Error("not the newest lines are kept")
	}
}
