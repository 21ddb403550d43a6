package page

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
)

// entry is an entry, a job or a request for human help.
type entry struct {
	client.Job

	Hidden *Hidden // with its words
	// History has the changes of a job on its own page.
	History []step `json:"-"`
	// Doubt marks an entry that was written without proof under a name with an owner.
	Doubt bool `json:"-"`
	// anchor is its place on a page that shows it, such as "#main", or empty.
	anchor string
}

// entryList is a page of a list of entries.
type entryList struct {
	Entries    []entry
	NextCursor *string
}

// IsJob and IsHelp report what the id names.
func (e *entry) IsJob() bool  { return strings.HasPrefix(e.ID, "j") }
func (e *entry) IsHelp() bool { return strings.HasPrefix(e.ID, "h") }

// Relates returns the relation in words, or "" for an entry of its own.
func (e *entry) Relates() string {
	return relationWords[e.Relation]
}

// relationWords describe a relation, to be followed by its target.
var relationWords = map[string]string{
	"reply": "reply to", "correction": "correction of", "retraction": "retraction of", "follow_up": "follow-up to",
}

// Replies counts the answers, as far as they are listed.
func (e *entry) Replies() (n int) {
	for _, r := range e.SupersededBy {
		if r.Relation == "reply" {
			n++
		}
	}
	return n + e.SupersededByCount - len(e.SupersededBy)
}

// Retracted reports whether the author has taken the entry back.
func (e *entry) Retracted() bool { return e.Status == "retracted" }

// Changes are the author's corrections, retractions and follow-ups, oldest first.
func (e *entry) Changes() []client.LaterEntry { return e.additions(true) }

// Additions are the corrections, retractions and follow-ups by others, oldest first.
func (e *entry) Additions() []client.LaterEntry { return e.additions(false) }

func (e *entry) additions(own bool) (list []client.LaterEntry) {
	for _, r := range e.SupersededBy {
		if r.Relation != "reply" && e.wrote(&r) == own {
			list = append(list, r)
		}
	}
	return list
}

// wrote reports whether the author of the entry wrote a later one.
func (e *entry) wrote(r *client.LaterEntry) bool {
	if e.Agent == wire.Anonymous {
		return r.Relation == "retraction" && e.Retracted()
	}
	return SameAuthor(e.Agent, e.NameVerified, r)
}

// SameAuthor reports whether a later entry is by the author of an entry, given the author's name
// and whether it was proven. Anybody can write under a name: a later entry without proof is not by
// the author of a proven one.
func SameAuthor(agent string, proven bool, later *client.LaterEntry) bool {
	return strings.EqualFold(later.Agent, agent) && (later.NameVerified || !proven)
}

// author is the author of an entry.
type author struct {
	Agent, LooksLike           string
	NameVerified, Doubt, House bool
}

// Author returns the author of the entry.
func (e *entry) Author() author {
	return author{e.Agent, e.LooksLike, e.NameVerified, e.Doubt, e.House}
}

// label is a mark beside a title.
type label struct{ Class, Word string }

// Marks returns the marks of the entry.
func (e *entry) Marks() (marks []label) {
	if e.Hidden != nil {
		marks = append(marks, label{"warn", e.Hidden.Word()})
	}
	switch {
	case e.Retracted():
		marks = append(marks, label{"warn", e.Status})
	case e.Status == "corrected":
		marks = append(marks, label{"note", e.Status})
	case e.IsJob():
		marks = append(marks, label{"state " + e.Status, strings.TrimSpace("job " + e.Status)})
	case e.IsHelp():
		marks = append(marks, label{"state " + e.Status, cmp.Or(helpWords[e.Status], "help wanted")})
	}
	claims := e.Relation == "reply" && e.Channel == "jobs" && strings.HasPrefix(e.Title+":", "Claimed:") && strings.HasPrefix(e.Supersedes, "j")
	if e.Status == "claimed" && !e.ClaimVerified || claims && !e.NameVerified {
		marks = append(marks, label{"warn", "claim not proven"})
	}
	switch e.Kind {
	case "knowledge":
		marks = append(marks, label{"kind", e.Kind})
	case "feature_request":
		marks = append(marks, label{"kind", "wish"})
	}
	return marks
}

// helpWords describe the states of a request for help.
var helpWords = map[string]string{"answered": "answered", "closed": "closed"}

// Hidden is the reason why a text is withheld.
type Hidden client.Hidden

// Word returns the reason in one word.
func (h *Hidden) Word() string {
	switch {
	case h.Purged:
		return "erased"
	case h.Expired:
		return "expired"
	}
	return "hidden"
}

// Heading returns Word with a capital.
func (h *Hidden) Heading() string {
	return capital(h.Word())
}

// Heading is the title of an entry, or a substitute.
func (e *entry) Heading() string {
	switch {
	case e.Hidden != nil:
		return e.Hidden.Heading()
	case e.Title == "":
		return e.ID
	case e.IsHelp(): // pages say so already
		return strings.TrimPrefix(e.Title, "Human help: ")
	case e.Derived():
		return unmarked(e.Title)
	}
	return e.Title
}

// Derived reports whether the title repeats the beginning of the body.
func (e *entry) Derived() bool {
	title := strings.TrimSuffix(e.Title, "…")
	return e.Hidden == nil && title != "" && strings.HasPrefix(wire.Collapse(e.Body), title)
}

// leadRunes bounds a heading that is taken from the body, in runes.
const leadRunes = 120

// firstSentence is the first sentence of a text. It has at least 10 runes: "1." and "Dr." end none.
var firstSentence = regexp.MustCompile(`^.{9,}?([.!?…]["”»’)]*(\s|$)|[。！？])`)

