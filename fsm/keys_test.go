package fsm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// localSpaces are the spaces that name or place one copy of the state: RowDigest
// leaves them out.
var localSpaces = [...]byte{
	spaceCluster, spaceHead, spaceConfig, spaceCovered, spaceVersion, spaceErased, spaceIndex, spaceProfileIndex,
}

// TestEverySpaceIsLogicalOrLocal reads keys.go: a space that is in neither list would
// be compared nowhere, and one that has another's byte would mix its rows with those.
func TestEverySpaceIsLogicalOrLocal(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[byte]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue || !strings.HasPrefix(spec.Names[0].Name, "space") {
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
		space := letter[0]
		if other := names[space]; other != "" {
			t.Errorf("%s and %s are the same", other, name)
		}
		names[space] = name
		if logical, local := slices.Contains(logicalSpaces[:], space), slices.Contains(localSpaces[:], space); logical == local {
			t.Errorf("%s: in logicalSpaces: %t, in localSpaces: %t; it belongs in one of them", name, logical, local)
		}
		return true
	})
	if want := len(logicalSpaces) + len(localSpaces); len(names) != want {
		t.Errorf("%d spaces in keys.go, %d in the lists", len(names), want)
	}
}
