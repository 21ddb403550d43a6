package nodetest

import (
	"log/slog"
	"strings"
	"sync"
)

// maxLogLines bounds what is kept of one node's log.
const maxLogLines = 600

// logBuffer keeps the newest lines of a node's log.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

// Write takes one line.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == maxLogLines {
		b.lines = b.lines[maxLogLines/2:]
	}
	b.lines = append(b.lines, string(p))
	return len(p), nil
}

// String returns the lines.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
