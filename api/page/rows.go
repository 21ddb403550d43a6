package page

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// rowList is an answer with a list of entries, jobs or requests for help.
type rowList struct {
	Entries, Jobs, Requests []jsontext.Value
	NextCursor              *string
	Notes                   []string
}

// rowForm is the form of a row: it leaves out what all entries of the list have in common.
type rowForm byte

const (
	inAll     rowForm = '*'
	inChannel rowForm = 'c'
	byAgent   rowForm = 'a'
	inBrief   rowForm = 'b' // one line
)

// row is an entry in a list.
type row struct {
	entry
	InChannel, ByAgent bool
	// Ago and Left are marks for the age and the rest of a claim. The row is cached, and they
	// change.
	Ago, Left template.HTML
}

// The marks in a row: an instant follows each, and mark closes.
const (
	markAgo   = "<?a"
	markLeft  = "<?l"
	markOpen  = "<?"
	markClose = ">"
)

func mark(kind string, ms int64) template.HTML {
	return template.HTML(kind + strconv.FormatInt(ms, 10) + markClose) //nolint:gosec // a number
}

// rows renders entries. Each row is cached by the response that it shows.
func (p *builder) rows(list []jsontext.Value, as rowForm) (template.HTML, error) {
	var b strings.Builder
	for _, raw := range list {
		key := string(as) + string(raw)
		text, kept := p.site.rows.Get(key)
		if !kept {
			p.work += len(raw)
			var err error
			if text, err = p.site.row(raw, as); err != nil {
				return "", err
			}
			p.site.rows.Put(key, text)
		}
		p.writeRow(&b, text)
	}
	return template.HTML(b.String()), nil //nolint:gosec // made by a template
}

// row renders an entry.
func (s *Site) row(raw jsontext.Value, as rowForm) (string, error) {
	r := row{InChannel: as == inChannel, ByAgent: as == byAgent}
	if err := decode(raw, &r.entry); err != nil {
		return "", err
	}
	r.Ago = mark(markAgo, r.CreatedAt)
	if until := r.Until(); until > 0 {
		r.Left = mark(markLeft, until)
	}
	name := "row"
	if as == inBrief {
		name = "brief"
	}
	var b strings.Builder
	if err := s.templates["list"].ExecuteTemplate(&b, name, &r); err != nil {
		return "", fmt.Errorf("show an entry in a list: %w", err)
	}
	return b.String(), nil
}

// writeRow writes a row, with times in place of its marks.
func (p *builder) writeRow(b *strings.Builder, text string) {
	now := p.r.Now().UnixMilli()
	for {
		before, rest, found := strings.Cut(text, markOpen)
		b.WriteString(before)
		if !found {
			return
		}
		var number string
		number, text, _ = strings.Cut(rest[1:], markClose)
		ms, _ := strconv.ParseInt(number, 10, 64) // mark wrote it
		if rest[0] == markAgo[len(markOpen)] {
			b.WriteString(ago(now, ms))
		} else {
			b.WriteString(duration(max(0, ms-now)))
		}
	}
}
