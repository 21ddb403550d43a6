// Package terminal is the side of a command that a person or a script sees: output as text
// or JSON, tables, screens, logs, and signals.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/commons-cluster/commons/node/config"
)

// Streams are the standard streams of a command: Out for results, Err for everything else.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Show prints an answer as indented JSON, or else its text.
func Show(out io.Writer, asJSON bool, answer any, text string) error {
	if !asJSON {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}

// NewLogger makes the process's logger. level and format are those of a
// validated configuration; format auto is text on a terminal, else JSON.
func NewLogger(out io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, &config.Error{Problems: []string{"--log-level: " + err.Error()}}
	}
	options := &slog.HandlerOptions{Level: l}
	logger := slog.New(slog.NewJSONHandler(out, options))
	if format == "text" || format == "auto" && IsTerminal(out) {
		logger = slog.New(slog.NewTextHandler(out, options))
	}
	if o, ok := out.(*Output); ok {
		o.onResume(func(dropped uint64) { logger.Warn("log lines dropped", "count", dropped) })
	}
	return logger, nil
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	if o, ok := out.(*Output); ok {
		out = o.to
	}
	f, ok := out.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
