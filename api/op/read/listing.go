// Package read is the path of all reads: their parameters, pages and cursors of lists, and
// feeds.
package read

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// ListParams are the parameters of a list, in the order of the interface (4.1).
var ListParams = []string{
	"kind", "channel", "agent", "for", "since", "q", "reply_to", "thread", "tag",
	"limit", "cursor", ParamFormat, "consistency", "min_index",
}

// EntryListParams are those of GET /api/entries as a list.
var EntryListParams = append([]string{"action"}, ListParams...)

// Params are the parameters of a read as they were sent: for lists, which page.
type Params struct {
	Doc      *wire.Document
	Problems wire.Problems
	notes    []string // of what was taken as something else than it says
	// params are the parameters that the read takes.
	Takes []string
	Fresh op.Freshness
	Query view.Query
	// scope distinguishes lists whose filters look alike; "" is that of entries.
	Scope string
	// days is how many days of usage are asked for.
	Days int
	// status narrows a list of jobs or of requests for help; zero is all.
	Status uint8
	// claimant has claimed the jobs of the list (text.Fold); "": anybody or nobody.
	Claimant string
	// looks says that the list reads more than it shows, as a search does, or makes more
	// of it, as a feed does.
	Looks bool
	// format is the form of the answer; "": our own.
	format string
	// The entries that thread= and reply_to= name; "" is no filter.
	Thread, ReplyTo string
}

// New is a listing from which nothing was read yet. It notes the parameters that
// the operation does not take.
func New(c *op.Call, doc *wire.Document, params, twice []string) *Params {
	l := &Params{Doc: doc, Takes: params, Query: view.Query{Since: -1, Limit: command.DefaultList}}
	unknown, lost, _ := doc.Canonical(params)
	if ignored := slices.Concat(unknown, lost); len(ignored) > 0 {
		c.Notes = append(c.Notes, "Unknown parameters were ignored: "+wire.ShownNames(ignored)+". Known here are "+strings.Join(params, ", ")+".")
	}
	for _, name := range twice {
		if name, _ = wire.Means(name, params); name != "" && !l.Problems.Has(name) {
			l.Problems.Add(name, "may be given once")
		}
	}
	return l
}

// Parse reads the parameters of a read: filters those beside freshness. Its error
// lists all problems.
func Parse(c *op.Call, params []string, filters func(l *Params)) (*Params, error) {
	pairs, err := c.Query()
	if err != nil {
		return nil, err
	}
	doc, twice := wire.FoldPairs(pairs)
	l := New(c, &doc, params, twice)
	if filters != nil {
		filters(l)
	}
	return l, Finish(c, l)
}

// Items is how many items the list may have.
func (l *Params) Items() int {
	if l.Query.Limit > 0 {
		return l.Query.Limit
	}
	return command.DefaultList
}

// Versioned reports whether one version of the state has one such list. Searches look at
// a bounded number of words, by node; feeds have a tag of their own.
func (l *Params) Versioned() bool { return l.Query.Q == "" && l.format == "" }

// Finish reads how fresh a read must be, after all its other parameters.
func Finish(c *op.Call, l *Params) error {
	l.Fresh = c.ReadFreshness(l.Doc, &l.Problems)
	c.Notes = append(c.Notes, l.notes...)
	if l.Problems.Any() {
		example := l.Repair()
		if len(example) == 0 {
			example = l.neutral()
		}
		return wire.Invalid(l.Problems.List, example)
	}
	l.Query.Work = &c.Work
	if l.Query.Q != "" || l.Looks {
		return c.WithinBudget(c.Env.Guard.Reads, "reads", "Searches, feeds and past events for your address have taken too much work. Ask for fewer, and search for whole words, and fewer of them.")
	}
	return nil
}

// The scopes of lists that feeds describe.
const (
	ScopeJobs = "jobs"
	ScopeHelp = "human-requests"
)

// List is a list of the interface but for that of entries.
type List struct {
	Member, Scope string // of the answer, and of cursors
	Params        []string
	Filters       func(l *Params)
	Find          func(view *view.View, l *Params) (seqs []uint64, next uint64, err error)
	Show          func(view *view.View, dst []byte, seqs []uint64) ([]byte, error)
}

