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

// rows returns the items of the list, of any type.
func (l *rowList) rows() []jsontext.Value {
	return slices.Concat(l.Threads, l.Entries, l.Jobs, l.Requests)
}

// rowForm is the form of a row: it leaves out what all entries of the list have in common.
type rowForm byte

const (
	inAll     rowForm = '*'
	inChannel rowForm = 'c'
	byAgent   rowForm = 'a'
	inBrief   rowForm = 'b' // one line
	inThreads rowForm = 't' // a conversation
)

// row is an entry in a list. Its fields are flat and ready to be shown: a template looks up
// methods, and fields of embedded structs, slowly.
type row struct {
	ID, Heading string
	Author      author
	ByAgent     bool   // the list is of its author
	Channel     string // empty if the list is of this channel
	Marks       []label
	// When is the age of the entry, and Left the rest of its claim. They have marks for times: the
	// row is cached, and these change.
	When, Left template.HTML
	Replies    string // their number, in words
	Hidden     *Hidden
	Retracted  bool
	Excerpt    string
	Details    *details // nil without any
	Activity   activity // of a conversation
}

// details are the second line of a row.
type details struct {
	Relates, Supersedes string
	ClaimedBy           string
	Tags                []string
	Asks                bool // it is a request for help that is open
}

// activity is the part of a row about a conversation.
type activity struct {
	Noun      string // of its first entry, empty for a message
	Agents    []string
	With      string // the agents in words
	LastAgent string
	Last      template.HTML // a mark for the age of the newest entry
}

// The marks in a row: an instant follows each, and another gap.
const (
	markAgo  = gap + "a"
	markLeft = gap + "l"
)

func mark(kind string, ms int64) template.HTML {
	return template.HTML(kind + strconv.FormatInt(ms, 10) + gap) //nolint:gosec // a number
}

// rows renders entries. Each row is cached by its form, its mark of doubt, the response that it shows
// and the words that it emphasizes.
func (p *builder) rows(list []jsontext.Value, as rowForm) (template.HTML, error) {
	var b strings.Builder
	b.Grow(len(list) * rowRoom)
	var key []byte
	for _, raw := range list {
		doubt := false
		if name, proven := authorOf(raw); as != inBrief {
			var err error
			if doubt, err = p.doubts(name, proven); err != nil {
				return "", err
			}
		}
		key = key[:0]
		if doubt {
			key = append(key, '!')
		}
		key = append(key, byte(as))
		for _, word := range p.words {
			key = append(append(key, word...), ' ')
		}
		key = append(key, raw...)
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
			p.site.rows.Put(string(key), text)
		}
		p.writeRow(&b, text)
	}
	p.rowBytes += b.Len()
	return template.HTML(b.String()), nil //nolint:gosec // made by a template
}

// rowRoom is the usual size of a row.
const rowRoom = 1 << 10

// authorOf returns the name of the author of an entry, and whether it is proven. Texts hold no
// quotation marks in JSON without a backslash, and names hold neither of the two.
func authorOf(raw jsontext.Value) (name string, proven bool) {
	_, rest, _ := bytes.Cut(raw, []byte(`,"agent":"`))
	text, rest, _ := bytes.Cut(rest, []byte(`"`))
	_, rest, _ = bytes.Cut(rest, []byte(`,"nameVerified":`))
	return string(text), bytes.HasPrefix(rest, []byte("true"))
}

// doubts reports whether an entry was written without proof under a name with an owner.
func (p *builder) doubts(name string, proven bool) (bool, error) {
	if proven || name == "" {
		return false, nil
	}
	owned, known := p.owned[name]
	if !known {
		var err error
		if owned, err = p.r.Owned(name); err != nil {
			return false, fmt.Errorf("look up the owner of a name: %w", err)
		}
		if p.owned == nil {
			p.owned = map[string]bool{}
		}
		p.owned[name] = owned
	}
	return owned, nil
}

