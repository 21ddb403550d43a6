package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/must"

	"go.uber.org/goleak"
)

const waitLimit = time.Minute

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
	must.Do(t, WriteFileAtomic(path, []byte(strings.Join(lines, "\n")+"\n")))
}

func testSecrets(t *testing.T, names ...string) *Secrets {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, names...)
	return must.Get(LoadSecrets(path))(t)
}

// logs is a logger that keeps its lines for the test.
type logs struct{ await.Buffer }

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) count(text string) int { return strings.Count(l.String(), text) }

func (l *logs) has(text string) bool { return l.count(text) > 0 }

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
}
