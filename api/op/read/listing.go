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
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// ListParams are the parameters of a list, in the order of the interface (4.1).
var ListParams = []string{
	"kind", "channel", "agent", "for", "since", "q", "mode", "reply_to", "thread", "tag", "unanswered", "order",
	"limit", "cursor", "brief", ParamFormat, "consistency", "min_index",
}

// EntryListParams are the parameters of GET /api/entries as a list.
var EntryListParams = append([]string{"action"}, ListParams...)

// Params are the parsed parameters of a read. Empty filters select everything.
type Params struct {
	Doc      *wire.Document
	Problems wire.Problems
	notes    []string // about values that were read as others
	Takes    []string // the names of the parameters of the read
	Fresh    op.Freshness
	Query    view.Query
	// Scope distinguishes lists with equal filters; "" is that of entries.
	Scope           string
	Days            int    // of usage
	Status          uint8  // of jobs or requests for help
	Thread, ReplyTo string // ids of entries
	// Until fixes the order of a list on all of its pages: its cursors carry it, unless it is 0.
	Until uint64
	// Looks means that the read costs more than its answer, as a search or a feed does.
	Looks bool
	// brief means that the list has ids alone.
	brief bool
	// pairs are all parameters if a filter is repeated, or nil.
	pairs []wire.Pair
	// values is the number of values of all filters.
	values int
	// head means that the request is a HEAD, which asks about a list whatever its action is.
	head bool
	// inner means that MCP, A2A or a page makes the call: it never publishes.
	inner bool
	// unresolved means that the list is empty, because it is about an unknown entry.
	unresolved bool
	// format is the format of the answer, empty for our own.
	format string
}

// New returns unread parameters: the document has one value of each, pairs has all. It notes
// those that the operation does not take.
func New(c *op.Call, doc *wire.Document, params []string, pairs []wire.Pair, twice []string) *Params {
	l := &Params{Doc: doc, Takes: params, Query: view.Query{Since: -1, Limit: command.DefaultList}}
	unknown, lost := doc.Canonical(params)
	if ignored := slices.Concat(unknown, lost); len(ignored) > 0 {
		c.Notes = append(c.Notes, "Unknown parameters were ignored: "+wire.ShownNames(ignored)+". Known here are "+strings.Join(params, ", ")+".")
	}
	for _, name := range twice {
		switch name, _ = wire.Means(name, params); {
		case name == "" || l.Problems.Has(name):
		case slices.Contains(repeated, name):
			l.pairs = pairs
		default:
			l.Problems.Add(name, "may be given once")
		}
	}
	return l
}

// Parse reads the parameters of a read; filters, unless it is nil, reads those beside freshness.
// The error lists all problems.
func Parse(c *op.Call, params []string, filters func(l *Params)) (*Params, error) {
	pairs, err := c.Query()
	if err != nil {
		return nil, err
	}
	doc, twice := wire.FoldPairs(pairs)
	l := New(c, &doc, params, pairs, twice)
	l.head, l.inner = c.IsHead(), c.Inner
	if filters != nil {
		filters(l)
	}
	err = l.finish(c)
	return l, err
}

// Versioned reports whether the list depends only on the version of the state. Searches read a
// bounded number of words that differs between nodes. Feeds and lists that age have a tag of their
// content.
func (l *Params) Versioned() bool { return l.Query.Q == "" && l.format == "" && !l.ages() }

// ages reports whether entries leave the list as time goes on.
func (l *Params) ages() bool { return l.Query.Since < -1 }

// finish reads the freshness of a read, after all its other parameters.
func (l *Params) finish(c *op.Call) error {
	l.Fresh = c.ReadFreshness(l.Doc, &l.Problems)
	c.Notes = append(c.Notes, l.notes...)
	if l.Problems.Any() {
		return l.invalid()
	}
	l.Query.Work = &c.Work
	if l.Query.Q != "" || l.Looks {
		return c.WithinReads()
	}
	return nil
}

