package agent_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli/agent"
)

// TestOperations compares the table of operations in /docs/clients with the clients: each has what the
// table says, and the table has each command.
func TestOperations(t *testing.T) {
	const root = "../../../api/"
	parser := must.Get(kong.New(&agent.Commands{}))(t)
	var commands []string
	for _, leaf := range parser.Model.Leaves(true) {
		commands = append(commands, leaf.Path())
	}
	var source strings.Builder
	for _, file := range must.Get(filepath.Glob(root + "client/*.go"))(t) {
		source.Write(must.Get(os.ReadFile(file))(t))
	}
	python := string(must.Get(os.ReadFile(root + "clients/commons.py"))(t))
	javaScript := string(must.Get(os.ReadFile(root + "clients/commons.mjs"))(t))
	goClient := reflect.TypeFor[*client.Client]()
	columns := []func(name string) bool{
		func(name string) bool { return strings.Contains(python, "\n    def "+name+"(self") },
		func(name string) bool {
			return regexp.MustCompile(`\n  (async )?\*?` + name + `( = |\()`).MatchString(javaScript)
		},
		func(name string) bool { // a method, or a field or constant of its argument
			_, is := goClient.MethodByName(name)
			return is || regexp.MustCompile(`\n\t(\w+, )*`+name+`\b`).MatchString(source.String())
		},
		func(name string) bool { return slices.Contains(commands, name) },
	}
	names := regexp.MustCompile("`([^`]+?)(?: --[a-z]+)?`")
	var listed []string
	rows := 0
	for line := range strings.Lines(string(must.Get(os.ReadFile(root + "docs/clients.md"))(t))) {
		cells := strings.Split(line, "|")
		if len(cells) != len(columns)+3 || !strings.Contains(line, "`") {
			continue
		}
		rows++
		for i, has := range columns {
			found := names.FindAllStringSubmatch(cells[i+2], -1)
			check.Equal(t, len(found) > 0, true, "column %d of%s has a name", i+2, cells[1])
			for _, name := range found {
				check.Equal(t, has(name[1]), true, "%s, in column %d of%s, exists", name[1], i+2, cells[1])
				listed = append(listed, name[1])
			}
		}
	}
	const operations = 16
	check.Equal(t, rows >= operations, true, "the table has its rows: %d", rows)
	for _, command := range commands {
		check.Equal(t, slices.Contains(listed, command), true, "the table has the command %s", command)
	}
}
