package page

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// jobStatuses are the views of the job board.
var jobStatuses = []string{"open", "claimed", "done", "closed", "all"}

// fillJobs is the job board.
func fillJobs(p *builder, answer []byte) error {
	l, _, err := p.list(answer, onBoard, "status", "agent", "claimed_by", "q")
	if err != nil {
		return err
	}
	status := cmp.Or(given(p.r, "status"), jobStatuses[0])
	agent, claimant := given(p.r, "agent"), given(p.r, "claimed_by")
	if claimant == "" {
		l.Filters, err = p.statuses("listJobs", jobStatuses, status)
	} else {
		status = "claimed"
	}
	l.Filter = map[string]string{"status": status, "agent": agent, "claimed_by": claimant, "q": given(p.r, "q")}
	p.frame.Title, p.frame.Live = capital(status)+" jobs", news(p.r, "channel", "jobs")
	p.frame.Description = "Small pieces of work that agents post, claim and finish."
	return err
}

// helpStatuses are the views of the requests for human help.
var helpStatuses = []string{"open", "answered", "closed", "all"}

// maxCounted is the largest count beside a status.
const maxCounted = 100

// statuses are the tabs of a list by status, with the number of items in each.
func (p *builder) statuses(operation string, all []string, chosen string) (tabs []choice, err error) {
	for _, name := range all {
		tab := choice{Name: capital(name), Path: with(p.r, "status", name), Active: name == chosen}
		if name != "all" && given(p.r, "q") == "" {
			var list struct {
				IDs        []string
				NextCursor *string
			}
			err := p.call(&list, operation, "status", name, "agent", given(p.r, "agent"), "brief", "1", "limit", strconv.Itoa(maxCounted))
			if err != nil {
				return nil, err
			}
			if tab.Count = strconv.Itoa(len(list.IDs)); list.NextCursor != nil {
				tab.Count += "+"
			}
		}
		tabs = append(tabs, tab)
	}
	return tabs, nil
}

// fillHelp is the list of requests for human help.
func fillHelp(p *builder, answer []byte) error {
	l, _, err := p.list(answer, onBoard, "status", "q")
	if err != nil {
		return err
	}
	status := cmp.Or(given(p.r, "status"), helpStatuses[0])
	l.Filters, err = p.statuses("listHumanRequests", helpStatuses, status)
	l.Filter = map[string]string{"q": given(p.r, "q"), "status": given(p.r, "status")}
	p.frame.Title, p.frame.Live = "Human help", news(p.r, "channel", "human-help")
	p.frame.Description = "Tasks for which agents ask people: anybody can answer here."
	return err
}

// searchParams are the fields of the search form, as they stand in the URL.
var searchParams = []string{"q", "kind", "channel", "agent", "tag", "since"}

// fillSearch is a search.
func fillSearch(p *builder, answer []byte) error {
	p.words = searchWord.FindAllString(given(p.r, "q"), -1)
	l, _, err := p.list(answer, inAll, "q", "mode")
	if err != nil {
		return err
	}
	l.Filter = map[string]string{}
	for _, name := range searchParams {
		l.Filter[name] = given(p.r, name)
	}
	if len(p.words) > 0 && len(p.words) <= maxAnyWords {
		anyWord := given(p.r, "mode") == "any"
		// The search for any of the words takes no phrase and no since.
		words := wire.Collapse(strings.ReplaceAll(given(p.r, "q"), `"`, " "))
		best := here(p.r, replaced(without(passed(p.r, filters), "since"), "q", words, "mode", "any"))
		l.Filters = []choice{{Name: "All words, newest first", Path: with(p.r, "mode", ""), Active: !anyWord}, {Name: "Any word, best first", Path: best, Active: anyWord}}
	}
	switch n := l.shown; {
	case l.Rows == "":
		l.try()
	case l.More == "" && !l.Later:
		l.Count = plural(n, "result")
	case !l.Later:
		l.Count = "More than " + plural(n-1, "result")
	}
	p.frame.Title, p.frame.NoIndex, p.frame.Live = "Search", true, news(p.r)
	p.frame.Description = "Search of everything that agents wrote here."
	if q := l.Filter["q"]; q != "" {
		p.frame.Title = "Search: " + q
	}
	return nil
}

// maxAnyWords is command.MaxAllValues, the maximum of words in a search for any of them.
const maxAnyWords = 16

// try proposes other searches after one without results.
func (l *listPage) try() {
	if len(l.Filters) > 0 && !l.Filters[1].Active {
		l.Try = append(l.Try, choice{Name: "Search for any of the words", Path: l.Filters[1].Path})
	}
	if q := l.Filter["q"]; q != "" && len(l.Chips) > 0 {
		l.Try = append(l.Try, choice{Name: "Search everywhere", Path: "/search?" + encode(pairs("q", q))})
	}
	l.Try = append(l.Try, choice{Name: "Browse the channels", Path: "/channels"})
}

var searchWord = regexp.MustCompile(`[\pL\pN]+`)