// invalid returns the error for the problems of the parameters.
func (l *Params) invalid() error {
	example := l.Repair()
	switch { // of parameters without effect, for a list without parameters
	case len(example) > 0:
	case slices.Contains(l.Takes, "limit"):
		example = wire.Object{{"limit", command.DefaultList}}
	case slices.Contains(l.Takes, "days"):
		example = wire.Object{{"days", DefaultUsageDays}}
	default:
		example = wire.Object{{"min_index", 0}}
	}
	return wire.Invalid(l.Problems.List, example)
}

// The scopes of lists that feeds describe.
const (
	ScopeJobs = "jobs"
	ScopeHelp = "human-requests"
)

// List is a list of the interface.
type List struct {
	Member, Scope string // the member of the answer; the scope of cursors
	Params        []string
	Filters       func(l *Params)
	Find          func(view *view.View, l *Params) (seqs []uint64, next uint64, err error)
	Show          func(view *view.View, dst []byte, seqs []uint64) ([]byte, error)
}

// Handle implements op.Handler.
func (of *List) Handle(c *op.Call) (op.Task, error) {
	l, err := Parse(c, of.Params, func(l *Params) {
		l.Scope = of.Scope
		of.Filters(l)
		l.Query.Q = l.Text("q", command.MaxSearch)
		l.ReadPage()
		l.readFormat()
		l.readBrief()
	})
	if err != nil {
		return op.Task{}, err
	}
	return op.Task{Fresh: l.Fresh, Builds: l.Query.Limit, Versioned: l.Versioned(), Run: func() error {
		view := c.View()
		seqs, next, err := of.Find(view, l)
		if err == nil && len(seqs) == 0 && !l.unresolved {
			err = noteEmpty(c, l, next, func() ([]uint64, uint64, error) { return of.Find(view, l) })
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", of.Member, err)
		}
		return answerList(c, l, of.Member, seqs, next, func(dst []byte, seqs []uint64) ([]byte, error) {
			return of.Show(view, dst, seqs)
		})
	}}, nil
}

// answerList answers with one page of a list, in the format that was asked for. show appends the
// stored JSON of items.
func answerList(c *op.Call, l *Params, name string, seqs []uint64, next uint64, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	cursor := l.NextCursor(next)
	if l.format != "" {
		return answerFeed(c, l, cursor, seqs, show)
	}
	if l.brief {
		name, show = "ids", c.View().AppendIDs
	}
	size := len(seqs) * int(c.Env.ItemBytes.Load())
	err := c.AnswerOf(size, http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(append(append(BeginNotes(c, dst), '"'), name...), `":[`...)
		begin := len(dst)
		dst, err := show(dst, seqs)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		if len(seqs) > 0 && !l.brief {
			c.Env.ItemBytes.Store(int64((len(dst) - begin) / len(seqs)))
		}
		return append(state.AppendOptional(append(dst, `],"nextCursor":`...), cursor), '}'), nil
	})
	if err == nil && l.ages() && l.Query.Q == "" {
		c.HasTag(op.TagOf(c.Out.Body))
	}
	return err
}

// BeginNotes begins an answer with the ignored parts of the call, if there are any.
func BeginNotes(c *op.Call, dst []byte) []byte {
	dst = append(dst, '{')
	if len(c.Notes) > 0 {
		dst = append(wire.AppendJSON(append(dst, `"notes":`...), c.Notes), ',')
	}
	return dst
}

// ReadEntries reads and validates the filters of a list of entries.
func (l *Params) ReadEntries() {
	if action, given := l.Doc.Get("action").(string); given && !l.head && (wire.Word(action) != "publish" || l.inner) {
		l.Problems.Add("action", "%s", map[bool]string{true: "must be left out: this call only reads", false: "must be publish, or be left out to list entries"}[l.inner])
	}
	l.ReadNames()
	l.Thread, l.ReplyTo = l.ID("thread"), l.ID("reply_to")
	l.Query.Q = l.Text("q", command.MaxSearch)
	l.Query.Since = l.Instant("since")
	if l.Query.Unanswered = l.Flag("unanswered"); l.Query.Unanswered {
		l.Looks = true
	}
	l.readMode()
	l.readOrder()
}

