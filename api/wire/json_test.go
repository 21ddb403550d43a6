package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestReadObject(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	for name, test := range map[string]struct {
		in   string
		want []Field // nil: an error
	}{
		"empty":                      {`{}`, []Field{}},
		"types":                      {`{"a":"x","b":1.50,"c":true,"d":null,"e":[1,"y"],"f":{"g":2}}`, []Field{{"a", "x"}, {"b", json.Number("1.50")}, {"c", true}, {"d", nil}, {"e", []any{json.Number("1"), "y"}}, {"f", map[string]any{"g": json.Number("2")}}}},
		"escapes":                    {`{"a":"\ud83d\ude00 \u00e9 \\ud800 \n"}`, []Field{{"a", "😀 é \\ud800 \n"}}},
		"white space around":         {" \r\n\t{\"a\":\"x\"} \n", []Field{{"a", "x"}}},
		"key twice":                  {`{"a":1,"a":2}`, nil},
		"key twice by escape":        {`{"a":1,"\u0061":2}`, nil},
		"key twice deep":             {`{"a":[{"b":{"c":1,"d":2,"c":3}}]}`, nil},
		"same key in two objects":    {`{"a":{"x":1},"b":{"x":1}}`, []Field{{"a", map[string]any{"x": json.Number("1")}}, {"b", map[string]any{"x": json.Number("1")}}}},
		"deepest":                    {nested(maxJSONDepth), []Field{{"a", deepArray(maxJSONDepth - 1)}}},
		"too deep":                   {nested(maxJSONDepth + 1), nil},
		"10,000 deep":                {nested(10_000), nil},
		"too deep in objects":        {strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), nil},
		"bad UTF-8":                  {"{\"a\":\"\xff\"}", nil},
		"bad UTF-8 in a key":         {"{\"\xc3\":1}", nil},
		"high surrogate alone":       {`{"a":"\ud83d"}`, nil},
		"high surrogate, then text":  {`{"a":"\ud83dx\ude00"}`, nil},
		"low surrogate alone":        {`{"a":"\ude00"}`, nil},
		"surrogates turned round":    {`{"a":"\ude00\ud83d"}`, nil},
		"something behind":           {`{"a":1} {"b":2}`, nil},
		"trailing comma":             {`{"a":1,}`, nil},
		"trailing comma in an array": {`{"a":[1,]}`, nil},
		"open":                       {`{"a":1`, nil},
		"single quotes":              {`{'a':1}`, nil},
		"control in a string":        {"{\"a\":\"\x01\"}", nil},
		"comment":                    {`{"a":1/* */}`, nil},
		"NaN":                        {`{"a":NaN}`, nil},
		"an array":                   {`[1]`, nil},
		"nothing":                    {``, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadObject([]byte(test.in))
			if test.want == nil {
				if err == nil {
					t.Fatalf("got %v, want an error", got)
				}
				return
			}
			must.Do(t, err)
			if len(got)+len(test.want) > 0 && !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %#v\nwant %#v", got, test.want)
			}
		})
	}
	check.Err(t, check.Last(ReadObject([]byte(`["x"]`))), ErrNotObject, "an array")
}

// TestReadObjectErrors holds the texts that clients are shown: of several mistakes the
// same one is named wherever the reader stopped.
func TestReadObjectErrors(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\":1,\"a\":\"\xff\"}": "it is not valid UTF-8",
		`{"a":1,"a":2`:             "unexpected end of JSON input (at byte 12)",
		`{"a":1,"a":"\ude00"}`:     "a string holds half of a surrogate pair",
		`["\ude00"]`:               "a string holds half of a surrogate pair",
		`["x"]`:                    "it is not a JSON object",
		`{"a":{"~/b":1,"~/b":2}}`:  `the key "~/b" occurs twice in one object`,
		`{"` + strings.Repeat("é", 41) + `":1,"` + strings.Repeat("é", 41) + `":2}`: `the key "` + strings.Repeat("é", 39) + `…" occurs twice in one object`,
		`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`:           "it is nested more than 32 deep",
		`{"a":1} {}`: "invalid character '{' after top-level value (at byte 9)",
		`body=Hello`: "it is no JSON but looks like a form; send that as application/x-www-form-urlencoded: invalid character 'b' looking for beginning of value (at byte 1)",
	} {
		if _, err := ReadObject([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func deepArray(depth int) any {
	list := []any{}
	for range depth - 1 {
		list = []any{list}
	}
	return list
}

// FuzzReadObject compares with the standard library: whatever we accept, it
// accepts too and means the same.
func FuzzReadObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[{"b":null}]}`, `{"a":1,"a":2}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, "{\"\xff\":1}", `[1]`, `{"a":1}x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := ReadObject(data)
		if err != nil {
			return
		}
		got := map[string]any{}
		for _, f := range fields {
			if !utf8.ValidString(f.Name) {
				t.Errorf("key %q is no UTF-8", f.Name)
			}
			if _, twice := got[f.Name]; twice {
				t.Errorf("key %q twice", f.Name)
			}
			got[f.Name] = f.Value
		}
		dec := json.NewDecoder(strings.NewReader(string(data)))
		dec.UseNumber()
		want := map[string]any{}
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("accepted %q, but %v", data, err)
		}
		check.Diff(t, got, want, "%q", data)
	})
}

// TestAppendJSONOfTexts: texts are written as encoding/json does it.
func TestAppendJSONOfTexts(t *testing.T) {
	for r := range rune(0x3000) {
		for _, s := range []string{string(r), "a" + string(r) + "b", string([]byte{byte(r)})} {
			var want strings.Builder
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			must.Do(t, enc.Encode(s))
			must.Equal(t, string(AppendJSON([]byte("x"), s))+"\n", "x"+want.String(), "%q", s)
		}
	}
}

// TestPlainTextIsNoList: the values of nearly all filters cost no reader of JSON.
func TestPlainTextIsNoList(t *testing.T) {
	for _, text := range []string{"", "general", `"a"`, "{}", " x [1]", `["a"`, `["a",`, `["a"] x`, "[a]"} {
		items, is := ReadList(text)
		check.Equal(t, is || items != nil, false, "%q is a list", text)
	}
	if got, is := ReadTexts(" \n[\"a\"]"); !is || len(got) != 1 || got[0] != "a" {
		t.Errorf("a list behind white space is %q, %t", got, is)
	}
	check.Equal(t, testing.AllocsPerRun(10, func() { ReadList("general") }), 0, "allocations for a plain text")
	allocations := func(times int) float64 {
		pairs := append([]Pair{{"tags", "[" + strings.Repeat(`"a",`, 999) + `"a"]`}}, slices.Repeat([]Pair{{"tags", "b"}}, times)...)
		return testing.AllocsPerRun(3, func() { FoldPairs(pairs) })
	}
	if once, often := allocations(1), allocations(100); once < 1000 || often > 2*once {
		t.Errorf("a long list is read again for each of %d short ones: %v allocations, %v for one", 100, often, once)
	}
}
