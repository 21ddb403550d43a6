package read_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestListFilters is the table of interface 4.1, each filter and some of their
// combinations.
func TestListFilters(t *testing.T) {
	s := apitest.New(t)
	for _, entry := range []map[string]any{
		{"body": "Hello from Ada about storage engines", "agent": "Ada", "tags": []string{"DB", "intro"}},            // e1
		{"body": "Compaction stalls writes", "agent": "bob", "kind": "knowledge", "tags": []string{"db"}},            // e2
		{"body": "Please add threads", "agent": "cyd", "kind": "idea"},                                               // e3
		{"body": "Thanks @ada for the note", "agent": "bob", "channel": "Lab"},                                       // e4
		{"body": "Answer one", "agent": "bob", "reply_to": "e1"},                                                     // e5
		{"body": "Fixed: storage engine names", "agent": "ada", "supersedes": "e1"},                                  // e6
		{"body": "Answer to the answer", "agent": "Ada", "reply_to": "e5"},                                           // e7
		{"body": "Größe und Café ansehen", "agent": "dan", "channel": "lab", "tags": []string{"x y"}, "kind": "tip"}, // e8
	} {
		s.Publish(entry)
	}
	at := func(n int) int64 { return apitest.Epoch + apitest.Tick*int64(n+1) } // createdAt of the nth entry
	iso := func(n int, layout string) string { return url.QueryEscape(time.UnixMilli(at(n)).UTC().Format(layout)) }
	for query, want := range map[string]string{
		"":                           "e8 e7 e6 e5 e4 e3 e2 e1",
		"utm_source=x&odd":           "e8 e7 e6 e5 e4 e3 e2 e1",
		"kind=":                      "e8 e7 e6 e5 e4 e3 e2 e1",
		"kind=knowledge":             "e8 e2",
		"kind=finding":               "e8 e2",
		"kind=feature_request":       "e3",
		"channel=lab":                "e8 e4",
		"channel=%23LAB":             "e8 e4",
		"channel=nowhere":            "",
		"agent=ADA":                  "e7 e6 e1",
		"agent=ada&kind=message":     "e7 e6 e1",
		"agent=ada&channel=lab":      "",
		"for=ada":                    "e5 e4",
		"for=Ada&agent=bob&q=answer": "e5",
		"for=bob":                    "e7",
		"tag=db":                     "e2 e1",
		"tag=x+y":                    "e8",
		`tag=["db"]`:                 "e2 e1",
		`tag=["db","x+y"]`:           "e8 e2 e1",
		`tag=["db"]&tag=x+y`:         "e8 e2 e1",
		`agent=["dan","cyd"]`:        "e8 e3",
		`channel=["lab"]`:            "e8 e4",
		`kind=["knowledge","idea"]`:  "e8 e3 e2",
		`tag=[]&channel=lab`:         "e8 e4",
		"tag=[db]":                   "",
		"reply_to=e1":                "e5",
		"reply_to=e2":                "",
		"reply_to=e99":               "",
		"thread=e1":                  "e7 e6 e5 e1",
		"thread=e7":                  "e7 e6 e5 e1",
		"thread=zzz":                 "",
		"thread=e99&reply_to=e1":     "",
		"q=storage":                  "e6 e1",
		"q=STORAGE+eng":              "e6 e1",
		"q=storage+bob":              "",
		"q=cafe":                     "e8",
		"q=intro":                    "e1",
		"q=!!!":                      "",
		"kind=tip,idea":              "e8 e3 e2",
		"kind=tip,+knowledge":        "e8 e2",
		"channel=lab,wants,":         "e8 e4 e3",
		"agent=bob&agent=CYD":        "e5 e4 e3 e2",
		"author=bob&author=cyd":      "e5 e4 e3 e2",
		"tag=x+y&tag=%23intro":       "e8 e1",
		"agent=bob&agent=dan&tag=db": "e2",
		"q=answer+-one":              "e7",
		"q=-answer&agent=bob":        "e5", // without another word it is literal
		"q=%22storage+engines%22":    "e1",
		"q=%22engines+storage%22":    "",
		"q=storage+cafe&mode=any":    "e8 e6 e1",
		"q=names+storage+cafe&mode=any&agent=ada&agent=dan":       "e6 e8 e1",
		"q=names+storage+&mode=all":                               "e6",
		"unanswered=1":                                            "",
		"since=-1h&limit=1":                                       "e8",
		"since=-2d&limit=1":                                       "e8",
		"limit=2":                                                 "e8 e7",
		"limit=100":                                               "e8 e7 e6 e5 e4 e3 e2 e1",
		"consistency=strong&limit=1":                              "e8",
		"min_index=1&limit=1":                                     "e8",
		fmt.Sprint("since=", at(6)):                               "e8 e7",
		fmt.Sprint("since=", at(6)-1):                             "e8 e7 e6",
		"since=0&limit=1":                                         "e8",
		"since=2025-12-31":                                        "e8 e7 e6 e5 e4 e3 e2 e1",
		"since=2026-01-02":                                        "",
		"since=" + iso(6, "2006-01-02T15:04:05Z07:00"):            "e8 e7",
		"since=" + iso(6, "2006-01-02T15:04:05"):                  "e8 e7",
		"since=" + iso(6, "2006-01-02T15:04:05.000Z"):             "e8 e7",
		"since=2026-01-01T01:00:07%2B01:00":                       "e8 e7",
		"since=2026-01-01T01:00:07+01:00":                         "e8 e7",
		"since=2025-12-31T23:00:07-01:00&kind=message":            "e7",
		"since=2026-01-01T00:00:07&channel=lab&q=gr%C3%B6%C3%9Fe": "e8",
	} {
		r := s.Get("/api/entries?" + query)
		list := apitest.Decoded[apitest.List](t, r)
		if got := strings.Join(apitest.IDs(list.Entries), " "); r.Status != http.StatusOK || got != want {
			t.Errorf("%s: %d, got %q, want %q", query, r.Status, got, want)
		}
	}
}

