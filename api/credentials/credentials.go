// Package credentials finds credentials in texts, since all texts of the service are public.
//
// A false match rejects an honest agent. Therefore only unmistakable forms count: a fixed beginning,
// an alphabet, a length. A commit id or another hash is no credential.
//
// The work is linear in the text: a form is looked for only at its beginning, and its pattern passes
// few bytes at which another match could begin.
package credentials

import (
	"regexp"
	"slices"
	"strings"
)

// Removed stands in a redacted text where a credential was.
const Removed = "[removed]"

// form is the form of one kind of credential.
type form struct {
	name       string   // description of a match, with its article
	beginnings []string // every match begins with one of them
	pattern    *regexp.Regexp
	inWords    bool // a match may follow a letter or a digit
	digits     bool // a match without a digit is a long word
}

// pattern returns an expression that matches at the beginning of a text.
func pattern(expression string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + expression + `)`) }

// beginning is a beginning of the matches of a form.
type beginning struct {
	text string
	form *form
}

// beginnings holds the beginnings of all forms by their first byte, in the order of the forms, and
// wordBeginnings those of forms that may follow a letter or a digit.
var beginnings, wordBeginnings = func() (all, inWords [256][]beginning) {
	for i := range forms {
		for _, text := range forms[i].beginnings {
			all[text[0]] = append(all[text[0]], beginning{text, &forms[i]})
			if forms[i].inWords {
				inWords[text[0]] = append(inWords[text[0]], beginning{text, &forms[i]})
			}
		}
	}
	return all, inWords
}()

// Redact returns the text without its credentials, and a description of the first one with its
// article. found is empty if there is no credential.
func Redact(text string) (redacted, found string) {
	if !hasRun(text) {
		return text, ""
	}
	var b strings.Builder
	done := 0
	for at := 0; at < len(text); at++ {
		candidates := beginnings[text[at]]
		if inWord(text, at) {
			candidates = wordBeginnings[text[at]]
		}
		for _, begin := range candidates {
			if !strings.HasPrefix(text[at:], begin.text) {
				continue
			}
			to, genuine := begin.form.match(text, at)
			if to == 0 {
				continue
			}
			if genuine {
				b.WriteString(text[done:at] + Removed)
				done = to
				if found == "" {
					found = begin.form.name
				}
			}
			at = to - 1
			break
		}
	}
	if found == "" {
		return text, ""
	}
	b.WriteString(text[done:])
	return b.String(), found
}

// match returns the end of the match at an offset, or 0 without one, and whether it is genuine: no
// word and no sample.
func (f *form) match(text string, at int) (to int, genuine bool) {
	match := f.pattern.FindString(text[at:])
	if match == "" {
		return 0, false
	}
	to = at + len(match)
	return to, !inWord(text, to) && !isSample(match) && (!f.digits || strings.ContainsAny(match, "0123456789"))
}

// inWord reports whether the bytes before and at an offset are both letters or digits.
func inWord(text string, at int) bool {
	return at > 0 && at < len(text) && isAlnum(text[at-1]) && isAlnum(text[at])
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

const (
	// tailBytes is the number of bytes at the end of a match in which a placeholder, as in ghp_xxxx,
	// has fewer than minDistinct different ones.
	tailBytes   = 24
	minDistinct = 6
)

// samples are parts of credentials in the documentation of AWS and of signed tokens.
var samples = []string{"EXAMPLE", "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l"}

// isSample reports whether a match stands for a credential in documentation.
func isSample(match string) bool {
	distinct := 0
	var seen [256]bool
	for _, c := range []byte(match[max(0, len(match)-tailBytes):]) {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	return distinct < minDistinct || slices.ContainsFunc(samples, func(part string) bool { return strings.Contains(match, part) })
}

// minRun is the length of the shortest credential. Every credential has so many token characters in
// a row, and prose does not.
const minRun = 20

var tokenBytes = func() (set [256]bool) {
	for i := range set {
		set[i] = isAlnum(byte(i)) || strings.IndexByte("+-./_=:", byte(i)) >= 0
	}
	return set
}()

// hasRun reports whether a text has a run of token characters as long as the shortest credential.
func hasRun(text string) bool {
	run := 0
	for i := range len(text) {
		if run++; !tokenBytes[text[i]] {
			run = 0
		}
		if run >= minRun {
			return true
		}
	}
	return false
}
