// Package credentials finds credentials in texts, since all texts of the service are public.
//
// A false match rejects an honest agent. Therefore only unmistakable formats count: a fixed prefix,
// an alphabet, a length.
//
// The table written by hand comes first; the rules of gitleaks add further formats.
//
// The work is linear in the text. A keyword makes its rule look at a bounded number of bytes from
// there on; no other byte is looked at twice. So the number of rules hardly matters for honest
// texts.
package credentials

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Removed stands in a redacted text where a credential was.
const Removed = "[removed]"

// minRun is the length of the shortest credential. Every credential has so many token characters in
// a row.
const minRun = 20

// rule is one format.
type rule struct {
	name string // description of a match, with its article
	// keywords are in lower case. A match begins with one of them, in any case.
	keywords []string
	// match finds a credential whose keyword stands at a place.
	match matcher
}

// matcher finds a credential whose keyword is at text[at:]. It returns the part to remove, or an end
// of 0 without a match. It looks at a bounded number of bytes, or at bytes that it looks at for no
// other place.
type matcher func(text string, at int) (from, to int)

// span is a part of a text that holds a credential.
type span struct {
	from, to int
	name     string
}

// Redact returns the text without its credentials, and a description of the first one with its
// article. found is empty if there is no credential.
func Redact(text string) (redacted, found string) {
	if longestRun(text) < minRun && !strings.Contains(text, pemBegin) { // a key may be broken into short lines
		return text, ""
	}
	var spans []span
	for _, v := range views(text) {
		for _, s := range search(v.text) {
			spans = append(spans, span{v.origin(s.from), v.origin(s.to-1) + 1, s.name})
		}
	}
	if len(spans) == 0 {
		return text, ""
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	done := 0
	for _, s := range spans {
		if s.from >= done {
			b.WriteString(text[done:s.from])
			b.WriteString(Removed)
		}
		done = max(done, s.to)
	}
	b.WriteString(text[done:])
	return b.String(), spans[0].name
}

// search returns the credentials of a text in their order, without overlaps.
func search(text string) (found []span) {
	done := 0
	for at := 0; at+1 < len(text); at++ {
		for _, k := range keywords[groupOf[pairOf(text, at)]] {
			if !hasFold(text[at:], k.word) {
				continue
			}
			from, to := k.rule.match(text, at)
			if to == 0 || from < done {
				continue
			}
			// Emphasis in Markdown stays.
			for from < to && text[from] == '_' {
				from++
			}
			for from < to && text[to-1] == '_' {
				to--
			}
			if from < to {
				found = append(found, span{from, to, k.rule.name})
				done, at = to, to-1
				break
			}
		}
	}
	return found
}

// keyword is a keyword with its rule.
type keyword struct {
	word string
	rule *rule
}

// keywords holds the keywords in groups, in the order of the rules, and groupOf names
// the group of those that begin with two bytes; 0 is the empty one.
var (
	keywords = make([][]keyword, 1)
	groupOf  [1 << 14]uint16
)

func init() {
	for i := range gitleaksRules {
		rules = append(rules, take(&gitleaksRules[i]))
	}
	for i := range rules {
		for _, word := range rules[i].keywords {
			group := &groupOf[pairOf(word, 0)]
			if *group == 0 {
				*group = uint16(len(keywords))
				keywords = append(keywords, nil)
			}
			keywords[*group] = append(keywords[*group], keyword{word, &rules[i]})
		}
	}
}

// pairOf returns a number for two bytes, the same in upper and lower case; few other pairs have it.
func pairOf(text string, at int) uint16 {
	return uint16(lower(text[at])&0x7f)<<7 | uint16(lower(text[at+1])&0x7f)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// hasFold reports whether a text begins with a word of lower case, in any case.
func hasFold(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

// longestRun returns the length of the longest run of token characters, which a line break or a
// non-ASCII character may split.
func longestRun(text string) (longest int) {
	run := 0
	for i := range len(text) {
		switch c := text[i]; {
		case tokenBytes[c]:
			run++
			longest = max(longest, run)
		case c == '\n' || c == '\r' || c == '\\' || c >= 0x80:
		default:
			run = 0
		}
	}
	return longest
}

// view is a text without the characters that split a token.
type view struct {
	text string
	at   []int // offset of each byte in the original; nil means the same offsets
}

// origin returns the offset of a byte of the view in the original.
func (v *view) origin(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// views returns the text without characters of no width. If it has line breaks, a second
// view also leaves out those between two characters of tokens.
func views(text string) []view {
	first := view{text: text}
	if hasZeroWidth(text) {
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

// hasZeroWidth reports whether one of a text's characters is zeroWidth; no ASCII is.
func hasZeroWidth(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.ContainsFunc(text[i:], zeroWidth)
		}
	}
	return false
}

// zeroWidth reports whether a character is invisible.
func zeroWidth(r rune) bool {
	return r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x2064 || r == 0xfeff || r == 0xad || r == 0x180e
}

// lineBreak returns the length of a line break at s[i:] between two token characters, with a
// backslash before it, as in a shell. It returns 0 without one.
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
