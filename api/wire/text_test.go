package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/must"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]struct {
		out string
		bad Flaw
	}{
		"\tplain\n": {"plain", FlawNone}, "a\r\nb": {"a\nb", FlawNone}, "a\rb": {"ab", flawControl + " (here: U+000D)"}, "a\x00": {"a", flawControl + " (here: U+0000)"},
		"\v": {"", flawControl + " (here: U+000B)"}, "a\xffb": {"ab", flawUTF8}, "a\xff\x01": {"a", flawUTF8}, "e\u0301": {"é", FlawNone}, "\u00a0x\u3000": {"x", FlawNone},
		"\ufeff a": {"a", FlawNone}, " \ufeff\ufeff a": {"a", FlawNone}, "a\ufeffb": {"a\ufeffb", FlawNone},
		"\x7f\u0085x": {"x", flawControl + " (here: U+007F, U+0085)"}, "a\u2028b": {"a\u2028b", FlawNone}, "x\u0080": {"x", flawControl + " (here: U+0080)"},
		"\x01\x02\x03\x04\x05\x06a": {"a", flawControl + " (here: U+0001, U+0002, U+0003, U+0004)"},
		// Tag characters spell a hidden text.
		"Hello \U000e0049\U000e0067\U000e0049": {"Hello", flawHidden + " (here: U+E0049, U+E0067)"},
		"\U000e0100":                           {"\U000e0100", FlawNone}, "👩\u200d💻 naïve": {"👩\u200d💻 naïve", FlawNone}, "“quoted” … ⁇": {"“quoted” … ⁇", FlawNone},
		// Bidirectional controls must be balanced in each line.
		"a \u2067עברית\u2069 b":                  {"a \u2067עברית\u2069 b", FlawNone},
		"\u2068a \u2067b\u2069 c\u2069\nd":       {"\u2068a \u2067b\u2069 c\u2069\nd", FlawNone},
		"\u202bעברית\u202c":                      {"\u202bעברית\u202c", FlawNone},
		"\u200eleft\u200f \u061cright":           {"\u200eleft\u200f \u061cright", FlawNone},
		"if \u202e} admin {":                     {"if } admin {", flawBidi + " (here: U+202E)"},
		"\u2066a\nb\u2069":                       {"a\nb", flawBidi + " (here: U+2066, U+2069)"},
		"a\u2069":                                {"a", flawBidi + " (here: U+2069)"},
		"\u2066a\u202c\u2069":                    {"a", flawBidi + " (here: U+2066, U+202C, U+2069)"},
		"\u202ea \U000e0041\u202c \u2066b\u2069": {"\u202ea \u202c \u2066b\u2069", flawHidden + " (here: U+E0041)"},
	} {
		if out, bad := Clean(in); out != want.out || bad != want.bad {
			t.Errorf("%q: %q %q, want %q %q", in, out, bad, want.out, want.bad)
		}
	}
}

// TestFirstLine holds that a title is the begin of the whole line with its white space
// collapsed, however little of it is read.
func TestFirstLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.SampledFrom([]rune("ab \t\né\u3000😀")), 0, 300, -1).Draw(t, "text")
		n := rapid.IntRange(1, 40).Draw(t, "most")
		line, _, _ := strings.Cut(s, "\n")
		must.Equal(t, FirstLine(s, n), Cut(strings.Join(strings.Fields(line), " "), n), "the first line of %q", s)
	})
}
