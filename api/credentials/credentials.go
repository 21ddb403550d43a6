// Package credentials finds what looks like a credential in a text: everything
// that the service takes in is public.
//
// Here a refused text is a refused agent, so only formats count that nothing else
// has: a fixed prefix, an alphabet, a length.
//
// The table by hand comes first; what it does not know the rules of gitleaks add.
//
// The work is linear in the text. A keyword that stands at a place lets its rule
// look at the bytes from there on, a bounded number of them; nothing else is looked
// at twice. So the number of rules costs honest text next to nothing.
package credentials

import (
	"cmp"
	"slices"
	"strings"
)

// Removed stands in a redacted text where a credential was.
const Removed = "[removed]"

// minRun is the length of the shortest credential. A text without so many
// characters in a row that can stand in one holds none.
const minRun = 20

// rule is one format.
type rule struct {
	name string // what a match looks like, with its article
	// keywords are in lower case. A match begins with one of them, in any case.
	keywords []string
	// match finds a credential whose keyword stands at a place.
	match matcher
}

// matcher looks for a credential whose keyword stands at text[at:]. It returns the
// part to remove, and an end of 0 where there is none. It looks at a bounded number
// of bytes, or at such as it looks at for no other place.
type matcher func(text string, at int) (from, to int)

// span is a part of a text that holds a credential.
type span struct {
	from, to int
	name     string
}

// Redact returns the text without its credentials, and what the first one looks
// like, with its article; "" where there is none.
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

// search returns the credentials of a text in their order; none overlap.
func search(text string) (found []span) {
	done := 0
	for at := 0; at+1 < len(text); at++ {
		pair := pairOf(text, at)
		if begins[pair>>6]&(1<<(pair&63)) == 0 {
			continue
		}
		for _, k := range keywords[pair] {
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

// keywords holds the keywords by their first two bytes, in the order of the rules;
// begins has a bit for each two bytes that begin one.
var (
	keywords = map[uint16][]keyword{}
	begins   [1 << 16 / 64]uint64
)

func init() {
	for i := range gitleaksRules {
		rules = append(rules, take(&gitleaksRules[i]))
	}
	for i := range rules {
		for _, word := range rules[i].keywords {
			pair := pairOf(word, 0)
			keywords[pair] = append(keywords[pair], keyword{word, &rules[i]})
			begins[pair>>6] |= 1 << (pair & 63)
		}
	}
}

func pairOf(text string, at int) uint16 {
	return uint16(lower(text[at]))<<8 | uint16(lower(text[at+1]))
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

// longestRun is the length of the longest run of characters that can stand in a
// credential, which a line break or what is not ASCII may split.
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
