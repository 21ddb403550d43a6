package adminserver

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
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

	logs.Level.Set(slog.LevelInfo)
	log.Info("long", "text", strings.Repeat("x", 2*maxKeptLine))
	for i := range 2 * maxKeptLog / maxKeptLine {
		log.Info("many", "text", strings.Repeat("x", maxKeptLine/2), "i", i)
	}
	log.Info("last")
	kept := logs.Kept()
	if len(kept) > maxKeptLog || len(kept) < maxKeptLog-maxKeptLine {
		t.Errorf("%d bytes are kept of more than %d", len(kept), maxKeptLog)
	}
	check.Lacks(t, kept, "long", "not the newest lines are kept")
	check.Contains(t, kept, `"msg":"last"`, "not the newest lines are kept")
}

// TestRepeatedLines: a line that is written four times a second stands in the log once a minute,
// with the number of those that were left out.
func TestRepeatedLines(t *testing.T) {
	const seconds = 150
	refused := errors.New("dial tcp 127.0.0.1:7001: connect: connection refused")
	for _, test := range []struct {
		name  string
		level slog.Level // of the log
		write func(log *slog.Logger, i int)
		want  []string // the lines, without time
	}{
		{
			"Raft's about two peers", slog.LevelInfo, func(log *slog.Logger, i int) {
				log.With("part", "raft").Error("failed to heartbeat to", "peer", []string{"n2", "n3"}[i%2], "error", fmt.Errorf("%d: %w", i, refused))
			}, []string{
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n2 error="0: dial tcp 127.0.0.1:7001: connect: connection refused"`,
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n3 error="1: dial tcp 127.0.0.1:7001: connect: connection refused"`,
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n2 error="240: dial tcp 127.0.0.1:7001: connect: connection refused" suppressed=119`,
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n3 error="241: dial tcp 127.0.0.1:7001: connect: connection refused" suppressed=119`,
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n2 error="480: dial tcp 127.0.0.1:7001: connect: connection refused" suppressed=119`,
				`level=ERROR msg="failed to heartbeat to" part=raft peer=n3 error="481: dial tcp 127.0.0.1:7001: connect: connection refused" suppressed=119`,
			},
		},
		{
			"Raft's at level info", slog.LevelInfo, func(log *slog.Logger, i int) {
				log.With("part", "raft").Info("entering candidate state", "term", i)
			}, []string{
				`level=INFO msg="entering candidate state" part=raft term=0`,
				`level=INFO msg="entering candidate state" part=raft term=240 suppressed=239`,
				`level=INFO msg="entering candidate state" part=raft term=480 suppressed=239`,
			},
		},
		{
			"with other causes", slog.LevelInfo, func(log *slog.Logger, i int) {
				if i < 3 {
					log.Error("request failed", "route", []string{"/a", "/b", "/a"}[i], "err", []string{"torn", "torn", "lost"}[i])
				}
			}, []string{
				`level=ERROR msg="request failed" route=/a err=torn`,
				`level=ERROR msg="request failed" route=/b err=torn`,
				`level=ERROR msg="request failed" route=/a err=lost`,
			},
		},
		{
			"of a writer that counts them", slog.LevelInfo, func(log *slog.Logger, i int) {
				if i < 2 {
					log.Warn("request", "status", 500, "leftOut", i)
				}
			}, []string{`level=WARN msg=request status=500 leftOut=0`, `level=WARN msg=request status=500 leftOut=1`},
		},
		{
			"our own at level info", slog.LevelInfo, func(log *slog.Logger, i int) {
				if i < 2 {
					log.Info("event", "action", "hide")
				}
			}, []string{`level=INFO msg=event action=hide`, `level=INFO msg=event action=hide`},
		},
		{
			"while the log is at level debug", slog.LevelDebug, func(log *slog.Logger, i int) {
				if i < 2 {
					log.Warn("cannot lead yet", "error", refused)
				}
			}, []string{
				`level=WARN msg="cannot lead yet" error="dial tcp 127.0.0.1:7001: connect: connection refused"`,
				`level=WARN msg="cannot lead yet" error="dial tcp 127.0.0.1:7001: connect: connection refused"`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				var logs Logs
				logs.Level.Set(test.level)
				log := slog.New(logs.Handler(slog.NewTextHandler(&out, nil)))
				for i := range 4 * seconds {
					test.write(log, i)
					time.Sleep(time.Second / 4)
				}
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				for i, line := range lines {
					_, lines[i], _ = strings.Cut(line, " ")
				}
				check.Diff(t, lines, test.want, "lines")
				check.Equal(t, strings.Count(logs.Kept(), "\n"), len(test.want), "lines kept")
			})
		})
	}
}

// TestKindsAreBounded: lines that are all different take up a bounded amount of memory.
func TestKindsAreBounded(t *testing.T) {
	handler := (&Logs{}).Handler(slog.DiscardHandler).(logHandler)
	record := slog.NewRecord(time.Now(), slog.LevelError, "handler panicked", 0)
	record.Add("stack", strings.Repeat("x", 2*maxKind))
	check.Equal(t, len(handler.kind(record)), maxKind, "bytes of a kind")
}
