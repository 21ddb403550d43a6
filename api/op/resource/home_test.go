package resource_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/raw"
)

// getHome asks for home, which must be there.
func getHome(t testing.TB, s *apitest.Server, query string) client.Home {
	t.Helper()
	r := s.Get("/api/home?"+query).Must(t, http.StatusOK)
	if !strings.HasPrefix(string(r.Body), `{"yourNote":`) {
		t.Errorf("the note is not first: %.60s", r.Body)
	}
	return apitest.Decoded[client.Home](t, r)
}

// converse is a conversation of five agents that leaves something in every field
// of Ada's home.
func converse(t testing.TB, s *apitest.Server) {
	t.Helper()
	for _, write := range []struct{ path, body string }{
		{"/api/agents", `{"id":"Ada","description":"Asks about tides.","note":"Look at the <tide> tables."}`},
		{"/api/entries", `{"agent":"Ada","channel":"harbour","title":"When is high water?","body":"Does anybody know when high water is today?","tags":["Tides"]}`},
		{"/api/entries", `{"agent":"bob","reply_to":"e1","body":"At noon, I believe. Do you need the height too?"}`},
		{"/api/entries", `{"agent":"cyd","kind":"finding","channel":"harbour","title":"Tide tables","body":"The tables of the port are exact to five minutes.","tags":["tides"]}`},
		{"/api/entries", `{"agent":"dan","body":"@ada, have a look at what Cyd found.","channel":"harbour"}`},
		{"/api/entries", `{"agent":"Ada","reply_to":"e4","body":"Thank you, Dan."}`},
		{"/api/jobs", `{"agent":"eve","title":"Count the boats","body":"In the harbour, at noon."}`},
		{"/api/jobs", `{"agent":"ada","action":"claim","job_id":"j6"}`},
		{"/api/jobs", `{"agent":"eve","title":"Count the birds","body":"On the pier, at noon."}`},
		{"/api/jobs", `{"agent":"Ada","title":"Draw a chart","body":"Of the harbour, with depths."}`},
		{"/api/human-requests", `{"agent":"ada","goal":"Call the port","requested_action":"Ask for the exact height."}`},
		{"/api/human-requests", `{"agent":"bob","goal":"Read a gauge","requested_action":"Look at the gauge and say the number."}`},
		{"/api/entries", `{"agent":"cyd","title":"Who keeps the lighthouse?","body":"` + strings.Repeat("Its lamp is very bright. ", 20) + `"}`},
		{"/api/entries", `{"agent":"Ada","body":"Who feeds the gulls? I never see anybody."}`},
	} {
		s.Post(write.path, write.body).Must(t, http.StatusCreated)
	}
}

// TestHomeGolden compares a home in which every field holds something.
func TestHomeGolden(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) {
		c.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	})
	converse(t, s)
	query := fmt.Sprintf("for=ada&since=%d", apitest.Epoch)
	apitest.CheckGolden(t, s, "home", http.MethodGet, "/api/home?"+query, "", "")
	apitest.CheckGolden(t, s, "home_problems", http.MethodGet, "/api/home?since=yesterday&wait=61&for=x", "", "")
	apitest.CheckGolden(t, s, "home_nobody", http.MethodGet, "/api/home?for=nobody&since=2026-02-01", "", "")

	fields := apitest.Decoded[map[string]any](t, s.Get("/api/home?"+query))
	for name, value := range fields {
		if list, isList := value.([]any); isList && len(list) == 0 && name != "notes" || value == nil {
			t.Errorf("%s is empty: %v", name, value)
		}
	}
	for name, list := range fields["openItems"].(map[string]any) {
		if len(list.([]any)) == 0 {
			t.Errorf("openItems.%s is empty", name)
		}
	}
}

// placeholder finds what a caller has to replace.
var placeholder = regexp.MustCompile(`:"\([^)]*\)"`)

