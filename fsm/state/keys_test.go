package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestEveryKeyspaceIsInTheTable reads keys.go: RowDigest would skip a space that the
// table lacks, and two spaces with one letter would mix their rows.
func TestEveryKeyspaceIsInTheTable(t *testing.T) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0))(t)
	rows := map[byte]int{}
	for _, k := range Keyspaces {
		rows[k.Letter]++
	}
	names := map[byte]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "space") {
			return true
		}
		name := spec.Names[0].Name
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if !isLiteral {
			t.Errorf("%s is no literal", name)
			return true
		}
		letter, err := strconv.Unquote(literal.Value)
		if err != nil || len(letter) != 1 {
			t.Fatalf("%s is %s: %v", name, literal.Value, err)
		}
		check.Equal(t, names[letter[0]], "", "the other space with the letter of %s", name)
		names[letter[0]] = name
		check.Equal(t, rows[letter[0]], 1, "rows of %s in keyspaces", name)
		return true
	})
	check.Equal(t, len(names), len(Keyspaces), "spaces that keys.go declares")
}
