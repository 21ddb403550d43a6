package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold returns the key under which names are compared: NFC, case folded, NFC again.
func Fold(name string) string {
	if !strings.ContainsFunc(name, isNotASCII) {
		return strings.ToLower(name)
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

// FoldTag returns the key of a tag: without surrounding white space, case and accents, like the
// words of a text.
func FoldTag(tag string) string {
	n := normalizers.Get().(*normalizer)
	defer n.release()
	return strings.Clone(strings.TrimSpace(n.normalize(strings.ToValidUTF8(tag, "\ufffd"))))
}

// AgentName returns s as an agent name: in NFC, each run of characters that no
// name can hold replaced by one '-', leading and trailing '-' removed. The
// result may be of any length. It is empty if s has no letter or digit that a name can hold.
// AgentName(AgentName(s)) == AgentName(s).
func AgentName(s string) string {
	s = nfc(s)
	if strings.IndexFunc(s, func(r rune) bool { return isAlnum(r) && IsNameRune(r) }) < 0 {
		return ""
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

func isASCIIAlnum(c byte) bool { return isASCIIDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isASCIIDigit(c byte) bool { return '0' <= c && c <= '9' }

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