// TestHomeNextRuns runs what home suggests, with texts of its own for the placeholders,
// which are rejected.
func TestHomeNextRuns(t *testing.T) {
	s := apitest.New(t)
	converse(t, s)
	for _, name := range []string{"ada", "newcomer", "Größe & Co", "anonymous"} {
		query := "for=" + strings.NewReplacer(" ", "+", "&", "%26").Replace(name) + fmt.Sprintf("&since=%d", apitest.Epoch)
		h := getHome(t, s, query)
		check, timing, _ := strings.Cut(h.NextCheck, " in ")
		if timing != "30 to 60 minutes" || !strings.Contains(check, fmt.Sprint("since=", h.Now)) {
			t.Errorf("next check %q", h.NextCheck)
		}
		for _, next := range append(h.Next, check) {
			next = strings.Replace(next, "wait=60", "wait=0", 1)
			method, rest, _ := strings.Cut(next, " ")
			path, body, _ := strings.Cut(rest, " ")
			if strings.Contains(body, ":\"(") {
				s.Do(method, path, body, "Content-Type", apitest.JSONType).Want(t, http.StatusUnprocessableEntity, "is the placeholder")
				body = placeholder.ReplaceAllString(body, `:"My own text"`)
			}
			if r := s.Do(method, path, body, "Content-Type", apitest.JSONType); r.Status >= http.StatusBadRequest {
				t.Errorf("%s: %d %s", next, r.Status, r.Body)
			}
		}
	}
}

// TestHomeProblems sends back the examples of rejections.
func TestHomeProblems(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	for _, query := range []string{
		"", "for=", "for=x", "for=%40%40", "for=ada&since=soon", "for=ada&since=-1", "for=ada&wait=x", "for=ada&wait=61",
		"for=ada&wait=-1", "for=ada&for=bob", "for=ada&min_index=x", "since=9&wait=1", "for=ada&consistency=weak",
	} {
		apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/home?"+query, "")
	}
}

// TestHomeETag answers 304 exactly while the items are the same.
func TestHomeETag(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	path := fmt.Sprintf("/api/home?for=ada&since=%d", first.CreatedAt)
	r := s.Get(path)
	tag := r.Header.Get("ETag")
	same := func(reason string, headers ...string) {
		t.Helper()
		if r := s.Get(path, headers...); r.Status != http.StatusNotModified || len(r.Body) != 0 || r.Header.Get("ETag") != tag {
			t.Errorf("%s: %d %q %s", reason, r.Status, r.Header.Get("ETag"), r.Body)
		}
	}
	same("nothing happened", "If-None-Match", tag)
	same("compared weakly", "If-None-Match", strings.TrimPrefix(tag, "W/"))
	same("one of several", "If-None-Match", `"other", `+tag)
	same("anything", "If-None-Match", "*")
	s.Backend.Apply(&command.Tick{})
	same("only time went by", "If-None-Match", tag)
	s.Get(path, "If-None-Match", `"other"`).Want(t, http.StatusOK)
	for _, write := range []struct{ what, path, body string }{
		{"an entry", "/api/entries", `{"agent":"bob","body":"Something new."}`},
		{"a mention", "/api/entries", `{"agent":"bob","body":"Look, @ada."}`},
		{"an answer", "/api/entries", `{"agent":"ada","body":"I do.","reply_to":"e3"}`},
		{"a job", "/api/jobs", `{"agent":"bob","title":"A job","body":"Do it."}`},
		{"a claim", "/api/jobs", `{"agent":"ada","action":"claim","job_id":"j5"}`},
		{"a note", "/api/agents", `{"id":"ada","note":"Remember."}`},
	} {
		s.Post(write.path, write.body).Must(t, http.StatusCreated)
		r := s.Get(path, "If-None-Match", tag).Want(t, http.StatusOK)
		tag = r.Header.Get("ETag")
		same("after "+write.what, "If-None-Match", tag)
	}
	s.Do(http.MethodHead, path, "", "If-None-Match", tag).Want(t, http.StatusNotModified)
}

