package credentials

import (
	"strings"
	"unicode/utf8"
)

// view is a text as a reader puts it together: without what splits a token.
type view struct {
	text string
	at   []int // where each byte stands in the original; nil: at the same place
}

// origin returns where a byte of the view stands in the original.
func (v *view) origin(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// views returns the text without characters of no width and, where a line break
// stands between two characters of tokens, also without those.
func views(text string) []view {
	first := view{text: text}
	if strings.ContainsFunc(text, zeroWidth) {
		first = first.without(func(s string, i int) int {
			if r, n := utf8.DecodeRuneInString(s[i:]); zeroWidth(r) {
				return n
			}
			return 0
		})
	}
	if !strings.ContainsAny(first.text, "\r\n") {
		return []view{first}
	}
	return []view{first, first.without(lineBreak)}
}

// without returns the view without the stretches whose length skip returns.
func (v *view) without(skip func(s string, i int) int) view {
	var b strings.Builder
	at := make([]int, 0, len(v.text))
	for i := 0; i < len(v.text); {
		if n := skip(v.text, i); n > 0 {
			i += n
			continue
		}
		b.WriteByte(v.text[i])
		at = append(at, v.origin(i))
		i++
	}
	return view{b.String(), at}
}

// zeroWidth reports a character that nobody sees.
func zeroWidth(r rune) bool {
	return r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x2064 || r == 0xfeff || r == 0xad || r == 0x180e
}

// lineBreak is the length of a line break at s[i:] between two characters of tokens,
// with a backslash before it, as in a shell; 0: there is none.
func lineBreak(s string, i int) int {
	if i == 0 || !tokenBytes[s[i-1]] {
		return 0
	}
	n := 0
	for _, part := range []string{"\\", "\r", "\n"} {
		if strings.HasPrefix(s[i+n:], part) {
			n += len(part)
		}
	}
	if n == 0 || s[i+n-1] == '\\' || i+n == len(s) || !tokenBytes[s[i+n]] {
		return 0
	}
	return n
}
