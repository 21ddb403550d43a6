package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Query is a parsed search text.
type Query struct {
	Words   []string   // terms that a text must have, each once
	Prefix  string     // the beginning of a further term, or ""
	Phrases [][]string // each has to occur in a text as Sequence returns it
	Not     [][]string // groups of terms; a text may not have all terms of a group
}

// ParseQuery parses a search text: words, phrases in quotation marks, and words or phrases
// to exclude, after one hyphen. A quotation mark opens a phrase, and a hyphen excludes, only
// at the beginning and after white space. A hyphen excludes only before a letter or a quotation
// mark, and only beside something to find: --flag, -32602 and -x alone are words. See QueryWords
// for the words.
func ParseQuery(q string) Query {
	p := parseQuery(q, true)
	if len(p.Not) > 0 && len(p.Words) == 0 && p.Prefix == "" {
		p = parseQuery(q, false)
	}
	return p
}

func parseQuery(q string, excludes bool) (p Query) {
	var rest strings.Builder
	var phrases strings.Builder
	for begins := true; q != ""; {
		r, size := utf8.DecodeRuneInString(q)
		if !begins || r != '-' && !strings.ContainsRune(quotes, r) {
			rest.WriteString(q[:size])
			begins, q = unicode.IsSpace(r), q[size:]
			continue
		}
		piece, minus := strings.CutPrefix(q, "-")
		text, after, quoted := cutPhrase(piece)
		next, _ := utf8.DecodeRuneInString(piece)
		minus = minus && excludes && (quoted || unicode.IsLetter(next))
		if !quoted && minus {
			end := strings.IndexFunc(piece, unicode.IsSpace)
			if end < 0 {
				end = len(piece)
			}
			text, after = piece[:end], piece[end:]
		}
		switch terms, _ := QueryWords(text + " "); {
		case !quoted && !minus: // an open quotation mark, or a hyphen
			rest.WriteString(q[:size])
			begins, q = false, q[size:]
			continue
		case minus && len(terms) > 0:
			p.Not = append(p.Not, terms)
		case quoted:
			phrases.WriteString(text + " ")
			if sequence := Sequence(text); len(sequence) > 1 {
				p.Phrases = append(p.Phrases, sequence)
			}
		}
		rest.WriteByte(' ')
		q = after
	}
	// A word of a phrase stands in front, so that it is no prefix.
	p.Words, p.Prefix = QueryWords(phrases.String() + rest.String())
	return p
}

// quotes are the marks around a phrase.
const quotes = "\"“”„"

// cutPhrase cuts a phrase with its quotation marks off the start of s.
func cutPhrase(s string) (phrase, after string, found bool) {
	r, size := utf8.DecodeRuneInString(s)
	if !strings.ContainsRune(quotes, r) {
		return "", "", false
	}
	end := strings.IndexAny(s[size:], quotes)
	if end < 0 {
		return "", "", false
	}
	_, closing := utf8.DecodeRuneInString(s[size+end:])
	return s[size : size+end], s[size+end+closing:], true
}

// Sequence returns the terms of a text in their order, for phrases. A script without spaces
// gives its single characters, a compound word its parts.
func Sequence(s string) []string {
	n := normalizers.Get().(*normalizer)
	defer n.release()
	scan := scanner{norm: n, text: n.normalize(s), singles: true, noPairs: true, parts: true}
	scan.run()
	return scan.dst
}

// HasPhrase reports whether a sequence contains the terms of a phrase one after another.
func HasPhrase(sequence, phrase []string) bool {
	for i := range len(sequence) - len(phrase) + 1 {
		if slices.Equal(sequence[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return false
}
