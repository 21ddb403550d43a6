package page_test

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// hostile is a body that a page must show as text.
const hostile = `<script>document.title="owned"</script><img src=x onerror=alert(1)> [click](javascript:alert(2)) ![i](https://evil.example/x.png) "'><svg onload=alert(3)> {{.}}`

// TestPeopleSee holds what people see: each page shows what its operation answers, marks
// what became of it, and leads to the same as JSON.
func TestPeopleSee(t *testing.T) {
	s := apitest.New(t)
	asked := s.Publish(map[string]any{"agent": "Ada", "title": "A question of logs", "body": "When may a log be cut?\n\n- now\n- **later**", "channel": "logs", "tags": []string{"raft"}})
	answered := s.Publish(map[string]any{"agent": "Lin", "body": "When all have it.", "reply_to": asked.ID})
	deeper := s.Publish(map[string]any{"agent": "Ada", "body": "That is what I feared.", "reply_to": answered.ID})
	wrong := s.Publish(map[string]any{"agent": "Lin", "title": "A rash claim", "body": "Disks never fail at all."})
	s.Publish(map[string]any{"agent": "Lin", "supersedes": wrong.ID, "relation": "retraction", "body": "I take that back."})
	evil := s.Publish(map[string]any{"agent": "Mallory", "title": `"><b onmouseover=alert(4)>` + hostile, "body": hostile, "tags": []string{`"onclick="alert(5)`}})
	s.Post("/api/agents", map[string]any{"id": "Ada", "description": "Asks questions.", "capabilities": []string{"asking"}, "note": "Ask *again*.", "endpoint": "https://x.example/api/entries?action=publish&body=x"})
	check.Lacks(t, string(apitest.Browse(t, s, "/a/ada", http.StatusOK).Body), `href="https://x.example`, "a link that would write")
	s.Post("/api/jobs", map[string]any{"agent": "Ada", "title": "Count to ten", "body": "One by one, please."})
	var help struct{ Entry apitest.Entry }
	s.Post("/api/human-requests", map[string]any{"agent": "Ada", "goal": "Read a sign", "requested_action": "Say what it says."}).Decode(t, &help)

	feeds := 0
	for _, test := range []struct {
		path, holds string
		json        string
	}{
		{"/", "A question of logs", "/api/threads?sort=discussed&limit=20"},
		{"/", "1 open request help wanted Read a sign", "/api/threads?sort=discussed&limit=20"},
		{"/?sort=new", "Its author took this back.", "/api/threads?sort=new&limit=20"},
		{"/?list=entries", "Its author took this back.", "/api/entries?limit=20"},
		{"/channels", "logs 3 entries", "/api/channels"},
		{"/c/logs", "logs 3 entries", "/api/threads?channel=logs&limit=20"},
		{"/c/logs?list=entries", "logs 3 entries", "/api/entries?channel=logs&limit=20"},
		{"/e/" + asked.ID, "now later", "/api/entries/" + asked.ID},
		{"/e/" + asked.ID, "Reply by Lin", "/api/entries/" + asked.ID},
		{"/e/" + asked.ID + "?plain=1", "- **later**", "/api/entries/" + asked.ID},
		{"/e/" + deeper.ID, "reply to Lin : When all have it. in the conversation A question of logs", "/api/entries/" + deeper.ID},
		{"/e/" + wrong.ID, "Taken back by Lin", "/api/entries/" + wrong.ID},
		{"/a/ada", "Asks questions.", "/api/entries?agent=ada&limit=20"},
		{"/a/ada", "Ask again", "/api/entries?agent=ada&limit=20"},
		{"/a/ada", "in logs 1 reply 11 months ago by Lin", "/api/entries?agent=ada&limit=20"},
		{"/a/lin", "This name is not registered", "/api/entries?agent=lin&limit=20"},
		{"/agents", "Asks questions.", "/api/agents?limit=20"},
		{"/jobs", "Open 1 Claimed 0 Done 0 Closed 0 All Words Filter job open Count to ten", "/api/jobs?limit=20"},
		{"/jobs?status=done", "No job is like this.", "/api/jobs?status=done&limit=20"},
		{"/human", "help wanted Read a sign", "/api/human-requests?status=open&limit=20"},
		{"/e/" + help.Entry.ID, "Answer this request", "/api/human-requests/" + help.Entry.ID},
		{"/search?q=feared&agent=ada", "That is what I feared .", "/api/entries?q=feared&agent=ada&limit=20"},
		{"/search?q=feared&agent=ada", "Only with agent ada ✕ , remove 1 result", "/api/entries?q=feared&agent=ada&limit=20"},
		{"/search?q=cut", "in logs 1 reply 11 months ago by Lin", "/api/entries?q=cut&limit=20"},
		{"/search?q=nowhere&channel=logs", "Search everywhere", "/api/entries?q=nowhere&channel=logs&limit=20"},
		{"/search?q=nowhere", "a beginning of three letters is enough. Search for any of the words Browse the channels", "/api/entries?q=nowhere&limit=20"},
		{"/cluster", "node-a healthy leader 3", "/cluster.json"},
		{"/cluster", "node-b away does not answer", "/cluster.json"},
		{"/stats", "1 name is registered.", "/api/stats"},
		{"/e/" + evil.ID, `alert(1)> [click](javascript:alert(2))`, "/api/entries/" + evil.ID},
	} {
		p := apitest.Browse(t, s, test.path, http.StatusOK)
		check.Contains(t, p.Words(), test.holds, "%s", test.path)
		alternate := ""
		for _, link := range p.All("link") {
			if apitest.AttrOf(link, "type") == "application/atom+xml" {
				feeds++
				feed := apitest.Visit(t, s, http.MethodGet, apitest.AttrOf(link, "href"), "", http.StatusOK)
				feed.Has(t, "<feed ")
			}
			if apitest.AttrOf(link, "type") == "application/json" {
				alternate = apitest.AttrOf(link, "href")
			}
		}
		if alternate != test.json {
			t.Errorf("%s leads to %q, want %q", test.path, alternate, test.json)
		} else if r := apitest.Visit(t, s, http.MethodGet, alternate, "", http.StatusOK); r.Status != http.StatusOK {
			t.Errorf("%s: %d", alternate, r.Status)
		} else if same := apitest.Visit(t, s, http.MethodGet, test.path, "", http.StatusOK, "Accept", "*/*"); !strings.HasPrefix(test.json, "/api/threads") && test.path != "/?list=entries" && !bytes.Equal(same.Body, r.Body) {
			t.Errorf("%s to a program:\n%s\nwant as %s:\n%s", test.path, same.Body, alternate, r.Body)
		}
	}
	const listing = 25 // of the pages above show lists or conversations
	check.Equal(t, feeds, listing, "pages with feeds")
	for _, path := range []string{"/e/e0", "/e/nothing", "/a/nobody", "/e/j1"} {
		p := apitest.Browse(t, s, path, http.StatusNotFound)
		apitest.Equal(t, "main elements of "+path, len(p.All("main")), 1)
	}
	p := apitest.Browse(t, s, "/e/"+wrong.ID, http.StatusOK)
	folded := slices.DeleteFunc(p.All("details"), func(n *html.Node) bool { return apitest.AttrOf(n, "class") != "folded" })
	if len(folded) != 1 || !strings.Contains(apitest.TextOf(folded[0]), "Disks never fail") {
		t.Errorf("what was retracted is not folded: %d", len(folded))
	}
	s.Get("/", "Accept", "*/*").Has(t, `"endpoints":`)
}

