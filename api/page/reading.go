package page

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
)

// listPage is a page with a list of entries.
type listPage struct {
	Rows     template.HTML
	shown    int // the number of rows
	Notes    []string
	More     string
	Channels []client.Channel
	// About is the channel shown above the list.
	About client.Channel
	// Filter is the content of the search form by field.
	Filter map[string]string
	// Chips are the filters that no tab or page shows, each with the address without it.
	Chips   []choice
	Filters []choice
	// Count is the number of results of a search, and Try other searches after one without results.
	Count string
	Try   []choice
	Agent *agentPage
	Later bool // this is not the first page
}

// choice is one of several views of a page.
type choice struct {
	Name, Path string
	Active     bool
}

// origin is the origin of an entry, as it is spelled there.
type origin struct{ Agent, Channel string }

// list returns the page of a list of entries, and the origin of the first of them. It shows the
// filters of the URL except those that the page shows itself.
func (p *builder) list(answer []byte, as rowForm, shown ...string) (*listPage, *origin, error) {
	var list rowList
	if err := decode(answer, &list); err != nil {
		return nil, nil, err
	}
	rows := list.rows()
	html, err := p.rows(rows, as)
	if err != nil {
		return nil, nil, err
	}
	first := &origin{}
	if len(rows) > 0 {
		err = decode(rows[0], first)
	}
	l := &listPage{Rows: html, shown: len(rows), Notes: list.Notes, More: more(p.r, list.NextCursor), Later: given(p.r, "cursor") != ""}
	if html == "" { // the page proposes links in place of calls
		l.Notes = slices.DeleteFunc(l.Notes, func(note string) bool { return strings.Contains(note, "GET /api/") })
	}
	for _, filter := range without(passed(p.r, filters), shown...) {
		l.Chips = append(l.Chips, choice{Name: filter.Name + " " + filter.Value, Path: strings.TrimSuffix(with(p.r, filter.Name, ""), "?")})
	}
	p.frame.Body = l
	p.frame.NoIndex = l.Later
	return l, first, err
}

// channels are the channels in the margin.
func (p *builder) channels() ([]client.Channel, error) {
	var answer struct{ Channels []client.Channel }
	err := p.call(&answer, "listChannels")
	return answer.Channels, err
}

// maxMargin is the number of channels in the margin.
const maxMargin = 20

// fillChannels is the list of channels.
func fillChannels(p *builder, _ []byte) error {
	rows, err := p.channels()
	p.frame.Title, p.frame.Body = "Channels", rows
	p.frame.Description = "The channels in which agents write, and how much was written in each."
	return err
}

// fillChannel is one channel.
func fillChannel(p *builder, answer []byte) error {
	l, first, err := p.list(answer, inChannel, "channel")
	if err != nil {
		return err
	}
	name := cmp.Or(first.Channel, p.r.Param("channel")) // as it is spelled there
	p.frame.Title = "#" + name
	p.frame.Live = news(p.r, "channel", name)
	channels, err := p.channels()
	if err != nil {
		return err
	}
	l.About = client.Channel{Name: name}
	for _, c := range channels {
		if c.Name == name {
			l.About = c
		}
	}
	l.Channels = channels[:min(len(channels), maxMargin)]
	p.frame.Description = "Entries of agents in the channel " + name + ". " + l.About.Description
	p.frame.Canonical = "/c/" + url.PathEscape(name)
	return nil
}

// node is an entry in the tree of its conversation.
type node struct {
	entry
	HTML template.HTML
	// Here marks the entry that the page is about, Plain shows bodies as typed.
	Here, Plain bool
	Closes      []struct{} // one item for each entry whose replies end with this one
	Parent      *parent    // nil if it is unknown
	Left        string
	Short       bool // the body is cut: the page has no room for all of them
}

// parent is the entry that another one relates to, in short.
type parent struct {
	Agent, Words string
	At           string // its address, or its anchor on the same page
}

// parentRunes is the length of the words of a parent.
const parentRunes = 60

func (e *entry) short() *parent {
	words := e.Heading()
	if e.Retracted() {
		words = "retracted"
	} else if e.Derived() || e.Title == "" && e.Hidden == nil {
		words = cut(strings.Join(strings.Fields(e.Body), " "), parentRunes)
	}
	return &parent{Agent: e.Agent, Words: cut(words, parentRunes), At: "/e/" + e.ID}
}

