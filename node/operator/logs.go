package operator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
)

const (
	maxKeptLog  = 512 << 10 // bounds the newest lines of the log that a node keeps, in bytes
	maxKeptLine = 8 << 10   // bounds one line of them; a longer one is cut
)

// Logs is the log of a node: its level can be changed, and it keeps the newest lines.
// The zero value is at level info. It is safe for concurrent use.
type Logs struct {
	Level slog.LevelVar

	mu    sync.Mutex
	lines []string // oldest first
	bytes int      // in lines
}

// Handler returns a handler that writes to another one, whatever level that has.
func (l *Logs) Handler(to slog.Handler) slog.Handler {
	return logHandler{l, to, slog.NewJSONHandler(l, nil)}
}

// Write takes one line in.
func (l *Logs) Write(line []byte) (int, error) {
	kept := string(line)
	if len(kept) > maxKeptLine {
		kept = kept[:maxKeptLine] + "…\n"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, kept)
	l.bytes += len(kept)
	for l.bytes > maxKeptLog {
		l.bytes -= len(l.lines[0])
		l.lines = l.lines[1:]
	}
	return len(line), nil
}

// Kept returns the newest lines, as JSON.
func (l *Logs) Kept() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// logHandler writes each line twice. Neither handler is asked for its own level.
type logHandler struct {
	logs     *Logs
	to, kept slog.Handler
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.logs.Level.Level()
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.to.Handle(ctx, r), h.kept.Handle(ctx, r))
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.logs, h.to.WithAttrs(attrs), h.kept.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.logs, h.to.WithGroup(name), h.kept.WithGroup(name)}
}
