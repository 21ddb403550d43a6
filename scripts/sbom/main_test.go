package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// TestOwnBill describes this test's own binary.
func TestOwnBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := write(out, self, "v1.2.3+x"); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("the same binary gives two documents")
	}
	var doc bom
	if err := json.Unmarshal(first.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	root := doc.Metadata.Component
	if !strings.HasPrefix(root.PURL, "pkg:golang/github.com/commons-cluster/commons@v1.2.3%2Bx?goos=") || len(root.Hashes[0].Content) != 64 {
		t.Errorf("the application is %+v", root)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(doc.Serial) {
		t.Errorf("serial number %q", doc.Serial)
	}
	if len(doc.Components) == 0 || len(doc.Dependencies) != 1 || len(doc.Dependencies[0].DependsOn) != len(doc.Components) {
		t.Errorf("%d components, dependencies %+v", len(doc.Components), doc.Dependencies)
	}
}

func TestModulesAreDescribed(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8 X:exp",
		Main:      debug.Module{Path: "example.org/app"},
		Deps: []*debug.Module{
			{Path: "example.org/z", Version: "v2.0.0+incompatible", Sum: "h1:abc="},
			{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
	}
	doc, err := describe(info, [32]byte{1}, "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range doc.Components {
		got = append(got, c.PURL)
	}
	want := "pkg:golang/example.org/fork@v1.0.1 pkg:golang/example.org/z@v2.0.0%2Bincompatible pkg:golang/std@1.26.8"
	if strings.Join(got, " ") != want {
		t.Errorf("components %v, want %s", got, want)
	}
	if doc.Metadata.Timestamp != "2026-01-02T03:04:05Z" || doc.Components[1].Properties[0].Value != "h1:abc=" {
		t.Errorf("document %+v", doc)
	}
	if _, err := describe(&debug.BuildInfo{}, [32]byte{}, ""); err == nil {
		t.Error("a binary without a module is described")
	}
}
