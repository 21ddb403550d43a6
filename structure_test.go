package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// The limits of a package. Tests do not count.
const (
	maxLines = 5000 // of all files together
	// maxCycle is how many files may use each other in a cycle. In a package of more than
	// fewFiles files, they are also at most half of the files.
	maxCycle = 8
	fewFiles = 10
	// maxCentres bounds the list of centres.
	maxCentres = 3
	// shownUses is how many of the uses that close a cycle are printed.
	shownUses = 12
)

// unsplit are the packages that are still over a limit. The list only gets shorter.
var unsplit []string

// centres are the packages in which one type is the natural centre of a larger cycle, with
// the type and the reason.
var centres = map[string]string{}

// uses are the uses of the identifiers of one file in another one, by both names.
type uses map[string]map[string][]string

// TestStructureCycles fails for packages in which too many files use each other.
func TestStructureCycles(t *testing.T) {
	longtest.SkipShort(t, "reads the types of every package")
	if len(centres) > maxCentres {
		t.Errorf("%d packages are in centres, at most %d", len(centres), maxCentres)
	}
	packages := listPackages(t, "-export", "-deps", "./...")
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range packages {
		if room(p.ImportPath) == "" {
			continue
		}
		found := usesIn(t, set, imports, p)
		cycle := found.largestCycle()
		over := len(cycle) > maxCycle || len(p.GoFiles) > fewFiles && len(cycle) > len(p.GoFiles)/2
		name := nameOf(p)
		switch reason := centres[name]; {
		case !over && reason != "":
			t.Errorf("%s keeps the limits: remove it from centres", name)
		case !over || reason != "":
		case !slices.Contains(unsplit, name):
			t.Errorf("%s: %d of %d files use each other in a cycle; at most %d may, and at most half of a package of more than %d files:\n%s",
				name, len(cycle), len(p.GoFiles), maxCycle, fewFiles, found.against(cycle))
		default:
			t.Logf("to do: %s: %d of %d files use each other in a cycle:\n%s", name, len(cycle), len(p.GoFiles), found.against(cycle))
		}
		if !over && slices.Contains(unsplit, name) && sizeOver(t, p) == 0 {
			t.Errorf("%s keeps the limits: remove it from unsplit", name)
		}
	}
}

// nameOf returns the directory of a package of this module.
func nameOf(p goPackage) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/"), ".")
}

// usesIn returns the uses between the files of a package: of types, functions, methods,
// fields, variables and constants.
func usesIn(t *testing.T, set *token.FileSet, imports types.Importer, p goPackage) uses {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file := must.Get(parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution))(t)
		files = append(files, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg := must.Get((&types.Config{Importer: imports}).Check(p.ImportPath, set, files, &info))(t)
	found := uses{}
	for _, name := range p.GoFiles {
		found[name] = map[string][]string{}
	}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := filepath.Base(set.Position(ident.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if from != to {
			found[from][to] = append(found[from][to], object.Name())
		}
	}
	return found
}

// largestCycle returns the files of the largest strongly connected component.
func (u uses) largestCycle() (largest []string) {
	reached := map[string]map[string]bool{}
	for file := range u {
		reached[file] = map[string]bool{}
		for next := []string{file}; len(next) > 0; next = next[1:] {
			for to := range u[next[0]] {
				if !reached[file][to] {
					reached[file][to] = true
					next = append(next, to)
				}
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(u)) {
		var cycle []string
		for _, other := range slices.Sorted(maps.Keys(u)) {
			if reached[file][other] && reached[other][file] {
				cycle = append(cycle, other)
			}
		}
		if len(cycle) > len(largest) {
			largest = cycle
		}
	}
	return largest
}

// against orders the files of a cycle so that most uses go down, and describes the uses
// that go up: without them there would be no cycle.
func (u uses) against(cycle []string) string {
	rest, above, up := slices.Clone(cycle), map[string]bool{}, uses{}
	var order []string
	for len(rest) > 0 {
		top := slices.MaxFunc(rest, func(a, b string) int { return cmp.Compare(u.excess(a, rest), u.excess(b, rest)) })
		rest = slices.DeleteFunc(rest, func(file string) bool { return file == top })
		order, above[top], up[top] = append(order, top), true, map[string][]string{}
		for to, names := range u[top] {
			if above[to] {
				up[top][to] = names
			}
		}
	}
	var lines []string
	total := 0
	for from := range up {
		for to, names := range up[from] {
			total += len(names)
			slices.Sort(names)
			lines = append(lines, fmt.Sprintf("%5d uses in %s of %s: %s", len(names), from, to, strings.Join(slices.Compact(names), " ")))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(b, a) })
	return fmt.Sprintf("from top to bottom %s\n%d uses go up:\n%s", strings.Join(order, " "), total, strings.Join(lines[:min(len(lines), shownUses)], "\n"))
}

// excess returns how many uses of others a file has, less the uses of it.
func (u uses) excess(file string, among []string) (n int) {
	for _, other := range among {
		n += len(u[file][other]) - len(u[other][file])
	}
	return n
}

func TestLargestCycle(t *testing.T) {
	names := []string{"f", "g"}
	u := uses{
		"top": {"a": names}, "a": {"b": names, "bottom": names}, "b": {"c": names}, "c": {"a": names[:1]},
		"bottom": {}, "x": {"y": names}, "y": {"x": names},
	}
	cycle := u.largestCycle()
	check.Diff(t, cycle, []string{"a", "b", "c"}, "largest cycle")
	want := "from top to bottom a b c\n1 uses go up:\n    1 uses in c of a: f"
	check.Diff(t, u.against(cycle), want, "uses against the order")
}

// TestStructureSizes fails for packages that are too large.
func TestStructureSizes(t *testing.T) {
	for _, p := range listPackages(t, "./...") {
		name := nameOf(p)
		switch n := sizeOver(t, p); {
		case n == 0:
		case slices.Contains(unsplit, name):
			t.Logf("to do: %s has %d lines", name, n)
		default:
			t.Errorf("%s has %d lines, at most %d are allowed: split it", name, n, maxLines)
		}
	}
}

// sizeOver returns the lines of a package that has too many, or 0.
func sizeOver(t *testing.T, p goPackage) int {
	t.Helper()
	if lines, _ := sizeOf(t, p, p.GoFiles); room(p.ImportPath) != "scripts" && lines > maxLines {
		return lines
	}
	return 0
}

// sizeOf returns the lines and bytes of files of a package.
func sizeOf(t *testing.T, p goPackage, files []string) (lines, size int) {
	t.Helper()
	for _, name := range files {
		data := []byte(readText(t, filepath.Join(p.Dir, name)))
		lines, size = lines+bytes.Count(data, []byte("\n")), size+len(data)
	}
	return lines, size
}