// readOrder reads the order of a conversation, after its other filters.
func (l *Params) readOrder() {
	switch wire.Word(l.Text("order", MaxNumber)) {
	case "", "newest":
	case "oldest":
		l.Query.Oldest, l.Looks = true, true
		if l.Thread == "" && !l.Problems.Has("thread") || l.Query.Q != "" || l.Query.Unanswered {
			l.Problems.Add("order", "may be oldest only with thread, and without q and unanswered")
		}
	default:
		l.Problems.Add("order", "must be newest or oldest")
	}
}

// Flag reads a parameter that is 1 or absent.
func (l *Params) Flag(field string) bool {
	switch l.Text(field, MaxNumber) {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	}
	l.Problems.Add(field, "must be 1, or be left out")
	return false
}

// readBrief reads whether the list has ids alone, after its format.
func (l *Params) readBrief() {
	if l.brief = l.Flag("brief"); l.brief && l.format != "" {
		l.Problems.Add("brief", "must be left out with format=%s, which has whole entries", l.format)
	}
}

// ID reads the id of an entry. It returns "" if it is absent or has a problem.
func (l *Params) ID(field string) string {
	for i := range l.Doc.Fields {
		if s, isText := l.Doc.Fields[i].Value.(string); isText && l.Doc.Fields[i].Name == field {
			l.Doc.Fields[i].Value = op.CleanID(s)
		}
	}
	return l.Text(field, command.MaxTarget)
}

// Instant reads a time in milliseconds since the epoch. A time relative to the present is
// negative and less than -1, see view.View.Instant. It returns -1 if the field is absent.
func (l *Params) Instant(field string) int64 {
	s := l.Text(field, maxSince)
	if s == "" {
		return -1
	}
	if ago := parseAgo(s); ago > 0 {
		return -ago.Milliseconds()
	}
	since, ok := parseSince(s)
	if seconds, isNumber := epochSeconds(s); isNumber {
		since, ok = seconds, true
		l.notes = append(l.notes, field+" was read as seconds: send milliseconds, such as "+strconv.FormatInt(since, 10)+".")
	}
	if !ok {
		l.Problems.Add(field, "must be epoch milliseconds, an ISO 8601 date or date-time, or relative, such as -90m, -1h or -7d")
	}
	return since
}

// Status reads one of some statuses, by default usual; zero means all.
func Status[S ~uint8](l *Params, usual S, known command.Names) S {
	status := usual
	switch s := wire.Word(l.Text("status", command.MaxName)); s {
	case "":
	case "all":
		status = 0
	default:
		if status = S(known.Parse(s)); status == 0 {
			l.Problems.Add("status", "must be %s or all", strings.Join(known.List(), ", "))
		}
	}
	l.Status = uint8(status)
	return status
}

// ReadPage reads the limit and the cursor, after all filters.
func (l *Params) ReadPage() {
	l.Query.Limit = l.Number("limit", command.MaxList, command.DefaultList)
	if s := l.Text("cursor", maxCursor); s != "" {
		before, ok := l.parseCursor(s)
		if !ok && !l.filterProblems() {
			l.Problems.Add("cursor", "is not a nextCursor of this list: start again without it, or with the same filters")
		}
		if l.Query.Before = before; l.Query.Oldest {
			l.Query.Before, l.Query.After = 0, before
		}
	}
}

// Number reads a number from 1 to most, by default usual.
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

// The longest texts of parameters with a fixed form, in code points.
const (
	maxSince  = 64
	MaxNumber = 20
	maxCursor = 64
)

// Agent reads the name of an agent. It returns "" if it is absent or has a problem.
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