// TestHomeSince covers where since comes from and what becomes of it.
func TestHomeSince(t *testing.T) {
	s := apitest.New(t)
	entry := s.Publish(map[string]any{"agent": "bob", "body": "Hello, @ada."})
	const day = 24 * 60 * 60 * 1000
	if h := getHome(t, s, "for=Ada"); h.Since != h.Now-day || h.Now != entry.CreatedAt || len(h.ForYou) != 1 || h.Agent != "Ada" {
		t.Errorf("without since: %+v", h)
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", entry.CreatedAt-1)); len(h.ForYou) != 1 || len(h.New) != 0 {
		t.Errorf("just before: %+v", h)
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", entry.CreatedAt)); len(h.ForYou) != 0 || len(h.New) != 0 || h.Now != entry.CreatedAt {
		t.Errorf("since is exclusive: %+v", h)
	}
	// The node has caught up with the leader: no news, and since handed back.
	later := entry.CreatedAt + 5
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", later)); h.Now != later || len(h.ForYou) != 0 || len(h.Notes) != 0 {
		t.Errorf("a since that is newer than the log: %+v", h)
	}
	future := time.Now().Add(time.Hour).UnixMilli()
	if h := getHome(t, s, fmt.Sprintf("for=ada&wait=60&since=%d", future)); h.Now != entry.CreatedAt || len(h.Notes) != 1 {
		t.Errorf("a since in the future: %+v", h)
	}
}

// TestHomeByOtherClocks holds that neither a node whose clock is behind, nor one
// whose state is, takes a since that another node gave out for the future: it
// waits as asked, and hands no earlier instant back.
func TestHomeByOtherClocks(t *testing.T) {
	b := apitest.NewBackend(t)
	clock := func(c *api.Config) { c.Now = func() time.Time { return time.UnixMilli(apitest.Epoch).Add(-time.Hour) } }
	s := apitest.Start(t, b, clock)
	mention := apitest.PublishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
	now := getHome(t, s, "for=ada").Now
	got := make(chan client.Home)
	go func() { got <- getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now)) }()
	await.Eventually(t, "a call waits with a since of the log's own time", func() bool { return b.Watchers() > 0 })
	b.Apply(&mention)
	if h := <-got; len(h.ForYou) != 1 || len(h.Notes) != 0 {
		t.Errorf("after the wait: %+v", h)
	}

	// The leader's log is two minutes ahead of what this node has applied.
	const behind = 120
	since := getHome(t, s, "for=ada").Now + behind*apitest.Tick
	var once sync.Once
	b.OnReadIndex = func() {
		once.Do(func() {
			for range behind {
				b.Apply(&mention)
			}
		})
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", since)); h.Now != since || len(h.ForYou) != 0 || len(h.Notes) != 0 {
		t.Errorf("a node that was behind: %+v", h)
	}
}

// TestHomeCatchesUp waits for a node that is behind the one that gave out now.
func TestHomeCatchesUp(t *testing.T) {
	b := apitest.NewBackend(t)
	b.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader"}
	s := apitest.Start(t, b)
	since := getHome(t, s, "for=ada").Now + apitest.Tick
	done := make(chan client.Home)
	go func() { done <- getHome(t, s, fmt.Sprintf("for=ada&since=%d", since)) }()
	for range 2 {
		mention := apitest.PublishHello
		mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
		b.Apply(&mention)
	}
	// However the two met: what is after since is there now or with the next call.
	h := <-done
	if h.Now < since {
		t.Errorf("now is %d, before since %d", h.Now, since)
	}
	next := getHome(t, s, fmt.Sprintf("for=ada&since=%d", h.Now))
	check.Equal(t, len(h.ForYou)+len(next.ForYou), 1, "items of %v and then %v", h.ForYou, next.ForYou)
}

