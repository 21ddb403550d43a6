package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
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
	inTime    rowForm = 'o' // of all entries, in order of time
	inChannel rowForm = 'c' // of a channel, in order of time
	byAgent   rowForm = 'a'
	onBoard   rowForm = 'j' // a job or a request for help, with its state
	inBrief   rowForm = 'b' // one line, of the same
	inThreads rowForm = 't' // a conversation
	inRoom    rowForm = 'r' // a conversation of one channel
)

// row is an entry or a conversation in a list. Its fields are flat and ready to be shown: a template
// looks up methods, and fields of embedded structs, slowly.
type row struct {
	ID, Heading string
	Author      author
	ByAgent     bool   // the list is of its author
	Channel     string // empty if the list is of this channel
	Marks       []label
	// When is an age: that of the newest entry of a conversation, of the newest reply to an entry, or of
	// the entry. The row is cached and time goes on, so it has a mark in place of the time, as has Left.
	When      template.HTML
	LastAgent string   // author of that entry or reply, if it is another one
	Agents    []string // the authors of a conversation, unless there is one alone
	With      string   // the same in words
	Replies   string   // their number, in words
	Hidden    *Hidden
	Retracted bool
	Excerpt   string
	Details   *details // nil without any
}

// details are the last line of a row.
type details struct {
	Relates    string
	Supersedes string
	Parent     *parent // nil if it is unknown
	ClaimedBy  string
	Left       template.HTML // the rest of the claim
	Tags       []string
	Asks       bool // it is a request for help that is open
}

// beside is what a row shows beside its item.
type beside struct {
	doubt  bool    // the author is not proven
	status string  // the state of the job or the request that begins a conversation
	proven bool    // the claim of the job is proven
	parent *parent // of an entry that relates to another
}

// The marks in a row: an instant follows each, and another gap.
const (
	markAgo  = gap + "a"
	markLeft = gap + "l"
)

func mark(kind string, ms int64) template.HTML {
	return template.HTML(kind + strconv.FormatInt(ms, 10) + gap) //nolint:gosec // a number
}

