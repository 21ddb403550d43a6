package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Asks reports whether one of the texts holds a sentence that ends in a question
// mark: '?', which ends a sentence only before white space or the end of the
// text, or one of '？' and '؟', which always do. Quotation marks, brackets and
// emphasis may close in between, and marks may be repeated.
func Asks(texts ...string) bool { return slices.ContainsFunc(texts, asks) }

func asks(s string) bool {
	if strings.Contains(s, "？") || strings.Contains(s, "؟") {
		return strings.ContainsFunc(s, isSaid)
	}
	said := false // a letter or digit stands before
	for i, r := range s {
		switch {
		case r == '?' && said && endsSentence(s[i+1:]):
			return true
		case !said:
			said = isSaid(r)
		}
	}
	return false
}

func isSaid(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// endsSentence reports whether a sentence has ended before s.
func endsSentence(s string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, "?!.…\"'”’»“‘)]}*_~`"))
	return r == utf8.RuneError || unicode.IsSpace(r)
}
