package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bug is a known bug: the edits that introduce it, and the tests that have to detect it.
type bug struct {
	name      string
	because   string // the effect on users
	pkg, run  string // a package, and which of its tests
	scenario  string // of scripts/chaos; it has no tests of a package
	simulated string // the test of node/simulation that has to find it, or empty
	edits     []edit
}

// edit replaces lines that stand exactly once in the declarations of a name. Indentation
// does not matter.
type edit struct {
	place   string // the directory of a package, or a file
	name    string // of a declaration, with its type before a method; empty means all of a file
	was, is []string
}

// known is the table of bugs. It explains its form.
//
//go:embed bugs.txt
var known string

// readBugs returns the bugs of a table: those that tests of a package have to detect, and
// those that scripts/chaos has to detect.
func readBugs(table string) (tested, played []bug, err error) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(table), "\n\n") {
		var b bug
		fields := map[string]*string{"bug:": &b.name, "because:": &b.because, "scenario:": &b.scenario, "simulated:": &b.simulated}
		var e *edit // the last one
		for line := range strings.Lines(paragraph) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch {
			case key == "#":
			case fields[key] != nil:
				*fields[key] = value
			case key == "tests:":
				b.pkg, b.run, _ = strings.Cut(value, " ")
			case key == "in:":
				place, name, _ := strings.Cut(value, " ")
				b.edits = append(b.edits, edit{place: place, name: name})
				e = &b.edits[len(b.edits)-1]
			case key == "-" && e != nil:
				e.was = append(e.was, value)
			case key == "+" && e != nil:
				e.is = append(e.is, value)
			default:
				return nil, nil, fmt.Errorf("bugs.txt: %q is no line of a bug", line)
			}
		}
		switch {
		case b.name == "" && e == nil: // a comment
		case b.name == "" || b.because == "" || e == nil || (b.run == "") == (b.scenario == ""):
			return nil, nil, fmt.Errorf("bugs.txt: a line is missing, or one too many, in:\n%s", paragraph)
		case b.scenario != "":
			played = append(played, b)
		default:
			tested = append(tested, b)
		}
	}
	return tested, played, nil
}

// apply makes the edit. changed holds the files that earlier edits changed.
func (e *edit) apply(changed map[string][]byte) error {
	files := []string{e.place}
	if filepath.Ext(e.place) != ".go" {
		files, _ = filepath.Glob(e.place + "/*.go") // the pattern is well-formed
	}
	quoted := make([]string, len(e.was))
	for i, line := range e.was {
		quoted[i] = regexp.QuoteMeta(strings.TrimLeft(line, "\t"))
	}
	pattern := regexp.MustCompile(strings.Join(quoted, `\n\s*`))
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source := changed[file]
		if source == nil {
			var err error
			if source, err = os.ReadFile(file); err != nil {
				return err
			}
		}
		extents, err := e.extents(file, source)
		if err != nil {
			return err
		}
		for _, x := range extents {
			for _, at := range pattern.FindAllIndex(source[x[0]:x[1]], -1) {
				found++
				changed[file] = slices.Concat(source[:x[0]+at[0]], []byte(strings.Join(e.is, "\n")), source[x[0]+at[1]:])
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("%s %s holds %q %d times, and not once", e.place, e.name, e.was, found)
	}
	return nil
}

// extents returns the begin and the end of each declaration that has the edit's name.
func (e *edit) extents(file string, source []byte) (found [][2]int, err error) {
	if e.name == "" {
		return [][2]int{{0, len(source)}}, nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var name string
		switch n := n.(type) {
		case *ast.File, *ast.GenDecl:
			return true
		case *ast.FuncDecl:
			name = n.Name.Name
			if n.Recv != nil {
				of, _, _ := strings.Cut(strings.TrimLeft(types.ExprString(n.Recv.List[0].Type), "*"), "[")
				name = of + "." + name
			}
		case *ast.ValueSpec:
			name = n.Names[0].Name
		case *ast.TypeSpec:
			name = n.Name.Name
		}
		if name == e.name {
			found = append(found, [2]int{set.Position(n.Pos()).Offset, set.Position(n.End()).Offset})
		}
		return false
	})
	return found, nil
}
