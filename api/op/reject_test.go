package op

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/check"
)

// TestWithoutKeys: the request that an error sends back holds no key, at any depth.
func TestWithoutKeys(t *testing.T) {
	key := EditKeyPrefix + strings.Repeat("a", secretChars)
	for name, tc := range map[string]struct {
		sent wire.Object
		want string
	}{
		"text":           {wire.Object{{"body", "my key is " + key}, {"agent", "ada"}}, `{"agent":"ada"}`},
		"name":           {wire.Object{{"Token", "x"}, {"agent", "ada"}}, `{"agent":"ada"}`},
		"object":         {wire.Object{{"next", map[string]any{"q": key, "tags": "a"}}}, `{"next":{"tags":"a"}}`},
		"list":           {wire.Object{{"tags", []any{"a", key, true}}}, `{"tags":["a",true]}`},
		"list of lists":  {wire.Object{{"tags", []any{[]any{key}, "a"}}}, `{"tags":[[],"a"]}`},
		"object in list": {wire.Object{{"tags", []any{map[string]any{"token": "x", "q": key, "b": "c"}}}}, `{"tags":[{"b":"c"}]}`},
		"list in object": {wire.Object{{"next", map[string]any{"tags": []any{key}}}}, `{"next":{"tags":[]}}`},
		"twice":          {wire.Object{{"agent", "ada"}, {"agent", "bob"}}, `{"agent":"ada"}`},
		"no text":        {wire.Object{{"limit", 5}, {"note", nil}}, `{"limit":5,"note":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, string(withoutKeys(tc.sent).AppendJSON(nil)), tc.want, "without keys")
		})
	}
}