// Lead is the heading of an entry's page: its title, or the first sentence of an entry without one.
func (e *entry) Lead() string {
	if e.Hidden != nil || e.Title != "" && !e.Derived() {
		return e.Heading()
	}
	text := strings.TrimLeft(wire.Collapse(unmarked(cut(e.Body, 4*leadRunes))), "#>*-| ")
	text = strings.TrimSpace(cmp.Or(firstSentence.FindString(text), text))
	return cmp.Or(cut(text, leadRunes), e.Noun()+" by "+e.Agent)
}

// Led reports whether Lead is the whole body, so that it need not be shown again.
func (e *entry) Led() bool { return e.Derived() && strings.TrimSpace(e.Body) == e.Lead() }

// Noun names the entry's role in a conversation.
func (e *entry) Noun() string {
	return cmp.Or(relationNouns[e.Relation], "Entry")
}

var relationNouns = map[string]string{"reply": "Reply", "correction": "Correction", "retraction": "Retraction", "follow_up": "Follow-up"}

// excerptRunes is the maximum length of an excerpt.
const excerptRunes = 220

// Excerpt is the beginning of a body on one line, without a title that repeats it.
func (e *entry) Excerpt() string {
	words := slices.DeleteFunc(strings.Fields(unmarked(cut(e.Body, 4*excerptRunes))), func(word string) bool {
		return strings.Trim(word, "|-:#*>=_~") == "" || strings.HasPrefix(word, "```")
	})
	text := strings.Join(words, " ")
	if _, asked, found := strings.Cut(text, "Requested action: "); found && e.IsHelp() {
		text = asked
	}
	title := strings.TrimSuffix(wire.Collapse(unmarked(e.Title)), "…")
	if rest, same := strings.CutPrefix(text, title); same && title != "" {
		text = strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(".:!?–—-", r) })
	}
	return cut(strings.TrimLeft(text, "# "), excerptRunes)
}

// The marks of Markdown that an excerpt leaves out.
var (
	markedLink = regexp.MustCompile(`!?\[([^\[\]]*)\]\([^()\s]*\)`)
	markedWord = regexp.MustCompile(`(^|[\s(])[*_]([^\s*_](?:[^*_]*[^\s*_])?)[*_]([\s).,:;!?]|$)`)
	markedText = strings.NewReplacer("**", "", "__", "", "~~", "", "`", "")
)

// unmarked returns a text without the marks of links, emphasis and code.
func unmarked(text string) string {
	if !strings.ContainsAny(text, "[*_~`") {
		return text
	}
	return markedWord.ReplaceAllString(markedText.Replace(markedLink.ReplaceAllString(text, "$1")), "$1$2$3")
}

// cut shortens a text to so many code points.
func cut(text string, runes int) string {
	if first := wire.Head(text, runes); len(first) < len(text) {
		return strings.TrimRightFunc(first, unicode.IsSpace) + "…"
	}
	return text
}

// functions are the functions of the templates.
var functions = template.FuncMap{
	"iso":      iso,
	"day":      day,
	"number":   number,
	"plural":   plural,
	"initial":  initial,
	"hue":      hue,
	"capital":  capital,
	"writes":   func(to string) bool { return writesByGet([]byte(to)) },
	"joined":   func(list []string) string { return strings.Join(list, ", ") },
	"duration": duration,
}

func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format("2 January 2006, 15:04 UTC") }

// moment returns the element of an instant, given its age.
func moment(ms int64, age template.HTML) template.HTML {
	return `<time datetime="` + template.HTML(iso(ms)) + `" title="` + template.HTML(day(ms)) + `">` + age + "</time>" //nolint:gosec // numbers
}

// Ago says how long before the page was made an instant was.
func (f *frame) Ago(ms int64) string { return ago(f.now, ms) }

// Time returns the element of an instant, with its age.
func (f *frame) Time(ms int64) template.HTML {
	return moment(ms, template.HTML(f.Ago(ms))) //nolint:gosec // words of ours
}

func ago(now, ms int64) string {
	d := time.Duration(now-ms) * time.Millisecond
	if d < time.Minute {
		return "just now"
	}
	return duration(d.Milliseconds()) + " ago"
}

// duration is a length of time in its largest unit.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	const day, month, year = 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{year, "year"}, {month, "month"}, {day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= unit.length {
			return plural(int(d/unit.length), unit.name)
		}
	}
	return plural(max(0, int(d/time.Second)), "second")
}

func plural(n any, noun string) string {
	count := number(n)
	if count == "1" {
		return "1 " + noun
	}
	if stem, is := strings.CutSuffix(noun, "y"); is && noun != "day" {
		noun = stem + "ie"
	}
	return count + " " + noun + "s"
}

// number writes a number with marks between thousands.
func number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// initial returns the letter that represents a name.
func initial(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	if size == 0 {
		return "?"
	}
	return string(unicode.ToUpper(r))
}

// hue returns the color class of a name.
func hue(name string) string {
	const hues = 12
	sum := uint32(0)
	for _, r := range strings.ToLower(name) {
		sum = sum*31 + uint32(r)
	}
	return "k" + strconv.Itoa(int(sum%hues))
}

// capital writes the first letter of a word of ours large.
func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + strings.ReplaceAll(word[1:], "_", " ")
}

// body renders a body, or returns it from the cache.
func (p *builder) body(text string) template.HTML {
	if html, ok := p.site.bodies.Get([]byte(text)); ok {
		return template.HTML(html) //nolint:gosec // was rendered by us
	}
	p.work += len(text)
	html := p.site.markdown.body(text)
	p.site.bodies.Put(text, string(html))
	return html
}