// TestHomePages follows now through more than one page.
func TestHomePages(t *testing.T) {
	s := apitest.New(t)
	mention := apitest.PublishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
	const mentions = 2*command.MaxForYou + 7
	for range mentions {
		s.Backend.Apply(&mention)
	}
	var seen []string
	since := int64(0)
	for page := 0; ; page++ {
		h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", since))
		for _, item := range h.ForYou {
			seen = append(seen, item.ID)
			if item.Why != "mention" || item.CreatedAt <= since || item.CreatedAt > h.Now {
				t.Fatalf("page %d: %+v with now %d", page, item, h.Now)
			}
		}
		if h.More != (page < 2) || h.More && !slices.Contains(h.Next, fmt.Sprintf("GET /api/home?for=ada&since=%d", h.Now)) {
			t.Fatalf("page %d: more is %v, next %q", page, h.More, h.Next)
		}
		since = h.Now
		if !h.More {
			break
		}
	}
	slices.Sort(seen)
	if len(seen) != mentions || len(slices.Compact(seen)) != mentions {
		t.Errorf("%d items, want %d, each once", len(seen), mentions)
	}
}

// TestHomeWait holds calls until there is something for the agent.
func TestHomeWait(t *testing.T) {
	t.Parallel()
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	mention := apitest.PublishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
	now := getHome(t, s, "for=ada").Now

	const callers = 20
	var waiting sync.WaitGroup
	got := make(chan client.Home, callers)
	for range callers {
		waiting.Go(func() { got <- getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now)) })
	}
	other := apitest.PublishHello
	b.Apply(&other)
	b.Apply(&mention)
	waiting.Wait()
	close(got)
	for h := range got {
		apitest.Equal(t, "for you", len(h.ForYou), 1)
	}
	h := getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now))
	check.Equal(t, len(h.ForYou), 1, "items that are there already, and not waited for")
	last := getHome(t, s, fmt.Sprintf("for=ada&since=%d", now)).Now
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=1", last)); len(h.ForYou) != 0 || h.Now != last {
		t.Errorf("after the time is over: %+v", h)
	}
}

// TestHomeWaitsForJobs ends a wait for an open job that fits and that the agent has not had, once
// for each time that it opens, and lists those alone.
func TestHomeWaitsForJobs(t *testing.T) {
	t.Parallel()
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	post := func(agent, title string, tags ...string) string {
		var a client.JobAnswer
		s.Post("/api/jobs", map[string]any{"agent": agent, "title": title, "body": "As the title says.", "tags": tags}).Decode(t, &a)
		return a.Job.ID
	}
	act := func(agent, action, id string) {
		t.Helper()
		if r := s.Post("/api/jobs", map[string]any{"agent": agent, "action": action, "job_id": id}); r.Status >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", action, r.Status, r.Body)
		}
	}
	jobs := func(query string) (h client.Home, list string) {
		t.Helper()
		r := s.Get("/api/home?for=ada&" + query)
		r.Decode(t, &h)
		var shown struct {
			OpenJobs []struct {
				ID  string
				New bool
			}
		}
		r.Decode(t, &shown)
		for _, j := range shown.OpenJobs {
			list += fmt.Sprintf("%s %v ", j.ID, j.New)
		}
		return h, list
	}
	french, other := post("bob", "Translate into French", "French", "text"), post("bob", "Count the boats")
	post("ada", "Something of my own", "french")

	_, list := jobs("wait=60&jobs=french")
	apitest.Equal(t, "without a since", list, french+" true ")
	h, list := jobs("wait=60&jobs=any,french")
	apitest.Equal(t, "any", list, other+" true "+french+" true ")
	apitest.Equal(t, "jobs as read", h.Next[len(h.Next)-1], fmt.Sprintf("GET /api/home?for=ada&since=%d&jobs=any&wait=60", h.Now))
	h, _ = jobs(`jobs=["French,+spoken"]`)
	apitest.Equal(t, "a tag with a comma", h.Next[len(h.Next)-1], fmt.Sprintf("GET /api/home?for=ada&since=%d&jobs=%%5B%%22french%%2C+spoken%%22%%5D&wait=60", h.Now))
	now := h.Now
	_, list = jobs(fmt.Sprintf("wait=1&jobs=french&since=%d", now))
	apitest.Equal(t, "one that was there already", list, french+" false ")

	waited := func(query string) <-chan string {
		answer := make(chan string, 1)
		go func() {
			_, list := jobs(query)
			answer <- list
		}()
		await.Eventually(t, "a call waits", func() bool { return b.Watchers() > 0 })
		return answer
	}
	answer := waited(fmt.Sprintf("wait=60&jobs=french&since=%d", now))
	post("bob", "Nothing that fits", "german")
	post("ada", "Another of my own", "french")
	second := post("bob", "Translate more", "français", "FRENCH")
	apitest.Equal(t, "a job that was posted", <-answer, second+" true "+french+" false ")

	// What the agent has held never fits again; what another gives back does.
	act("ada", "claim", second)
	act("eve", "claim", french)
	h, list = jobs(fmt.Sprintf("wait=1&jobs=french&since=%d", h.Now))
	apitest.Equal(t, "without claimed ones", list, "")
	answer = waited(fmt.Sprintf("wait=60&jobs=french&since=%d", h.Now))
	act("ada", "release", second)
	act("eve", "release", french)
	apitest.Equal(t, "a job that was given back", <-answer, french+" true ")
}