// Handle is the handler of a list.
func (of *List) Handle(c *op.Call) (op.Task, error) {
	l, err := Parse(c, of.Params, func(l *Params) {
		l.Scope = of.Scope
		of.Filters(l)
		l.Query.Q = l.Text("q", command.MaxSearch)
		l.ReadPage()
		l.readFormat()
	})
	if err != nil {
		return op.Task{}, err
	}
	return op.Task{Fresh: l.Fresh, Builds: l.Items(), Versioned: l.Versioned(), Run: func() error {
		view := c.View()
		seqs, next, err := of.Find(view, l)
		if err == nil && len(seqs) == 0 {
			err = NoteEmpty(c, l, func() ([]uint64, uint64, error) { return of.Find(view, l) })
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", of.Scope, err)
		}
		return AnswerList(c, l, of.Member, seqs, next, func(dst []byte, seqs []uint64) ([]byte, error) {
			return of.Show(view, dst, seqs)
		})
	}}, nil
}

// AnswerList answers with one page of a list, in the form that was asked for.
func AnswerList(c *op.Call, l *Params, name string, seqs []uint64, next uint64, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	cursor := l.NextCursor(next)
	if l.format != "" {
		return answerFeed(c, l, cursor, seqs, show)
	}
	return answerPage(c, name, seqs, cursor, show)
}

// answerPage answers with one page of a list, put together from stored bytes.
// The cursor is null on the last page.
func answerPage(c *op.Call, name string, seqs []uint64, cursor string, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	size := len(seqs) * int(c.Env.ItemBytes.Load())
	return c.AnswerOf(size, http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(append(append(BeginNotes(c, dst), '"'), name...), `":[`...)
		begin := len(dst)
		dst, err := show(dst, seqs)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		if len(seqs) > 0 {
			c.Env.ItemBytes.Store(int64((len(dst) - begin) / len(seqs)))
		}
		dst = append(dst, `],"nextCursor":`...)
		if cursor == "" {
			dst = append(dst, `null`...)
		} else {
			dst = append(append(append(dst, '"'), cursor...), '"')
		}
		return append(dst, '}'), nil
	})
}

// BeginNotes begins an answer with the ignored parts of the call, if there are any.
func BeginNotes(c *op.Call, dst []byte) []byte {
	dst = append(dst, '{')
	if len(c.Notes) > 0 {
		dst = append(wire.AppendJSON(append(dst, `"notes":`...), c.Notes), ',')
	}
	return dst
}

const (
	// maxNearWords and nearCuts bound the searches that are tried if one finds nothing:
	// up to nearCuts letters are cut off one of the last maxNearWords words.
	maxNearWords = 4
	nearCuts     = 3
	// leastPrefix is how many letters of a word are kept.
	leastPrefix = 3
)

// NoteEmpty notes why a search finds nothing, and suggests one that finds something:
// one word is shortened and moved to the end, where the beginning of a word is enough.
func NoteEmpty(c *op.Call, l *Params, find func() ([]uint64, uint64, error)) error {
	words := strings.Fields(l.Query.Q)
	if len(words) == 0 || l.Query.Before != 0 {
		return nil
	}
	note := "No text contains all of these words. All must occur as whole words; for the last one its beginning is enough."
	asked := l.Query
	defer func() { l.Query = asked }()
	l.Query.Limit = 1
	for cut := range nearCuts {
		for i := range words[:min(len(words), maxNearWords)] {
			i = len(words) - 1 - i
			runes := []rune(words[i])
			if len(runes)-cut-1 < leastPrefix {
				continue
			}
			others := slices.Delete(slices.Clone(words), i, i+1)
			l.Query.Q = strings.Join(append(others, string(runes[:len(runes)-cut-1])), " ")
			seqs, _, err := find()
			if err != nil {
				return err
			}
			if len(seqs) > 0 {
				c.Notes = append(c.Notes, note+" This finds something: q="+l.Query.Q)
				return nil
			}
		}
	}
	if len(words) > 1 {
		note += " Try fewer words."
	}
	c.Notes = append(c.Notes, note)
	return nil
}

// ReadEntries reads and validates the parameters of a list of entries.
func (l *Params) ReadEntries(head bool) {
	if action, given := l.Doc.Get("action").(string); given && !head && wire.Word(action) != "publish" {
		l.Problems.Add("action", "must be publish, or be left out to list entries")
	}
	l.ReadNames()
	l.Thread, l.ReplyTo = l.ID("thread"), l.ID("reply_to")
	l.Query.Q = l.Text("q", command.MaxSearch)
	if since := l.Since(); since >= 0 {
		l.Query.Since = since
	}
	l.ReadPage()
	l.readFormat()
}

