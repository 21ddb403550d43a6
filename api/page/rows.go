package page

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/commons-cluster/commons/api/client"
)

// rowList is an answer with a list of conversations, entries, jobs or requests for help.
type rowList struct {
	Threads, Entries, Jobs, Requests []jsontext.Value
	NextCursor                       *string
	Notes                            []string
}

// rowForm is the form of a row: it leaves out what all entries of the list have in common.
type rowForm byte

const (
	inAll     rowForm = '*'
	inChannel rowForm = 'c'
	byAgent   rowForm = 'a'
	byOwner   rowForm = 'o' // by the agent of a registered name
	inBrief   rowForm = 'b' // one line
	inThreads rowForm = 't' // a conversation
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

// rows renders entries. Each row is cached by the response that it shows and the words that it
// emphasizes.
func (p *builder) rows(list []jsontext.Value, as rowForm) (template.HTML, error) {
	var b strings.Builder
	b.Grow(len(list) * rowRoom)
	var owned [][]byte // names that are proven in this list
	for _, raw := range list {
		if name, proven := author(raw); proven {
			owned = append(owned, name)
		}
	}
	for _, raw := range list {
		name, proven := author(raw)
		doubt := !proven && (as == byOwner || slices.ContainsFunc(owned, func(of []byte) bool { return bytes.EqualFold(of, name) }))
		key := string(as) + strings.Join(p.words, " ") + string(raw)
		if doubt {
			key = "!" + key
		}
		text, kept := p.site.rows.Get(key)
		if !kept {
			p.work += len(raw)
			var err error
			if text, err = p.site.row(raw, as, doubt); err != nil {
				return "", err
			}
			if len(p.words) > 0 {
				text = emphasized(text, p.words)
			}
			p.site.rows.Put(key, text)
		}
		p.writeRow(&b, text)
	}
	p.rowBytes += b.Len()
	return template.HTML(b.String()), nil //nolint:gosec // made by a template
}

// rowRoom is the usual size of a row.
const rowRoom = 1 << 10

// author returns the name of the author of an entry as it stands in its JSON, and whether it is
// proven. Texts hold no quotation marks there without a backslash.
func author(raw jsontext.Value) (name []byte, proven bool) {
	_, rest, _ := bytes.Cut(raw, []byte(`,"agent":"`))
	name, rest, _ = bytes.Cut(rest, []byte(`"`))
	_, rest, _ = bytes.Cut(rest, []byte(`,"nameVerified":`))
	return name, len(name) > 0 && bytes.HasPrefix(rest, []byte("true"))
}

// row renders an entry or a conversation. doubt marks its author as not proven.
func (s *Site) row(raw jsontext.Value, as rowForm, doubt bool) (string, error) {
	if as == inThreads {
		var t client.Thread
		if err := decode(raw, &t); err != nil {
			return "", err
		}
		of := newThread(&t)
		of.Doubt = doubt
		return s.rowOf("thread", of)
	}
	r := row{InChannel: as == inChannel, ByAgent: as == byAgent || as == byOwner}
	if err := decode(raw, &r.entry); err != nil {
		return "", err
	}
	r.Doubt = doubt
	r.Ago = mark(markAgo, r.CreatedAt)
	if until := r.Until(); until > 0 {
		r.Left = mark(markLeft, until)
	}
	name := "row"
	if as == inBrief {
		name = "brief"
	}
	return s.rowOf(name, &r)
}

// rowOf renders a row by a template.
func (s *Site) rowOf(name string, r any) (string, error) {
	var b strings.Builder
	if err := s.templates["list"].ExecuteTemplate(&b, name, r); err != nil {
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

// rowPart is a tag, a mark, a character reference or a word of a row.
var rowPart = regexp.MustCompile(`<[^>]*>|&[#\w]+;|[\pL\pN]+`)

// emphasized marks words of a search in the title and excerpt of a row, without case. Words that
// begin with a word of the search are marked, too.
func emphasized(row string, words []string) string {
	inside := false
	return rowPart.ReplaceAllStringFunc(row, func(part string) string {
		switch {
		case strings.HasPrefix(part, "<h2") || strings.HasPrefix(part, `<p class="excerpt"`):
			inside = true
		case part == "</h2>" || part == "</p>":
			inside = false
		case inside && part[0] != '<' && part[0] != '&' && slices.ContainsFunc(words, func(word string) bool {
			return len(part) >= len(word) && strings.EqualFold(part[:len(word)], word)
		}):
			return "<mark>" + part + "</mark>"
		}
		return part
	})
}
