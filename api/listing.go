package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// listParams are the parameters of a list, in the order of the interface (4.1).
var listParams = []string{
	"kind", "channel", "agent", "for", "since", "q", "reply_to", "thread", "tag",
	"limit", "cursor", fieldFormat, "consistency", "min_index",
}

// entryListParams are those of GET /api/entries as a list.
var entryListParams = append([]string{"action"}, listParams...)

// listing are the parameters of a read as they were sent: for lists, which page.
type listing struct {
	doc      *wire.Document
	problems wire.Problems
	notes    []string // of what was taken as something else than it says
	// params are the parameters that the read takes.
	params []string
	fresh  freshness
	query  fsm.Query
	// scope distinguishes lists whose filters look alike; "" is that of entries.
	scope string
	// days is how many days of usage are asked for.
	days int
	// status narrows a list of jobs or of requests for help; zero is all.
	status uint8
	// claimant has claimed the jobs of the list (text.Fold); "": anybody or nobody.
	claimant string
	// looks says that the list reads more than it shows, as a search does, or makes more
	// of it, as a feed does.
	looks bool
	// format is the form of the answer; "": our own.
	format string
	// The entries that thread= and reply_to= name; "" is no filter.
	thread, replyTo string
}

// newListing is a listing from which nothing was read yet. It notes the parameters that
// the operation does not take.
func (c *call) newListing(doc *wire.Document, params, twice []string) *listing {
	l := &listing{doc: doc, params: params, query: fsm.Query{Since: -1, Limit: command.DefaultList}}
	unknown, lost, _ := doc.Canonical(params)
	if ignored := slices.Concat(unknown, lost); len(ignored) > 0 {
		c.notes = append(c.notes, "Unknown parameters were ignored: "+shownNames(ignored)+". Known here are "+strings.Join(params, ", ")+".")
	}
	for _, name := range twice {
		if name = meaning(name, params); name != "" && !l.problems.Has(name) {
			l.problems.Add(name, "may be given once")
		}
	}
	return l
}

// listing reads the parameters of a read: filters those beside freshness. Its error
// lists all problems.
func (c *call) listing(params []string, filters func(l *listing)) (*listing, error) {
	pairs, err := c.query()
	if err != nil {
		return nil, err
	}
	doc, twice := wire.FoldPairs(pairs)
	l := c.newListing(&doc, params, twice)
	if filters != nil {
		filters(l)
	}
	return l, c.endListing(l)
}

// items is how many items the list may have.
func (l *listing) items() int {
	if l.query.Limit > 0 {
		return l.query.Limit
	}
	return command.DefaultList
}

// versioned reports whether one version of the state has one such list. Searches look at
// a bounded number of words, by node; feeds have a tag of their own.
func (l *listing) versioned() bool { return l.query.Q == "" && l.format == "" }

// endListing reads how fresh a read must be, after all its other parameters.
func (c *call) endListing(l *listing) error {
	l.fresh = c.readFreshness(l.doc, &l.problems)
	c.notes = append(c.notes, l.notes...)
	if l.problems.Any() {
		return wire.Invalid(l.problems.List, l.repair())
	}
	l.query.Work = &c.work
	if l.query.Q != "" || l.looks {
		return c.withinBudget(c.srv.guard.Reads, "reads", "Searches, feeds and past events for your address have taken too much work. Ask for fewer, and search for whole words, and fewer of them.")
	}
	return nil
}

// listed is a list of the interface but for that of entries.
type listed struct {
	member, scope string // of the answer, and of cursors
	params        []string
	filters       func(l *listing)
	find          func(view *fsm.View, l *listing) (seqs []uint64, next uint64, err error)
	show          func(view *fsm.View, dst []byte, seqs []uint64) ([]byte, error)
}

// handle is the handler of a list.
func (of *listed) handle(c *call) (task, error) {
	l, err := c.listing(of.params, func(l *listing) {
		l.scope = of.scope
		of.filters(l)
		l.query.Q = l.text("q", command.MaxSearch)
		l.readPage()
		l.readFormat()
	})
	if err != nil {
		return task{}, err
	}
	return task{fresh: l.fresh, builds: l.items(), versioned: l.versioned(), run: func() error {
		view := c.read()
		seqs, next, err := of.find(view, l)
		if err == nil && len(seqs) == 0 {
			err = c.noteNothing(l, func() ([]uint64, uint64, error) { return of.find(view, l) })
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", of.scope, err)
		}
		return c.answerList(l, of.member, seqs, next, func(dst []byte, seqs []uint64) ([]byte, error) {
			return of.show(view, dst, seqs)
		})
	}}, nil
}

// answerList answers with one page of a list, in the form that was asked for.
func (c *call) answerList(l *listing, name string, seqs []uint64, next uint64, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	cursor := l.nextCursor(next)
	if l.format != "" {
		return c.answerFeed(l, cursor, seqs, show)
	}
	return c.answerPage(name, seqs, cursor, show)
}