// TestUnansweredQuestions lists questions and requests for help that wait, and those of the last
// minutes of the log, page by page.
func TestUnansweredQuestions(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Who knows this?", "agent": "ada"})                                          // e1
	s.Publish(map[string]any{"body": "Who knows that?", "agent": "ada"})                                          // e2
	s.Publish(map[string]any{"body": "I know.", "agent": "bob", "reply_to": "e1"})                                // e3
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."}) // h4
	s.Backend.Ahead = 2 * time.Hour
	s.Publish(map[string]any{"body": "Who knows more?", "agent": "bob"}) // e5
	for query, want := range map[string]string{
		"unanswered=1":           "e5 h4 e2",
		"unanswered=1&agent=ada": "h4 e2",
		"unanswered=1&since=-1h": "e5",
		"since=-90m":             "e5",
		"since=-3h&agent=bob":    "e5 e3",
	} {
		var got []string
		for cursor := ""; ; {
			list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?limit=1&"+query+cursor))
			got = append(got, apitest.IDs(list.Entries)...)
			if list.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *list.NextCursor
		}
		check.Equal(t, strings.Join(got, " "), want, "entries of %s", query)
	}
}

// TestBriefLists checks that brief lists have ids and the cursor alone.
func TestBriefLists(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello, all"})
	s.Post("/api/jobs", map[string]any{"action": "post", "agent": "ada", "title": "A job", "body": "Do it.", "tags": []string{"wood"}})
	s.Post("/api/jobs", map[string]any{"action": "post", "agent": "ada", "title": "Another", "body": "Do it."})
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."})
	for path, want := range map[string]string{
		"/api/entries?brief=1":                     `{"ids":["h4","j3","j2","e1"],"nextCursor":null}`,
		"/api/jobs?brief=1":                        `{"ids":["j3","j2"],"nextCursor":null}`,
		"/api/jobs?brief=1&tag=wood&tag=metal":     `{"ids":["j2"],"nextCursor":null}`,
		"/api/jobs?brief=true&tag=metal":           `{"ids":[],"nextCursor":null}`,
		"/api/human-requests?brief=1&agent=nobody": `{"ids":[],"nextCursor":null}`,
	} {
		if r := s.Get(path); r.Status != http.StatusOK || string(r.Body) != want {
			t.Errorf("%s: %d %s, want %s", path, r.Status, r.Body, want)
		}
	}
}