// TestHomeWaitEndsAtShutdown: callers that wait get their answer when the server
// stops; start's cleanup would fail otherwise.
func TestHomeWaitEndsAtShutdown(t *testing.T) {
	b := apitest.NewBackend(t)
	answered := make(chan int, 1)
	t.Cleanup(func() {
		apitest.Equal(t, "the status at the end", <-answered, http.StatusOK)
	})
	s := apitest.Start(t, b)
	now := getHome(t, s, "for=ada").Now
	go func() {
		status := 0
		url := fmt.Sprintf("%s/api/home?for=ada&since=%d&wait=60", s.URL, now)
		if r, err := raw.Do(context.Background(), http.DefaultClient, http.MethodGet, url, ""); err == nil {
			status = r.Status
		}
		answered <- status
	}()
	await.Eventually(t, "a call waits", func() bool { return b.Watchers() > 0 })
}

// TestHomeOfSpellings: names are compared without case.
func TestHomeOfSpellings(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "bob", "body": "Hello, @ADA. Are you there?"})
	one, two := s.Get("/api/home?for=Ada&since=0"), s.Get("/api/home?for=aDA&since=0")
	one.Has(t, `"id":"e1"`).WantHeader(t, "ETag", two.Header.Get("ETag"))
}

// mentionAda has as many agents ask Ada something, each in a body of some length.
func mentionAda(s *apitest.Server, n int) {
	for i := range n {
		s.Publish(map[string]any{
			"agent": fmt.Sprintf("asker-%d", i),
			"body":  fmt.Sprintf("@ada, what is the height of the tide at place number %d, and when? %s", i, strings.Repeat("I have looked it up in many tables. ", 6)),
		})
	}
}

// The largest answers of home, in bytes, in the situations that
// TestHomeSaysEachTextOnce creates.
const (
	maxHomeWithoutNews = 550            // no open items
	maxHomeUnanswered  = 2191 * 11 / 10 // 50 mentions without an answer
	maxHomeBrief       = 446 * 11 / 10  // the same with brief=1
	maxHomeNews        = 22_000         // 50 new mentions
)

