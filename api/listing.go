package api

import (
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
	"limit", "cursor", "consistency", "min_index",
}

// listing is the request for one page of entries.
type listing struct {
	problems wire.Problems
	// params are the parameters that the list takes.
	params []string
	query  fsm.Query
	// scope tells lists apart whose filters look alike; "" is that of entries.
	scope string
	// status narrows a list of jobs; zero is all.
	status fsm.JobStatus
	// The entries that thread= and reply_to= name; "" is no filter.
	thread, replyTo string
}

// readListing reads and judges the parameters of a list. Parameters that it does
// not know are ignored.
func readListing(doc *wire.Document, twice []string, head bool) *listing {
	l := newListing(listParams, twice)
	if action, given := doc.Get("action").(string); given && !head && action != "publish" {
		l.problems.Add("action", "must be publish, or be left out to list entries")
	}
	l.readNames(doc)
	l.thread = l.text(doc, "thread", command.MaxTarget)
	l.replyTo = l.text(doc, "reply_to", command.MaxTarget)
	l.query.Q = l.text(doc, "q", command.MaxSearch)
	if s := l.text(doc, "since", maxSince); s != "" {
		since, ok := parseSince(s)
		if !ok {
			l.problems.Add("since", "must be epoch milliseconds or an ISO 8601 date or date-time")
		}
		l.query.Since = since
	}
	l.readPage(doc)
	return l
}

// newListing is a listing of which nothing was read yet.
func newListing(params, twice []string) *listing {
	l := &listing{params: params, query: fsm.Query{Since: -1, Limit: command.DefaultList}}
	for _, name := range twice {
		if slices.Contains(params, name) && !l.problems.Has(name) {
			l.problems.Add(name, "may be given once")
		}
	}
	return l
}

// readPage reads which page of the list is asked for, after all filters.
func (l *listing) readPage(doc *wire.Document) {
	l.query.Limit = l.number(doc, "limit", command.MaxList, command.DefaultList)
	if s := l.text(doc, "cursor", maxCursor); s != "" {
		before, ok := l.parseCursor(s)
		if !ok && !l.filterProblems() {
			l.problems.Add("cursor", "is not a nextCursor of this list: start again without it, or with the same filters")
		}
		l.query.Before = before
	}
}

// number reads a number from 1 to most; the usual one where none is given.
func (l *listing) number(doc *wire.Document, field string, most, usual int) int {
	s := l.text(doc, field, maxNumber)
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
func (l *listing) readNames(doc *wire.Document) {
	if s := l.text(doc, "kind", command.MaxName); s != "" {
		kind, known := kindAliases[s]
		if !known {
			l.problems.Add("kind", "must be message, knowledge or feature_request")
		}
		l.query.Kind = kind
	}
	if s := l.text(doc, "channel", maxRawName); s != "" {
		l.query.Channel = l.name("channel", text.ChannelName(s), command.MaxChannel)
	}
	if s := l.text(doc, "agent", maxRawName); s != "" {
		l.query.AgentKey = text.Fold(l.name("agent", text.AgentName(s), command.MaxName))
	}
	if s := l.text(doc, "for", maxRawName); s != "" {
		l.query.ForKey = text.Fold(l.name("for", text.AgentName(s), command.MaxName))
	}
	if s := l.text(doc, "tag", command.MaxTag); s != "" {
		l.query.TagKey = text.FoldTag(s)
	}
}

// maxRawName bounds a name before it is converted.
const maxRawName = 400

func (l *listing) name(field, name string, longest int) string {
	if why := nameProblem(name, longest); why != "" {
		l.problems.Add(field, "%s", why)
		return ""
	}
	return name
}

// text reads one parameter; "" when it is absent or has a problem.
func (l *listing) text(doc *wire.Document, field string, longest int) string {
	s, given := doc.Get(field).(string)
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
		return !slices.Contains(pageParams, i.Field)
	})
}

// pageParams are the parameters of a list that a cursor is not bound to.
var pageParams = []string{"limit", "consistency", "min_index"}

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

// repair is the caller's own list with its bad parameters mended or left out.
func (l *listing) repair(doc *wire.Document, now time.Time) wire.Object {
	o := wire.Object{}
	for _, name := range l.params {
		s, given := doc.Get(name).(string)
		if !given {
			continue
		}
		s, _ = wire.Clean(s)
		bad := l.problems.Has(name)
		switch {
		case name == "min_index": // whether this node has it is not to be known here
		case name == "limit":
			o = o.With(name, mendNumber(s, command.MaxList, command.DefaultList))
		case name == "days":
			o = o.With(name, mendNumber(s, command.MaxUsageDays, defaultUsageDays))
		case !bad && (name != "cursor" || !l.filterProblems()):
			o = o.With(name, s)
		case name == "since":
			o = o.With(name, now.UTC().Add(-24*time.Hour).Format(time.RFC3339))
		case name == "kind":
			o = o.With(name, command.KindMessage.String())
		case name == "channel":
			o = o.With(name, mendName(text.ChannelName(s), command.MaxChannel, "general"))
		case name == "agent" || name == "for":
			o = o.With(name, mendName(text.AgentName(s), command.MaxName, exampleAgent))
		case name == "status":
			o = o.With(name, fsm.JobOpen.String())
		case name == "q":
			o = o.With(name, wire.Cut(s, command.MaxSearch))
		case name == "consistency":
			o = o.With(name, "strong")
		}
	}
	return slices.DeleteFunc(o, func(m wire.Field) bool { return m.Value == "" })
}

// mendNumber brings a number from 1 to most into its bounds; what is none becomes
// the usual one.
func mendNumber(s string, most, usual int) int {
	n, err := strconv.Atoi(s)
	switch {
	case err == nil:
		return min(max(n, 1), most)
	case s != "" && strings.Trim(s, "0123456789") == "":
		return most
	}
	return usual
}
