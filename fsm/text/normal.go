package text

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/rangetable"
)

// normalizer holds the buffers and iterators of one call.
type normalizer struct {
	out      []byte
	folded   []byte
	segments *words.Iterator[string]
}

var normalizers = sync.Pool{New: func() any {
	return &normalizer{segments: words.FromString("")}
}}

// maxPooled bounds the buffers that the pool keeps, in bytes.
const maxPooled = 64 << 10

func (n *normalizer) release() {
	if cap(n.out)+cap(n.folded) > maxPooled {
		n.out, n.folded = nil, nil
	}
	n.segments.SetText("")
	normalizers.Put(n)
}

// normalize returns the form in which texts are compared: compatibility
// normalised, case folded, without accents and invisible characters. It returns
// s itself where s is in that form already.
//
// Normalisation never looks past white space, so each piece between white space is
// treated alone: a single accented letter does not make a whole English text slow.
func (n *normalizer) normalize(s string) string {
	isASCII, isNormal := true, true
	for i := range len(s) {
		c := s[i]
		isASCII = isASCII && c < utf8.RuneSelf
		isNormal = isNormal && (c < 'A' || c > 'Z')
	}
	if isASCII && isNormal {
		return s
	}
	n.out = n.out[:0]
	if isASCII {
		n.appendLower(s)
		return string(n.out)
	}
	for i := 0; i < len(s); {
		end, ascii := i, true
		for end < len(s) && !isASCIISpace(s[end]) {
			ascii = ascii && s[end] < utf8.RuneSelf
			end++
		}
		for end < len(s) && isASCIISpace(s[end]) {
			end++
		}
		if ascii {
			n.appendLower(s[i:end])
		} else {
			n.appendFolded(s[i:end])
		}
		i = end
	}
	return string(n.out)
}

func isASCIISpace(c byte) bool { return c <= ' ' }

// appendLower appends s, which is ASCII, in lower case.
func (n *normalizer) appendLower(s string) {
	start := len(n.out)
	n.out = append(n.out, s...)
	lower := n.out[start:]
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
}

// appendFolded appends the normal form of one piece that is not ASCII. Few texts need
// composition, because accents are removed.
func (n *normalizer) appendFolded(piece string) {
	folded := n.folded[:0]
	for i := 0; i < len(piece); {
		c := piece[i]
		if c < utf8.RuneSelf {
			folded = appendFoldedRune(folded, rune(c))
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(piece[i:])
		if isCaselessBlock(r) {
			folded = append(folded, piece[i:i+size]...)
			i += size
			continue
		}
		if parts := norm.NFKD.PropertiesString(piece[i:]).Decomposition(); parts != nil {
			for len(parts) > 0 {
				part, n := utf8.DecodeRune(parts)
				folded = appendFoldedRune(folded, part)
				parts = parts[n:]
			}
		} else {
			folded = appendFoldedRune(folded, r)
		}
		i += size
	}
	n.folded = folded
	if norm.NFKC.QuickSpan(folded) == len(folded) {
		n.out = append(n.out, folded...)
	} else {
		n.out = norm.NFKC.Append(n.out, folded...)
	}
}

// isCaselessBlock reports whether r is in a block of kana or Han without upper case and
// accents.
func isCaselessBlock(r rune) bool {
	return firstKana <= r && r <= lastKana || firstUnified <= r && r <= lastUnified
}

// The block of Unicode's unified Han characters.
const firstUnified, lastUnified = 0x4e00, 0x9fff

// appendFoldedRune appends the case folding of r, unless comparisons ignore r. Unlike Unicode's
// folding it takes the dotless i for an i.
func appendFoldedRune(dst []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r |= 0x20
		}
		return append(dst, byte(r))
	}
	if unicode.Is(unseen, r) {
		return dst
	}
	switch r = unicode.ToLower(unicode.ToUpper(r)); r {
	case 'ß', 'ẞ':
		return append(dst, "ss"...)
	case '’', 'ʼ':
		return append(dst, '\'')
	default:
		return utf8.AppendRune(dst, r)
	}
}

// The voicing marks of kana make another letter, as in か and が.
const (
	kanaVoiced     = '\u3099'
	kanaSemiVoiced = '\u309a'
)

// zeroWidthSpace is invisible, yet it separates words.
const zeroWidthSpace = '\u200b'

// unseen are the characters that comparisons ignore: invisible format characters,
// and the marks that are accents or optional signs in their script. In the scripts
// of India and South-East Asia marks are vowels: without them different words would
// be equal.
var unseen = func() *unicode.RangeTable {
	accented := []*unicode.RangeTable{
		unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic,
		unicode.Hebrew, unicode.Arabic, unicode.Syriac,
	}
	var found []rune
	rangetable.Visit(rangetable.Merge(unicode.Mn, unicode.Me), func(r rune) {
		if unicode.In(r, accented...) {
			found = append(found, r)
		}
	})
	rangetable.Visit(unicode.Cf, func(r rune) { found = append(found, r) })
	found = slices.DeleteFunc(found, func(r rune) bool {
		return r == kanaVoiced || r == kanaSemiVoiced || r == zeroWidthSpace
	})
	return rangetable.New(found...)
}()

func isConnector(r rune) bool { return r == '_' || r > unicode.MaxASCII && unicode.Is(unicode.Pc, r) }