// TestPagesGoOn holds that the pages of a list follow one another without a gap.
func TestPagesGoOn(t *testing.T) {
	s := apitest.New(t)
	for range 65 {
		s.Publish(map[string]any{"agent": "Ada", "body": "One of many.", "channel": "many"})
	}
	path, rows, pages := "/c/many?list=entries", 0, 0
	for path != "" {
		p := apitest.Browse(t, s, path, http.StatusOK)
		path = ""
		for _, li := range p.All("li") {
			if li.Parent.Data == "ol" {
				rows++
			}
		}
		for _, a := range p.All("a") {
			if apitest.AttrOf(a, "rel") == "next" {
				path = apitest.AttrOf(a, "href")
			}
		}
		pages++
	}
	if rows != 65 || pages != 4 {
		t.Errorf("%d rows on %d pages", rows, pages)
	}
}

// TestPositionInAConversation holds that a page names its part of a conversation, also if the
// number in its address is wrong.
func TestPositionInAConversation(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"agent": "Ada", "body": "One of many."})
	for range 101 {
		s.Publish(map[string]any{"agent": "Ada", "body": "Another one.", "reply_to": first.ID})
	}
	for before, want := range map[string]string{
		"":                    "101 replies, entries 1 to 100",
		"-5":                  "101 replies, entries 1 to 100",
		"9223372036854775807": "101 replies, entries 102 to 201",
	} {
		title := apitest.Browse(t, s, "/e/"+first.ID+"?before="+before, http.StatusOK).All("h2")[1]
		check.Contains(t, apitest.TextOf(title), want, "before=%s: the heading", before)
	}
}

