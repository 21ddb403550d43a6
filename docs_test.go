package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
)

const interfaceFile = "docs/interface.md"

var (
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	localLink    = regexp.MustCompile(`\]\(([^):]+)\)`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	flagName     = regexp.MustCompile("`--([a-z-]+)`")
	citation     = regexp.MustCompile(`interface,? ?\(?(\d+(?:\.\d+)?)`)
)

// repositoryFiles returns the files of the repository whose names end so.
func repositoryFiles(t *testing.T, suffix string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "data" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, suffix):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("files *%s: %v", suffix, err)
	}
	return paths
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// anchors returns the anchors of a document's headings.
func anchors(document string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(document, -1) {
		plain := notInAnchors.ReplaceAllString(strings.ToLower(h[1]), "")
		found[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return found
}

// TestDocsLinks holds that links between documents lead to a file, and to a heading
// in it. The pages in api/docs are served, and have a test of their own.
func TestDocsLinks(t *testing.T) {
	for _, path := range repositoryFiles(t, ".md") {
		if strings.HasPrefix(path, "api/") {
			continue
		}
		for _, link := range localLink.FindAllStringSubmatch(readText(t, path), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, link[1], err)
			} else if anchor != "" && !anchors(readText(t, target))[anchor] {
				t.Errorf("%s links to %s, which is no heading there", path, link[1])
			}
		}
	}
}

// TestDocsCitations holds that comments cite sections of the interface that exist.
func TestDocsCitations(t *testing.T) {
	sections := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(readText(t, interfaceFile), -1) {
		number, _, _ := strings.Cut(h[1], " ")
		sections[strings.TrimSuffix(number, ".")] = true
	}
	cited := 0
	for _, path := range repositoryFiles(t, ".go") {
		for _, c := range citation.FindAllStringSubmatch(readText(t, path), -1) {
			cited++
			if !sections[c[1]] {
				t.Errorf("%s cites section %s of %s, which does not exist", path, c[1], interfaceFile)
			}
		}
	}
	if cited == 0 {
		t.Error("nothing cites the interface: the pattern of citations is out of date")
	}
}

// TestDocsInterfaceIsWhole holds that the interface names every path and every error
// code.
func TestDocsInterfaceIsWhole(t *testing.T) {
	document := readText(t, interfaceFile)
	var openAPI struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(readText(t, "api/openapi.json")), &openAPI); err != nil || len(openAPI.Paths) == 0 {
		t.Fatalf("paths of the OpenAPI document: %v", err)
	}
	for path := range openAPI.Paths {
		// Of A2A the protocol's own specification lists the paths.
		if !strings.HasPrefix(path, "/a2a/") && !strings.Contains(document, path) {
			t.Errorf("%s does not name the path %s", interfaceFile, path)
		}
	}
	for _, h := range heading.FindAllStringSubmatch(readText(t, "api/docs/errors.md"), -1) {
		if code := h[1]; code != "Errors" && !strings.Contains(document, "`"+code+"`") {
			t.Errorf("%s does not name the code %s", interfaceFile, code)
		}
	}
}

// TestDocsFlags holds that the manual's tables of flags have each flag of a node, and no other.
func TestDocsFlags(t *testing.T) {
	_, tables, _ := strings.Cut(readText(t, "docs/operating/install.md"), "\n## Flags of serve\n")
	documented := map[string]bool{}
	for row := range strings.Lines(tables) {
		if first, _, _ := strings.Cut(row[min(2, len(row)):], " | "); strings.HasPrefix(first, "`--") {
			for _, flag := range flagName.FindAllStringSubmatch(first, -1) {
				documented[flag[1]] = true
			}
		}
	}
	check.Diff(t, documented, flagsOf(reflect.TypeFor[config.Config]()), "the flags in the tables")
}

// TestReadmeVersions holds that the README names the version of the program, of the
// changelog, and that of the interface, of the OpenAPI document. Its first command shows
// what the program does.
func TestReadmeVersions(t *testing.T) {
	var openAPI struct{ Info struct{ Version string } }
	if err := json.Unmarshal([]byte(readText(t, "api/openapi.json")), &openAPI); err != nil || openAPI.Info.Version == "" {
		t.Fatalf("version of the OpenAPI document: %v", err)
	}
	released := regexp.MustCompile(`(?m)^## \[(\d[^]]*)\]`).FindStringSubmatch(readText(t, "CHANGELOG.md"))
	if released == nil {
		t.Fatal("the changelog has no version")
	}
	readme := readText(t, "README.md")
	for _, want := range []string{
		"version " + released[1] + " of the program", "version " + openAPI.Info.Version + " of the interface",
		"\n    go run . dev\n    go test ./...\n",
	} {
		check.Contains(t, readme, want, "the README")
	}
}