// ID reads the id of an entry; "" when it is absent or has a problem.
func (l *Params) ID(field string) string {
	for i := range l.Doc.Fields {
		if s, isText := l.Doc.Fields[i].Value.(string); isText && l.Doc.Fields[i].Name == field {
			l.Doc.Fields[i].Value = op.CleanID(s)
		}
	}
	return l.Text(field, command.MaxTarget)
}

// Since reads an instant; -1 where none is given.
func (l *Params) Since() int64 { return l.Instant("since") }

// Instant is since for a field of another name.
func (l *Params) Instant(field string) int64 {
	s := l.Text(field, maxSince)
	if s == "" {
		return -1
	}
	since, ok := parseSince(s)
	if seconds, isNumber := epochSeconds(s); isNumber {
		since, ok = seconds, true
		l.notes = append(l.notes, field+" was read as seconds: send milliseconds, such as "+strconv.FormatInt(since, 10)+".")
	}
	if !ok {
		l.Problems.Add(field, "must be epoch milliseconds or an ISO 8601 date or date-time")
	}
	return since
}

// allStatuses is the status of a list that is not narrowed by one.
const allStatuses = "all"

// Status reads a status; usual where none is given, zero for all.
func Status[S ~uint8](l *Params, usual S, parse func(string) (S, bool), names string) S {
	status := usual
	switch s := wire.Word(l.Text("status", command.MaxName)); s {
	case "":
	case allStatuses:
		status = 0
	default:
		var known bool
		if status, known = parse(s); !known {
			l.Problems.Add("status", "must be %s", names)
		}
	}
	l.Status = uint8(status)
	return status
}

// ReadPage reads which page of the list is asked for, after all filters.
func (l *Params) ReadPage() {
	l.Query.Limit = l.Number("limit", command.MaxList, command.DefaultList)
	if s := l.Text("cursor", maxCursor); s != "" {
		before, ok := l.parseCursor(s)
		if !ok && !l.filterProblems() {
			l.Problems.Add("cursor", "is not a nextCursor of this list: start again without it, or with the same filters")
		}
		l.Query.Before = before
	}
}

// Number reads a number from 1 to most; the usual one where none is given.
func (l *Params) Number(field string, most, usual int) int {
	s := l.Text(field, MaxNumber)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		l.Problems.Add(field, "must be a whole number from 1 to %d", most)
	}
	return n
}

const (
	// DefaultUsageDays is the number of days that usage covers without the parameter days.
	DefaultUsageDays = 7
	// MaxWait is the maximum of the parameter wait, in seconds.
	MaxWait = 60
)

// The longest texts of parameters whose form is fixed, in code points.
const (
	maxSince  = 64
	MaxNumber = 20
	maxCursor = 64
)

// ReadNames reads the filters by kind and by name.
func (l *Params) ReadNames() {
	if s := l.Text("kind", command.MaxName); s != "" {
		kind, note, problem := wire.ParseKind(s)
		switch {
		case problem != "":
			l.Problems.Add("kind", "%s", problem)
		case note != "":
			l.notes = append(l.notes, note)
			fallthrough
		default:
			l.Query.Kind = kind
		}
	}
	if s := l.Text("channel", wire.MaxRawName); s != "" {
		l.Query.Channel = l.Name("channel", text.ChannelName(s), command.MaxChannel)
	}
	l.Query.AgentKey = text.Fold(l.Agent("agent"))
	l.Query.ForKey = text.Fold(l.Agent("for"))
	if s := l.Text("tag", command.MaxTag); s != "" {
		l.Query.TagKey = text.FoldTag(strings.TrimPrefix(s, "#"))
	}
}

// Agent reads the name of an agent; "" when it is absent or has a problem.
func (l *Params) Agent(field string) string {
	s := l.Text(field, wire.MaxRawName)
	if s == "" {
		return ""
	}
	return l.Name(field, text.AgentName(s), command.MaxName)
}

// Name returns a name of at most longest code points, or an empty string and a problem.
func (l *Params) Name(field, name string, longest int) string {
	if problem := wire.NameProblem(name, longest); problem != "" {
		l.Problems.Add(field, "%s", problem)
		return ""
	}
	return name
}

// Text reads one parameter; "" when it is absent or has a problem.
func (l *Params) Text(field string, longest int) string {
	s, given := l.Doc.Get(field).(string)
	if !given || l.Problems.Has(field) {
		return ""
	}
	s, bad := wire.Clean(s)
	switch n := wire.Count(s); {
	case bad != wire.FlawNone:
		l.Problems.Add(field, "%s", bad)
		return ""
	case n > longest:
		l.Problems.Add(field, "may have at most %d characters; this one has %d", longest, n)
		return ""
	}
	return s
}

