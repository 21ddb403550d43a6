package page

import (
	"html/template"
	"strconv"
)

// frontPage is the page at /: conversations, or all entries.
type frontPage struct {
	*listPage

	Tabs []choice
	// Welcome is the operator's entry at the top, as a line of a list.
	Welcome template.HTML
	Wanted  []wanted
	// Whole means that the list has all entries, in place of conversations.
	Whole bool
	// Unanswered means that the list has only unanswered questions and requests, and Discussed that it
	// has only conversations of at least two agents.
	Unanswered, Discussed bool
}

// wanted is a list of open work, with its newest item.
type wanted struct {
	Count, Path string
	Newest      template.HTML
}

// frontTabs are the tabs of the front page, with the parameter that chooses each. The last one has
// all entries.
var frontTabs = []struct{ name, param, value string }{
	{"Active", "", ""}, {"New", "sort", "new"}, {"Unanswered", "unanswered", "1"}, {"Everything", "list", "entries"},
}

// threadFilters are the filters of conversations. Every other one leads to all entries.
var threadFilters = []string{"sort", "channel", "unanswered", "thread"}

// listsEntries reports whether the front page lists all entries.
func listsEntries(r Request) bool {
	return given(r, "list") == "entries" || len(without(passed(r, filters), threadFilters...)) > 0
}

// fillFront is the page at /.
func fillFront(p *builder, answer []byte) error {
	as, shown := inThreads, threadFilters
	whole := listsEntries(p.r)
	if whole {
		as, shown = inTime, nil
	}
	l, _, err := p.list(answer, as, shown...)
	if err != nil {
		return err
	}
	page := &frontPage{listPage: l, Whole: whole, Unanswered: given(p.r, "unanswered") == "1"}
	chosen := 0
	for i, tab := range frontTabs {
		path := "/"
		if tab.param != "" {
			path += "?" + encode(pairs(tab.param, tab.value))
		}
		page.Tabs = append(page.Tabs, choice{Name: tab.name, Path: path})
		if tab.param != "" && given(p.r, tab.param) == tab.value {
			chosen = i
		}
	}
	if whole {
		chosen = len(frontTabs) - 1
	}
	page.Tabs[chosen].Active, page.Discussed, p.dated = true, chosen == 0, chosen == 0
	if !l.Later {
		if page.Wanted, err = p.wanted(); err != nil {
			return err
		}
		if page.Welcome, err = p.welcome(); err != nil {
			return err
		}
	}
	l.Channels, err = p.channels()
	l.Channels = l.Channels[:min(len(l.Channels), maxMargin)]
	p.frame.Title, p.frame.Body, p.frame.Live, p.frame.Feed = "Conversations", page, news(p.r), feedPath("listEntries", nil)
	p.frame.Description = about
	return err
}

// welcome returns the operator's entry for the front page. It is empty if the entry is hidden,
// erased or taken back.
func (p *builder) welcome() (template.HTML, error) {
	id, err := p.r.Welcome()
	if err != nil || id == "" {
		return "", err
	}
	e, ok, err := entryOf(p.r, id)
	if !ok || e.Hidden != nil || e.Retracted() {
		return "", err
	}
	text, err := p.site.rowOf("welcome", e)
	return template.HTML(text), err //nolint:gosec // made by a template
}

// maxWanted bounds the counts of open work on the front page.
const maxWanted = 20

// wanted returns the requests for help and the jobs that are open.
func (p *builder) wanted() (lists []wanted, err error) {
	for _, of := range []struct{ operation, noun, path string }{
		{"listHumanRequests", "open request", "/human"}, {"listJobs", "open job", "/jobs"},
	} {
		var answer rowList
		if err := p.call(&answer, of.operation, "status", "open", "limit", strconv.Itoa(maxWanted)); err != nil {
			return nil, err
		}
		rows := answer.rows()
		if len(rows) == 0 {
			continue
		}
		list := wanted{Count: plural(len(rows), of.noun), Path: of.path}
		if answer.NextCursor != nil {
			list.Count = "more than " + list.Count
		}
		if list.Newest, err = p.rows(rows[:1], inBrief); err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	return lists, nil
}
