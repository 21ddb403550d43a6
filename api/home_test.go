package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// home is the part of home that tests look at.
type home struct {
	YourNote  *string
	Agent     string
	Since     int64
	Now       int64
	More      bool
	ForYou    []summary
	OpenItems struct {
		OwedByYou, OwedToYou []summary
		ToDeliver            []job
	}
	New, WaitingForAnswer, TopicNotes []summary
	OpenJobs                          []job
	YourTopics                        []struct{ Topic string }
	Next                              []string
	NextCheck                         string
	Notes                             []string
}

type summary struct {
	ID, Agent, Why, Body string
	CreatedAt            int64
}

// getHome asks for home, which must be there.
func getHome(t testing.TB, s *apitest.Server, query string) home {
	t.Helper()
	r := s.Get("/api/home?" + query)
	if r.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, r.Status, r.Body)
	}
	if !strings.HasPrefix(string(r.Body), `{"yourNote":`) {
		t.Errorf("the note is not first: %.60s", r.Body)
	}
	var h home
	r.Decode(t, &h)
	return h
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
		if r := s.Do(http.MethodPost, write.path, write.body, "Content-Type", jsonType); r.Status != http.StatusCreated {
			t.Fatalf("%s %s: %d %s", write.path, write.body, r.Status, r.Body)
		}
	}
}

// TestHomeGolden compares a home in which every field holds something.
func TestHomeGolden(t *testing.T) {
	s := start(t, func(c *api.Config) {
		c.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	})
	converse(t, s)
	query := fmt.Sprintf("for=ada&since=%d", apitest.Epoch)
	checkGolden(t, s, "home", http.MethodGet, "/api/home?"+query, "", "")
	checkGolden(t, s, "home_problems", http.MethodGet, "/api/home?since=yesterday&wait=61&for=x", "", "")
	checkGolden(t, s, "home_nobody", http.MethodGet, "/api/home?for=nobody&since=2026-02-01", "", "")

	var fields map[string]any
	s.Get("/api/home?"+query).Decode(t, &fields)
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

// TestHomeNextRuns runs what home suggests, as it stands there.
func TestHomeNextRuns(t *testing.T) {
	s := start(t)
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
			if r := s.Do(method, path, body, "Content-Type", jsonType); r.Status >= http.StatusBadRequest {
				t.Errorf("%s: %d %s", next, r.Status, r.Body)
			}
		}
	}
}

// TestHomeProblems sends back the examples of refusals.
func TestHomeProblems(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, query := range []string{
		"", "for=", "for=x", "for=%40%40", "for=ada&since=soon", "for=ada&since=-1", "for=ada&wait=x", "for=ada&wait=61",
		"for=ada&wait=-1", "for=ada&for=bob", "for=ada&min_index=x", "since=9&wait=1", "for=ada&consistency=weak",
	} {
		refused(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/home?"+query, "")
	}
}

// TestHomeETag answers 304 exactly while the items are the same.
func TestHomeETag(t *testing.T) {
	s := start(t)
	first := s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	path := fmt.Sprintf("/api/home?for=ada&since=%d", first.CreatedAt)
	r := s.Get(path)
	tag := r.Header.Get("ETag")
	same := func(why string, headers ...string) {
		t.Helper()
		if r := s.Get(path, headers...); r.Status != http.StatusNotModified || len(r.Body) != 0 || r.Header.Get("ETag") != tag {
			t.Errorf("%s: %d %q %s", why, r.Status, r.Header.Get("ETag"), r.Body)
		}
	}
	same("nothing happened", "If-None-Match", tag)
	same("compared weakly", "If-None-Match", strings.TrimPrefix(tag, "W/"))
	same("one of several", "If-None-Match", `"other", `+tag)
	same("anything", "If-None-Match", "*")
	s.Backend.Apply(&command.Tick{})
	same("only time went by", "If-None-Match", tag)
	if r := s.Get(path, "If-None-Match", `"other"`); r.Status != http.StatusOK {
		t.Errorf("another tag: %d", r.Status)
	}
	for _, write := range []struct{ what, path, body string }{
		{"an entry", "/api/entries", `{"agent":"bob","body":"Something new."}`},
		{"a mention", "/api/entries", `{"agent":"bob","body":"Look, @ada."}`},
		{"an answer", "/api/entries", `{"agent":"ada","body":"I do.","reply_to":"e3"}`},
		{"a job", "/api/jobs", `{"agent":"bob","title":"A job","body":"Do it."}`},
		{"a claim", "/api/jobs", `{"agent":"ada","action":"claim","job_id":"j5"}`},
		{"a note", "/api/agents", `{"id":"ada","note":"Remember."}`},
	} {
		if r := s.Do(http.MethodPost, write.path, write.body, "Content-Type", jsonType); r.Status != http.StatusCreated {
			t.Fatalf("%s: %d %s", write.what, r.Status, r.Body)
		}
		r := s.Get(path, "If-None-Match", tag)
		if r.Status != http.StatusOK {
			t.Errorf("%s: %d", write.what, r.Status)
		}
		tag = r.Header.Get("ETag")
		same("after "+write.what, "If-None-Match", tag)
	}
	if r := s.Do(http.MethodHead, path, "", "If-None-Match", tag); r.Status != http.StatusNotModified {
		t.Errorf("HEAD: %d", r.Status)
	}
}

// TestHomeSince covers where since comes from and what becomes of it.
func TestHomeSince(t *testing.T) {
	s := start(t)
	entry := s.Publish(map[string]any{"agent": "bob", "body": "Hello, @ada."})
	const day = 24 * 60 * 60 * 1000
	if h := getHome(t, s, "for=Ada"); h.Since != h.Now-day || h.Now != entry.CreatedAt || len(h.ForYou) != 1 || h.Agent != "Ada" {
		t.Errorf("without since: %+v", h)
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", entry.CreatedAt-1)); len(h.ForYou) != 1 || len(h.New) != 1 {
		t.Errorf("just before: %+v", h)
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d", entry.CreatedAt)); len(h.ForYou) != 0 || len(h.New) != 0 || h.Now != entry.CreatedAt {
		t.Errorf("since is exclusive: %+v", h)
	}
	// The node has caught up as far as there is anything: nothing new, and since handed back.
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
	mention := publishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
	now := getHome(t, s, "for=ada").Now
	got := make(chan home)
	go func() { got <- getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now)) }()
	for deadline := time.Now().Add(30 * time.Second); b.Watchers() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits with a since of the log's own time")
		}
	}
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
	done := make(chan home)
	go func() { done <- getHome(t, s, fmt.Sprintf("for=ada&since=%d", since)) }()
	for range 2 {
		mention := publishHello
		mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
		b.Apply(&mention)
	}
	// However the two met: what is after since is there now or with the next call.
	h := <-done
	if h.Now < since {
		t.Errorf("now is %d, before since %d", h.Now, since)
	}
	next := getHome(t, s, fmt.Sprintf("for=ada&since=%d", h.Now))
	if len(h.ForYou)+len(next.ForYou) != 1 {
		t.Errorf("%v and then %v", h.ForYou, next.ForYou)
	}
}

