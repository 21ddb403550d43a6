package api

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// flaw says what is wrong with a text as such; "" is nothing.
type flaw string

const (
	flawNone    flaw = ""
	flawUTF8    flaw = "must be valid UTF-8"
	flawControl flaw = "must not hold control characters other than tab and newline"
)

// clean brings a text into the form that is stored and measured: line ends LF,
// NFC, no white space around it. What cannot be kept is taken out and reported.
func clean(s string) (string, flaw) {
	if !plain(s) {
		var bad flaw
		if s, bad = cleanSlow(s); bad != flawNone {
			return strings.TrimSpace(norm.NFC.String(s)), bad
		}
	}
	return strings.TrimSpace(norm.NFC.String(s)), flawNone
}

// plain reports that s has no carriage return, no refused control character and
// no broken UTF-8.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' && c != '\n' {
			return false
		}
	}
	return utf8.ValidString(s)
}

func cleanSlow(s string) (string, flaw) {
	bad := flawNone
	if !utf8.ValidString(s) {
		bad = flawUTF8
		s = strings.ToValidUTF8(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' {
			if bad == flawNone {
				bad = flawControl
			}
			return -1
		}
		return r
	}, s)
	return s, bad
}

// count is the length of a text as every limit measures it: in code points.
func count(s string) int { return utf8.RuneCountInString(s) }

// cut returns the first n code points of s, without white space at the end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimSpace(s[:i])
		}
		n--
	}
	return s
}

// shorten is cut with an ellipsis, for text that is shown back.
func shorten(s string, n int) string {
	if count(s) <= n {
		return s
	}
	return cut(s, n-1) + "…"
}

// firstLine returns the first line of a text with its white space collapsed.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.Join(strings.Fields(line), " ")
}