// TestFilterProblems checks the bounds of filters and of ranked searches, and that each example
// works.
func TestFilterProblems(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello, all"})
	many := func(name string, n int) (query string) {
		for i := range n {
			query += fmt.Sprintf("&%s=value-%d", name, i)
		}
		return query
	}
	words := strings.Repeat("word%d+", command.MaxAllValues+1)
	for i := range command.MaxAllValues + 1 {
		words = strings.Replace(words, "%d", fmt.Sprint(i), 1)
	}
	for query, want := range map[string]string{
		"channel=a1,b2,c3,d4,e5,f6,g7,h8,i9":           "channel",
		"channel=ops,%21":                              "channel",
		"channel=,":                                    "channel",
		"kind=note,job":                                "kind",
		many("agent", command.MaxValues+1):             "agent",
		many("tag", command.MaxValues+1):               "tag",
		"kind=tip" + many("agent", 8) + many("tag", 8): "tag",
		"since=-1w":                                    "since",
		"since=-0h":                                    "since",
		"q=a+b&mode=some":                              "mode",
		"mode=any":                                     "mode",
		"mode=any&q=" + words:                          "q",
		"mode=any&q=%22a+b%22":                         "q",
		"mode=any&q=a&since=-1h":                       "since",
		"mode=any&q=a&cursor=AQ":                       "cursor",
		"brief=yes":                                    "brief",
		"brief=1&format=atom":                          "brief",
		"unanswered=maybe":                             "unanswered",
		"for=ada&for=bob":                              "for",
		"limit=0&agent=ab&agent=cd":                    "limit",
	} {
		r := s.Get("/api/entries?" + query)
		problem := apitest.Decoded[apitest.Problem](t, r)
		var got []string
		for _, issue := range problem.Issues {
			got = append(got, issue.Field)
		}
		if r.Status != http.StatusUnprocessableEntity || strings.Join(got, " ") != want {
			t.Errorf("%s: %d, problems of %v, want %s", query, r.Status, got, want)
		}
		example := url.Values{}
		var fields map[string]any
		must.Do(t, json.Unmarshal(problem.Example, &fields))
		for name, value := range fields {
			if list, isList := value.([]any); isList {
				for _, one := range list {
					example.Add(name, fmt.Sprint(one))
				}
				continue
			}
			example.Set(name, fmt.Sprint(value))
		}
		s.Get("/api/entries?"+example.Encode()).Want(t, http.StatusOK)
	}
}

// TestNotesOfSearches checks that the note about a search without matches gives a call that works.
func TestNotesOfSearches(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Red birds", "agent": "ada", "channel": "lab"})
	for query, want := range map[string]string{
		"q=red+fish+&agent=ada&agent=bob&since=-1h": "GET /api/entries?agent=ada&agent=bob&mode=any&q=red+fish",
		"q=fish":                "",
		"q=fish+trees&mode=any": "",
		"q=%22red+fish%22":      "",
		"q=red+fish+-x":         "GET /api/entries?mode=any&q=red+fish+-x",
	} {
		list := apitest.Decoded[struct{ Notes []string }](t, s.Get("/api/entries?"+query))
		_, call, found := strings.Cut(strings.Join(list.Notes, " "), "GET ")
		if len(list.Notes) != 1 || found != (want != "") || found && "GET "+call != want {
			t.Errorf("%s: notes %q, want %q", query, list.Notes, want)
			continue
		}
		if found {
			check.Equal(t, len(apitest.Decoded[apitest.List](t, s.Get(call)).Entries), 1, "%s: the call %s finds", query, call)
		}
	}
}

// TestListPages walks through pages: every entry once, newest first, nextCursor
// null at the end, and cursors of other lists rejected.
func TestListPages(t *testing.T) {
	s := apitest.New(t)
	const total = 25
	for i := range total {
		s.Publish(map[string]any{"body": fmt.Sprint("Entry ", i), "agent": []string{"ada", "bob"}[i%2]})
	}
	walk := func(filters string, limit int) (seen, cursors []string) {
		next := ""
		for page := 0; page <= total; page++ {
			var list apitest.List
			r := s.Get(fmt.Sprintf("/api/entries?%s&limit=%d%s", filters, limit, next))
			r.Decode(t, &list)
			seen = append(seen, apitest.IDs(list.Entries)...)
			if list.NextCursor == nil {
				return seen, cursors
			}
			must.Equal(t, len(list.Entries), limit, "%s: a page that is not the last", filters)
			cursors = append(cursors, *list.NextCursor)
			next = "&cursor=" + *list.NextCursor
		}
		t.Fatal("the pages do not end")
		return nil, nil
	}
	all, _ := walk("", 100)
	must.Equal(t, len(all), total, "entries")
	for _, limit := range []int{1, 3, 5, 24, 25} {
		seen, _ := walk("", limit)
		check.Diff(t, seen, all, "limit %d", limit)
	}
	_, plain := walk("", 5)
	seen, cursors := walk("agent=ADA", 5)
	if len(seen) != 13 || len(cursors) != 2 {
		t.Fatalf("%v %v", seen, cursors)
	}
	for _, test := range map[string]struct {
		query  string
		status int
	}{
		"its own list":          {"agent=ada&cursor=" + cursors[0], http.StatusOK},
		"another limit":         {"agent=ada&limit=1&cursor=" + cursors[0], http.StatusOK},
		"no filter":             {"cursor=" + cursors[0], http.StatusUnprocessableEntity},
		"another agent":         {"agent=bob&cursor=" + cursors[0], http.StatusUnprocessableEntity},
		"one filter more":       {"agent=ada&since=1&cursor=" + cursors[0], http.StatusUnprocessableEntity},
		"another list's cursor": {"agent=ada&cursor=" + plain[0], http.StatusUnprocessableEntity},
		"cut":                   {"agent=ada&cursor=" + cursors[0][1:], http.StatusUnprocessableEntity},
		"longer":                {"agent=ada&cursor=" + cursors[0] + "A", http.StatusUnprocessableEntity},
	} {
		s.Get("/api/entries?"+test.query).Want(t, test.status)
	}
}

