// Package text holds the pure functions that decide when two names are the
// same name and which words a text can be found by.
//
// Everything here depends on Unicode tables. The state machine therefore never
// calls it where the outcome must be equal on all nodes: folded names are part of
// the command. Words are for the index, which each node keeps for itself and
// rebuilds when Version changes.
package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version numbers folding and tokenising together. It must change whenever any
// function here, or the Unicode tables beneath it, may give another result for
// the same input: an index built under another version is rebuilt.
const Version = 1

// MaxTerm is the longest term of a text, in bytes. Longer words are cut.
const MaxTerm = 64

// minPrefixLetters is the number of letters from which the last word of a query is a
// prefix.
const minPrefixLetters = 3

// Words appends to dst the terms under which the text s is found, in order of
// appearance; a term that occurs twice is appended twice.
//
// Words are those of Unicode's segmentation (UAX #29), except that a colon always
// separates words, compatibility normalised, case folded, without accents. Scripts
// that put no space between words (Han, kana, Thai, Lao, Khmer, Burmese) give
// each pair of adjacent characters and each single character. A compound word, such as
// read_entries or v1.2.3, gives its parts, too, and what is left of it at the start of
// each part, so that 1.2.3 finds it. A term is never empty and at most MaxTerm bytes; Words
// of a term contains that term.
//
// The terms may share the memory of s: clone what is kept.
func Words(dst []string, s string) []string {
	n := normalizers.Get().(*normalizer)
	defer n.release()
	scan := scanner{norm: n, dst: dst, text: n.normalize(s), singles: true, whole: true, parts: true}
	scan.run()
	return scan.dst
}

// QueryWords returns the terms that a text must have to match the query q, each
// once. The last word is returned as prefix instead when q ends with it and it
// has at least three letters (a Hangul syllable counts as two): it matches all
// terms that begin with it.
//
// A text matches every query that is cut from it at white space, and, in the
// scripts without spaces, between any two characters.
func QueryWords(q string) (words []string, prefix string) {
	n := normalizers.Get().(*normalizer)
	defer n.release()
	scan := scanner{norm: n, text: n.normalize(q), whole: true}
	scan.run()
	words = scan.dst
	if len(words) == 0 {
		return nil, ""
	}
	last := words[len(words)-1]
	first, _ := utf8.DecodeRuneInString(last)
	trimmed := strings.TrimRightFunc(scan.text, isConnector) // which words do not end with
	if !isUnspaced(first) && countLetters(last) >= minPrefixLetters && strings.HasSuffix(trimmed, last) {
		words, prefix = words[:len(words)-1], last
	}
	unique := words[:0]
	for _, w := range words {
		if !slices.Contains(unique, w) {
			unique = append(unique, w)
		}
	}
	return unique, prefix
}

// countLetters counts the letters and digits of a word.
func countLetters(word string) int {
	count := 0
	for _, r := range word {
		switch {
		case unicode.Is(unicode.Hangul, r):
			count += 2
		case isAlnum(r):
			count++
		}
	}
	return count
}

