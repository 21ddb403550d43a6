package operate_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

func TestMain(m *testing.M) {
	must.NoSettings()
	os.Exit(m.Run())
}

// execute runs a command line on a machine without a settings file.
func execute(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), args, terminal.Streams{Out: &stdout, Err: &stderr}, "")
	return code, stdout.String(), stderr.String()
}

// expect runs a command line and checks its exit code, and texts in the output of a
// success or in the error of a failure.
func expect(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	got, out, stderr := execute(t, args...)
	in := stderr
	if code == cli.ExitOK {
		in = out
	}
	lacks := func(text string) bool { return !strings.Contains(in, text) }
	if got != code || slices.ContainsFunc(texts, lacks) {
		t.Fatalf("%q: exit code %d, want %d and %q: %s%s", args, got, code, texts, out, stderr)
	}
}