// TestPagesAreNotStale holds that a page that is kept gives way to what was written.
func TestPagesAreNotStale(t *testing.T) {
	s := apitest.New(t)
	first := apitest.Browse(t, s, "/?sort=new", http.StatusOK)
	again := apitest.Visit(t, s, http.MethodGet, "/?sort=new", "", http.StatusNotModified, "Accept", apitest.BrowserAccept, "If-None-Match", first.Header.Get("ETag"))
	check.Empty(t, again.Body, "304 with")
	s.Publish(map[string]any{"agent": "Ada", "title": "Something new", "body": "It was not there before."})
	check.Contains(t, apitest.Browse(t, s, "/?sort=new", http.StatusOK).Words(), "Something new", "the page afterwards")
}

// TestReportForm checks the form for reports: it shows problems, rejects requests from another
// site, and confirms the report.
func TestReportForm(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills"})
	links := apitest.Browse(t, s, "/e/e1", http.StatusOK).All("a")
	if !slices.ContainsFunc(links, func(a *html.Node) bool { return apitest.AttrOf(a, "href") == "/report?entry=e1" }) {
		t.Error("the page of an entry leads to no form")
	}
	fields := url.Values{}
	for _, input := range apitest.Browse(t, s, "/report?entry=e1", http.StatusOK).All("input") {
		fields.Set(apitest.AttrOf(input, "name"), apitest.AttrOf(input, "value"))
	}
	send := func(want int, origin string) apitest.ShownPage {
		t.Helper()
		return apitest.Visit(t, s, http.MethodPost, "/report", fields.Encode(), want, "Accept", apitest.BrowserAccept, "Content-Type", "application/x-www-form-urlencoded", "Origin", origin)
	}
	fields.Set("reason", "spam")
	fields.Set("text", "No")
	p := send(http.StatusUnprocessableEntity, s.URL)
	if words := p.Words(); fields.Get("entry_id") != "e1" || !strings.Contains(words, "text must have 4 to 1000 characters") {
		t.Errorf("of %q the form says: %s", fields, words)
	}
	if kept := slices.ContainsFunc(p.All("textarea"), func(n *html.Node) bool { return strings.TrimSpace(apitest.TextOf(n)) == "No" }); !kept {
		t.Errorf("the form forgets what was typed: %s", p.Body)
	}
	fields.Set("text", "It is advertisement.")
	send(http.StatusBadRequest, "https://evil.example")
	to := send(http.StatusSeeOther, s.URL).Header.Get("Location")
	if words := apitest.Browse(t, s, to, http.StatusOK).Words(); !strings.Contains(words, "a moderator will look at it") || strings.Contains(words, "It is advertisement") {
		t.Errorf("%s shows %s", to, words)
	}
	apitest.Moderate(t, s, "resolve", map[string]any{"ids": []string{"e1"}, "outcome": "kept", "reason": "Allowed"})
}

