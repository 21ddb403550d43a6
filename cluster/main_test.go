package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const waitLimit = 20 * time.Second

// TestMain looks for goroutines left behind. Memberlist's probes under way end
// within their interval, which is longer than goleak waits by itself.
func TestMain(m *testing.M) {
	code := m.Run()
	for deadline := time.Now().Add(waitLimit); code == 0; time.Sleep(5 * time.Millisecond) {
		err := goleak.Find()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// secretLine is a valid secret for a name.
func secretLine(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func writeSecrets(t *testing.T, path string, names ...string) {
	t.Helper()
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = secretLine(name)
	}
	if err := WriteFileAtomic(path, []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		t.Fatal(err)
	}
}

func testSecrets(t *testing.T, names ...string) *Secrets {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, names...)
	s, err := LoadSecrets(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logs is a logger whose lines a test can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logs) has(text string) bool { return l.count(text) > 0 }

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
