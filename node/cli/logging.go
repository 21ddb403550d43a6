package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
)

// newLogger makes the process's logger. level and format are those of a
// validated configuration; format auto is text on a terminal, else JSON.
func newLogger(out io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, &configError{[]string{"--log-level: " + err.Error()}}
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" || format == "auto" && isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, options)), nil
	}
	return slog.New(slog.NewJSONHandler(out, options)), nil
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