// TestForm checks the form for answers: it writes once, shows problems, and rejects requests from
// another site.
func TestForm(t *testing.T) {
	s := apitest.New(t)
	s.Post("/api/agents", map[string]any{"id": "Grace", "description": "Registered from this very address."})
	var help struct{ Entry apitest.Entry }
	s.Post("/api/human-requests", map[string]any{"agent": "Ada", "goal": "Read a sign", "requested_action": "Say what it says."}).Decode(t, &help)
	p := apitest.Browse(t, s, "/e/"+help.Entry.ID, http.StatusOK)
	fields := url.Values{}
	for _, input := range p.All("input") {
		if apitest.AttrOf(input, "type") == "hidden" {
			fields.Set(apitest.AttrOf(input, "name"), apitest.AttrOf(input, "value"))
		}
	}
	send := func(want int, headers ...string) apitest.ShownPage {
		t.Helper()
		return apitest.Visit(t, s, http.MethodPost, "/publish", fields.Encode(), want, append([]string{"Accept", apitest.BrowserAccept, "Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
	}
	own := []string{"Origin", s.URL, "Sec-Fetch-Site", "same-origin"}
	fields.Set("agent", "Grace")
	fields.Set("body", "No")
	check.Contains(t, send(http.StatusUnprocessableEntity, own...).Words(), "body must have 4 to 5000 characters", "the form")
	fields.Set("body", "It says: mind the step.")
	for _, foreign := range [][]string{
		{},
		{"Origin", "null"},
		{"Origin", "https://evil.example"},
		{"Origin", s.URL, "Sec-Fetch-Site", "cross-site"},
		{"Origin", s.URL, "Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"},
	} {
		send(http.StatusBadRequest, foreign...)
	}
	to := send(http.StatusSeeOther, own...).Header.Get("Location")
	apitest.Equal(t, "the place after the form was sent twice", send(http.StatusSeeOther, own...).Header.Get("Location"), to)
	if words := apitest.Browse(t, s, to, http.StatusOK).Words(); !strings.Contains(words, "It says: mind the step.") || !strings.Contains(words, "Grace not proven") {
		t.Errorf("%s shows %s", to, words)
	}
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?reply_to="+help.Entry.ID))
	if len(list.Entries) != 1 || list.Entries[0].Agent != "Grace" {
		t.Errorf("answers: %+v", list.Entries)
	}
	fields = url.Values{"body": {"Only to see."}, "check": {"1"}}
	check.Contains(t, send(http.StatusOK, own...).Words(), "This is valid. It has not been published.", "a check")
	fields.Set("body", "No")
	check.Contains(t, send(http.StatusUnprocessableEntity, own...).Words(), "body must have 4 to 5000 characters", "a check of a short text")
}

// TestCorrections holds that the page of a corrected entry is about its newest text, and has each earlier
// one once, folded.
func TestCorrections(t *testing.T) {
	s := apitest.New(t)
	ids := []string{s.Publish(map[string]any{"agent": "Ada", "body": "High water is at 0 h."}).ID}
	for i, of := range []int{0, 1, 0} { // the second one corrects the first correction
		body := "High water is at " + strconv.Itoa(i+1) + " h."
		ids = append(ids, s.Publish(map[string]any{"agent": "Ada", "body": body, "supersedes": ids[of], "relation": "correction"}).ID)
	}
	p := apitest.Browse(t, s, "/e/"+ids[0], http.StatusOK)
	p.Has(t, "<title>High water is at 3 h. ·", `<meta property="og:description" content="By Ada: High water is at 3 h.">`)
	for _, earlier := range []string{"at 0 h.", "at 1 h.", "at 2 h."} {
		check.Equal(t, strings.Count(p.Words(), earlier), 1, "texts %q", earlier)
	}
	check.Equal(t, bytes.Count(p.Body, []byte(`<details class="folded">`)), 3, "folded texts")
	of := s.Publish(map[string]any{"agent": "Eve", "body": "Tide table", "supersedes": ids[0], "relation": "reply"}).ID
	for i := range 25 { // each corrects the one before
		body := "Tide table"
		if i >= 20 {
			body = strings.Repeat("&", 5000)
		}
		of = s.Publish(map[string]any{"agent": "Eve", "body": body, "supersedes": of, "relation": "correction"}).ID
	}
	p = apitest.Browse(t, s, "/e/"+ids[0], http.StatusOK)
	check.Equal(t, strings.Count(p.Words(), strings.Repeat("&", 5000)), 5, "texts of the five newest corrections of an answer")
}

// TestManyAdditions holds that a page names so many entries about each entry, and how many more there are.
func TestManyAdditions(t *testing.T) {
	s := apitest.New(t)
	of := s.Publish(map[string]any{"agent": "Ada", "body": "High water is at 0 h."}).ID
	for i := range 15 {
		s.Publish(map[string]any{"agent": "Eve", "body": "Is it?", "title": "No " + strconv.Itoa(100+i), "supersedes": of, "relation": "follow_up"})
	}
	page := apitest.Browse(t, s, "/e/"+of, http.StatusOK)
	check.Equal(t, bytes.Count(page.Body, []byte("under the name Eve")), 10, "additions by others")
	check.Contains(t, page.Words(), "Further changes and additions: 5.", "page")
}

// TestPagesCount holds that a page counts as one call, under its own name.
func TestPagesCount(t *testing.T) {
	var l apitest.Ledger
	s := apitest.New(t, func(c *api.Config) { c.Counter = &l })
	apitest.Browse(t, s, "/channels", http.StatusOK)
	apitest.Browse(t, s, "/a/nobody", http.StatusNotFound)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if len(l.Calls) != 2 || l.Calls[0].Action != "pageChannels" || l.Calls[1].Action != "pageAgent" || l.Calls[0].Surface != command.SurfaceWeb {
		t.Errorf("counted: %+v", l.Calls)
	}
}

// TestSearchForAnyWordWorks follows the links to a search for any of the words. Such a search takes
// no phrases, no time, and at most MaxAllValues words.
func TestSearchForAnyWordWorks(t *testing.T) {
	s := apitest.New(t)
	href := regexp.MustCompile(`href="([^"]*mode=any[^"]*)"`)
	for query, links := range map[string]int{
		"q=zebra":                              2,
		"q=hello+zebra&since=2026-01-01":       2,
		"q=%22hello+zebra%22+yak&channel=logs": 2,
		"q=" + strings.Repeat("w+", command.MaxAllValues-1) + "zebra": 2,
		"q=" + strings.Repeat("w+", command.MaxAllValues) + "zebra":   0,
	} {
		t.Run(query, func(t *testing.T) {
			found := href.FindAllStringSubmatch(string(apitest.Browse(t, s, "/search?"+query, http.StatusOK).Body), -1)
			check.Equal(t, len(found), links, "links to a search for any of the words")
			for _, link := range found {
				apitest.Browse(t, s, html.UnescapeString(link[1]), http.StatusOK)
			}
		})
	}
}

// TestConnectShowsTheAddress holds that calls can be pasted as they are.
func TestConnectShowsTheAddress(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.PublicURL = "https://commons.example" })
	for way, holds := range map[string]string{
		"": `commons = Commons("https://commons.example")`, "JavaScript": `new Commons("https://commons.example")`, "Go": `URLs: []string{"https://commons.example"}`,
		"Command+line": `COMMONS_URL=https://commons.example PATH="$PATH:$(go env GOPATH)/bin" commons post --as "guest-`,
		"curl":         `name="guest-$$-$(date +%s)" curl -s https://commons.example/api/entries`, // an interactive zsh knows no comments
		"MCP":          "codex mcp add commons --url https://commons.example/mcp",
	} {
		check.Contains(t, apitest.Browse(t, s, "/connect?with="+way, http.StatusOK).Words(), holds, "/connect?with=%s", way)
	}
}

// TestRobots checks that robots.txt has the operator's text.
func TestRobots(t *testing.T) {
	for _, want := range []string{api.RobotsAllow, api.RobotsDeny} {
		s := apitest.New(t, func(c *api.Config) { c.Robots, c.PublicURL = want, "https://commons.example" })
		apitest.Equal(t, "robots.txt", string(apitest.Visit(t, s, http.MethodGet, "/robots.txt", "", http.StatusOK).Body), want)
	}
}

// TestPagesAreBounded checks the budget for rendering pages, and that a cached page is free.
func TestPagesAreBounded(t *testing.T) {
	const work = 200 // steps a second: a page takes more than that
	s := apitest.New(t, func(c *api.Config) { c.Limits.ReadWork = work })
	for range 100 {
		apitest.Browse(t, s, "/channels", http.StatusOK)
	}
	for i := range 100 {
		path := "/channels?" + strconv.Itoa(i)
		r := apitest.Visit(t, s, http.MethodGet, path, "", 0, "Accept", apitest.BrowserAccept)
		if r.Status == http.StatusTooManyRequests {
			if r.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			return
		}
	}
	t.Error("a hundred pages were made at once")
}

// TestMissingPages checks that a browser gets a page for an unknown path, and a program an Error
// object.
func TestMissingPages(t *testing.T) {
	s := apitest.New(t)
	for _, path := range []string{"/nothing", "/docs/nothing", "/c", "/api", "/e/"} {
		p := apitest.Browse(t, s, path, http.StatusNotFound)
		if p.Root == nil || !strings.Contains(p.Words(), "There is no") {
			t.Errorf("%s in a browser: %v %s", path, p.Header, p.Body)
		}
		for _, accept := range []string{"*/*", "application/json", "text/markdown, text/html"} {
			apitest.CheckError(t, s.Get(path, "Accept", accept))
		}
	}
	apitest.CheckError(t, s.Get("/api/nothing", "Accept", apitest.BrowserAccept))
	if p := apitest.Visit(t, s, http.MethodPost, "/nothing", "", http.StatusNotFound, "Accept", apitest.BrowserAccept); p.Root != nil {
		t.Errorf("a POST gets a page: %s", p.Body)
	}
}

// TestNewsSincePage holds that news begin with what a page did not show, and that where
// they begin does not make it another page.
func TestNewsSincePage(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "Ada", "body": "Said before.", "channel": "logs"})
	p := apitest.Browse(t, s, "/c/logs", http.StatusOK)
	s.Publish(map[string]any{"agent": "Ada", "body": "Said elsewhere.", "channel": "other"})
	late := s.Publish(map[string]any{"agent": "Ada", "body": "Said before the stream.", "channel": "logs"})
	body := p.All("body")[0]
	st := apitest.OpenStream(t, s, "/api/events"+apitest.AttrOf(body, "data-live")+"&last_event_id="+url.QueryEscape(apitest.AttrOf(body, "data-from")), "")
	if e := st.Next(); e.Entry == nil || e.Entry.ID != late.ID {
		t.Errorf("the first news are %v", e)
	}
	first := apitest.Browse(t, s, "/agents?q=x", http.StatusOK)
	channel := apitest.Browse(t, s, "/c/other", http.StatusOK)
	s.Publish(map[string]any{"agent": "Ada", "body": "Said again.", "channel": "logs"})
	apitest.Browse(t, s, "/agents?q=x", http.StatusOK).WantHeader(t, "ETag", first.Header.Get("ETag"))
	if again := apitest.Browse(t, s, "/human", http.StatusOK); apitest.AttrOf(again.All("body")[0], "data-from") == apitest.AttrOf(channel.All("body")[0], "data-from") {
		t.Error("news begin where they began before")
	}
}

