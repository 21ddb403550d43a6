package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestVersionFlag(t *testing.T) {
	_, want, _ := execute(t, "version")
	if code, out, stderr := execute(t, "--version"); code != ExitOK || out != want {
		t.Errorf("exit code %d: %q%s, want %q", code, out, stderr, want)
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := execute(t, "version")
	if code != ExitOK || !regexp.MustCompile(`^commons \S+ \(go\S+, \w+/\w+\)\n$`).MatchString(out) {
		t.Errorf("exit code %d: %q", code, out)
	}
	code, out, _ = execute(t, "version", "--json")
	if code != ExitOK || !json.Valid([]byte(out)) || !strings.Contains(out, `"version": "`) {
		t.Errorf("exit code %d: %q", code, out)
	}
}
