// Sbom writes the bill of materials of a Go binary, as CycloneDX 1.5 in JSON: the
// modules that were linked into it, read from the binary itself. The same binary
// gives the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bom is the document, with the fields of CycloneDX.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"` // of the commit
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func write(out io.Writer, path, version string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	doc, err := describe(info, sum, version)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(doc)
}

func fileSum(path string) ([sha256.Size]byte, error) {
	content, err := os.ReadFile(path)
	return sha256.Sum256(content), err
}

// describe makes the document of a binary that has the checksum.
func describe(info *debug.BuildInfo, sum [sha256.Size]byte, version string) (*bom, error) {
	if info.Main.Path == "" {
		return nil, errors.New("the binary does not say what it was built from")
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	root := component{
		Type: "application", Name: info.Main.Path, Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		PURL:   packageURL(info.Main.Path, version) + "?goos=" + settings["GOOS"] + "&goarch=" + settings["GOARCH"],
	}
	root.Ref = root.PURL
	doc := &bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1, Serial: serial(sum),
		Metadata:     metadata{Timestamp: settings["vcs.time"], Component: root},
		Components:   []component{standardLibrary(info.GoVersion)},
		Dependencies: []dependency{},
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		doc.Components = append(doc.Components, library(module))
	}
	slices.SortFunc(doc.Components, func(a, b component) int { return strings.Compare(a.PURL, b.PURL) })
	refs := make([]string, len(doc.Components))
	for i, c := range doc.Components {
		refs[i] = c.Ref
	}
	doc.Dependencies = append(doc.Dependencies, dependency{root.Ref, refs})
	return doc, nil
}

func library(module *debug.Module) component {
	url := packageURL(module.Path, module.Version)
	c := component{Type: "library", Ref: url, Name: module.Path, Version: module.Version, PURL: url}
	if module.Sum != "" {
		c.Properties = []property{{"go:sum", module.Sum}} // as in go.sum
	}
	return c
}

func standardLibrary(goVersion string) component {
	version := strings.TrimPrefix(strings.Fields(goVersion + " ")[0], "go")
	url := packageURL("std", version)
	return component{Type: "library", Ref: url, Name: "std", Version: version, PURL: url}
}

// packageURL is the purl of a Go module.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// serial is a UUID made of the binary's checksum (RFC 9562, version 8).
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id = slices.Clone(id)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