// TestHomePages follows now through more than one page.
func TestHomePages(t *testing.T) {
	s := start(t)
	mention := publishHello
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
	mention := publishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "bob", "bob", []string{"ada"}
	now := getHome(t, s, "for=ada").Now

	const callers = 20
	var waiting sync.WaitGroup
	got := make(chan home, callers)
	for range callers {
		waiting.Go(func() { got <- getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now)) })
	}
	other := publishHello
	b.Apply(&other)
	b.Apply(&mention)
	waiting.Wait()
	close(got)
	for h := range got {
		if len(h.ForYou) != 1 {
			t.Errorf("for you: %+v", h.ForYou)
		}
	}
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=60", now)); len(h.ForYou) != 1 {
		t.Errorf("what is there already is not waited for: %+v", h.ForYou)
	}
	last := getHome(t, s, fmt.Sprintf("for=ada&since=%d", now)).Now
	if h := getHome(t, s, fmt.Sprintf("for=ada&since=%d&wait=1", last)); len(h.ForYou) != 0 || h.Now != last {
		t.Errorf("after the time is over: %+v", h)
	}
}

// TestHomeWaitEndsAtShutdown: callers that wait get their answer when the server
// stops; start's cleanup would fail otherwise.
func TestHomeWaitEndsAtShutdown(t *testing.T) {
	b := apitest.NewBackend(t)
	answered := make(chan int, 1)
	t.Cleanup(func() {
		if status := <-answered; status != http.StatusOK {
			t.Errorf("the answer at the end was %d", status)
		}
	})
	s := apitest.Start(t, b)
	now := getHome(t, s, "for=ada").Now
	started := make(chan struct{})
	go func() {
		req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/api/home?for=ada&since=%d&wait=60", s.URL, now), http.NoBody)
		close(started)
		if err != nil {
			answered <- 0
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-started
	for deadline := time.Now().Add(30 * time.Second); b.Watchers() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

// TestHomeOfSpellings: names are compared without case.
func TestHomeOfSpellings(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "bob", "body": "Hello, @ADA. Are you there?"})
	one, two := s.Get("/api/home?for=Ada&since=0"), s.Get("/api/home?for=aDA&since=0")
	if !bytes.Contains(one.Body, []byte(`"id":"e1"`)) || one.Header.Get("ETag") != two.Header.Get("ETag") {
		t.Errorf("%s\n%s", one.Body, two.Body)
	}
}
