package adminserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/commons-cluster/commons/cluster"
)

const (
	maxKeptLog  = 512 << 10 // bounds the newest lines of the log that a node keeps, in bytes
	maxKeptLine = 8 << 10   // bounds one line of them; a longer one is cut
	maxKind     = 512       // bounds the text by which lines are compared, in bytes
)

// Logs is the log of a node: its level can be changed, repeated lines are left out, and it
// keeps the newest lines. The zero value is at level info. It is safe for concurrent use.
type Logs struct {
	Level slog.LevelVar

	repeats cluster.Throttle
	mu      sync.Mutex
	lines   []string // oldest first
	bytes   int      // in lines
}

// Handler returns a handler that writes to another one, whatever level that has.
func (l *Logs) Handler(to slog.Handler) slog.Handler {
	return logHandler{logs: l, to: to, kept: slog.NewJSONHandler(l, nil)}
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

// logHandler writes each line twice, but a repeated line only once in a while. Neither handler
// is asked for its own level.
type logHandler struct {
	logs     *Logs
	to, kept slog.Handler
	raft     bool // the lines are Raft's
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.logs.Level.Level()
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if kind := h.kind(r); kind != "" {
		suppressed, ok := h.logs.repeats.Allow(kind)
		if !ok {
			return nil
		}
		if suppressed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("suppressed", suppressed))
		}
	}
	return errors.Join(h.to.Handle(ctx, r), h.kept.Handle(ctx, r))
}

// kind returns a text that a line shares with its repetitions: its message, and the peer that
// it is about. Lines without a peer are of one kind if they differ only in numbers. kind
// returns "" for lines that are not limited here: those of level info that are not Raft's,
// those that their writer limits, and all lines while the log is at level debug.
func (h logHandler) kind(r slog.Record) string {
	if h.logs.Level.Level() < slog.LevelInfo || r.Level < slog.LevelWarn && !h.raft {
		return ""
	}
	peer, others, limited := "", "", false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "suppressed", "leftOut":
			limited = true
		case "peer", "server", "server-id", "target", "from", "candidate", "address", "remote":
			peer += " " + a.Value.String()
		default:
			others += " " + a.Value.String()
		}
		return !limited
	})
	if limited {
		return ""
	}
	kind := r.Message + cmp.Or(peer, strings.Map(withoutDigits, others))
	return kind[:min(len(kind), maxKind)]
}

func withoutDigits(r rune) rune {
	if '0' <= r && r <= '9' {
		return -1
	}
	return r
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	raft := h.raft || slices.ContainsFunc(attrs, slog.String("part", "raft").Equal)
	return logHandler{h.logs, h.to.WithAttrs(attrs), h.kept.WithAttrs(attrs), raft}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.logs, h.to.WithGroup(name), h.kept.WithGroup(name), h.raft}
}
