package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// floors are the packages of the grid in ARCHITECTURE.md, in the order of its columns, each with its
// mechanics: the files that belong to no noun.
var floors = []struct{ dir, mechanics string }{
	{"fsm/command", "command codec table identity checks limits result"},
	{"fsm/state", "keys codec rows id terms head session reader identity admission"},
	{"fsm/apply", "effects hooks admission session identity load txn"},
	{"fsm/view", "view admission query rows summary visibility"},
	{"api/op/resource", "operations"},
	{"api/op/moderate", "operations order undo"},
}

// TestGrid holds that a file of a floor has the name of a noun or is one of its mechanics, that the
// package comment of the floor lists these, and that the grid in ARCHITECTURE.md, which names the
// nouns, shows each file of a noun.
func TestGrid(t *testing.T) {
	var nouns []string
	shown, is := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\|(\w+)\|((?:•?\|)+)$`).FindAllStringSubmatch(readText(t, "ARCHITECTURE.md"), -1) {
		nouns, shown[row[1]] = append(nouns, row[1]), row[2]
	}
	listed := regexp.MustCompile(`(?m)^//   - (\w+): `)
	for _, floor := range floors {
		mechanics := strings.Fields(floor.mechanics)
		var found, files []string
		for _, m := range listed.FindAllStringSubmatch(readText(t, floor.dir+"/doc.go"), -1) {
			found = append(found, m[1])
		}
		check.Diff(t, found, mechanics, "the mechanics that %s/doc.go lists", floor.dir)
		for _, path := range must.Get(filepath.Glob(floor.dir + "/*.go"))(t) {
			files = append(files, strings.TrimSuffix(filepath.Base(path), ".go"))
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test") && name != "doc" && !slices.Contains(nouns, name) && !slices.Contains(mechanics, name) {
				t.Errorf("%s/%s.go has neither the name of a noun nor is it one of the mechanics", floor.dir, name)
			}
		}
		for _, name := range mechanics {
			check.Equal(t, slices.Contains(files, name), true, "%s/%s.go is there", floor.dir, name)
		}
		for _, noun := range nouns {
			cell := ""
			if slices.Contains(files, noun) {
				cell = "•"
			}
			is[noun] += cell + "|"
		}
	}
	check.Diff(t, shown, is, "the grid in ARCHITECTURE.md")
}

// TestFilesInComments holds that a file that a comment names is there.
func TestFilesInComments(t *testing.T) {
	file := regexp.MustCompile(`(?:^|[^\w./-])([\w/]+\.go)\b(\.\w)?`)
	for _, path := range tracked(t, "*.go", ":!tools") {
		for i, line := range strings.Split(readText(t, path), "\n") {
			_, comment, _ := strings.Cut(line, "//")
			for _, m := range file.FindAllStringSubmatch(comment, -1) {
				_, beside := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
				_, below := os.Stat(m[1])
				if m[2] == "" && beside != nil && below != nil {
					t.Errorf("%s:%d: there is no %s", path, i+1, m[1])
				}
			}
		}
	}
}