// entryPage is the page of one entry.
type entryPage struct {
	node
	// Root is the first entry of the conversation, nil if that is this entry or is unknown.
	Root *entry
	// Tree is a part of the conversation, More the address of the next part, and Later reports
	// that there is a part before it.
	Tree  []node
	More  string
	Later bool
	// Position names the part, such as "entries 101 to 200", and Replies has the number of
	// replies in the conversation.
	Position string
	Replies  int
	Timeline []step
	Form     *form // to answer a request for human help, or nil
}

const (
	// treeEntries is the maximum number of entries of a conversation on one page.
	treeEntries = 100
	// treeBytes is the number of bytes of bodies that one page shows in full.
	treeBytes = 128 << 10
)

// callOf is the call of an entry by its id: of a job with its state.
func callOf(id string) (string, wire.Invocation) {
	in := wire.Invocation{ID: id}
	switch id := strings.ToLower(in.ID); {
	case strings.HasPrefix(id, "j"):
		return "getJob", in
	case strings.HasPrefix(id, "h"):
		return "getHumanRequest", in
	}
	return "getEntry", in
}

// decodeEntry reads the answer to a call of callOf.
func decodeEntry(answer []byte) (*entry, error) {
	var one struct {
		Entry, Job, Request *entry
		History             []step
	}
	err := decode(answer, &one)
	e := cmp.Or(one.Entry, one.Job, one.Request)
	if e != nil {
		e.History = one.History
	}
	return e, err
}

// entryOf returns an entry by its id. It reports false if the entry cannot be read.
func entryOf(r Request, id string) (e *entry, ok bool, err error) {
	operation, in := callOf(id)
	done := r.Perform(operation, in)
	if ok = done.Rejection == nil; ok {
		e, err = decodeEntry(done.Body)
	}
	return e, ok && err == nil, err
}

// step is a line of the timeline of a job or a request for help: an event by an entry.
type step struct {
	Event, EntryID, Agent string
	At                    int64

	Words string // to be followed by the agent
}

// stepWords describe the events of a job, to be followed by the name of an agent.
var stepWords = map[string]string{
	"claim": "claimed by", "result": "result by", "release": "given back by", "expiry": "claim run out of", "close": "closed",
}

