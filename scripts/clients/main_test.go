package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
)

// TestDocumentedCommands holds that /docs/openapi names the generators, and calls
// them, as the author's module does, which scripts/clients.sh tries.
func TestDocumentedCommands(t *testing.T) {
	page := read(t, "../../api/docs/openapi.md")
	command := regexp.MustCompile(`(?m)^//go:generate (.*) openapi\.json$`).FindStringSubmatch(read(t, "author/commons/generate.go"))
	if len(command) == 0 || !strings.Contains(page, "    "+command[1]+" $URL/openapi.json\n") {
		t.Errorf("the page does not say %q", command)
	}
	mod := read(t, "author/go.mod")
	for _, tool := range []struct{ module, before string }{
		{"github.com/oapi-codegen/oapi-codegen/v2", "/cmd/oapi-codegen@"},
		{"github.com/ogen-go/ogen", "ogen "},
	} {
		version := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(tool.module) + ` (v\S+)`).FindStringSubmatch(mod)
		if len(version) == 0 || !strings.Contains(page, tool.before+version[1]) {
			t.Errorf("the page does not name %s %v", tool.module, version)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}