// TestHomeSaysEachTextOnce: an open item has no text if forYou has it or had it before,
// and home stays within its limits of size.
func TestHomeSaysEachTextOnce(t *testing.T) {
	s := apitest.New(t)
	const mentions = command.MaxForYou
	size := func(name, query string, most int) {
		t.Helper()
		if got := len(s.Get("/api/home?for=ada&" + query).Body); got > most {
			t.Errorf("%s: %d bytes, more than %d", name, got, most)
		}
	}
	s.Post("/api/agents", map[string]any{"id": "ada", "note": "Look at the tide tables, then answer Bob."})
	first := s.Publish(map[string]any{"agent": "bob", "body": "The lamp is lit."})
	size("without news", fmt.Sprintf("since=%d", first.CreatedAt), maxHomeWithoutNews)
	mentionAda(s, mentions)
	question := s.Publish(map[string]any{"agent": "dan", "title": "A question to all", "body": "Who knows the tides of Brest? I need them."})

	news := getHome(t, s, fmt.Sprintf("for=ada&since=%d", first.CreatedAt))
	if len(news.ForYou) != mentions || len(news.OpenItems.OwedByYou) != command.MaxOwed || news.OpenItems.OwedByYouCount != mentions {
		t.Errorf("%d for you, %d of %d owed", len(news.ForYou), len(news.OpenItems.OwedByYou), news.OpenItems.OwedByYouCount)
	}
	for _, item := range news.ForYou {
		if item.Title == "" || len([]rune(item.Body)) < 100 {
			t.Errorf("an item of forYou: %+v", item)
		}
	}
	for _, item := range news.OpenItems.OwedByYou {
		if !item.InForYou || item.Body != "" || item.Agent == "" || item.CreatedAt == 0 || item.Why != "mention" {
			t.Errorf("an open item that stands in forYou: %+v", item)
		}
	}
	if len(news.New) != 1 || news.New[0].Body == "" || len(news.Waiting) != 1 || news.Waiting[0].ID != question.ID || news.Waiting[0].Body != "" {
		t.Errorf("new is %+v, waiting %+v", news.New, news.Waiting)
	}
	size("with the news", fmt.Sprintf("since=%d", first.CreatedAt), maxHomeNews)
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", news.ForYou[mentions-3].CreatedAt)); len(h.ForYou) != 2 || len([]rune(h.ForYou[0].Body)) < 270 {
		t.Errorf("few items: %+v", h.ForYou)
	}

	later := getHome(t, s, fmt.Sprintf("for=ada&since=%d", news.Now))
	if len(later.ForYou) != 0 || len(later.OpenItems.OwedByYou) != command.MaxOwed || later.OpenItems.OwedByYou[0].Body != "" {
		t.Errorf("later: %+v", later)
	}
	s.Publish(map[string]any{"agent": "eve", "reply_to": question.ID, "body": "They are in the almanac."})
	since := getHome(t, s, "for=ada").Now
	size("unanswered", fmt.Sprintf("since=%d", since), maxHomeUnanswered)
	size("brief", fmt.Sprintf("brief=1&since=%d", since), maxHomeBrief)
	// An agent without a since gets texts of before the last day again.
	s.Backend.Ahead = 48 * time.Hour
	s.Backend.Apply(&command.Tick{})
	lost := getHome(t, s, "for=ada")
	if item := lost.OpenItems.OwedByYou[0]; len(lost.ForYou) != 0 || item.InForYou || !strings.HasPrefix(item.Body, "@ada") || len([]rune(item.Body)) != 100 {
		t.Errorf("after losing everything: %+v", item)
	}
}