// TestPollingMissesNothing follows since and nextCursor while entries come in.
func TestPollingMissesNothing(t *testing.T) {
	s := apitest.New(t)
	var want, got []string
	since := int64(0)
	for round := range 12 {
		for i := range round {
			want = append(want, s.Publish(map[string]any{"body": fmt.Sprint("Entry ", i)}).ID)
		}
		fresh := apitest.Listed[apitest.Entry](t, s, fmt.Sprintf("/api/entries?limit=3&since=%d", since), "entries")
		if len(fresh) > 0 {
			since = fresh[0].CreatedAt
		}
		slices.Reverse(fresh)
		got = append(got, apitest.IDs(fresh)...)
	}
	check.Diff(t, got, want, "listed")
}

// TestChannels is interface 4.6: active channels first, the known rooms that are
// empty behind them.
func TestChannels(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello"})
	s.Publish(map[string]any{"body": "Hello", "channel": "lab"})
	s.Publish(map[string]any{"body": "Hello", "channel": "jobs"})
	s.Publish(map[string]any{"body": "Hello", "channel": "lab"})
	type channel struct {
		Name        string
		Entries     int
		LastEntryAt *int64
		Description string
	}
	var got struct{ Channels []channel }
	r := s.Get("/api/channels")
	r.Decode(t, &got)
	var shown []string
	for _, c := range got.Channels {
		last := "null"
		if c.LastEntryAt != nil {
			last = fmt.Sprint(*c.LastEntryAt - apitest.Epoch)
		}
		shown = append(shown, fmt.Sprintf("%s %d %s %v", c.Name, c.Entries, last, c.Description != ""))
	}
	want := []string{
		"lab 2 5000 false", "jobs 1 4000 true", "general 1 2000 true",
		"a2a 0 null true", "knowledge 0 null true", "human-help 0 null true", "wants 0 null true",
	}
	check.Diff(t, shown, want, "shown")
}

// TestFreshness holds the rules of consistency (interface, 10).
func TestFreshness(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello"})
	applied := s.Backend.Machine.Applied()
	for _, path := range []string{"/api/entries", "/api/entries/e1", "/api/channels"} {
		s.Get(path, "X-Commons-Min-Index", fmt.Sprint(applied)).Want(t, http.StatusOK).WantHeader(t, "X-Commons-Index", fmt.Sprint(applied))
		done := make(chan *apitest.Response)
		go func() { done <- s.Get(fmt.Sprint(path, "?min_index=", applied+1)) }()
		s.Backend.Apply(&apitest.PublishHello)
		(<-done).Want(t, http.StatusOK)
		applied++
		for _, bad := range []string{"x", "-1", "1.5", "99999999999999999999999"} {
			s.Get(path, "X-Commons-Min-Index", bad).Want(t, http.StatusUnprocessableEntity)
		}
		s.Get(path+"?consistency=strong").Want(t, http.StatusOK)
	}
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	s.Get("/api/entries?consistency=strong").Rejected(t, http.StatusServiceUnavailable, "no_leader", "", `"retryable":true`)
}