// TestNewsOfAClose holds that the page of a job is told of the end of a claim by the poster.
func TestNewsOfAClose(t *testing.T) {
	s := apitest.New(t)
	key := apitest.Decoded[struct {
		EditKey string `json:"edit_key"`
	}](t, s.Post("/api/agents", map[string]any{"id": "Ada", "description": "Posts jobs."})).EditKey
	act := func(fields map[string]any) *apitest.Response { return s.Post("/api/jobs", fields) }
	job := apitest.Decoded[struct{ Job apitest.Entry }](t, act(map[string]any{
		"agent": "Ada", "title": "Count the boats", "body": "Those in the harbour.", "edit_key": key,
	})).Job.ID
	act(map[string]any{"agent": "Lin", "action": "claim", "job_id": job})
	body := apitest.Browse(t, s, "/e/"+job, http.StatusOK).All("body")[0]
	act(map[string]any{"agent": "Ada", "action": "close", "job_id": job, "edit_key": key})
	s.Publish(map[string]any{"agent": "Lin", "body": "I was on it.", "reply_to": job})
	st := apitest.OpenStream(t, s, "/api/events"+apitest.AttrOf(body, "data-live")+"&last_event_id="+url.QueryEscape(apitest.AttrOf(body, "data-from")), "")
	check.Equal(t, st.Next().Event, "close", "the first news")
}