// answerPage answers with one page of a list, put together from stored bytes.
// The cursor is null on the last page.
func (c *call) answerPage(name string, seqs []uint64, cursor string, show func(dst []byte, seqs []uint64) ([]byte, error)) error {
	size := len(seqs) * int(c.srv.itemBytes.Load())
	return c.answerOf(size, http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(append(append(c.beginNotes(dst), '"'), name...), `":[`...)
		begin := len(dst)
		dst, err := show(dst, seqs)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		if len(seqs) > 0 {
			c.srv.itemBytes.Store(int64((len(dst) - begin) / len(seqs)))
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

// beginNotes begins an answer with the ignored parts of the call, if there are any.
func (c *call) beginNotes(dst []byte) []byte {
	dst = append(dst, '{')
	if len(c.notes) > 0 {
		dst = append(wire.AppendJSON(append(dst, `"notes":`...), c.notes), ',')
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

// noteNothing notes why a search finds nothing, and suggests one that finds something:
// one word is shortened and moved to the end, where the beginning of a word is enough.
func (c *call) noteNothing(l *listing, find func() ([]uint64, uint64, error)) error {
	words := strings.Fields(l.query.Q)
	if len(words) == 0 || l.query.Before != 0 {
		return nil
	}
	note := "No text contains all of these words. All must occur as whole words; for the last one its beginning is enough."
	asked := l.query
	defer func() { l.query = asked }()
	l.query.Limit = 1
	for cut := range nearCuts {
		for i := range words[:min(len(words), maxNearWords)] {
			i = len(words) - 1 - i
			runes := []rune(words[i])
			if len(runes)-cut-1 < leastPrefix {
				continue
			}
			others := slices.Delete(slices.Clone(words), i, i+1)
			l.query.Q = strings.Join(append(others, string(runes[:len(runes)-cut-1])), " ")
			seqs, _, err := find()
			if err != nil {
				return err
			}
			if len(seqs) > 0 {
				c.notes = append(c.notes, note+" This finds something: q="+l.query.Q)
				return nil
			}
		}
	}
	if len(words) > 1 {
		note += " Try fewer words."
	}
	c.notes = append(c.notes, note)
	return nil
}

// readEntries reads and validates the parameters of a list of entries.
func (l *listing) readEntries(head bool) {
	if action, given := l.doc.Get("action").(string); given && !head && word(action) != "publish" {
		l.problems.Add("action", "must be publish, or be left out to list entries")
	}
	l.readNames()
	l.thread, l.replyTo = l.id("thread"), l.id("reply_to")
	l.query.Q = l.text("q", command.MaxSearch)
	if since := l.since(); since >= 0 {
		l.query.Since = since
	}
	l.readPage()
	l.readFormat()
}

// id reads the id of an entry; "" when it is absent or has a problem.
func (l *listing) id(field string) string {
	for i := range l.doc.Fields {
		if s, isText := l.doc.Fields[i].Value.(string); isText && l.doc.Fields[i].Name == field {
			l.doc.Fields[i].Value = idOf(s)
		}
	}
	return l.text(field, command.MaxTarget)
}

// since reads an instant; -1 where none is given.
func (l *listing) since() int64 { return l.instant("since") }

// instant is since for a field of another name.
func (l *listing) instant(field string) int64 {
	s := l.text(field, maxSince)
	if s == "" {
		return -1
	}
	since, ok := parseSince(s)
	if seconds, isNumber := epochSeconds(s); isNumber {
		since, ok = seconds, true
		l.notes = append(l.notes, field+" was read as seconds: send milliseconds, such as "+strconv.FormatInt(since, 10)+".")
	}
	if !ok {
		l.problems.Add(field, "must be epoch milliseconds or an ISO 8601 date or date-time")
	}
	return since
}

// allStatuses is the status of a list that is not narrowed by one.
const allStatuses = "all"

// readStatus reads a status; usual where none is given, zero for all.
func readStatus[S ~uint8](l *listing, usual S, parse func(string) (S, bool), names string) S {
	status := usual
	switch s := word(l.text("status", command.MaxName)); s {
	case "":
	case allStatuses:
		status = 0
	default:
		var known bool
		if status, known = parse(s); !known {
			l.problems.Add("status", "must be %s", names)
		}
	}
	l.status = uint8(status)
	return status
}

// readPage reads which page of the list is asked for, after all filters.
func (l *listing) readPage() {
	l.query.Limit = l.number("limit", command.MaxList, command.DefaultList)
	if s := l.text("cursor", maxCursor); s != "" {
		before, ok := l.parseCursor(s)
		if !ok && !l.filterProblems() {
			l.problems.Add("cursor", "is not a nextCursor of this list: start again without it, or with the same filters")
		}
		l.query.Before = before
	}
}

// number reads a number from 1 to most; the usual one where none is given.
func (l *listing) number(field string, most, usual int) int {
	s := l.text(field, maxNumber)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		l.problems.Add(field, "must be a whole number from 1 to %d", most)
	}
	return n
}

// The longest texts of parameters whose form is fixed, in code points.
const (
	maxSince  = 64
	maxNumber = 20
	maxCursor = 64
)

// readNames reads the filters by kind and by name.
func (l *listing) readNames() {
	if s := l.text("kind", command.MaxName); s != "" {
		kind, known := kindAliases[word(s)]
		if !known {
			l.problems.Add("kind", "%s", kindProblem(word(s)))
		}
		l.query.Kind = kind
	}
	if s := l.text("channel", maxRawName); s != "" {
		l.query.Channel = l.name("channel", text.ChannelName(s), command.MaxChannel)
	}
	l.query.AgentKey = text.Fold(l.agent("agent"))
	l.query.ForKey = text.Fold(l.agent("for"))
	if s := l.text("tag", command.MaxTag); s != "" {
		l.query.TagKey = text.FoldTag(strings.TrimPrefix(s, "#"))
	}
}

// agent reads the name of an agent; "" when it is absent or has a problem.
func (l *listing) agent(field string) string {
	s := l.text(field, maxRawName)
	if s == "" {
		return ""
	}
	return l.name(field, text.AgentName(s), command.MaxName)
}

func (l *listing) name(field, name string, longest int) string {
	if problem := nameProblem(name, longest); problem != "" {
		l.problems.Add(field, "%s", problem)
		return ""
	}
	return name
}

// text reads one parameter; "" when it is absent or has a problem.
func (l *listing) text(field string, longest int) string {
	s, given := l.doc.Get(field).(string)
	if !given || l.problems.Has(field) {
		return ""
	}
	s, bad := wire.Clean(s)
	switch n := wire.Count(s); {
	case bad != wire.FlawNone:
		l.problems.Add(field, "%s", bad)
		return ""
	case n > longest:
		l.problems.Add(field, "may have at most %d characters; this one has %d", longest, n)
		return ""
	}
	return s
}

// filterProblems reports a problem in a parameter that a cursor is bound to.
func (l *listing) filterProblems() bool {
	return slices.ContainsFunc(l.problems.List, func(i wire.Issue) bool {
		return !slices.Contains(wire.PageParams, i.Field)
	})
}

// resolve finds the entries that thread= and reply_to= name. It reports false when
// one of them is unknown: then nothing is in the list. An id may be unknown here
// and known elsewhere for a moment, so that it is no mistake of the caller.
func (l *listing) resolve(view *fsm.View) bool {
	known := true
	if l.thread != "" {
		l.query.Thread, known = view.Resolve(l.thread)
	}
	if known && l.replyTo != "" {
		l.query.ReplyTo, known = view.Resolve(l.replyTo)
	}
	return known
}

// repair is the caller's own list without the parameters that only the caller can
// correct, and with numbers within their bounds.
func (l *listing) repair() wire.Object {
	o := wire.Object{}
	for _, name := range l.params {
		s, given := l.doc.Get(name).(string)
		if !given || name == "min_index" { // whether this node has it is not to be known here
			continue
		}
		s, _ = wire.Clean(s)
		switch {
		case name == "limit":
			o = o.With(name, inBounds(s, command.MaxList, command.DefaultList))
		case name == "days":
			o = o.With(name, inBounds(s, command.MaxUsageDays, defaultUsageDays))
		case !l.problems.Has(name) && s != "" && (name != "cursor" || !l.filterProblems()):
			o = o.With(name, s)
		}
	}
	return o
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

// cursorVersion is the first byte of a cursor.
const cursorVersion = 1

// cursorSumBytes is the length of the sum that binds a cursor to its list.
const cursorSumBytes = 8

// cursorCode is how a cursor's bytes are written.
var cursorCode = base64.RawURLEncoding.Strict()

// cursor returns the nextCursor of this list for a page of entries before a seq. It holds
// the version, a sum over the filters and the place, and the place.
func (l *listing) cursor(before uint64) string {
	raw := append([]byte{cursorVersion}, l.cursorSum(before)...)
	return cursorCode.EncodeToString(binary.AppendUvarint(raw, before))
}

// nextCursor is cursor, or "" where before is 0: on the last page.
func (l *listing) nextCursor(before uint64) string {
	if before == 0 {
		return ""
	}
	return l.cursor(before)
}

// parseCursor reads a cursor of this list. It rejects every other text.
func (l *listing) parseCursor(s string) (before uint64, ok bool) {
	raw, err := cursorCode.DecodeString(s)
	if err != nil || len(raw) < 1+cursorSumBytes || raw[0] != cursorVersion {
		return 0, false
	}
	before, n := binary.Uvarint(raw[1+cursorSumBytes:])
	if n <= 0 || before == 0 || l.cursor(before) != s {
		return 0, false
	}
	return before, true
}

// cursorSum is a short hash of everything that selects entries, and a place. It
// keeps mistakes out, not attackers: a cursor gives access to nothing.
func (l *listing) cursorSum(before uint64) []byte {
	q := &l.query
	var b []byte
	for _, s := range []string{q.Channel, q.AgentKey, q.ForKey, q.TagKey, l.thread, l.replyTo, q.Q} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if l.scope != "" {
		b = append(append(b, l.scope...), l.status)
		b = append(b, l.claimant...)
	}
	b = append(b, byte(q.Kind))
	b = binary.AppendVarint(b, q.Since)
	b = binary.AppendUvarint(b, before)
	sum := sha256.Sum256(b)
	return sum[:cursorSumBytes]
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
