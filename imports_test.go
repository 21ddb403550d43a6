package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const module = "github.com/commons-cluster/commons"

// goPackage holds the fields of `go list -json` that the rules need.
type goPackage struct {
	ImportPath   string
	Dir          string
	Export       string // file of the compiled package, with -export
	GoFiles      []string
	EmbedFiles   []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// room is the top-level directory that a package of this module lies in; the
// binary's own package is "main", and everything foreign is "".
func room(importPath string) string {
	if importPath == module {
		return "main"
	}
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// ourRooms says which rooms each room may import, besides itself.
var ourRooms = map[string][]string{
	"main":     {"node"},
	"node":     {"api", "cluster", "fsm"},
	"api":      {"fsm"},
	"cluster":  {},
	"fsm":      {},
	"internal": {},
	"scripts":  {}, // black boxes all: they know the program by its doors
}

// helpers have no imports of ours, and every room may import them.
var helpers = []string{module + "/api/client", module + "/internal/freeport", module + "/internal/golden", module + "/internal/load", module + "/internal/longtest", module + "/internal/await", module + "/internal/check", module + "/internal/must", module + "/internal/raw", module + "/internal/memdir", module + "/internal/simdisk", module + "/internal/simnet", module + "/internal/trace", module + "/internal/bucket"}

// borrowed are packages of other rooms that a package may import in its tests.
var borrowed = map[string][]string{
	// Its clients and its checks of their calls are those of scripts/chaos.
	module + "/node/simulation": {module + "/scripts/chaos/check", module + "/scripts/chaos/record", module + "/scripts/harness"},
}

// foreign says which rooms may import the packages under a prefix.
var foreign = map[string][]string{
	"github.com/gofiber/":              {"api"},
	"github.com/valyala/fasthttp":      {"api", "node", "scripts"}, // node/nodetest and scripts/bench are clients
	"github.com/hashicorp/memberlist":  {"cluster", "internal"},    // internal/simnet is a transport for it
	"github.com/cockroachdb/pebble":    {"fsm", "internal"},        // internal/simdisk is a disk for it
	"github.com/hashicorp/raft":        {"node", "cluster", "fsm"},
	"go.etcd.io/bbolt":                 {"node", "scripts"},
	"github.com/alecthomas/kong":       {"node"},
	"github.com/jotaen/":               {"node"},
	"github.com/a2aproject/":           {"node"},        // in tests: a client that others wrote
	"github.com/modelcontextprotocol/": {"api", "node"}, // node: as a client, in tests
	"github.com/go-json-experiment/":   {"api"},
	"github.com/chromedp/":             {"api"}, // in tests: the pages in a browser
	"github.com/yuin/goldmark":         {"api"},
	"github.com/microcosm-cc/":         {"api"},
	"github.com/minio/":                {"node"},
	"github.com/johannesboyne/":        {"node"}, // in tests: an S3-compatible service
	"github.com/golangci/":             {},
}

// unreachable says what must not be linked into a room by any way around.
var unreachable = map[string][]string{
	"cluster": {"github.com/gofiber/", "github.com/cockroachdb/pebble", module + "/fsm", module + "/api"},
	"fsm":     {"github.com/gofiber/", "github.com/hashicorp/memberlist", module + "/cluster", module + "/api"},
	"api":     {"github.com/hashicorp/memberlist", module + "/cluster", module + "/node"},
}

// surfaces serve clients. The parts of a node do not depend on them.
var surfaces = []string{module + "/api", "github.com/gofiber/", "github.com/valyala/fasthttp", "github.com/modelcontextprotocol/"}

// lean packages do not reach the packages in their lists, directly or indirectly.
var lean = map[string][]string{
	module + "/fsm/command": {
		module, "net", "net/http", "github.com/gofiber/", "github.com/valyala/fasthttp", "github.com/hashicorp/", "github.com/cockroachdb/",
	},
	// Only fsm itself reaches Raft and the snapshots; apply and view do not reach each other.
	module + "/fsm/state":        {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/home", module + "/fsm/stats", module + "/fsm/outbox", module + "/fsm/apply", module + "/fsm/view"},
	module + "/fsm/outbox":       {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/apply", module + "/fsm/view"},
	module + "/fsm/home":         {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/apply", module + "/fsm/view"},
	module + "/fsm/stats":        {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/apply", module + "/fsm/view"},
	module + "/fsm/apply":        {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/view"},
	module + "/fsm/view":         {"github.com/hashicorp/raft", module + "/fsm/snapshot", module + "/fsm/apply"},
	module + "/node/propose":     {module + "/api", "github.com/gofiber/", "github.com/valyala/fasthttp", "github.com/modelcontextprotocol/"},
	module + "/node/consensus":   append([]string{module + "/node/membership", module + "/node/propose"}, surfaces...),
	module + "/node/membership":  append([]string{module + "/node/propose", module + "/node/delivery"}, surfaces...),
	module + "/node/delivery":    append([]string{module + "/node/membership", module + "/node/propose", module + "/node/consensus"}, surfaces...),
	module + "/node/health":      surfaces,
	module + "/node/adminserver": surfaces,
	module + "/node/offline":     append([]string{module + "/node/membership", module + "/node/propose"}, surfaces...),
	module + "/node/limit":       {module + "/api", "github.com/gofiber/", "github.com/cockroachdb/", "github.com/hashicorp/raft"},
}

// narrow packages import no others of ours than those in their lists.
var narrow = map[string][]string{
	// The commands for agents have no rules of their own: the service decides, and api/client calls it.
	module + "/node/cli/agent": {module + "/api/client", module + "/cluster", module + "/fsm/text", module + "/node/cli/terminal", module + "/node/config"},
}

// operations are the packages that run the operations of the interface. They reach no HTTP
// server, and import each other in one direction.
var operations = map[string][]string{
	module + "/api/op":          {module + "/api/op/read", module + "/api/op/write", module + "/api/op/resource", module + "/api/op/moderate"},
	module + "/api/op/read":     {module + "/api/op/write", module + "/api/op/resource", module + "/api/op/moderate"},
	module + "/api/op/write":    {module + "/api/op/read", module + "/api/op/resource", module + "/api/op/moderate"},
	module + "/api/op/resource": {module + "/api/op/moderate"},
	module + "/api/op/moderate": nil,
}

// addresses is the part of the network that every package may use: values, no connections.
const addresses = "net/netip"

// nondeterministic packages must not be named by the state machine's code.
var nondeterministic = []string{"math/rand", "math/rand/v2", "crypto/rand", "net", "net/http", "net/url", "os/exec"}

func listPackages(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		must.Do(t, err)
		pkgs = append(pkgs, p)
	}
}

// TestDependenciesAreExplained holds that CONTRIBUTING names each module that the binary imports, and no
// other one of go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	imported := map[string]bool{}
	packages := listPackages(t, "-deps", ".")
	for _, p := range packages {
		for _, path := range p.Imports {
			imported[path] = imported[path] || room(p.ImportPath) != ""
		}
	}
	_, table, _ := strings.Cut(readText(t, "CONTRIBUTING.md"), "\n## Dependencies\n")
	for _, direct := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(readText(t, "go.mod"), -1) {
		used := false
		for path, ours := range imported {
			used = used || ours && strings.HasPrefix(path+"/", direct[1]+"/")
		}
		name := regexp.MustCompile(`^github\.com/|/v\d+$`).ReplaceAllString(direct[1], "")
		check.Equal(t, strings.Contains(table, "`"+name+"`"), used, "%s is in the table", name)
	}
}

// TestImportRules holds the lines between packages: who may import whom.
func TestImportRules(t *testing.T) {
	pkgs := listPackages(t, "-deps", "./...")
	seen := map[string]bool{}
	for _, p := range pkgs {
		from := room(p.ImportPath)
		if from == "" {
			continue
		}
		seen[from] = true
		allowed, known := ourRooms[from]
		if !known {
			t.Errorf("%s: no rule says what it may import", p.ImportPath)
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			lent := slices.Contains(borrowed[p.ImportPath], imp) && !slices.Contains(p.Imports, imp)
			if to := room(imp); to != "" && to != from && !slices.Contains(allowed, to) && !slices.Contains(helpers, imp) && !lent {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
			for prefix, rooms := range foreign {
				if under(imp, prefix) && !slices.Contains(rooms, from) {
					t.Errorf("%s imports %s, which belongs to %v", p.ImportPath, imp, rooms)
				}
			}
		}
		for _, dep := range p.Deps {
			for _, prefix := range unreachable[from] {
				check.Equal(t, under(dep, prefix), false, "%s reaches %s", p.ImportPath, dep)
			}
		}
		forbidden := lean[p.ImportPath]
		if above, is := operations[p.ImportPath]; is {
			forbidden = append([]string{"github.com/gofiber/", "github.com/valyala/fasthttp", "github.com/modelcontextprotocol/", module + "/api/a2a", module + "/api/mcp"}, above...)
			check.Equal(t, slices.Contains(p.Deps, module+"/api"), false, "%s reaches %s/api", p.ImportPath, module)
		}
		for _, prefix := range forbidden {
			for _, dep := range p.Deps {
				if under(dep, prefix) && dep != addresses {
					t.Errorf("%s reaches %s", p.ImportPath, dep)
				}
			}
		}
		if allowed, is := narrow[p.ImportPath]; is {
			for _, imp := range p.Imports {
				if room(imp) != "" && !slices.Contains(allowed, imp) {
					t.Errorf("%s imports %s", p.ImportPath, imp)
				}
			}
		}
		if slices.Contains(helpers, p.ImportPath) {
			for _, dep := range p.Deps {
				if room(dep) != "" && !slices.Contains(helpers, dep) {
					t.Errorf("%s, which every room may import, reaches %s", p.ImportPath, dep)
				}
			}
		}
		if from == "fsm" {
			for _, imp := range p.Imports {
				if slices.Contains(nondeterministic, imp) {
					t.Errorf("%s imports %s: the state machine must be deterministic", p.ImportPath, imp)
				}
			}
		}
	}
	for _, must := range []string{"main", "node", "api", "cluster", "fsm"} {
		if !seen[must] {
			t.Errorf("go list shows no package in %s: the rules were not checked", must)
		}
	}
}

// TestSurfacesKnowNoHandlers holds that the surfaces beside the handlers run operations
// through api/wire alone, and that each library stays with the one that needs it.
func TestSurfacesKnowNoHandlers(t *testing.T) {
	const mcp = "github.com/modelcontextprotocol/"
	for _, p := range listPackages(t, "./api/...") {
		own, ours := strings.CutPrefix(p.ImportPath, module+"/api")
		for _, imp := range p.Imports {
			switch {
			case ours && (own == "/wire" || own == "/a2a" || own == "/mcp") && (under(imp, "github.com/gofiber/") || under(imp, "github.com/valyala/")):
				t.Errorf("%s imports %s: a surface knows no server", p.ImportPath, imp)
			case (own == "/a2a" || own == "/mcp") && under(imp, module+"/api") && imp != module+"/api/wire",
				own == "/wire" && under(imp, module+"/api") && imp != module+"/api/credentials":
				t.Errorf("%s imports %s", p.ImportPath, imp)
			case own != "/mcp" && own != "/apitest" && under(imp, mcp): // apitest has the client for tests
				t.Errorf("%s imports %s, which belongs to api/mcp", p.ImportPath, imp)
			}
		}
	}
}

// TestRaftHasOneFileInFSM keeps Raft's types in the adapters: one of the state machine, one of its snapshots.
func TestRaftHasOneFileInFSM(t *testing.T) {
	const raft = "github.com/hashicorp/raft"
	var files []string
	err := filepath.WalkDir("fsm", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			if name, _ := strconv.Unquote(imp.Path.Value); under(name, raft) {
				files = append(files, path)
				break
			}
		}
		return nil
	})
	must.Do(t, err)
	slices.Sort(files)
	check.Diff(t, files, []string{"fsm/raftfsm.go", "fsm/snapshot/raft.go"}, "the adapters that import %s", raft)
}

// under reports whether an import path is prefix, a package below it, or a
// major version of it.
func under(imp, prefix string) bool {
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(imp, prefix)
	}
	return imp == prefix || strings.HasPrefix(imp, prefix+"/") || strings.HasPrefix(imp, prefix+"-")
}