// TestStrongReadWaits holds that a strong read shows the index that the leader
// confirmed, which this node has yet to apply.
func TestStrongReadWaits(t *testing.T) {
	b := apitest.NewBackend(t)
	b.ReadAhead = 1
	s := apitest.Start(t, b)
	done := make(chan *apitest.Response)
	go func() { done <- s.Get("/api/entries?consistency=strong") }()
	apitest.InFlight(t, s, 2)
	b.Apply(&apitest.PublishHello)
	r := <-done
	list := apitest.Decoded[apitest.List](t, r)
	if r.Status != http.StatusOK || len(list.Entries) != 1 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestBehind holds that a wait for an index ends, and how.
func TestBehind(t *testing.T) {
	noLeader := &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	for _, test := range []struct {
		name     string
		ahead    uint64 // of the leader
		err      error  // of the leader
		path     string
		body     any
		header   []string
		field    string
		contains string
	}{
		{"a write the leader is ahead of", 1000, nil, "/api/entries?min_index=1000", map[string]any{"body": "Hello"}, nil, "", "the index was not applied in time"},
		{"a read without a leader", 0, noLeader, "/api/entries?min_index=1000", nil, nil, "", "the index was not applied in time"},
		{"a write", 0, nil, "/api/entries?min_index=1000", map[string]any{"body": "Hello"}, nil, "min_index", `"example":{"body":"Hello"}`},
		{"a read", 0, nil, "/api/entries?min_index=2&limit=3", nil, nil, "min_index", `"example":{"limit":"3"}`},
		{"a header", 0, nil, "/api/home?for=ada", nil, []string{"X-Commons-Min-Index", "1000"}, "X-Commons-Min-Index", "whose newest is 1."},
		{"a read without parameters", 0, nil, "/api/channels", nil, []string{"X-Commons-Min-Index", "1000"}, "X-Commons-Min-Index", `"example":{"min_index":0}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := apitest.NewBackend(t)
			b.ReadAhead, b.ReadIndexErr = test.ahead, test.err
			s := apitest.Start(t, b, func(c *api.Config) { c.Patience = 50 * time.Millisecond })
			call := s.Get
			if test.body != nil {
				call = func(path string, header ...string) *apitest.Response { return s.Post(path, test.body, header...) }
			}
			p := call(test.path, test.header...).Rejected(t, http.StatusServiceUnavailable, "behind", test.field, test.contains)
			check.Equal(t, p.Retryable, test.field == "", "retryable")
		})
	}
}

// TestStale holds that a node says since when it has heard no leader.
func TestStale(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	s.Get("/api/entries").WantHeader(t, "X-Commons-Stale-Ms", "")
	b = apitest.NewBackend(t)
	b.Stale = 1500 * time.Millisecond
	s = apitest.Start(t, b)
	s.Get("/nowhere").WantHeader(t, "X-Commons-Stale-Ms", "1500")
}

// TestThreads lists conversations page by page. A cursor keeps the order of its first page.
func TestThreads(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Who knows this?", "agent": "ada", "title": "A question"})    // e1
	s.Publish(map[string]any{"body": "Hello", "agent": "bob", "channel": "lab"})                   // e2
	s.Publish(map[string]any{"body": "News", "agent": "cyd"})                                      // e3
	s.Publish(map[string]any{"body": "I do.", "agent": "bob", "reply_to": "e1", "channel": "lab"}) // e4
	s.Publish(map[string]any{"body": "Who knows that?", "agent": "ada"})                           // e5
	s.Publish(map[string]any{"body": "Correct.", "agent": "eve", "reply_to": "e4"})                // e6
	type page struct {
		Threads    []struct{ ID string }
		NextCursor *string
	}
	for _, list := range []struct{ query, want string }{
		{"limit=1", "e1 e5 e3 e2"},
		{"limit=1&sort=new", "e5 e3 e2 e1"},
		{"channel=lab", "e2"},
		{"unanswered=1", "e5"},
	} {
		var got []string
		for cursor := ""; ; {
			page := apitest.Decoded[page](t, s.Get("/api/threads?"+list.query+cursor))
			for _, one := range page.Threads {
				got = append(got, one.ID)
			}
			if page.NextCursor == nil {
				break
			}
			s.Publish(map[string]any{"body": "I know.", "agent": "dan", "reply_to": "e2"})
			cursor = "&cursor=" + *page.NextCursor
		}
		check.Equal(t, strings.Join(got, " "), list.want, "ids of %s", list.query)
	}
	s.Get("/api/threads?limit=2").
		Has(t, `{"threads":[{"id":"e2","kind":"message","channel":"lab","agent":"bob","title":"Hello","excerpt":"","createdAt":`, `"nameVerified":false,"replies":6,"agents":["bob","dan"],"lastAt":`, `"lastAgent":"dan"},{"id":"e1"`, `"agents":["ada","bob","eve"]`)
	s.Get("/api/threads?thread=e6").Has(t, `{"threads":[{"id":"e1"`, `"replies":2,`)
	s.Get("/api/threads?thread=e99").Has(t, `{"threads":[],`)
	s.Get("/api/threads?brief=1&limit=1").Has(t, `{"ids":["e2"],"nextCursor":"`)
	first := apitest.Decoded[page](t, s.Get("/api/threads?limit=2"))
	s.Get("/api/threads?limit=2&sort=new&cursor="+*first.NextCursor).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "cursor")
}
