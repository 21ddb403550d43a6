package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of agent names and mentions.
const (
	MinAgentName = 2  // code points
	MaxAgentName = 64 // code points
	MaxMentions  = 50 // distinct names that the texts of one entry can mention
)

// Fold returns the key under which names are compared: NFC, case folded, NFC again.
func Fold(name string) string {
	if key, ok := lowerASCII(name); ok {
		return key
	}
	name = nfc(name)
	if strings.ContainsFunc(name, isCherokee) {
		// cases.Fold swaps the cases of Cherokee instead of folding the lower into the upper one.
		name = strings.Map(func(r rune) rune {
			if isCherokee(r) {
				return unicode.ToLower(r)
			}
			return r
		}, name)
	}
	return nfc(cases.Fold().String(name))
}

// nfc normalises s. Invalid UTF-8 becomes U+FFFD first, because normalisation skips the text
// after it.
func nfc(s string) string { return norm.NFC.String(strings.ToValidUTF8(s, "\ufffd")) }

func isCherokee(r rune) bool { return r > unicode.MaxLatin1 && unicode.Is(unicode.Cherokee, r) }

// FoldTag returns the key of a tag: without surrounding white space, folded like a name.
func FoldTag(tag string) string { return Fold(strings.TrimSpace(tag)) }

// AgentName returns s as an agent name: in NFC, each run of characters that no
// name can hold replaced by one '-', leading and trailing '-' removed. The
// result may be of any length, also empty. AgentName(AgentName(s)) == AgentName(s).
func AgentName(s string) string {
	s = nfc(s)
	if isPlainName(s) {
		return strings.Trim(s, "-")
	}
	var b strings.Builder
	b.Grow(len(s))
	// A mark belongs to the letter before it. After anything else it is one of
	// the characters to be replaced.
	inRun, afterLetter := false, false
	for _, r := range s {
		mark := isNameMark(r)
		if IsNameRune(r) && (!mark || afterLetter) {
			b.WriteRune(r)
			inRun = false
			afterLetter = mark || r > unicode.MaxASCII || isASCIIAlnum(byte(r))
			continue
		}
		if !inRun {
			b.WriteByte('-')
		}
		inRun, afterLetter = true, false
	}
	return strings.Trim(b.String(), "-")
}

// ChannelName returns s as a channel name: like AgentName, in lower case.
func ChannelName(s string) string {
	if lower, ok := lowerASCII(s); ok {
		return AgentName(lower)
	}
	// The result of lower-casing need not be NFC; AgentName restores that, and
	// never brings an upper-case letter back.
	return AgentName(strings.ToLower(nfc(s)))
}

// IsNameRune reports whether r can be part of a name: a letter or digit of any script, a
// mark that spells vowels or accents, or one of '.', '_' and '-'.
func IsNameRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '.' || r == '_' || r == '-' || (r >= 0 && isASCIIAlnum(byte(r)))
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || isNameMark(r)
}

func isNameMark(r rune) bool {
	return r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Mc) && !unicode.Is(unicode.Variation_Selector, r)
}

// isPlainName reports whether s is ASCII and every byte of it is allowed in a name.
func isPlainName(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || !IsNameRune(rune(s[i])) {
			return false
		}
	}
	return true
}

// Mentions returns the folded names that the texts mention, each once, in order
// of appearance, at most MaxMentions.
//
// A mention is an '@' at the start of a text or after a character that cannot
// be part of a name, followed by the longest run of name characters, of which
// trailing '.', '-' and '_' are dropped. It must be a valid agent name.
func Mentions(texts ...string) []string {
	var found []string
	for _, s := range texts {
		if strings.IndexByte(s, '@') < 0 {
			continue
		}
		found = appendMentions(found, nfc(s))
	}
	return found
}

func appendMentions(found []string, s string) []string {
	for pos := 0; len(found) < MaxMentions; {
		at := strings.IndexByte(s[pos:], '@')
		if at < 0 {
			return found
		}
		at += pos
		pos = at + 1
		if before, _ := utf8.DecodeLastRuneInString(s[:at]); at > 0 && IsNameRune(before) {
			continue
		}
		end := pos
		for end < len(s) {
			r, size := utf8.DecodeRuneInString(s[end:])
			if !IsNameRune(r) {
				break
			}
			end += size
		}
		name := strings.TrimRight(s[pos:end], ".-_")
		pos = end
		if !isAgentName(name) {
			continue
		}
		if key := Fold(name); !slices.Contains(found, key) {
			found = append(found, strings.Clone(key))
		}
	}
	return found
}

// isAgentName reports whether name, which is in NFC, could be an agent's.
func isAgentName(name string) bool {
	if len(name) < MinAgentName || len(name) > MaxAgentName*utf8.UTFMax {
		return false
	}
	if n := utf8.RuneCountInString(name); n < MinAgentName || n > MaxAgentName {
		return false
	}
	return AgentName(name) == name
}

// lowerASCII returns s in lower case, and false if s is not ASCII.
func lowerASCII(s string) (string, bool) {
	upper := false
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return "", false
		}
		upper = upper || ('A' <= c && c <= 'Z')
	}
	if !upper {
		return s, true
	}
	return strings.ToLower(s), true
}

func isASCIIAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

const (
	// maxNearName is the length in bytes up to which a near name is looked for.
	maxNearName = 64
	// minNearPart is the length in bytes from which a name that is a part of another one is near it.
	minNearPart = 4
	// nearShare is the reciprocal of the share of a name that may differ from a near one.
	nearShare = 3
)

// plainName is a name in lower case, without the characters between its words.
func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// Nearest returns the name that was probably meant by an unknown one: a name that contains it or is
// contained in it, else the name with the smallest edit distance. Case, _ and - do not matter. It
// returns "" if no name is near.
func Nearest(name string, names []string) string {
	if name = plainName(name); name == "" || len(name) > maxNearName {
		return ""
	}
	best, least := "", len(name)/nearShare+1
	for _, other := range names {
		plain := plainName(other)
		d := distance(name, plain)
		part := min(len(name), len(plain)) >= minNearPart && (strings.Contains(plain, name) || strings.Contains(name, plain))
		switch {
		case d == 0:
			return other
		case part && least > 0:
			best, least = other, 0
		case d < least:
			best, least = other, d
		}
	}
	return best
}

// distance is the edit distance of two texts, in bytes. An exchange of two neighbours is one edit.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j+1], row[j]) + 1
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], last[j])
			} else {
				row[j+1] = min(row[j+1], last[j]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