func isAlnum(r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIIAlnum(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// scanner cuts a normalised text into terms.
type scanner struct {
	norm    *normalizer
	dst     []string
	text    string
	singles bool // also the single characters of a run of an unspaced script
	noPairs bool // not the pairs of such a run
	whole   bool // compound words
	parts   bool // the parts of compound words
}

// class sorts the ASCII characters for run.
var class = func() (table [utf8.RuneSelf]uint8) {
	for c := range table {
		switch {
		case '0' <= c && c <= '9':
			table[c] = classDigit
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			table[c] = classLetter
		case c == '_':
			table[c] = classConnector
		case c == '.' || c == '\'':
			table[c] = classJoinsLetters | classJoinsDigits
		case c == ',' || c == ';':
			table[c] = classJoinsDigits
		}
	}
	return table
}()

const (
	classLetter = 1 << iota
	classDigit
	classConnector
	classJoinsLetters
	classJoinsDigits

	classInWord = classLetter | classDigit | classConnector
)

// run cuts all pieces between white space that are ASCII, at a tenth of the cost
// of unicodePiece, which it calls for the others.
func (s *scanner) run() {
	text := s.text
	pieceStart, pieceTerms := 0, len(s.dst)
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			end := i + 1
			for end < len(text) && !isASCIISpace(text[end]) {
				end++
			}
			s.dst = s.dst[:pieceTerms]
			s.unicodePiece(text[pieceStart:end])
			i, pieceStart, pieceTerms = end, end, len(s.dst)
			continue
		}
		if class[c]&classInWord == 0 {
			i++
			if isASCIISpace(c) {
				pieceStart, pieceTerms = i, len(s.dst)
			}
			continue
		}
		start := i
		i = endOfASCIIWord(text, i)
		if i == len(text) || text[i] < utf8.RuneSelf {
			if word := strings.Trim(text[start:i], "_"); word != "" {
				s.emit(word)
			}
		}
	}
}

// endOfASCIIWord returns the end of the word that begins at text[i].
func endOfASCIIWord(text string, i int) int {
	for i < len(text) && text[i] < utf8.RuneSelf {
		kind := class[text[i]]
		if kind&classInWord == 0 {
			if i+1 >= len(text) || text[i+1] >= utf8.RuneSelf {
				return i
			}
			around := class[text[i-1]] & class[text[i+1]]
			joins := kind&classJoinsLetters != 0 && around&classLetter != 0 ||
				kind&classJoinsDigits != 0 && around&classDigit != 0
			if !joins {
				return i
			}
		}
		i++
	}
	return i
}

// maxSuffixes is the number of parts up to which a compound word also gives its ends. It bounds
// the terms of a text.
const maxSuffixes = 8

// emit appends a word and its parts. A letter or a number stands at both ends of the word.
func (s *scanner) emit(word string) {
	end := endOfPart(word)
	if end == len(word) || s.whole {
		s.dst = append(s.dst, cutTerm(word))
	}
	if end == len(word) || !s.parts {
		return
	}
	var suffixes []string
	for rest := word; rest != ""; end = endOfPart(rest) {
		if part := trimWord(rest[:end]); part != "" {
			s.dst = append(s.dst, cutTerm(part))
			suffixes = append(suffixes, rest)
		}
		rest = strings.TrimLeftFunc(rest[end:], isJoint)
	}
	// The first one is the word, the last one a part.
	if s.whole && len(suffixes) <= maxSuffixes {
		for i := 1; i < len(suffixes)-1; i++ {
			s.dst = append(s.dst, cutTerm(trimWord(suffixes[i])))
		}
	}
}

// endOfPart returns the length of the first part of a compound word: up to a '.' or a connector,
// and the v of a version.
func endOfPart(word string) int {
	if len(word) > 1 && word[0] == 'v' && isASCIIDigit(word[1]) {
		return 1
	}
	for i := range len(word) {
		switch c := word[i]; {
		case c >= utf8.RuneSelf:
			if end := strings.IndexFunc(word[i:], isJoint); end >= 0 {
				return i + end
			}
			return len(word)
		case c == '.' || c == '_':
			return i
		}
	}
	return len(word)
}

// isJoint reports whether r stands between the parts of a compound word.
func isJoint(r rune) bool { return r == '.' || isConnector(r) }

// unicodePiece cuts any piece of text.
func (s *scanner) unicodePiece(piece string) {
	start := 0 // of the stretch of spaced scripts
	for i := 0; i < len(piece); {
		r, size := utf8.DecodeRuneInString(piece[i:])
		if r != ':' && !isUnspaced(r) {
			i += size
			continue
		}
		s.spaced(piece[start:i])
		if r == ':' {
			i += size
		} else {
			i += s.unspaced(piece[i:])
		}
		start = i
	}
	s.spaced(piece[start:])
}

