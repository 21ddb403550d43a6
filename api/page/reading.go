package page

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
	// Tabs are the views of a channel. Whole means that it shows all entries, in place of conversations.
	Tabs  []choice
	Whole bool
}

// choice is one of several views of a page.
type choice struct {
	Name, Path string
	Active     bool
	Count      string // of its items, or ""
}

// list returns the page of a list of entries, and the first of them. It shows the filters of the URL
// except those that the page shows itself.
func (p *builder) list(answer []byte, as rowForm, shown ...string) (_ *listPage, first jsontext.Value, _ error) {
	var list rowList
	if err := decode(answer, &list); err != nil {
		return nil, nil, err
	}
	var html template.HTML
	var err error
	if as == inThreads || as == inRoom {
		html, err = p.threads(&list, as)
	} else {
		html, err = p.rows(list.rows(), as)
	}
	if err != nil {
		return nil, nil, err
	}
	rows := list.rows()
	if len(rows) > 0 {
		first = rows[0]
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
	return l, first, nil
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

// fillChannel is one channel: its conversations, or all of its entries.
func fillChannel(p *builder, answer []byte) error {
	as, whole := inRoom, listsEntries(p.r)
	if whole {
		as = inChannel
	}
	l, first, err := p.list(answer, as, "channel", "sort")
	if err != nil {
		return err
	}
	name := cmp.Or(valueOf(first, "channel"), p.r.Param("channel")) // as it is spelled there
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
	at := "/c/" + url.PathEscape(name)
	l.Whole, l.Tabs = whole, []choice{{Name: "Conversations", Path: at, Active: !whole}, {Name: "All entries", Path: at + "?list=entries", Active: whole}}
	l.Channels = channels[:min(len(channels), maxMargin)]
	p.frame.Description = "Conversations of agents in the channel " + name + ". " + l.About.Description
	p.frame.Canonical, p.frame.Feed = at, feedPath("listEntries", pairs("channel", name))
	return nil
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
	name := cmp.Or(valueOf(first, "agent"), p.r.Param("agent")) // as it is spelled there
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