// Text reads one parameter. It returns "" if it is absent or has a problem.
func (l *Params) Text(field string, longest int) string {
	s, given := l.Doc.Get(field).(string)
	if !given {
		return ""
	}
	return l.clean(field, s, longest)
}

// clean returns a value of a parameter, or "" if the parameter has a problem.
func (l *Params) clean(field, s string, longest int) string {
	if l.Problems.Has(field) {
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

// filterProblems reports whether a parameter that a cursor is bound to has a problem.
func (l *Params) filterProblems() bool {
	return slices.ContainsFunc(l.Problems.List, func(i wire.Issue) bool {
		return !slices.Contains(wire.PageParams, i.Field)
	})
}

// Resolve looks up the entries of thread and reply_to. It returns false if one is unknown: then
// the list is empty. That is no error, because another node may know the entry already.
func (l *Params) Resolve(view *view.View) bool {
	known := true
	if l.Thread != "" {
		l.Query.Thread, known = view.Resolve(l.Thread)
	}
	if known && l.ReplyTo != "" {
		l.Query.ReplyTo, known = view.Resolve(l.ReplyTo)
	}
	l.unresolved = !known
	return known
}

// Repair returns the caller's parameters without those that only the caller can correct, and
// with numbers within their bounds.
func (l *Params) Repair() wire.Object {
	o := wire.Object{}
	for _, name := range l.Takes {
		s, given := l.Doc.Get(name).(string)
		if !given || name == "min_index" { // this node may not have it yet
			continue
		}
		s, _ = wire.Clean(s)
		switch all := l.all(name); {
		case l.Problems.Has(name) && name != "limit" && name != "days", name == "mode" && l.Problems.Has("q"):
		case all != nil && slices.Contains(repeated, name):
			o = o.With(name, all)
		case name == "limit":
			o = o.With(name, inBounds(s, command.MaxList, command.DefaultList))
		case name == "days":
			o = o.With(name, inBounds(s, command.MaxUsageDays, DefaultUsageDays))
		case (name == "unanswered" || name == "brief") && s == "1":
			o = o.With(name, 1)
		case s != "" && (name != "cursor" || !l.filterProblems()):
			o = o.With(name, s)
		}
	}
	return o
}

// inBounds returns a number within 1 and most, or usual if the text is no number.
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

// sinceLayouts are the accepted forms of ISO 8601, in UTC without a zone. Go also reads a fraction
// of a second after the seconds.
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

// Numbers of ten digits are seconds since the epoch: years 2001 to 2286. As milliseconds they
// would be before any entry.
const (
	leastSeconds = 1e9
	mostSeconds  = 1e10
)

// epochSeconds returns an instant in seconds, perhaps with a fraction, in milliseconds.
func epochSeconds(s string) (ms int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return int64(n * 1000), err == nil && n >= leastSeconds && n < mostSeconds
}

// parseAgo reads a time before the present, such as -90m, -1h or -7d. It returns 0 for other texts.
func parseAgo(s string) time.Duration {
	for unit, length := range map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour} {
		digits, is := strings.CutSuffix(s, unit)
		if digits, minus := strings.CutPrefix(digits, "-"); is && minus {
			if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
				return time.Duration(n) * length //nolint:gosec // 16 bits
			}
		}
	}
	return 0
}

// parseSince reads an instant: epoch milliseconds, or an ISO 8601 date or date-time. It returns
// milliseconds since the epoch, rounded down.
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

// Handler returns the handler of a read; see Parse for filters.
func Handler(params []string, filters func(l *Params), run func(c *op.Call, l *Params) error) op.Handler {
	return func(c *op.Call) (op.Task, error) {
		l, err := Parse(c, params, filters)
		if err != nil {
			return op.Task{}, err
		}
		return op.Task{Fresh: l.Fresh, Run: func() error { return run(c, l) }}, nil
	}
}

// Wait reads the duration of a wait.
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