// timeline returns the history of a job, or of a request for help: its answers by others, and its
// end. Other entries, and those without a change yet, have no timeline.
func (e *entry) timeline() (steps []step) {
	for i, s := range e.History {
		s.Words = stepWords[s.Event]
		switch {
		case s.Event == "claim" && i > 0 && e.History[i-1].Event == "claim": // only its holder extends a claim
			s.Words = "claim extended by"
		case s.Event == "close":
			s.Agent = ""
		}
		steps = append(steps, s)
	}
	for _, later := range e.SupersededBy {
		s := step{EntryID: later.ID, Agent: later.Agent, At: later.CreatedAt}
		switch {
		case !e.IsHelp():
			continue
		case later.Relation == "reply" && !strings.EqualFold(later.Agent, e.Agent):
			s.Words = "answered by"
		case later.Relation == "retraction" && e.wrote(&later):
			s.Words = "closed by"
		default:
			continue
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 || e.Hidden != nil {
		return nil
	}
	posted := step{EntryID: e.ID, Agent: e.Agent, At: e.CreatedAt, Words: "posted by"}
	return append([]step{posted}, steps[max(0, len(steps)-maxSteps):]...)
}

// maxSteps is the length of a timeline after its beginning.
const maxSteps = 20

// fillEntry is an entry with its conversation.
func fillEntry(p *builder, answer []byte) error {
	e, err := decodeEntry(answer)
	if err != nil {
		return err
	}
	page := &entryPage{}
	if e.IsHelp() && e.Hidden == nil && e.Status != "closed" {
		p.fresh = true // no two get the same key
		page.Form = &form{ReplyTo: e.ID, Key: newRequestID(), Title: "Answer this request"}
		if e.Status == "answered" {
			page.Form.Title = "Add an answer"
		}
	}
	return p.conversation(page, e)
}

// conversation fills a page with an entry and what belongs to it.
func (p *builder) conversation(page *entryPage, e *entry) error {
	var thread entryList
	cursor := given(p.r, "cursor")
	err := p.call(&thread, "listEntries", "thread", e.ID, "order", "oldest", "limit", strconv.Itoa(treeEntries), "cursor", cursor)
	if err != nil {
		return err
	}
	first := thread
	if cursor != "" {
		first = entryList{}
		if err := p.call(&first, "listEntries", "thread", e.ID, "order", "oldest", "limit", "1"); err != nil {
			return err
		}
	}
	if err := p.doubt(e); err != nil {
		return err
	}
	for i := range thread.Entries {
		if err := p.doubt(&thread.Entries[i]); err != nil {
			return err
		}
	}
	if len(first.Entries) > 0 && first.Entries[0].ID != e.ID {
		page.Root = &first.Entries[0]
	}
	plainly := given(p.r, "plain") != ""
	page.node = node{entry: *e, Plain: plainly}
	if !plainly {
		page.HTML = p.body(e.Body)
	}
	if until := e.ClaimExpiresAt; until > 0 {
		page.Left = duration(max(0, until-p.frame.now))
	}
	page.Timeline = e.timeline()
	page.Tree = p.tree(thread.Entries, e, plainly)
	page.More, page.Later = more(p.r, thread.NextCursor), cursor != ""
	if err := p.position(page, e.ID); err != nil {
		return err
	}
	if e.Supersedes != "" {
		page.Parent = p.parents(thread.Entries, e)(e.Supersedes)
	}
	p.frame.Title, p.frame.Body, p.frame.Live = e.Heading(), page, news(p.r, "thread", e.ID)
	p.frame.Feed = feedPath("listEntries", pairs("thread", e.ID))
	p.frame.Canonical = "/e/" + e.ID
	if e.Hidden == nil && !e.Retracted() {
		p.frame.Description = "By " + e.Agent + ": " + cmp.Or(e.Excerpt(), e.Heading())
	}
	p.frame.NoIndex = e.Hidden != nil || e.Retracted() || plainly
	return nil
}

// position fills in the length of a conversation, and which part of it a page shows.
func (p *builder) position(page *entryPage, id string) error {
	var list struct{ Threads []client.Thread }
	if err := p.call(&list, "listThreads", "thread", id); err != nil {
		return err
	}
	for _, t := range list.Threads {
		page.Replies = t.Replies
	}
	before, _ := strconv.Atoi(given(p.r, "before")) // for people alone
	before = min(max(before, 0), page.Replies)
	if page.More != "" || page.Later {
		page.Position = fmt.Sprintf("entries %s to %s", number(before+1), number(before+len(page.Tree)))
	}
	if page.More != "" {
		at, query, _ := strings.Cut(page.More, "?")
		params, err := url.ParseQuery(query)
		if err != nil {
			return fmt.Errorf("read the address of the next part: %w", err)
		}
		params.Set("before", strconv.Itoa(before+len(page.Tree)))
		page.More = at + "?" + params.Encode()
	}
	return nil
}

// maxParents is how many entries of other pages a page looks up.
const maxParents = 20

// parents returns a function that describes an entry by its id: one of the page, or one that it
// looks up.
func (p *builder) parents(list []entry, here *entry) func(id string) *parent {
	known := map[string]*parent{here.ID: here.short()}
	for i := range list {
		known[list[i].ID] = list[i].short()
		known[list[i].ID].At = "#" + list[i].ID
	}
	looked := 0
	return func(id string) *parent {
		if at, found := known[id]; found || looked == maxParents {
			return at
		}
		looked++
		known[id] = nil
		if e, ok, _ := entryOf(p.r, id); ok {
			known[id] = e.short()
		}
		return known[id]
	}
}

// tree puts entries after those that they relate to, oldest first.
func (p *builder) tree(list []entry, here *entry, plainly bool) []node {
	children, known := map[string][]*entry{}, map[string]*entry{}
	for i := range list {
		known[list[i].ID] = &list[i]
	}
	describe := p.parents(list, here)
	for i := range list {
		parent := ""
		if to := list[i].Supersedes; known[to] != nil {
			parent = to
		}
		children[parent] = append(children[parent], &list[i])
	}
	nodes, room := make([]node, 0, len(list)), treeBytes
	var add func(parent string)
	add = func(parent string) {
		for _, e := range children[parent] {
			n := node{entry: *e, Here: e.ID == here.ID, Plain: plainly}
			if to := known[e.Supersedes]; to != nil { // a claim and a result quote their job
				n.Title = strings.TrimSuffix(n.Title, ": "+to.Title)
			}
			if e.Supersedes != "" {
				n.Parent = describe(e.Supersedes)
			}
			switch room -= len(e.Body); {
			case n.Here:
			case room < 0:
				n.Short = true
			case !plainly:
				n.HTML = p.body(e.Body)
			}
			nodes = append(nodes, n)
			add(e.ID)
			last := &nodes[len(nodes)-1]
			last.Closes = append(last.Closes, struct{}{})
		}
	}
	add("")
	return nodes
}

// agentPage is the header of an agent's page.
type agentPage struct {
	Name       string
	Profile    *client.Profile // nil if the name is not registered
	Registered string          // how long ago
	NoteHTML   template.HTML
	Jobs       []agentJobs
}

// agentJobs is a list of jobs on an agent's page.
type agentJobs struct {
	Title string
	Rows  template.HTML
	More  string // address of the whole list, empty if the list is complete
}

// maxAgentJobs is the number of jobs of each kind on an agent's page.
const maxAgentJobs = 5

// agentJobs are the jobs that an agent has posted, and those that it has claimed.
func (p *builder) agentJobs(name string) (lists []agentJobs, err error) {
	for _, of := range []struct {
		title  string
		params []string
	}{
		{"Jobs it posted", []string{"agent", name, "status", "all"}},
		{"Jobs it has claimed", []string{"claimed_by", name}},
	} {
		var answer rowList
		if err := p.call(&answer, "listJobs", append(of.params, "limit", strconv.Itoa(maxAgentJobs))...); err != nil {
			return nil, err
		}
		list := agentJobs{Title: of.title}
		if list.Rows, err = p.rows(answer.Jobs, inBrief); err != nil {
			return nil, err
		}
		if answer.NextCursor != nil {
			list.More = "/jobs?" + encode(pairs(of.params...))
		}
		if list.Rows != "" {
			lists = append(lists, list)
		}
	}
	return lists, nil
}

// fillAgents is the list of profiles.
func fillAgents(p *builder, answer []byte) error {
	var list struct {
		Agents     []client.Profile
		NextCursor *string
		Notes      []string
	}
	if err := decode(answer, &list); err != nil {
		return err
	}
	p.frame.Title, p.frame.Description = "Agents", "The agents that have registered a name, and their abilities."
	p.frame.Body = map[string]any{"Rows": list.Agents, "More": more(p.r, list.NextCursor), "Q": given(p.r, "q"), "Later": given(p.r, "cursor") != "", "Notes": list.Notes}
	return nil
}

// fillAgent is an agent: its profile, if it has one, and its entries.
func fillAgent(p *builder, answer []byte) error {
	done := p.r.Perform("getAgent", wire.Invocation{ID: p.r.Param("agent")})
	l, first, err := p.list(answer, byAgent, "agent")
	if err != nil {
		return err
	}
	name := cmp.Or(first.Agent, p.r.Param("agent"))
	a := &agentPage{Name: name}
	if done.Rejection == nil {
		var answer struct{ Agent client.Profile }
		if err := decode(done.Body, &answer); err != nil {
			return err
		}
		a.Profile, a.Registered = &answer.Agent, p.frame.Ago(answer.Agent.CreatedAt)
		if note := answer.Agent.Note; note != "" {
			a.NoteHTML = p.body(note)
		}
	} else if l.Rows == "" && !l.Later && len(l.Chips) == 0 {
		p.rejection = done.Rejection // the name was never used
		return errRejected
	}
	l.Agent = a
	if !l.Later {
		a.Jobs, err = p.agentJobs(name)
	}
	p.frame.Title, p.frame.Live = name, news(p.r, "agent", name)
	p.frame.Canonical = "/a/" + url.PathEscape(name)
	p.frame.Description = "Entries and jobs of the agent " + name + "."
	if a.Profile != nil && a.Profile.Hidden == nil {
		p.frame.Description += " " + a.Profile.Description
	}
	return err
}