// TestAgentsJobs holds that an agent's page shows the jobs that it posted and claimed.
func TestAgentsJobs(t *testing.T) {
	s := apitest.New(t)
	for i := range 7 {
		s.Post("/api/jobs", map[string]any{"agent": "Ada", "title": "Job number " + strconv.Itoa(i+1), "body": "To be done by somebody."})
	}
	posted := apitest.Decoded[struct{ Jobs []apitest.Entry }](t, s.Get("/api/jobs?limit=1"))
	s.Post("/api/jobs", map[string]any{"agent": "Lin", "action": "claim", "job_id": posted.Jobs[0].ID})
	if words := apitest.Browse(t, s, "/a/ada", http.StatusOK).Words(); !strings.Contains(words, "Jobs it posted job claimed claim not proven Job number 7 0 seconds left job open Job number 6") ||
		!strings.Contains(words, "All of them") || strings.Contains(words, "Jobs it has claimed") {
		t.Errorf("/a/ada shows %s", words)
	}
	if words := apitest.Browse(t, s, "/a/Lin", http.StatusOK).Words(); !strings.Contains(words, "Jobs it has claimed job claimed claim not proven Job number 7 0 seconds left") || strings.Contains(words, "Jobs it posted") {
		t.Errorf("/a/Lin shows %s", words)
	}
	for path, holds := range map[string]string{
		"/jobs?status=all&agent=Ada": "Those that Ada posted.", "/jobs?claimed_by=Lin": "Those that Lin has claimed.", "/jobs?status=open&agent=Lin": "No job is like this.",
	} {
		check.Contains(t, apitest.Browse(t, s, path, http.StatusOK).Words(), holds, "%s", path)
	}
}

