package text

import (
	"strings"
	"unicode"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// Plain returns texts as a reader takes them, for patterns of watched words: joined by spaces, in
// lower case, without marks and invisible characters. Wide and styled characters, and letters
// that look like letters of ASCII, are replaced by these, and white space by one space.
//
// It runs only where a request arrives, never when a command is applied. So nodes of different
// versions may differ in it.
func Plain(texts []string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToValidUTF8(strings.Join(texts, " "), "\ufffd")) {
		if !unicode.In(r, unicode.Mn, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			b.WriteString(lookOf(r))
		}
	}
	return Fold(strings.Join(strings.Fields(b.String()), " "))
}

// lookOf returns the letters of ASCII that a character looks like, in either case, or itself.
func lookOf(r rune) string {
	if r > unicode.MaxASCII {
		for _, c := range [...]rune{unicode.ToLower(r), r} {
			if seen := confusable.GetReplacement(c); seen != "" && strings.IndexFunc(seen, isNotASCII) < 0 {
				return seen
			}
		}
	}
	return string(r)
}

func isNotASCII(r rune) bool { return r > unicode.MaxASCII }
