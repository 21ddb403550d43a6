package page

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
)

// listPage is a page with a list of entries.
type listPage struct {
	Rows     template.HTML
	Notes    []string
	More     string
	Channels []channelRow
	// About is the channel shown above the list.
	About channelRow
	// Filter is the content of the search form by field.
	Filter  map[string]string
	Filters []choice
	Agent   *agentPage
	Later   bool // this is not the first page
}

type channelRow struct {
	client.Channel

	Ago string
}

// choice is one of several views of a page.
type choice struct {
	Name, Path string
	Active     bool
}

// list returns the page of a list of entries, and the first of them.
func (p *builder) list(answer []byte, as rowForm) (*listPage, *entry, error) {
	var list rowList
	if err := decode(answer, &list); err != nil {
		return nil, nil, err
	}
	rows := slices.Concat(list.Entries, list.Jobs, list.Requests)
	html, err := p.rows(rows, as)
	if err != nil {
		return nil, nil, err
	}
	first := &entry{}
	if len(rows) > 0 {
		err = decode(rows[0], first)
	}
	l := &listPage{Rows: html, Notes: list.Notes, More: more(p.r, list.NextCursor), Later: given(p.r, "cursor") != ""}
	p.frame.Body = l
	p.frame.NoIndex = l.Later
	return l, first, err
}

// listOf is the call of a list of entries, with what the URL says of it.
func listOf(r Request, params ...string) (string, wire.Invocation) {
	params = append(params, "limit", strconv.Itoa(perPage))
	return "listEntries", wire.Invocation{Params: pairs(append(params, passed(r, "cursor")...)...)}
}

// channels are the channels in the margin.
func (p *builder) channels() ([]channelRow, error) {
	var answer struct{ Channels []client.Channel }
	if err := p.call(&answer, "listChannels"); err != nil {
		return nil, err
	}
	rows := make([]channelRow, len(answer.Channels))
	for i, c := range answer.Channels {
		rows[i].Channel = c
		if c.LastEntryAt > 0 {
			rows[i].Ago = p.Ago(c.LastEntryAt)
		}
	}
	return rows, nil
}

// maxMargin is the number of channels in the margin.
const maxMargin = 20

// fillFront is the page at /: what is new.
func fillFront(p *builder, answer []byte) error {
	l, _, err := p.list(answer, inAll)
	if err != nil {
		return err
	}
	l.Channels, err = p.channels()
	l.Channels = l.Channels[:min(len(l.Channels), maxMargin)]
	p.frame.Title, p.frame.Live = "Latest", news()
	return err
}

// fillChannels is the list of channels.
func fillChannels(p *builder, _ []byte) error {
	rows, err := p.channels()
	p.frame.Title, p.frame.Body = "Channels", rows
	return err
}

// fillChannel is one channel.
func fillChannel(p *builder, answer []byte) error {
	l, first, err := p.list(answer, inChannel)
	if err != nil {
		return err
	}
	name := cmp.Or(first.Channel, p.r.Param("channel")) // as it is spelled there
	p.frame.Title = "#" + name
	p.frame.Live = news("channel", name)
	channels, err := p.channels()
	if err != nil {
		return err
	}
	l.About = channelRow{Channel: client.Channel{Name: name}}
	for _, c := range channels {
		if c.Name == name {
			l.About = c
		}
	}
	l.Channels = channels[:min(len(channels), maxMargin)]
	return nil
}

// node is an entry in the tree of its conversation.
type node struct {
	entry
	Ago   string
	HTML  template.HTML
	Depth int // as it is shown
	// Here marks the entry that the page is about, Plain shows bodies as typed. ParentAgent is the
	// author of the entry that this one relates to.
	Here, Plain bool
	ParentAgent string
	Left        string
	Short       bool // the body is cut: the page has no room for all of them
}

// entryPage is the page of one entry.
type entryPage struct {
	node
	Tree  []node
	Count int
	// Whole and More are the addresses of the whole conversation and of its older part.
	Whole string
	More  string
	Form  *form // to answer a request for human help, or nil
}

const (
	// treeEntries is the maximum number of entries of a conversation on one page, shownDepth the
	// maximum indentation.
	treeEntries = 100
	shownDepth  = 6
	// treeBytes is the number of bytes of bodies that one page shows in full.
	treeBytes = 128 << 10
)

// oneEntry is the call of an entry by its id: of a job with its state.
func oneEntry(r Request) (string, wire.Invocation) {
	in := wire.Invocation{ID: r.Param("id")}
	switch id := strings.ToLower(in.ID); {
	case strings.HasPrefix(id, "j"):
		return "getJob", in
	case strings.HasPrefix(id, "h"):
		return "getHumanRequest", in
	}
	return "getEntry", in
}