// filterProblems reports a problem in a parameter that a cursor is bound to.
func (l *Params) filterProblems() bool {
	return slices.ContainsFunc(l.Problems.List, func(i wire.Issue) bool {
		return !slices.Contains(wire.PageParams, i.Field)
	})
}

// Resolve finds the entries that thread= and reply_to= name. It reports false when
// one of them is unknown: then nothing is in the list. An id may be unknown here
// and known elsewhere for a moment, so that it is no mistake of the caller.
func (l *Params) Resolve(view *view.View) bool {
	known := true
	if l.Thread != "" {
		l.Query.Thread, known = view.Resolve(l.Thread)
	}
	if known && l.ReplyTo != "" {
		l.Query.ReplyTo, known = view.Resolve(l.ReplyTo)
	}
	return known
}

// Repair is the caller's own list without the parameters that only the caller can
// correct, and with numbers within their bounds.
func (l *Params) Repair() wire.Object {
	o := wire.Object{}
	for _, name := range l.Takes {
		s, given := l.Doc.Get(name).(string)
		if !given || name == "min_index" { // whether this node has it is not to be known here
			continue
		}
		s, _ = wire.Clean(s)
		switch {
		case name == "limit":
			o = o.With(name, inBounds(s, command.MaxList, command.DefaultList))
		case name == "days":
			o = o.With(name, inBounds(s, command.MaxUsageDays, DefaultUsageDays))
		case !l.Problems.Has(name) && s != "" && (name != "cursor" || !l.filterProblems()):
			o = o.With(name, s)
		}
	}
	return o
}

// neutral is a parameter that changes the answer in no way, as an example for a list
// without parameters.
func (l *Params) neutral() wire.Object {
	switch {
	case slices.Contains(l.Takes, "limit"):
		return wire.Object{{"limit", command.DefaultList}}
	case slices.Contains(l.Takes, "days"):
		return wire.Object{{"days", DefaultUsageDays}}
	}
	return wire.Object{{"min_index", 0}}
}

// inBounds brings a number into the bounds of 1 and most; a text that is no number
// becomes the usual one.
func inBounds(s string, most, usual int) int {
	n, err := strconv.Atoi(s)
	switch {
	case err == nil:
		return min(max(n, 1), most)
	case s != "" && strings.Trim(s, "0123456789") == "":
		return most
	}
	return usual
}

// sinceLayouts are the forms of ISO 8601 that are understood. A form without a
// zone is UTC. Go reads a fraction of a second after any of the seconds.
var sinceLayouts = []string{
	"2006-01-02",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07",
}

// Numbers in this range are seconds since the epoch, not milliseconds: years 1973 to
// 5138. As milliseconds they would be before any entry.
const (
	leastSeconds = 1e8
	mostSeconds  = 1e11
)

// epochSeconds reads an instant in seconds, which may have a fraction, as
// milliseconds.
func epochSeconds(s string) (ms int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return int64(n * 1000), err == nil && n >= leastSeconds && n < mostSeconds
}

// parseSince reads an instant: epoch milliseconds, or an ISO 8601 date or
// date-time. It returns milliseconds since the epoch, rounded down.
func parseSince(s string) (ms int64, ok bool) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return ms, ms >= 0
	}
	s = strings.ToUpper(s)
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == ' ' {
		s = s[:len("2006-01-02")] + "T" + s[len("2006-01-02T"):]
	}
	// A plus sign that was not escaped arrives as a space.
	s = strings.Replace(s, " ", "+", 1)
	for _, layout := range sinceLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return max(t.UnixMilli(), 0), true
		}
	}
	return 0, false
}

// Handler is the handler of a read: filters reads its parameters beside those of
// freshness, if there are any, and run answers.
func Handler(params []string, filters func(l *Params), run func(c *op.Call, l *Params) error) op.Handler {
	return func(c *op.Call) (op.Task, error) {
		l, err := Parse(c, params, filters)
		if err != nil {
			return op.Task{}, err
		}
		return op.Task{Fresh: l.Fresh, Run: func() error { return run(c, l) }}, nil
	}
}

// Wait reads for how long a call waits.
func (l *Params) Wait() time.Duration {
	s := l.Text("wait", MaxNumber)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > MaxWait {
		l.Problems.Add("wait", "must be a whole number of seconds from 0 to %d", MaxWait)
	}
	return time.Duration(n) * time.Second
}
