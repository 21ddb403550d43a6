package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
)

const (
	specification = "testdata/interface-0.4.0.txt"
	clausesFile   = "docs/clauses.md"
	clauseWords   = 6
	clausesIntro  = `# Clauses of the interface

The tests that hold each clause of [version 0.4.0 of the interface](../testdata/interface-0.4.0.txt), by its first words. A clause is a row of a table, an item of a list or a paragraph; what the interface leaves open is left out. ` +
		"`go test -run TestDocsClauses -update .`" + ` writes this page and keeps the tests that it names; the same test fails for a clause without a test, and for a test that does not exist.
`
)

var (
	listMark     = regexp.MustCompile(`^(- |\d+\. )`)
	leftOpen     = regexp.MustCompile(`^[^.]*: not shown|^Query parameters:$`)
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// clause is a clause of the interface: its section and its first words.
type clause struct{ section, start string }

// clausesOf returns the clauses of a document in its order.
func clausesOf(document string) (clauses []clause) {
	section := ""
	lines := strings.Split(document, "\n")
	for i, line := range lines {
		if title := heading.FindStringSubmatch(line); title != nil {
			section = title[1]
			continue
		}
		header := strings.HasPrefix(line, "|") && strings.HasPrefix(lines[i+1], "|-")
		line = listMark.ReplaceAllString(line, "")
		if line == "" || header || strings.HasPrefix(line, "|-") || leftOpen.MatchString(line) {
			continue
		}
		words := strings.Fields(strings.ReplaceAll(line, "|", " "))
		clauses = append(clauses, clause{section, strings.Join(words[:min(clauseWords, len(words))], " ")})
	}
	return clauses
}

// readClauses returns the tests that a page of clauses names.
func readClauses(page string) map[clause][]string {
	named := map[clause][]string{}
	section := ""
	for line := range strings.Lines(page) {
		if title := heading.FindStringSubmatch(line); title != nil {
			section = title[1]
		}
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			at := clause{section, strings.TrimSpace(cells[1])}
			named[at] = strings.FieldsFunc(cells[2], func(r rune) bool { return r == ' ' || r == ',' })
		}
	}
	return named
}

// writeClauses returns the page of clauses.
func writeClauses(clauses []clause, named map[clause][]string) string {
	var page strings.Builder
	page.WriteString(clausesIntro)
	section := ""
	for _, c := range clauses {
		if c.section != section {
			section = c.section
			fmt.Fprintf(&page, "\n## %s\n\n| clause | tests |\n|---|---|\n", section)
		}
		fmt.Fprintf(&page, "| %s | %s |\n", c.start, strings.Join(named[c], ", "))
	}
	return page.String()
}

// listTests returns the tests of the repository, each as the directory of its package, a
// dot and its name.
func listTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, path := range repositoryFiles(t, "_test.go") {
		for _, function := range testFunction.FindAllStringSubmatch(readText(t, path), -1) {
			tests[filepath.ToSlash(filepath.Dir(path))+"."+function[1]] = true
		}
	}
	return tests
}

// TestDocsClauses holds that each clause of the interface names the tests that hold it,
// and that those exist.
func TestDocsClauses(t *testing.T) {
	clauses := clausesOf(readText(t, specification))
	page := must.Get(os.ReadFile(clausesFile))(t)
	named := readClauses(string(page))
	golden.Compare(t, clausesFile, writeClauses(clauses, named))
	tests := listTests(t)
	seen := map[clause]bool{}
	for _, c := range clauses {
		if seen[c] {
			t.Errorf("two clauses of section %s begin with %q", c.section, c.start)
		}
		seen[c] = true
		if len(named[c]) == 0 {
			t.Errorf("no test holds the clause %q of section %s: name one in %s", c.start, c.section, clausesFile)
		}
		for _, name := range named[c] {
			if !tests[name] {
				t.Errorf("%s: %q of section %s: there is no test %s", clausesFile, c.start, c.section, name)
			}
		}
	}
	const fewest = 140
	if len(seen) < fewest {
		t.Errorf("%d clauses: %v", len(seen), slices.Collect(maps.Keys(seen)))
	}
}
