package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
)

// TestBugsCompile type-checks the packages with each bug. A bug that does not compile ends
// the run that draws it, which may be long after the change that broke it.
func TestBugsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the types of every package")
	}
	t.Chdir(filepath.Join("..", ".."))
	type goPackage struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", "./...")
	out := must.Get(list.StdoutPipe())(t)
	must.Do(t, list.Start())
	exports, packages := map[string]string{}, map[string]goPackage{}
	for decoder := json.NewDecoder(out); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		exports[p.ImportPath], packages[p.Dir] = p.Export, p
	}
	must.Do(t, list.Wait())
	root := must.Get(os.Getwd())(t)
	set, dir := token.NewFileSet(), t.TempDir()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	tested, played := knownBugs(t)
	for _, b := range slices.Concat(tested, played) {
		file, err := b.overlay(dir)
		if err != nil {
			t.Fatalf("%s: %v", b.name, err)
		}
		var overlay struct{ Replace map[string]string }
		must.Do(t, json.Unmarshal(read(t, file), &overlay))
		changed, dirs := map[string]string{}, map[string]bool{}
		for path, by := range overlay.Replace {
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			changed[path], dirs[filepath.Dir(path)] = by, true
		}
		for d := range dirs {
			p := packages[d]
			var files []*ast.File
			for _, name := range p.GoFiles {
				path := filepath.Join(d, name)
				if by, is := changed[path]; is {
					path = by
				}
				file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatalf("%s: %v", b.name, err)
				}
				files = append(files, file)
			}
			if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, set, files, nil); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		}
	}
}
