package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // hclog.Logger names its type
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftLogger hands what Raft logs to slog, in Raft's own words.
type raftLogger struct {
	to     *slog.Logger
	name   string
	args   []any       // implied
	ending func() bool // whether connections are being closed here; nil: never
}

var _ hclog.Logger = (*raftLogger)(nil)

// newRaftLogger returns an hclog.Logger that writes to the given logger. While
// ending says so, it is no error that what was closed here is closed.
func newRaftLogger(to *slog.Logger, ending func() bool) hclog.Logger {
	return &raftLogger{to: to.With("part", "raft"), name: "raft", ending: ending}
}

// slogLevels are the levels of slog by those of hclog. Trace is below debug.
var slogLevels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelInfo,
	hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError,
}

// Log writes one line. What hclog would format late is formatted here.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if level > hclog.Debug && l.ending != nil && slices.ContainsFunc(args, isClosed) && l.ending() {
		level = hclog.Debug
	}
	at, ok := slogLevels[level]
	if !ok || !l.to.Enabled(context.Background(), at) {
		return
	}
	l.to.Log(context.Background(), at, msg, plain(args)...) //nolint:sloglint // the message is the library's
}

// isClosed reports whether an argument is the error of a connection that was closed
// on this side.
func isClosed(arg any) bool {
	err, ok := arg.(error)
	return ok && (errors.Is(err, raft.ErrTransportShutdown) || errors.Is(err, net.ErrClosed))
}

// plain makes strings of what only hclog can format, and of Raft itself.
func plain(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case hclog.Format:
			out[i] = fmt.Sprintf(fmt.Sprint(a[0]), a[1:]...)
		case fmt.Stringer:
			out[i] = a.String()
		default:
			out[i] = a
		}
		if i%2 == 0 && a == "node" {
			out[i] = "raft" // every line says which node it is of
		}
	}
	return out
}

// Trace implements hclog.Logger.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) enabled(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), slogLevels[level])
}

// IsTrace implements hclog.Logger.
func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug implements hclog.Logger.
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (l *raftLogger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (l *raftLogger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (l *raftLogger) ImpliedArgs() []any { return l.args }

// With returns a logger that adds the pairs to every line.
func (l *raftLogger) With(args ...any) hclog.Logger {
	implied := append(append([]any(nil), l.args...), args...)
	return &raftLogger{to: l.to.With(plain(args)...), name: l.name, args: implied, ending: l.ending}
}

// Name implements hclog.Logger.
func (l *raftLogger) Name() string { return l.name }

// Named implements hclog.Logger; the name is not written.
func (l *raftLogger) Named(name string) hclog.Logger {
	return &raftLogger{to: l.to, name: l.name + "." + name, args: l.args, ending: l.ending}
}

// ResetNamed implements hclog.Logger; the name is not written.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{to: l.to, name: name, args: l.args, ending: l.ending}
}

// SetLevel does nothing: the level is the process's.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *raftLogger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn} {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Error
}

// StandardLogger implements hclog.Logger.
func (l *raftLogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter returns a writer that makes each write a line at level info.
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ to *raftLogger }

// Write logs one line.
func (w lineWriter) Write(p []byte) (int, error) {
	w.to.Info(strings.TrimSpace(string(p)))
	return len(p), nil
}
