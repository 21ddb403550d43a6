package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryKeyspaceIsInTheTable reads keys.go: RowDigest would skip a space that the
// table lacks, and two spaces with one letter would mix their rows.
func TestEveryKeyspaceIsInTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
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
		if other := names[letter[0]]; other != "" {
			t.Errorf("%s and %s are the same", other, name)
		}
		names[letter[0]] = name
		if n := rows[letter[0]]; n != 1 {
			t.Errorf("%s has %d rows in keyspaces, want 1", name, n)
		}
		return true
	})
	if len(names) != len(Keyspaces) {
		t.Errorf("keys.go declares %d spaces, the table has %d", len(names), len(Keyspaces))
	}
}