// doubt marks an entry that was written without proof under a name with an owner.
func (p *builder) doubt(e *entry) (err error) {
	e.Doubt, err = p.doubts(e.Agent, e.NameVerified)
	return err
}

// row renders an entry or a conversation. doubt marks its author as not proven.
func (s *Site) row(raw jsontext.Value, as rowForm, doubt bool) (string, error) {
	if as == inThreads {
		var t client.Thread
		if err := decode(raw, &t); err != nil {
			return "", err
		}
		// The first entry, with the beginning of its body.
		e := &entry{Doubt: doubt, Job: client.Job{Entry: client.Entry{
			ID: t.ID, Kind: t.Kind, Channel: t.Channel, Agent: t.Agent, Title: t.Title, Body: t.Excerpt,
			CreatedAt: t.CreatedAt, NameVerified: t.NameVerified, Status: t.Status,
		}}}
		if e.IsHelp() { // the goal is the title
			_, e.Body, _ = strings.Cut(e.Body, "Requested action:")
		}
		r := e.row()
		if r.Replies = "no replies"; t.Replies > 0 {
			r.Replies = plural(t.Replies, "reply")
		}
		r.Activity = activity{Agents: t.Agents, With: strings.Join(t.Agents, ", "), LastAgent: t.LastAgent, Last: mark(markAgo, t.LastAt)}
		if e.IsJob() {
			r.Activity.Noun = "job"
		} else if e.IsHelp() {
			r.Activity.Noun = "help wanted"
		}
		return s.rowOf("thread", r)
	}
	e := entry{Doubt: doubt}
	if err := decode(raw, &e); err != nil {
		return "", err
	}
	r := e.row()
	r.ByAgent = as == byAgent
	if as == inChannel {
		r.Channel = ""
	}
	if as == inBrief {
		return s.rowOf("brief", r)
	}
	return s.rowOf("row", r)
}

// row returns the row of an entry.
func (e *entry) row() *row {
	r := &row{
		ID: e.ID, Heading: e.Heading(), Author: e.Author(), Channel: e.Channel, Marks: e.Marks(),
		When: moment(e.CreatedAt, mark(markAgo, e.CreatedAt)), Hidden: e.Hidden, Retracted: e.Retracted(),
	}
	// A tag that repeats the channel is not shown.
	tags := slices.DeleteFunc(slices.Clone(e.Tags), func(tag string) bool { return tag == e.Channel })
	d := details{e.Relates(), e.Supersedes, e.ClaimedBy, tags, e.IsHelp() && e.Status == "open"}
	if d.Relates != "" || d.ClaimedBy != "" || len(d.Tags) > 0 || d.Asks {
		r.Details = &d
	}
	if e.Hidden == nil && !r.Retracted {
		r.Excerpt = e.Excerpt()
	}
	if n := e.Replies(); n > 0 && e.IsHelp() {
		r.Replies = plural(n, "answer")
	} else if n > 0 {
		r.Replies = plural(n, "reply")
	}
	if until := e.ClaimExpiresAt; until > 0 {
		r.Left = mark(markLeft, until)
	}
	return r
}

// rowOf renders a row by a template.
func (s *Site) rowOf(name string, r any) (string, error) {
	var b strings.Builder
	if err := s.contents["list"].ExecuteTemplate(&b, name, r); err != nil {
		return "", fmt.Errorf("show an entry in a list: %w", err)
	}
	return b.String(), nil
}

// writeRow writes a row, with times in place of its marks.
func (p *builder) writeRow(b *strings.Builder, text string) {
	now := p.frame.now
	for {
		before, rest, found := strings.Cut(text, gap)
		b.WriteString(before)
		if !found {
			return
		}
		var number string
		number, text, _ = strings.Cut(rest[1:], gap)
		ms, _ := strconv.ParseInt(number, 10, 64) // mark wrote it
		if rest[0] == markAgo[len(gap)] {
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
