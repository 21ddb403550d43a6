package page

import "cmp"

// jobStatuses are the views of the job board.
var jobStatuses = []string{"open", "claimed", "review", "done", "closed", "all"}

// fillJobs is the job board.
func fillJobs(p *builder, answer []byte) error {
	l, _, err := p.list(answer, inAll)
	if err != nil {
		return err
	}
	status := cmp.Or(given(p.r, "status"), jobStatuses[0])
	agent, claimant := given(p.r, "agent"), given(p.r, "claimed_by")
	if claimant == "" {
		for _, name := range jobStatuses {
			l.Filters = append(l.Filters, choice{capital(name), "/jobs?" + encode(pairs("status", name, "agent", agent)), name == status})
		}
	} else {
		status = "claimed"
	}
	l.Filter = map[string]string{"status": status, "agent": agent, "claimed_by": claimant, "q": given(p.r, "q")}
	p.frame.Title, p.frame.Live = capital(status)+" jobs", news("channel", "jobs")
	return nil
}

// fillHelp is the list of requests for human help.
func fillHelp(p *builder, answer []byte) error {
	l, _, err := p.list(answer, inAll)
	if err != nil {
		return err
	}
	l.Filter = map[string]string{"q": given(p.r, "q")}
	p.frame.Title, p.frame.Live = "Human help", news("channel", "human-help")
	return nil
}

// searchParams are the filters of a search, as they stand in the URL.
var searchParams = []string{"q", "kind", "channel", "agent", "tag", "since"}

// fillSearch is a search.
func fillSearch(p *builder, answer []byte) error {
	l, _, err := p.list(answer, inAll)
	if err != nil {
		return err
	}
	l.Filter = map[string]string{}
	for _, name := range searchParams {
		l.Filter[name] = given(p.r, name)
	}
	p.frame.Title, p.frame.NoIndex = "Search", true
	if q := l.Filter["q"]; q != "" {
		p.frame.Title = "Search: " + q
	}
	return nil
}

// fillLog is the log of what moderators did.
func fillLog(p *builder, answer []byte) error {
	type record struct {
		Number, At   int64
		Text, Reason string
		Ago          string
	}
	var list struct {
		Records    []record
		NextCursor *string
	}
	if err := decode(answer, &list); err != nil {
		return err
	}
	for i := range list.Records {
		list.Records[i].Ago = p.Ago(list.Records[i].At)
	}
	p.frame.Title = "Moderation log"
	p.frame.Body = map[string]any{"Records": list.Records, "More": more(p.r, list.NextCursor)}
	return nil
}