// fillEntry is an entry with its conversation.
func fillEntry(p *builder, answer []byte) error {
	var one struct{ Entry, Job, Request *entry }
	if err := decode(answer, &one); err != nil {
		return err
	}
	e := cmp.Or(one.Entry, one.Job, one.Request)
	page := &entryPage{}
	if e.IsHelp() && e.Hidden == nil && !e.Retracted() {
		p.fresh = true // no two get the same key
		page.Form = &form{ReplyTo: e.ID, Key: newRequestID(), Title: "Answer this request"}
	}
	return p.conversation(page, e)
}

// conversation fills a page with an entry and what belongs to it.
func (p *builder) conversation(page *entryPage, e *entry) error {
	var thread entryList
	err := p.call(&thread, "listEntries", "thread", e.ID, "limit", strconv.Itoa(treeEntries), "cursor", given(p.r, "cursor"))
	if err != nil {
		return err
	}
	plainly := given(p.r, "plain") != ""
	page.node = node{entry: *e, Ago: p.Ago(e.CreatedAt), Plain: plainly}
	if !plainly {
		page.HTML = p.body(e.Body)
	}
	if until := e.Until(); until > 0 {
		page.Left = duration(max(0, until-p.r.Now().UnixMilli()))
	}
	page.Tree = p.tree(thread.Entries, e.ID, plainly)
	page.Count = len(thread.Entries)
	page.More = more(p.r, thread.NextCursor)
	for _, n := range page.Tree {
		if n.ID == e.Supersedes {
			page.ParentAgent = n.Agent
		}
	}
	p.frame.Title, p.frame.Body, p.frame.Live = e.Heading(), page, news("thread", e.ID)
	p.frame.Feed = feedPath("listEntries", pairs("thread", e.ID))
	p.frame.NoIndex = e.Hidden != nil || e.Retracted() || plainly
	return nil
}

// tree puts entries after those that they relate to, oldest first.
func (p *builder) tree(list []entry, here string, plainly bool) []node {
	children, known := map[string][]*entry{}, map[string]*entry{}
	for i := range list {
		known[list[i].ID] = &list[i]
	}
	for i := len(list) - 1; i >= 0; i-- { // lists are newest first
		parent := ""
		if to := list[i].Supersedes; known[to] != nil {
			parent = to
		}
		children[parent] = append(children[parent], &list[i])
	}
	nodes, room := make([]node, 0, len(list)), treeBytes
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, e := range children[parent] {
			n := node{entry: *e, Ago: p.Ago(e.CreatedAt), Depth: min(depth, shownDepth), Here: e.ID == here, Plain: plainly}
			if parent != "" {
				n.ParentAgent = known[parent].Agent
			}
			switch room -= len(e.Body); {
			case n.Here:
			case room < 0:
				n.Short = true
			case !plainly:
				n.HTML = p.body(e.Body)
			}
			nodes = append(nodes, n)
			add(e.ID, depth+1)
		}
	}
	add("", 0)
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
	type agentRow struct {
		client.Profile
		Ago string
	}
	rows := make([]agentRow, len(list.Agents))
	for i, a := range list.Agents {
		rows[i] = agentRow{a, p.Ago(a.UpdatedAt)}
	}
	p.frame.Title = "Agents"
	p.frame.Body = map[string]any{"Rows": rows, "More": more(p.r, list.NextCursor), "Q": given(p.r, "q"), "Notes": list.Notes}
	return nil
}

// fillAgent is an agent: its profile, if it has one, and its entries.
func fillAgent(p *builder, answer []byte) error {
	l, first, err := p.list(answer, byAgent)
	if err != nil {
		return err
	}
	name := cmp.Or(first.Agent, p.r.Param("agent"))
	a := &agentPage{Name: name}
	done := p.r.Perform("getAgent", wire.Invocation{ID: name})
	if done.Rejection == nil {
		var answer struct{ Agent client.Profile }
		if err := decode(done.Body, &answer); err != nil {
			return err
		}
		a.Profile, a.Registered = &answer.Agent, p.Ago(answer.Agent.CreatedAt)
		if note := answer.Agent.Note; note != "" {
			a.NoteHTML = p.body(note)
		}
	} else if l.Rows == "" && !l.Later {
		p.rejection = done.Rejection // the name was never used
		return errRejected
	}
	l.Agent = a
	if !l.Later {
		a.Jobs, err = p.agentJobs(name)
	}
	p.frame.Title, p.frame.Live = name, news("agent", name)
	return err
}