// spaced cuts a stretch of text in scripts that separate words.
func (s *scanner) spaced(stretch string) {
	if stretch == "" {
		return
	}
	segments := s.norm.segments
	segments.SetText(stretch)
	for segments.Next() {
		if word := trimWord(segments.Value()); word != "" {
			s.emit(word)
		}
	}
}

// trimWord cuts the characters that are neither letter nor number from the ends of a word.
func trimWord(word string) string {
	word = strings.TrimLeftFunc(word, func(r rune) bool { return !isAlnum(r) })
	return trimEnd(word)
}

// trimEnd is trimWord for the end of a word, which may have marks.
func trimEnd(word string) string {
	return strings.TrimRightFunc(word, func(r rune) bool { return !isAlnum(r) && !unicode.IsMark(r) })
}

// cutTerm cuts a word on a character's boundary to MaxTerm bytes.
func cutTerm(word string) string {
	if len(word) <= MaxTerm {
		return word
	}
	end := MaxTerm
	for !utf8.RuneStart(word[end]) {
		end--
	}
	return trimEnd(word[:end])
}

// unspaced appends the pairs, and with s.singles the single characters, of the
// run of unspaced script at the start of text, and returns the run's length in
// bytes. A character is a letter with the marks behind it. A run of one
// character is always given as it is.
func (s *scanner) unspaced(text string) int {
	before, pairs := "", 0
	end := 0
	for end < len(text) {
		r, _ := utf8.DecodeRuneInString(text[end:])
		if !isUnspaced(r) {
			break
		}
		here := text[end : end+characterLen(text[end:])]
		if before != "" && !s.noPairs {
			s.dst = append(s.dst, cutTerm(text[end-len(before):end+len(here)]))
			pairs++
		}
		if s.singles {
			s.dst = append(s.dst, cutTerm(here))
		}
		before = here
		end += len(here)
	}
	if !s.singles && pairs == 0 {
		s.dst = append(s.dst, cutTerm(before))
	}
	return end
}

// characterLen returns the length of the letter at the start of s and its marks.
func characterLen(s string) int {
	_, end := utf8.DecodeRuneInString(s)
	for end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsMark(r) {
			break
		}
		end += size
	}
	return end
}

// The blocks that hold scripts without spaces, before Han.
const (
	firstThai, lastLao         = 0x0e00, 0x0eff
	firstBurmese, lastBurmese  = 0x1000, 0x109f
	firstKhmer, lastKhmer      = 0x1780, 0x17ff
	firstKana, lastKana        = 0x3040, 0x30ff
	kanaProlonged              = 'ー'
	firstKanaExt, lastKanaExt  = 0x31f0, 0x31ff
	firstHan, firstSupplements = 0x2e80, 0x1aff0
)

// isUnspaced reports whether r is a letter of a script without spaces between words.
func isUnspaced(r rune) bool {
	switch {
	case r < firstThai:
		return false
	case r <= lastLao, firstBurmese <= r && r <= lastBurmese, firstKhmer <= r && r <= lastKhmer:
		return unicode.IsLetter(r)
	case r < firstHan:
		return false
	case firstKana <= r && r <= lastKana, firstKanaExt <= r && r <= lastKanaExt:
		return r == kanaProlonged || unicode.IsLetter(r)
	default:
		return unicode.Is(unicode.Han, r) && (unicode.IsLetter(r) || unicode.IsNumber(r)) ||
			r >= firstSupplements && unicode.In(r, unicode.Hiragana, unicode.Katakana) && unicode.IsLetter(r)
	}
}

// Asks reports whether one of the texts holds a sentence that ends in a question
// mark: '?', which ends a sentence only before white space or the end of the
// text, or one of '？' and '؟', which always do. Quotation marks, brackets and
// emphasis may close in between, and marks may be repeated.
func Asks(texts ...string) bool { return slices.ContainsFunc(texts, asks) }

func asks(s string) bool {
	if strings.Contains(s, "？") || strings.Contains(s, "؟") {
		return strings.ContainsFunc(s, isSaid)
	}
	if strings.IndexByte(s, '?') < 0 {
		return false
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
