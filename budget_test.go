package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
)

// budgets are the most of each size that the repository may have.
var budgets = map[string]int{
	"lines of Go linked into the binary":   70_980,
	"lines of Go in scripts without tests": 7_500,
	"lines of tests and test support":      72_700,
	"replace in go.mod":                    0,
	"methods of the interface":             54,
	"tools":                                20,
	"log commands":                         34,
	"keyspaces":                            58,
	"flags of serve":                       45,
	"words of documents":                   52_000,
}

// reached bounds the sizes that are not within their budgets yet: none of them grows.
var reached = map[string]int{
	"lines of Go linked into the binary": 71_055,
	"lines of tests and test support":    73_952,
}

// TestStructureBudgets prints the sizes of the repository beside their budgets.
func TestStructureBudgets(t *testing.T) {
	var table strings.Builder
	row := func(name string, is int) {
		fmt.Fprintf(&table, "%-46s %9d", name, is)
		if budget, bounded := budgets[name]; bounded {
			fmt.Fprintf(&table, " of %6d", budget)
			if is > budget {
				table.WriteString(", over")
			}
			if most := max(budget, reached[name]); is > most {
				t.Errorf("%s: %d, at most %d", name, is, most)
			}
		}
		table.WriteByte('\n')
	}
	packages := listPackages(t, "./...")
	program := packages[slices.IndexFunc(packages, func(p goPackage) bool { return p.ImportPath == module })]
	var linked, size, embedded, scripts, tests int
	for _, p := range packages {
		lines, bytes := sizeOf(t, p, p.GoFiles)
		switch {
		case p.ImportPath == module || slices.Contains(program.Deps, p.ImportPath):
			linked, size = linked+lines, size+bytes
			lines, _ = sizeOf(t, p, slices.DeleteFunc(p.EmbedFiles, isDocument))
			embedded += lines
		case room(p.ImportPath) == "scripts":
			scripts += lines
		default:
			tests += lines
		}
		lines, _ = sizeOf(t, p, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		tests += lines
	}
	row("lines of Go linked into the binary", linked)
	row("their bytes", size)
	row("lines of Go in scripts without tests", scripts)
	row("lines of shell and of other scripts", linesIn(t, ".ci/run", "*.sh", "scripts/*.py", "scripts/*.mjs", "scripts/*.js", "scripts/*.awk"))
	row("lines of tests and test support", tests)
	row("lines of embedded files that are no documents", embedded)
	row("replace in go.mod", strings.Count("\n"+readText(t, "go.mod"), "\nreplace"))
	var document struct{ Paths map[string]map[string]any }
	decode(t, "api/openapi.json", &document)
	methods := 0
	for _, item := range document.Paths {
		for name := range item {
			if slices.Contains([]string{"get", "post", "put", "patch", "delete"}, name) {
				methods++
			}
		}
	}
	row("methods of the interface", methods) // a test of api holds that the route table has the same
	var list struct{ Tools []any }
	decode(t, "api/mcp/tools.json", &list)
	row("tools", len(list.Tools))
	golden := "\n" + readText(t, "fsm/testdata/format1.golden") // a test of fsm holds that it has all
	row("log commands", strings.Count(golden, "\nnumber Op "))
	row("keyspaces", strings.Count(strings.ToLower(golden), "\nnumber space"))
	row("flags of serve", len(flagsOf(reflect.TypeFor[config.Config]())))
	words := 0
	for _, name := range tracked(t, "*.md", "api/docs/*") {
		words += len(strings.Fields(readText(t, name)))
	}
	row("words of documents", words)
	t.Logf("the time of `go test ./...`, which .ci/run test prints, has a budget of 3 min\n%s", table.String())
}

// isDocument reports whether an embedded file is a page that is counted with the documents.
func isDocument(name string) bool {
	return strings.HasPrefix(name, "docs/") || strings.HasSuffix(name, ".md")
}

// flagsOf returns the names of the flags of a struct for kong, and of the structs in it.
func flagsOf(of reflect.Type) map[string]bool {
	names := map[string]bool{}
	for field := range of.Fields() {
		if name, is := field.Tag.Lookup("name"); is {
			names[name] = true
		} else if field.Type.Kind() == reflect.Struct {
			maps.Copy(names, flagsOf(field.Type))
		}
	}
	return names
}

// tracked returns the files of the repository that match patterns of git.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	files, err := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z"}, patterns...)...).Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	return strings.FieldsFunc(string(files), func(r rune) bool { return r == 0 })
}

// linesIn counts the lines of the files that match patterns of git.
func linesIn(t *testing.T, patterns ...string) (n int) {
	t.Helper()
	for _, name := range tracked(t, patterns...) {
		n += strings.Count(readText(t, name), "\n")
	}
	return n
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(readText(t, path)), into))
}
