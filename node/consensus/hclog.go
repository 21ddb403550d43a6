package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// NewLogger returns an hclog.Logger that writes to the given logger, in Raft's own
// words. While ending reports true, it is no error that a connection is closed that
// was closed here; nil is never.
func NewLogger(to *slog.Logger, ending func() bool) hclog.Logger {
	sink := &slogSink{to: to.With("part", "raft"), ending: ending}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "raft", Level: sink.level(), Output: io.Discard,
		Exclude: func(hclog.Level, string, ...any) bool { return true }, // the sink writes
	})
	l.RegisterSink(sink)
	return l
}

// slogSink writes lines to slog.
type slogSink struct {
	to     *slog.Logger
	ending func() bool
}

// slogLevels are the levels of slog by those of hclog. Trace is below debug.
var slogLevels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelInfo,
	hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError,
}

// level returns the lowest level that is written.
func (s *slogSink) level() hclog.Level {
	level := hclog.Trace
	for level < hclog.Error && !s.to.Enabled(context.Background(), slogLevels[level]) {
		level++
	}
	return level
}

// Accept implements hclog.SinkAdapter. The name is not written.
func (s *slogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level > hclog.Debug && s.ending != nil && slices.ContainsFunc(args, isClosed) && s.ending() {
		level = hclog.Debug
	}
	at, ok := slogLevels[level]
	if !ok || !s.to.Enabled(context.Background(), at) {
		return
	}
	s.to.Log(context.Background(), at, msg, plain(args)...) //nolint:sloglint // the message is the library's
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
