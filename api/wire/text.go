package wire

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/commons-cluster/commons/api/credentials"
	"github.com/commons-cluster/commons/fsm/command"
)

// The limits of what is shown of a client's own names.
const (
	// MaxUnknownShown is how many unknown fields a note names, and
	// MaxUnknownName how many code points of each.
	MaxUnknownShown = 10
	MaxUnknownName  = 40
	// MaxMethodShown is how many code points of an unknown method, tool or action an
	// error names.
	MaxMethodShown = 60
	// scanAhead is the distance past a field's limit, in code points, within which a text is
	// searched for credentials. A credential that begins within the limit is found. The rest of the
	// text is neither searched nor shown.
	scanAhead = 1000
)

// Redact removes credentials from a text that may have most code points. Only the beginning of a
// longer text is read, and most+1 code points are returned. If that part holds a credential, the
// whole text is removed: a part of another credential may have moved up.
func Redact(s string, most int) (redacted, found string) {
	read := Head(s, most+scanAhead)
	redacted, found = credentials.Redact(read)
	switch {
	case len(read) == len(s):
		return redacted, found
	case found != "":
		return credentials.Removed, found
	}
	return Head(read, most+1), ""
}

// Shown returns a name chosen by the client, such as that of an unknown field, in a form fit for a
// response.
func Shown(name string, most int) string {
	name, _ = Redact(name, most)
	name, _ = Clean(Shorten(name, most))
	return name
}

// Flaw describes why a text cannot be stored, or is empty.
type Flaw string

// FlawNone is the zero Flaw: the text can be stored.
const FlawNone Flaw = ""

const (
	flawUTF8    Flaw = "must be valid UTF-8"
	flawControl Flaw = "must not hold control characters other than tab and newline"
	flawHidden  Flaw = "must not hold invisible tag characters"
	flawBidi    Flaw = "must not hold bidirectional controls that are not closed in their line"
)

// maxShownFlaws is the number of characters that a flaw names.
const maxShownFlaws = 4

// Clean returns a text in the form that is stored and measured: line ends LF, NFC, no surrounding
// white space, no byte order mark first. Characters that cannot be stored are removed and reported.
func Clean(s string) (string, Flaw) {
	s = strings.TrimLeft(s, "\ufeff \t\r\n")
	bad := FlawNone
	valid := utf8.ValidString(s)
	if valid && !strings.ContainsFunc(s, func(r rune) bool { return isControl(r) || isTag(r) || isBidi(r) }) {
		return strings.TrimSpace(norm.NFC.String(s)), FlawNone
	}
	if !valid {
		bad = flawUTF8
		s = strings.ToValidUTF8(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for _, class := range []struct {
		flaw Flaw
		in   func(r rune) bool
	}{{flawControl, isControl}, {flawHidden, isTag}, {flawBidi, isBidi}} {
		if class.flaw == flawBidi && balanced(s) {
			continue
		}
		var found []rune
		if s, found = without(s, class.in); len(found) > 0 && bad == FlawNone {
			names := make([]string, len(found))
			for i, r := range found {
				names[i] = fmt.Sprintf("U+%04X", r)
			}
			bad = class.flaw + Flaw(" (here: "+strings.Join(names, ", ")+")")
		}
	}
	return strings.TrimSpace(norm.NFC.String(s)), bad
}

// without returns s without the characters of a class, and the first of those.
func without(s string, in func(r rune) bool) (rest string, found []rune) {
	rest = strings.Map(func(r rune) rune {
		if !in(r) {
			return r
		}
		if len(found) < maxShownFlaws && !slices.Contains(found, r) {
			found = append(found, r)
		}
		return -1
	}, s)
	return rest, found
}

// isControl reports a control character of C0 or C1 that no text needs.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// isTag reports an invisible copy of an ASCII character, in which text can be hidden
// from people and not from models.
func isTag(r rune) bool { return r >= 0xe0000 && r <= 0xe007f }

// The controls that begin and end a stretch of text with a direction of its own.
const (
	bidiEmbeddings = "\u202a\u202b\u202d\u202e" // closed by bidiPop
	bidiIsolates   = "\u2066\u2067\u2068"       // closed by bidiPopIsolate
	bidiPop        = '\u202c'
	bidiPopIsolate = '\u2069'
)

func isBidi(r rune) bool {
	return r >= utf8.RuneSelf && (r == bidiPop || r == bidiPopIsolate || strings.ContainsRune(bidiEmbeddings+bidiIsolates, r))
}

// balanced reports whether each bidirectional control is closed in its own line by
// the one that belongs to it. One that is not makes what follows look like another
// text.
func balanced(s string) bool {
	var open []rune
	for _, r := range s {
		switch {
		case r == '\n':
			if len(open) > 0 {
				return false
			}
		case strings.ContainsRune(bidiEmbeddings, r):
			open = append(open, bidiPop)
		case strings.ContainsRune(bidiIsolates, r):
			open = append(open, bidiPopIsolate)
		case r == bidiPop || r == bidiPopIsolate:
			if len(open) == 0 || open[len(open)-1] != r {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

// Count returns the length of a text in code points, the unit of every limit.
func Count(s string) int { return utf8.RuneCountInString(s) }

// Head returns the first n code points of s.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// Cut returns the first n code points of s, without white space at the end where
// more follow.
func Cut(s string, n int) string {
	if first := Head(s, n); len(first) < len(s) {
		return strings.TrimSpace(first)
	}
	return s
}

// Shorten is Cut with an ellipsis, for text that is shown back.
func Shorten(s string, n int) string {
	if Count(s) <= n {
		return s
	}
	return Cut(s, n-1) + "…"
}

// FirstLine returns the first n code points of a text's first line with its white
// space collapsed. It reads no further.
func FirstLine(s string, n int) string {
	line, _, _ := strings.Cut(s, "\n")
	var b strings.Builder
	for word := range strings.FieldsSeq(line) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > n*utf8.UTFMax {
			break
		}
	}
	return Cut(b.String(), n)
}

// shortHashBytes is the length of a ShortHash before encoding.
const shortHashBytes = 20

// ShortHash returns a short name that depends on the texts only.
func ShortHash(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:shortHashBytes]))
}

// Instant writes milliseconds since the epoch for people.
func Instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

// ShownNames lists the names of fields or parameters as an answer may show them.
func ShownNames(fields []Field) string { return ShownUnknown(fields, nil) }

// ShownUnknown is ShownNames with the near one, of the fields that are taken, behind each name.
func ShownUnknown(fields []Field, takes []string) string {
	shown := make([]string, 0, MaxUnknownShown)
	for i := range fields[:min(len(fields), MaxUnknownShown)] {
		name := Shown(fields[i].Name, MaxUnknownName)
		if near := Near(fields[i].Name, takes); near != "" {
			name += " (did you mean " + near + "?)"
		}
		shown = append(shown, name)
	}
	names := strings.Join(shown, ", ")
	if more := len(fields) - len(shown); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// MaxRawName limits a name before it is converted, in code points.
const MaxRawName = 400

// NameProblem returns the problem with a converted name, or an empty string.
func NameProblem(name string, longest int) string {
	if n := Count(name); n < command.MinName || n > longest {
		return fmt.Sprintf("must have %d to %d letters, digits or . _ -, and at least one letter or digit; after conversion this one has %d", command.MinName, longest, n)
	}
	return ""
}
