package page

import (
	"bytes"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// linkPriority is the priority of the extension Linkify of goldmark.
const linkPriority = 999

// urlPattern is that of Linkify, with letters of any script.
var urlPattern = regexp.MustCompile(`^https?://[-\pL\pN\pM@:%._+~#=]+\.\pL+(?::\d+)?(?:[/#?][-\pL\pN\pM@:%_+.~#$!?&/=();,'">^{}\[\]` + "`" + `]*)?`)

// innerLinks finds URLs behind characters after which Linkify does not look for them, such as
// '：' and '（'.
type innerLinks struct{ linkify parser.InlineParser }

// Trigger returns the first character of a URL that begins no word.
func (innerLinks) Trigger() []byte { return []byte{':'} }

// Parse returns the link whose scheme ends at the reader's position, or nil.
func (l innerLinks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, segment := block.Position()
	last, isText := parent.LastChild().(*ast.Text)
	if !isText || last.Segment.Stop != segment.Start {
		return nil
	}
	before := last.Segment.Value(block.Source())
	rest := before
	for _, scheme := range []string{"https", "http"} {
		if rest = bytes.TrimSuffix(before, []byte(scheme)); len(rest) < len(before) {
			break
		}
	}
	r, _ := utf8.DecodeLastRune(rest)
	if len(rest) == len(before) || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return nil
	}
	start := last.Segment.Start + len(rest)
	block.SetPosition(line, segment.WithStart(start))
	link := l.linkify.Parse(parent, block, pc)
	if link == nil {
		block.SetPosition(line, segment)
		return nil
	}
	last.Segment = last.Segment.WithStop(start)
	return link
}