// TestEmptyLists holds that a list without entries says what to do next.
func TestEmptyLists(t *testing.T) {
	s := apitest.New(t)
	look := func(path string) {
		t.Helper()
		for n := range apitest.Browse(t, s, path, http.StatusOK).Root.Descendants() {
			if apitest.AttrOf(n, "class") != "empty" {
				continue
			}
			if links := (apitest.ShownPage{Root: n}).All("a"); len(links) > 0 || strings.Contains(apitest.TextOf(n), "remove one above") {
				return
			}
		}
		t.Errorf("%s does not say what to do next", path)
	}
	for _, path := range []string{"/", "/?sort=new", "/?unanswered=1", "/?list=entries", "/agents", "/jobs", "/jobs?status=done", "/human", "/search?q=zebra"} {
		look(path)
	}
	s.Publish(map[string]any{"agent": "ada", "body": "Not a question."})
	for _, path := range []string{"/?unanswered=1", "/?agent=bob", "/c/general?tag=none", "/a/ada?kind=knowledge", "/agents?q=zebra", "/jobs?q=zebra", "/human?status=closed", "/search?q=zebra&tag=none"} {
		look(path)
	}
}

// TestTimeline holds that the page of a job and of a request for help says who did what, in order.
func TestTimeline(t *testing.T) {
	s := apitest.New(t)
	timeline := func(id string) (lines []string) {
		t.Helper()
		for _, list := range apitest.Browse(t, s, "/e/"+id, http.StatusOK).All("section") {
			if apitest.AttrOf(list, "class") != "timeline" {
				continue
			}
			for _, line := range (apitest.ShownPage{Root: list}).All("li") {
				words, _, _ := strings.Cut(apitest.TextOf(line), " , 11 months ago")
				lines = append(lines, words)
			}
		}
		return lines
	}
	act := func(action, agent, id, more string) {
		t.Helper()
		s.Post("/api/jobs", `{"agent":"`+agent+`","action":"`+action+`","job_id":"`+id+`"`+more+`}`).Must(t, http.StatusCreated)
	}
	job := apitest.Decoded[struct{ Job apitest.Entry }](t, s.Post("/api/jobs", `{"agent":"ada","title":"Count the lines","body":"Of every file."}`)).Job.ID
	check.Equal(t, strings.Join(timeline(job), "|"), "", "the timeline of a new job")
	act("claim", "Bob", job, "")
	act("claim", "Bob", job, "")
	act("release", "Bob", job, "")
	act("claim", "eve", job, "")
	act("result", "eve", job, `,"result":"There are 77."`)
	want := "posted by ada|claimed by Bob not proven|claim extended by Bob not proven|given back by Bob|claimed by eve not proven|result by eve"
	check.Equal(t, strings.Join(timeline(job), "|"), want, "the timeline of a job")
	claim := apitest.Decoded[apitest.List](t, s.Get("/api/entries?agent=Bob")).Entries[0].ID
	for _, path := range []string{"/e/" + claim, "/a/Bob", "/search?q=working", "/c/jobs?list=entries"} {
		check.Contains(t, apitest.Browse(t, s, path, http.StatusOK).Words(), "claim not proven Claimed: Count the lines", "%s", path)
	}
	s.Publish(map[string]any{"agent": "Zoe", "supersedes": job, "relation": "follow_up", "title": "Claimed: by whom?", "body": "I wonder."})
	check.Lacks(t, apitest.Browse(t, s, "/a/Zoe", http.StatusOK).Words(), "claim not proven", "a follow-up with the title of a claim")

	help := apitest.Decoded[struct{ Entry apitest.Entry }](t, s.Post("/api/human-requests", `{"agent":"ada","goal":"Read a sign","requested_action":"Type what it says.","context":"A picture."}`)).Entry.ID
	for _, agent := range []string{"ada", "Bob"} {
		s.Publish(map[string]any{"agent": agent, "reply_to": help, "body": "It says: mind the step."})
	}
	s.Publish(map[string]any{"agent": "ada", "supersedes": help, "relation": "retraction", "body": "Solved, thank you."})
	check.Equal(t, strings.Join(timeline(help), "|"), "posted by ada|answered by Bob|closed by ada", "the timeline of a request for help")
}

func TestWelcome(t *testing.T) {
	s := apitest.WithModerator(t)
	id := s.Publish(map[string]any{"agent": "host", "title": "How we talk here", "body": "Be kind, and <b>answer</b> questions."}).ID
	welcome := func(path string) string {
		for _, list := range apitest.Browse(t, s, path, http.StatusOK).All("ul") {
			if strings.Contains(apitest.AttrOf(list, "class"), "welcome") {
				return apitest.TextOf(list)
			}
		}
		return ""
	}
	check.Equal(t, welcome("/"), "", "without the setting")
	s.Backend.Apply(&command.SetSettings{Welcome: &id})
	check.Equal(t, welcome("/"), "How we talk here Be kind, and <b>answer</b> questions.", "the welcome")
	for _, hidden := range []bool{true, false} {
		s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "spam"}, IDs: []string{id}, Unhide: !hidden})
		check.Equal(t, (welcome("/") == ""), hidden, "the welcome is hidden")
	}
	for _, absent := range []string{"e77777", ""} {
		s.Backend.Apply(&command.SetSettings{Welcome: &absent})
		check.Equal(t, welcome("/"), "", "%q: the welcome", absent)
	}
}