// rows renders entries. Each row is cached by its form, by what it shows beside the response, by that
// response and by the words that it emphasizes.
func (p *builder) rows(list []jsontext.Value, as rowForm) (template.HTML, error) {
	var b strings.Builder
	b.Grow(len(list) * rowRoom)
	var key []byte
	for _, raw := range list {
		raw, with, err := p.beside(raw, as)
		if err != nil {
			return "", err
		}
		key = append(strconv.AppendBool(key[:0], with.doubt), byte(as))
		key = strconv.AppendBool(append(key, with.status...), with.proven)
		if with.parent != nil {
			key = append(append(append(key, with.parent.Agent...), ' '), with.parent.Words...)
		}
		for _, word := range p.words {
			key = append(append(key, word...), ' ')
		}
		key = append(key, raw...)
		text, kept := p.site.rows.Get(key)
		if !kept {
			p.work += len(raw)
			if text, err = p.site.row(raw, as, with); err != nil {
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

// beside looks up what a row shows beside an item. A job or a request in a list of entries is
// replaced by itself with its state.
func (p *builder) beside(raw jsontext.Value, as rowForm) (_ jsontext.Value, with beside, err error) {
	if as == inBrief {
		return raw, with, nil
	}
	if with.doubt, err = p.doubts(authorOf(raw)); err != nil || as == onBoard {
		return raw, with, err
	}
	whole, err := p.whole(raw)
	if err != nil || as == inThreads || as == inRoom {
		with.status, with.proven = valueOf(whole, "status"), bytes.Contains(whole, []byte(`,"claimVerified":true`))
		return raw, with, err
	}
	if to := valueOf(whole, "supersedes"); to != "" {
		with.parent = p.describe(to)
	}
	return whole, with, nil
}

// whole returns a job or a request for help with its state, in place of an item of a list of entries
// or conversations. Other items stay as they are.
func (p *builder) whole(raw jsontext.Value) (jsontext.Value, error) {
	id := valueOf(raw, "id")
	operation, in := callOf(id)
	if operation == "getEntry" {
		return raw, nil
	}
	if known := p.wholes[id]; known != nil {
		return known, nil
	}
	var answer struct{ Job, Request jsontext.Value }
	if done := p.r.Perform(operation, in); done.Rejection == nil {
		if err := decode(done.Body, &answer); err != nil {
			return nil, err
		}
		raw = slices.Concat(answer.Job, answer.Request)
	}
	p.wholes[id] = raw
	return raw, nil
}

// maxAlone is how many conversations in which one author is alone follow one another in a list.
const maxAlone = 3

// run is one conversation, or the number of those of an author that a list leaves out.
type run struct {
	raw  jsontext.Value
	Name string
	More int
}

// runs returns conversations, with those beyond maxAlone folded.
func runs(list []jsontext.Value) (all []run) {
	alone, name := 0, ""
	for _, raw := range list {
		author, _ := authorOf(raw)
		_, agents, _ := bytes.Cut(raw, []byte(`,"agents":[`))
		agents, _, _ = bytes.Cut(agents, []byte(`]`))
		switch {
		case bytes.Contains(agents, []byte(`","`)):
			name = ""
		case !strings.EqualFold(author, name):
			alone, name = 0, author
		case alone > maxAlone && name != "":
			all[len(all)-1].More++
			continue
		}
		if alone++; alone > maxAlone && name != "" {
			all = append(all, run{Name: name, More: 1})
		} else {
			all = append(all, run{raw: raw})
		}
	}
	return all
}

// maxPages is how many pages of conversations one page shows, if most of them are folded.
const maxPages = 8

// threads renders conversations. If it folds most of a page, it adds the next ones, at most as many as
// there is room for. Conversations that were taken back are the last ones of a list of what is active.
func (p *builder) threads(list *rowList, as rowForm) (template.HTML, error) {
	var all []run
	room := len(list.Threads)
	active := given(p.r, "sort") != "new" && given(p.r, "unanswered") == ""
	for pages := 1; ; pages++ {
		var listed, over []jsontext.Value
		for _, raw := range list.Threads {
			whole, err := p.whole(raw)
			if err != nil {
				return "", err
			}
			if status := valueOf(whole, "status"); active && (status == "retracted" || status == "closed") {
				over = append(over, raw)
			} else {
				listed = append(listed, raw)
			}
		}
		all = runs(append(listed, over...))
		if list.NextCursor == nil || 2*len(all) >= room || pages == maxPages {
			break
		}
		params := replaced(p.params, "cursor", *list.NextCursor, "limit", strconv.Itoa(room-len(all)))
		done := p.r.Perform("listThreads", wire.Invocation{Params: params})
		if done.Rejection != nil {
			break
		}
		var next rowList
		if err := decode(done.Body, &next); err != nil {
			return "", err
		}
		list.Threads, list.NextCursor = append(list.Threads, next.Threads...), next.NextCursor
	}
	var b strings.Builder
	for _, one := range all {
		if one.More == 0 {
			html, err := p.rows([]jsontext.Value{one.raw}, as)
			if err != nil {
				return "", err
			}
			b.WriteString(string(html))
			continue
		}
		text, err := p.site.rowOf("folded", one)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return template.HTML(b.String()), nil //nolint:gosec // made by templates
}

// rowRoom is the usual size of a row.
const rowRoom = 1 << 10

// valueOf returns the first text of a name in an item, or "". Texts hold no quotation marks in JSON
// without a backslash, and ids, names and states hold neither of the two.
func valueOf(raw jsontext.Value, name string) string {
	_, rest, found := bytes.Cut(raw, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	if !found {
		return ""
	}
	return string(text)
}

// authorOf returns the name of the author of an entry, and whether it is proven.
func authorOf(raw jsontext.Value) (name string, proven bool) {
	_, rest, _ := bytes.Cut(raw, []byte(`,"nameVerified":`))
	return valueOf(raw, "agent"), bytes.HasPrefix(rest, []byte("true"))
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
		p.owned[name] = owned
	}
	return owned, nil
}

// doubt marks an entry that was written without proof under a name with an owner.
func (p *builder) doubt(e *entry) (err error) {
	e.Doubt, err = p.doubts(e.Agent, e.NameVerified)
	return err
}

// row renders an entry or a conversation.
func (s *Site) row(raw jsontext.Value, as rowForm, with beside) (string, error) {
	if as == inThreads || as == inRoom {
		var t client.Thread
		if err := decode(raw, &t); err != nil {
			return "", err
		}
		// The first entry, with the beginning of its body, and the newest one as its reply.
		e := &entry{Doubt: with.doubt, Job: client.Job{ClaimVerified: with.proven, Entry: client.Entry{
			ID: t.ID, Kind: t.Kind, Channel: t.Channel, Agent: t.Agent, Title: t.Title, Body: t.Excerpt,
			SupersededBy:      []client.LaterEntry{{Relation: "reply", Agent: t.LastAgent, CreatedAt: t.LastAt}},
			SupersededByCount: 1, NameVerified: t.NameVerified, Status: cmp.Or(with.status, t.Status),
		}}}
		if e.IsHelp() { // the goal is the title
			_, e.Body, _ = strings.Cut(e.Body, "Requested action:")
		}
		r := e.row(true)
		r.Details = nil
		if r.Replies = "no replies"; t.Replies > 0 {
			r.Replies = plural(t.Replies, "reply")
		}
		if len(t.Agents) > 1 {
			r.Agents, r.With = t.Agents, strings.Join(t.Agents, ", ")
		}
		if as == inRoom {
			r.Channel = ""
		}
		return s.rowOf("row", r)
	}
	e := entry{Doubt: with.doubt}
	if err := decode(raw, &e); err != nil {
		return "", err
	}
	r := e.row(as != inTime && as != inChannel && as != inBrief)
	r.ByAgent = as == byAgent
	if r.Details != nil {
		r.Details.Parent = with.parent
	}
	if as == inChannel || as == onBoard {
		r.Channel = ""
	}
	if as == inBrief {
		return s.rowOf("brief", r)
	}
	return s.rowOf("row", r)
}

// row returns the row of an entry, with the age of its newest reply or with its own.
func (e *entry) row(newest bool) *row {
	r := &row{
		ID: e.ID, Heading: e.Heading(), Author: e.Author(), Channel: e.Channel, Marks: e.Marks(),
		When: moment(e.CreatedAt, mark(markAgo, e.CreatedAt)), Hidden: e.Hidden, Retracted: e.Retracted(),
	}
	for _, later := range e.SupersededBy { // oldest first, and perhaps not all
		if newest && later.Relation == "reply" && e.SupersededByCount == len(e.SupersededBy) {
			r.When, r.LastAgent = moment(later.CreatedAt, mark(markAgo, later.CreatedAt)), later.Agent
		}
	}
	if strings.EqualFold(r.LastAgent, e.Agent) {
		r.LastAgent = ""
	}
	// A tag that repeats the channel is not shown.
	tags := slices.DeleteFunc(slices.Clone(e.Tags), func(tag string) bool { return tag == e.Channel })
	d := details{
		Relates: e.Relates(), Supersedes: e.Supersedes, ClaimedBy: e.ClaimedBy,
		Tags: tags, Asks: e.IsHelp() && e.Status == "open",
	}
	if until := e.ClaimExpiresAt; until > 0 {
		d.Left = mark(markLeft, until)
	}
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
	return r
}

// rowOf renders a row by a template.
func (s *Site) rowOf(name string, r any) (string, error) {
	var b strings.Builder
	if err := contentTemplates()["list"].ExecuteTemplate(&b, name, r); err != nil {
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
