package apitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

var (
	promised   = regexp.MustCompile(`(?m)^# (\d{3})`)
	assignment = regexp.MustCompile(`^[A-Z]+=`)
	fenced     = regexp.MustCompile("(?s)\n```.*?\n```\n") // programs in other languages
)

// HasReceiver reports whether an example of a page of the documentation registers a receiver.
func HasReceiver(page string) bool { return strings.Contains(examples(page), "notify_url=https:") }

// RunExamples runs the examples of a page of the documentation, as a server serves it, and holds the
// statuses of their calls against those that stand below them. It returns their number.
func RunExamples(t *testing.T, page string) (ran int) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			must.Equal(t, os.Getenv("CI"), "", "CI needs %s for the examples", tool)
			t.Skipf("the examples need %s", tool)
		}
	}
	script, dir := examples(page), t.TempDir()
	const preamble = `curl() { command curl --silent --max-time 30 --write-out '%{stderr}%{http_code}\n' "$@" 2>>statuses; }
`
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", preamble+script)
	cmd.Dir = dir
	answered, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, script, answered)
	}
	got, err := os.ReadFile(filepath.Join(dir, "statuses"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, status := range promised.FindAllStringSubmatch(script, -1) {
		want.WriteString(status[1] + "\n")
		ran++
	}
	check.Equal(t, string(got), want.String(), "statuses; the answers were:\n%s", answered)
	return ran
}

// examples returns the indented lines of a page that are calls, variables and
// comments, without what shows answers.
func examples(page string) string {
	var script strings.Builder
	for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
		code, indented := strings.CutPrefix(line, "    ")
		if indented && (strings.Contains(code, "curl ") || assignment.MatchString(code) || strings.HasPrefix(code, "#") || strings.HasPrefix(code, "  ")) {
			script.WriteString(code)
		}
	}
	return script.String()
}