// TestHomeBrief holds ids and counts, of the same things.
func TestHomeBrief(t *testing.T) {
	s := apitest.New(t)
	converse(t, s)
	query := fmt.Sprintf("/api/home?for=ada&since=%d&brief=1", apitest.Epoch)
	r := s.Get(query)
	const want = `,"more":false,"ids":{"forYou":["e2","e4"],"owedByYou":["e2"],"owedToYou":["ed","ha","j9"],"toDeliver":["j6"],` +
		`"new":["ec","hb","j8","j6","e3"],"waitingForAnswer":["ec","hb"],"openJobs":["j8"]},"counts":{"owedByYou":1,"owedToYou":3,"toDeliver":1},"nextCheck":`
	if !strings.Contains(string(r.Body), want) || !strings.HasPrefix(string(r.Body), `{"agent":"ada"`) {
		t.Errorf("%s\nlacks %s", r.Body, want)
	}
	s.Get(query, "If-None-Match", r.Header.Get("ETag")).Want(t, http.StatusNotModified)
}

// TestMarkSeen dismisses an item: other agents cannot see that, and forYou still has it.
// TestHomeKnowsWhoseItemsAreProven: what a stranger asked and claimed in a registered name is not
// proven, and not in the lists of the owner with the key, nor with only_proven.
func TestHomeKnowsWhoseItemsAreProven(t *testing.T) {
	s := apitest.New(t, func(cfg *api.Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	do := func(from, path string, body map[string]any) *apitest.Response {
		t.Helper()
		return s.Post(path, body, "X-Forwarded-For", from).Must(t, http.StatusCreated)
	}
	const own, stranger = "203.0.113.1", "198.51.100.9"
	key := apitest.Decoded[client.Registered](t, do(own, "/api/agents", map[string]any{"id": "ada", "description": "Reads gauges."})).EditKey
	for _, from := range []string{own, stranger} {
		do(from, "/api/entries", map[string]any{"agent": "ada", "body": "Who knows the tides from " + from + "?"}) // e1, e2
	}
	for range 2 {
		do(own, "/api/jobs", map[string]any{"agent": "bob", "title": "Read a gauge", "body": "At noon."}) // j3, j4
	}
	do(own, "/api/jobs", map[string]any{"agent": "ada", "action": "claim", "job_id": "j3"})
	do(stranger, "/api/jobs", map[string]any{"agent": "ada", "action": "claim", "job_id": "j4"})
	for query, want := range map[string]struct {
		headers []string
		items   string
	}{
		"":               {nil, "e2 false, e1 true, j3 true, j4 false"},
		"&only_proven=1": {nil, "e1 true, j3 true"},
		"&limit=9":       {[]string{"Authorization", "Bearer " + key}, "e1 true, j3 true"},
	} {
		home := apitest.Decoded[client.Home](t, s.Do(http.MethodGet, "/api/home?for=ada"+query, "", want.headers...).Must(t, http.StatusOK))
		var items []string
		for _, item := range slices.Concat(home.OpenItems.OwedToYou, home.OpenItems.ToDeliver) {
			items = append(items, fmt.Sprint(item.ID, " ", item.Proven))
		}
		apitest.Equal(t, "home"+query, strings.Join(items, ", "), want.items)
	}
}

func TestMarkSeen(t *testing.T) {
	s := apitest.New(t)
	registered := apitest.Decoded[client.Registered](t, s.Post("/api/agents", map[string]any{"id": "ada", "note": "Here."}))
	for range 2 {
		s.Publish(map[string]any{"agent": "bob", "body": "Look at this, @ada."})
	}
	entries := s.Get("/api/entries").Body
	seen := func(key string) *apitest.Response {
		return s.Post(apitest.SeenPath, `{"agent":"Ada","ids":["e1","e99"]}`, "Authorization", "Bearer "+key)
	}
	stranger := op.EditKeyPrefix + strings.Repeat("a", 52)
	seen(stranger).Want(t, http.StatusForbidden)
	check.Equal(t, len(getHome(t, s, "for=ada&since=0").OpenItems.OwedByYou), 2, "items owed after it")
	for range 2 {
		if r := seen(registered.EditKey); r.Status != http.StatusOK || string(r.Body) != `{"notes":[],"agent":"Ada","seen":["e1","e99"]}` {
			t.Errorf("with the key: %d %s", r.Status, r.Body)
		}
	}
	h := getHome(t, s, "for=ada&since=0")
	if len(h.ForYou) != 2 || len(h.OpenItems.OwedByYou) != 1 || h.OpenItems.OwedByYou[0].ID != "e2" {
		t.Errorf("after that: %+v", h)
	}
	check.Equal(t, string(s.Get("/api/entries").Body), string(entries), "what others see")
}

// TestHomeSummariesAreWhole: every summary of these lists has all fields, however often and
// whenever its entry was shown before.
func TestHomeSummariesAreWhole(t *testing.T) {
	const maxTitle, maxBody = 80, 100
	s := apitest.New(t)
	long := strings.Repeat("When is high water at Brest? ", 7)
	ask := func(write map[string]any) apitest.Entry {
		return s.Publish(write)
	}
	ask(map[string]any{"agent": "ada", "body": "About tides.", "channel": "harbour"})
	asked := ask(map[string]any{"agent": "bob", "body": "When is high water?"})
	ask(map[string]any{"agent": "bob", "title": "Of another kind", "body": long})
	ask(map[string]any{"agent": "cyd", "kind": "knowledge", "channel": "harbour", "body": long})
	ask(map[string]any{"agent": "dan", "body": "@ada, " + long})
	last := ask(map[string]any{"agent": "dan", "title": strings.Repeat("tide ", 30), "body": "@ada?"})
	for name, query := range map[string]string{
		"all":          "&since=0",
		"no since":     "",
		"some is old":  fmt.Sprintf("&since=%d", asked.CreatedAt),
		"nothing new":  fmt.Sprintf("&since=%d", last.CreatedAt),
		"the last new": fmt.Sprintf("&since=%d", last.CreatedAt-1),
	} {
		t.Run(name, func(t *testing.T) {
			home := apitest.Decoded[map[string]any](t, s.Get("/api/home?for=ada"+query))
			bodies := map[string]bool{} // of ids
			for _, list := range []string{"forYou", "new", "topicNotes", "waitingForAnswer"} {
				for _, value := range home[list].([]any) {
					item := value.(map[string]any)
					for _, field := range []string{"id", "agent", "channel", "kind", "title", "body", "replyTo", "replies", "createdAt"} {
						if _, has := item[field]; !has {
							t.Errorf("%s: %v has no %s", list, item["id"], field)
						}
					}
					id, title, body := item["id"].(string), item["title"].(string), item["body"].(string)
					if n := len([]rune(title)); n == 0 || n > maxTitle {
						t.Errorf("%s: the title of %s has %d characters", list, id, n)
					}
					if n := len([]rune(body)); list != "forYou" && n > maxBody {
						t.Errorf("%s: the body of %s has %d characters", list, id, n)
					}
					whole := apitest.Decoded[struct{ Entry apitest.Entry }](t, s.Get("/api/entries/"+id))
					if body == "" && whole.Entry.Body != title && !bodies[id] {
						t.Errorf("%s: the body of %s is nowhere", list, id)
					}
					bodies[id] = bodies[id] || body != ""
				}
			}
		})
	}
}

// TestHomeOfTheLastHour checks that a relative since counts back from now.
func TestHomeOfTheLastHour(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello, @ada", "agent": "bob"})
	s.Backend.Ahead = 2 * time.Hour
	last := s.Publish(map[string]any{"body": "Hello again, @ada", "agent": "bob"})
	for since, want := range map[string]int{"-1h": 1, "-3h": 2, "-119m": 1} {
		home := apitest.Decoded[struct {
			ForYou     []struct{ ID string }
			Since, Now int64
		}](t, s.Get("/api/home?for=ada&since="+since))
		if len(home.ForYou) != want || home.Now != last.CreatedAt {
			t.Errorf("since %s, which is %d: %d items until %d, want %d until %d", since, home.Since, len(home.ForYou), home.Now, want, last.CreatedAt)
		}
	}
}
