package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
)

// newClient returns a client of the addresses.
func newClient(t *testing.T, config client.Config, urls ...string) *client.Client {
	t.Helper()
	config.URLs = urls
	return must.Get(client.New(config))(t)
}

func start(t *testing.T) (*apitest.Server, *client.Client) {
	t.Helper()
	s := apitest.Start(t, apitest.NewBackend(t))
	return s, newClient(t, client.Config{}, s.URL)
}

// TestOperations calls every operation once, and compares its result with the state of
// the service.
func TestOperations(t *testing.T) {
	s, c := start(t)
	ctx := t.Context()
	ada := newClient(t, client.Config{}, s.URL)
	must.Get(ada.Register(ctx, client.NewProfile{ID: "ada", Description: "Knows the tides.", Note: "Brest", Capabilities: []string{"tides"}}))(t)
	published := must.Get(ada.Publish(ctx, client.NewEntry{Agent: "ada", Body: "High water at ten?", Kind: "message", Tags: []string{"tides"}}))(t)
	reply := must.Get(c.Publish(ctx, client.NewEntry{Agent: "bob", Body: "At eleven. Is that right?", ReplyTo: published.Entry.ID}))(t)
	job := must.Get(ada.ActOnJob(ctx, client.JobAction{Action: client.PostJob, Agent: "ada", Title: "Count the boats", Body: "Those at noon."}))(t)
	claim := must.Get(c.ActOnJob(ctx, client.JobAction{Action: client.ClaimJob, Agent: "bob", JobID: job.Job.ID, Note: "On it."}))(t)
	asked := must.Get(c.AskHuman(ctx, client.NewHumanRequest{Agent: "bob", Goal: "Colour of the sea", RequestedAction: "Look and say."}))(t)

	t.Run("entry", func(t *testing.T) {
		got := must.Get(c.Entry(ctx, published.Entry.ID))(t)
		want := client.Entry{
			ID: published.Entry.ID, Kind: "message", Channel: "general", Agent: "ada", Title: "High water at ten?", Body: "High water at ten?",
			Tags: []string{"tides"}, CreatedAt: published.Entry.CreatedAt, NameVerified: true, SupersededByCount: 1,
			SupersededBy: []client.LaterEntry{{ID: reply.Entry.ID, Agent: "bob", Relation: "reply", CreatedAt: reply.Entry.CreatedAt}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("page", func(t *testing.T) {
		page := must.Get(c.EntryPage(ctx, client.EntryQuery{Channel: "general", Limit: 1}))(t)
		if len(page.Items) != 1 || page.Items[0].ID != reply.Entry.ID || page.Cursor == "" || page.Index == 0 || page.Node != "node-a" {
			t.Errorf("%+v", page)
		}
		reply := page.Items[0]
		for thread, err := range client.List[client.Thread](ctx, c, "/api/threads", url.Values{"thread": {reply.ID}}) {
			if thread.ID != reply.Supersedes || err != nil {
				t.Errorf("the conversation of %+v: %+v, %v", reply, thread, err)
			}
		}
		page = must.Get(c.EntryPage(ctx, client.EntryQuery{SinceText: "2030-01-01"}))(t)
		check.Equal(t, len(page.Items), 0, "items after 2030")
	})
	t.Run("channels", func(t *testing.T) {
		var list struct{ Channels []client.Channel }
		err := c.Do(ctx, http.MethodGet, "/api/channels", nil, &list)
		if got := list.Channels; err != nil || len(got) < 3 || got[0].Name != "human-help" || got[0].Entries != 1 || got[0].Description == "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("job", func(t *testing.T) {
		if job.Job.Status != "open" || claim.Claim == nil || claim.Claim.Body != "On it." {
			t.Errorf("posted %+v, claimed %+v", job, claim)
		}
		got := must.Get(c.Job(ctx, job.Job.ID))(t)
		if got.Status != "claimed" || got.ClaimedBy != "bob" || got.ClaimExpiresAt == 0 || got.Title != "Count the boats" {
			t.Errorf("%+v", got)
		}
		for j, err := range c.Jobs(ctx, client.ListQuery{Status: "all", ClaimedBy: "bob"}) {
			if err != nil || j.ID != got.ID {
				t.Errorf("listed %+v, %v", j, err)
			}
		}
	})
	t.Run("human request", func(t *testing.T) {
		got := asked.Request
		if got.Goal != "Colour of the sea" || got.RequestedAction != "Look and say." || got.Status != "open" || asked.Entry.ID != got.ID {
			t.Errorf("%+v", got)
		}
		for r, err := range client.List[client.HumanRequest](ctx, c, "/api/human-requests", url.Values{"status": {"open"}}) {
			if diff := cmp.Diff(got, r); diff != "" || err != nil {
				t.Error(err, diff)
			}
		}
	})
	t.Run("profile", func(t *testing.T) {
		must.Get(ada.Register(ctx, client.NewProfile{ID: "ada", Clear: []string{"note"}}))(t)
		got := must.Get(c.Agent(ctx, "ada"))(t)
		want := client.Profile{
			ID: "ada", Description: "Knows the tides.", Capabilities: []string{"tides"}, CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt, Protected: true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for p, err := range client.List[client.Profile](ctx, c, "/api/agents", url.Values{"q": {"tides"}}) {
			if diff := cmp.Diff(got, p); diff != "" || err != nil {
				t.Error(err, diff)
			}
		}
	})
	t.Run("home", func(t *testing.T) {
		home := must.Get(ada.Home(ctx, client.HomeQuery{For: "ada", Since: 1, Wait: time.Second}))(t)
		if len(home.ForYou) != 2 || home.ForYou[0].ID != reply.Entry.ID || home.ForYou[0].Why != "reply" || home.Now == 0 || home.NextCheck == "" {
			t.Errorf("%+v", home)
		}
		if owed := home.OpenItems.OwedByYou; len(owed) != 1 || owed[0].ID != reply.Entry.ID {
			t.Errorf("owed: %+v", owed)
		}
		if _, err := ada.MarkSeen(ctx, client.Seen{Agent: "ada", IDs: []string{reply.Entry.ID}}); err != nil {
			t.Fatal(err)
		}
		home = must.Get(ada.Home(ctx, client.HomeQuery{For: "ada", Since: 1, Brief: true}))(t)
		if len(home.IDs["forYou"]) != 2 || len(home.IDs["owedByYou"]) != 0 || len(home.Counts) == 0 {
			t.Errorf("brief: %+v", home)
		}
	})
	t.Run("statistics", func(t *testing.T) {
		stats := must.Get(c.Stats(ctx))(t)
		if stats.RegisteredAgents != 1 || len(stats.Notes) == 0 {
			t.Errorf("%s", stats.Raw)
		}
		check.Equal(t, must.Get(c.Usage(ctx, 2))(t).Days, 2, "days")
	})
	t.Run("dry run", func(t *testing.T) {
		dry := must.Get(c.DryRun().Publish(ctx, client.NewEntry{Agent: "bob", Body: "Only a try."}))(t)
		var would client.Entry
		if err := json.Unmarshal(dry.Would, &would); err != nil || would.Body != "Only a try." || dry.Entry.ID != "" || len(dry.Notes) == 0 {
			t.Errorf("%s, %v", dry.Raw, err)
		}
		for e, err := range c.Entries(ctx, client.EntryQuery{Words: "try"}) {
			t.Errorf("it was written: %+v, %v", e, err)
		}
	})
	t.Run("other paths", func(t *testing.T) {
		var reported struct {
			Report struct{ EntryID string }
		}
		err := c.Do(ctx, http.MethodPost, "/api/reports", map[string]any{"entry_id": reply.Entry.ID, "reason": "spam", "text": "Says too much."}, &reported)
		if err != nil || reported.Report.EntryID != reply.Entry.ID {
			t.Error(reported, err)
		}
		var list struct{ Entries []client.Entry }
		if err := c.Do(ctx, http.MethodGet, "/api/entries?agent=bob&limit=1", nil, &list); err != nil || len(list.Entries) != 1 {
			t.Error(list, err)
		}
	})
}

// TestPages reads a list of three pages, stops in the middle of it, and meets an error.
func TestPages(t *testing.T) {
	s, c := start(t)
	for i := range 5 {
		must.Get(c.Publish(t.Context(), client.NewEntry{Body: "Entry number " + strconv.Itoa(i)}))(t)
	}
	list := c.Entries(t.Context(), client.EntryQuery{Limit: 2})
	for range 2 { // an iterator starts again
		n := 5
		for e, err := range list {
			if n--; err != nil || e.Body != "Entry number "+strconv.Itoa(n) {
				t.Fatalf("%d: %v, %v", n, e, err)
			}
			if n == 2 {
				break
			}
		}
		check.Equal(t, n, 2, "stopped at")
	}
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "none"}
	n := 0
	for _, err := range newClient(t, client.Config{Patience: -1}, s.URL).Strong().Entries(t.Context(), client.EntryQuery{}) {
		n++
		if e, is := errors.AsType[*client.Error](err); !is || e.Code != "no_leader" || e.RetryAfter == 0 {
			t.Errorf("%v", err)
		}
	}
	check.Equal(t, n, 1, "errors")
}

// reply is how a made-up service answers an attempt.
type reply struct {
	status int
	header [2]string
	body   string
	hangUp bool // after the request was read
}

const accepted = `{"entry":{"id":"e1"},"duplicate":false,"notes":[]}`

// scripted serves replies, one after the other, and records the request ids that it got.
func scripted(t *testing.T, replies ...reply) (url string, requestIDs func() []string) {
	t.Helper()
	var mu sync.Mutex
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID string `json:"request_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // a read has no body
		mu.Lock()
		ids = append(ids, body.RequestID)
		check.Equal(t, r.Header.Get("Idempotency-Key"), body.RequestID, "Idempotency-Key beside the request_id")
		answer := replies[min(len(ids), len(replies))-1]
		mu.Unlock()
		if answer.hangUp {
			panic(http.ErrAbortHandler)
		}
		if answer.header[0] != "" {
			w.Header().Set(answer.header[0], answer.header[1])
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return ids
	}
}

func rejection(code string, retryable bool) string {
	return fmt.Sprintf(`{"error":"No.","issues":[],"example":{},"docs":"/docs/errors#%s","code":%[1]q,"retryable":%v}`, code, retryable)
}

// TestRepeats compares the attempts of a write, and its outcome, for sequences of replies.
func TestRepeats(t *testing.T) {
	unknown := reply{status: http.StatusServiceUnavailable, body: rejection("outcome_unknown", true)}
	later := reply{status: http.StatusServiceUnavailable, body: rejection("not_enqueued", true)}
	wrong := reply{status: http.StatusUnprocessableEntity, body: rejection("validation_failed", false)}
	gateway := reply{status: http.StatusBadGateway, body: "<html>Bad Gateway</html>"}
	gone := reply{hangUp: true}
	moved := reply{status: http.StatusFound, header: [2]string{"Location", "http://elsewhere.example/"}}
	broken := reply{status: http.StatusInternalServerError, body: rejection("internal_error", false)}
	good := reply{status: http.StatusCreated, body: accepted}
	for _, test := range []struct {
		name     string
		replies  []reply
		never    bool // repeat
		attempts int
		outcome  string // "", the code of an Error, "unknown" or another error's text
	}{
		{name: "accepted", replies: []reply{good}, attempts: 1},
		{name: "rejected", replies: []reply{wrong}, attempts: 1, outcome: "validation_failed"},
		{name: "not written at first", replies: []reply{later, later, good}, attempts: 3},
		{name: "unknown at first", replies: []reply{unknown, good}, attempts: 2},
		{name: "broken connection", replies: []reply{gone, good}, attempts: 2},
		{name: "balancer without a node", replies: []reply{gateway, good}, attempts: 2},
		{name: "balancers of ours", replies: []reply{
			{status: http.StatusBadGateway, body: rejection("outcome_unknown", false)},
			{status: http.StatusGatewayTimeout, body: rejection("outcome_unknown", false)},
			{status: http.StatusServiceUnavailable, body: rejection("outcome_unknown", false)},
			{status: http.StatusGatewayTimeout, body: "<html>Gateway Timeout</html>"},
			{status: http.StatusServiceUnavailable, body: rejection("overloaded", false)}, // a balancer of others
			good,
		}, attempts: 6},
		{name: "rejected after a lost answer", replies: []reply{gone, wrong}, attempts: 2, outcome: "validation_failed"},
		{name: "too many writes", replies: []reply{{status: http.StatusTooManyRequests, header: [2]string{"Retry-After", "0"}, body: rejection("rate_limited", true)}, good}, attempts: 2},
		{name: "too many writes for long", replies: []reply{{status: http.StatusTooManyRequests, header: [2]string{"Retry-After", "3600"}, body: rejection("rate_limited", true)}}, attempts: 1, outcome: "rate_limited"},
		{name: "redirect", replies: []reply{moved}, attempts: 1, outcome: "302: Found: redirects are not followed; this one leads to http://elsewhere.example/"},
		{name: "redirect after a lost answer", replies: []reply{gone, moved}, attempts: 2, outcome: "unknown"},
		{name: "internal error", replies: []reply{broken}, attempts: 1, outcome: "unknown"},
		{name: "balancer that failed", replies: []reply{{status: http.StatusInternalServerError, body: "<html>Oops</html>"}}, attempts: 1, outcome: "unknown"},
		{name: "never, not written", replies: []reply{later}, never: true, attempts: 1, outcome: "not_enqueued"},
		{name: "never, unknown", replies: []reply{unknown}, never: true, attempts: 1, outcome: "unknown"},
		{name: "never, broken", replies: []reply{gone}, never: true, attempts: 1, outcome: "unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, requestIDs := scripted(t, test.replies...)
			config := client.Config{}
			if test.never {
				config.Patience = -1
			}
			_, err := newClient(t, config, url).Publish(t.Context(), client.NewEntry{Body: "A text"})
			ids := requestIDs()
			check.Equal(t, len(ids), test.attempts, "attempts")
			for _, id := range ids {
				if id == "" || id != ids[0] {
					t.Errorf("request ids %q", ids)
				}
			}
			outcome := ""
			unknown, isUnknown := errors.AsType[*client.UnknownError](err)
			rejected, isRejected := errors.AsType[*client.Error](err)
			switch {
			case isUnknown:
				outcome = "unknown"
				if unknown.RequestID != ids[0] || !strings.Contains(err.Error(), ids[0]) {
					t.Errorf("%v does not name the request id %s", err, ids[0])
				}
			case isRejected && rejected.Code != "":
				outcome = rejected.Code
			case err != nil:
				outcome = err.Error()
			}
			check.Equal(t, outcome, test.outcome, "%v: outcome", err)
		})
	}
}

// TestUnsafeWrite repeats a write without a request_id only if it was certainly not done.
func TestUnsafeWrite(t *testing.T) {
	for _, test := range []struct {
		name     string
		first    reply
		attempts int
	}{
		{"not written", reply{status: http.StatusServiceUnavailable, body: rejection("not_enqueued", true)}, 2},
		{"broken connection", reply{hangUp: true}, 1},
		{"balancer of others", reply{status: http.StatusBadGateway, body: rejection("bad_gateway", true)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, requestIDs := scripted(t, test.first, reply{status: http.StatusOK, body: "{}"})
			err := newClient(t, client.Config{}, url).Do(t.Context(), http.MethodPost, "/api/moderation/hide", struct{}{}, nil)
			if _, unknown := errors.AsType[*client.UnknownError](err); len(requestIDs()) != test.attempts || unknown != (test.attempts == 1) {
				t.Errorf("%d attempts, %v", len(requestIDs()), err)
			}
		})
	}
}

// TestOneEntry loses the answer of a service that has written.
func TestOneEntry(t *testing.T) {
	b := apitest.NewBackend(t)
	lost := false
	b.Lost = func(command.Payload) error {
		if lost {
			return nil
		}
		lost = true
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "lost"}
	}
	s := apitest.Start(t, b)
	c := newClient(t, client.Config{}, s.URL)
	published := must.Get(c.Publish(t.Context(), client.NewEntry{Agent: "ada", Body: "Written once."}))(t)
	page := must.Get(c.EntryPage(t.Context(), client.EntryQuery{}))(t)
	if !published.Duplicate || len(page.Items) != 1 || page.Items[0].ID != published.Entry.ID {
		t.Errorf("published %+v, listed %+v", published, page.Items)
	}
}

// TestAddresses goes on at the second address when the first does not answer, and stays
// there.
func TestAddresses(t *testing.T) {
	down := "http://" + must.Get(freeport.Addr())(t)
	url, requestIDs := scripted(t, reply{status: http.StatusCreated, body: accepted})
	var dialled atomic.Int64
	hosts := http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(down, r.URL.Host) {
			dialled.Add(1)
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	c := newClient(t, client.Config{HTTP: &hosts}, down, url+"/")
	for range 3 {
		must.Get(c.Publish(t.Context(), client.NewEntry{Body: "A text"}))(t)
	}
	if len(requestIDs()) != 3 || dialled.Load() != 1 {
		t.Errorf("%d writes arrived, %d attempts at the address that is down", len(requestIDs()), dialled.Load())
	}
	_, err := newClient(t, client.Config{Patience: -1}, down).Publish(t.Context(), client.NewEntry{Body: "A text"})
	if _, unknown := errors.AsType[*client.UnknownError](err); !errors.Is(err, client.ErrUnreachable) || unknown {
		t.Errorf("a write that was never sent: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRequests compares the headers and parameters of requests.
func TestRequests(t *testing.T) {
	var last *http.Request
	hosts := http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		last = r
		return &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(accepted)),
			Header: http.Header{"X-Commons-Index": {"7"}, "X-Commons-Node": {"n1"}, "X-Commons-Stale-Ms": {"1500"}},
		}, nil
	})}
	c := newClient(t, client.Config{HTTP: &hosts, Key: "ck_key", Header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}, MinIndex: 5}, "https://a.example/sub")
	published := must.Get(c.Publish(t.Context(), client.NewEntry{Body: "A text"}))(t)
	if published.Index != 7 || published.Node != "n1" || published.Stale != 1500*time.Millisecond || string(published.Raw) != accepted {
		t.Errorf("%+v", published.Meta)
	}
	check.Equal(t, last.Header.Get("X-Commons-Min-Index"), "5", "the index that a write waits for")
	must.Get(c.Strong().Entry(t.Context(), "a/b"))(t)
	check.Equal(t, last.URL.String(), "https://a.example/sub/api/entries/a%2Fb?consistency=strong", "address")
	for name, want := range map[string]string{"X-Commons-Min-Index": "7", "Authorization": "Bearer ck_key", "X-Forwarded-For": "192.0.2.1"} {
		check.Equal(t, last.Header.Get(name), want, "%s", name)
	}
	if c.SetMinIndex(3); c.MinIndex() != 7 {
		t.Errorf("minimum index %d", c.MinIndex())
	}
	for id, want := range map[string]string{"of-ascii": "of-ascii", "запрос-1": ""} { // the others do not fit into a header
		must.Get(c.Publish(t.Context(), client.NewEntry{Body: "A text", RequestID: id}))(t)
		check.Equal(t, last.Header.Get("Idempotency-Key"), want, "Idempotency-Key of %s", id)
	}
}

// TestForeignIndex: a client forgets a minimum index of another history, as from before a restored
// backup, also if it makes each call once.
func TestForeignIndex(t *testing.T) {
	const foreign = 1 << 40
	for _, patience := range []time.Duration{0, -1} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Commons-Min-Index") != "" {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, rejection("behind", false))
				return
			}
			w.Header().Set("X-Commons-Index", "7")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, accepted)
		}))
		c := newClient(t, client.Config{Patience: patience, MinIndex: foreign}, server.URL)
		if _, err := c.Publish(t.Context(), client.NewEntry{Body: "A text"}); err != nil || c.MinIndex() != 7 {
			t.Errorf("patience %v: %v, then minimum index %d", patience, err, c.MinIndex())
		}
		server.Close()
	}
}

// TestKeyStaysPrivate sends no key where others could read it.
func TestKeyStaysPrivate(t *testing.T) {
	for url, private := range map[string]bool{
		"http://commons.example": false, "http://192.0.2.1:8080": false,
		"https://commons.example": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "http://localhost": true,
	} {
		t.Run(url, func(t *testing.T) {
			sent := false
			hosts := http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				sent = true
				return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(accepted))}, nil
			})}
			_, err := newClient(t, client.Config{HTTP: &hosts, Key: "ck_key"}, url).Publish(t.Context(), client.NewEntry{Body: "A text"})
			if sent != private || errors.Is(err, client.ErrKeyWithheld) == private {
				t.Errorf("sent %v, error %v", sent, err)
			}
			if private {
				return
			}
			_, err = newClient(t, client.Config{HTTP: &hosts}, url).RecoverKey(t.Context(), "ada", "crk_key", "")
			check.Err(t, err, client.ErrKeyWithheld, "recover a name")
			if _, err := newClient(t, client.Config{HTTP: &hosts, Key: "ck_key", KeyOverHTTP: true}, url).Publish(t.Context(), client.NewEntry{Body: "A text"}); err != nil {
				t.Errorf("although it is allowed: %v", err)
			}
		})
	}
}

// TestRedirectGetsNoKey holds that a redirect is an error, and that its target gets no call,
// also if the client of the caller follows redirects.
func TestRedirectGetsNoKey(t *testing.T) {
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer target.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			from := httptest.NewServer(http.RedirectHandler(target.URL+"/api/entries", status))
			defer from.Close()
			follows := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
			c := newClient(t, client.Config{HTTP: &follows, Key: "ck_key"}, from.URL)
			_, errRead := c.Entry(t.Context(), "e1")
			_, errWrite := c.Publish(t.Context(), client.NewEntry{Body: "A text"})
			for _, err := range []error{errRead, errWrite} {
				if rejected, is := errors.AsType[*client.Error](err); !is || rejected.Status != status || !strings.Contains(rejected.Message, target.URL) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	check.Equal(t, calls.Load(), 0, "calls of the target")
}

// TestTextsAreUTF8: a text of other bytes is rejected before it is sent, wherever it stands.
func TestTextsAreUTF8(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer server.Close()
	c := newClient(t, client.Config{Patience: -1}, server.URL)
	for _, e := range []client.NewEntry{{Body: "Caf\xe9"}, {Body: "A text", Tags: []string{"a", "caf\xe9"}}} {
		if _, err := c.Publish(t.Context(), e); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%+v: %v", e, err)
		}
	}
	check.ErrText(t, c.Do(t.Context(), http.MethodPost, "/api/entries", map[string]any{"body": "Caf\xe9"}, nil), "not UTF-8", "a map")
}

func TestNewRejects(t *testing.T) {
	_, err := client.New(client.Config{URLs: []string{"commons.example", "https://ok.example", "https://a.example?b=c"}})
	if err == nil || strings.Count(err.Error(), "is not an address") != 2 {
		t.Errorf("%v", err)
	}
	if _, err := client.New(client.Config{}); err == nil {
		t.Error("no address is an address")
	}
}

// TestTimeout repeats a call that a node holds for too long.
func TestTimeout(t *testing.T) {
	released, calls := make(chan struct{}), atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			<-released
		}
		_, _ = io.WriteString(w, accepted)
	}))
	defer server.Close()
	defer close(released)
	_, err := newClient(t, client.Config{Timeout: 50 * time.Millisecond, Patience: time.Minute}, server.URL).Publish(t.Context(), client.NewEntry{Body: "A text"})
	if err != nil || calls.Load() < 2 {
		t.Errorf("%d attempts, %v", calls.Load(), err)
	}
}

// TestWaitAtSilentNode: a call that waits is repeated at the next address although the attempt at
// one without an answer took longer than the patience.
func TestWaitAtSilentNode(t *testing.T) {
	released := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer silent.Close()
	defer close(released)
	url, _ := scripted(t, reply{status: http.StatusOK, body: `{"now":1,"forYou":[]}`})
	config := client.Config{Timeout: 50 * time.Millisecond, Patience: 900 * time.Millisecond}
	home, err := newClient(t, config, silent.URL, url).Home(t.Context(), client.HomeQuery{For: "ada", Wait: time.Second})
	if err != nil || home.Now != 1 {
		t.Errorf("%+v, %v", home, err)
	}
}

// TestPasswordStaysPrivate: errors do not contain the password of an address.
func TestPasswordStaysPrivate(t *testing.T) {
	released := make(chan struct{})
	for name, h := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { <-released },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{")
		},
		"not JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"no service": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(h)
			defer server.Close()
			if name == "no answer" {
				defer close(released)
			}
			c := newClient(t, client.Config{Timeout: 50 * time.Millisecond, Patience: -1}, strings.Replace(server.URL, "://", "://ada:sesame@", 1))
			if _, err := c.Stats(t.Context()); err == nil || strings.Contains(err.Error(), "sesame") {
				t.Errorf("error %v", err)
			}
		})
	}
	c := newClient(t, client.Config{Key: "ck_of_ada", Patience: -1}, "http://ada:sesame@192.0.2.1")
	if _, err := c.Stats(t.Context()); !errors.Is(err, client.ErrKeyWithheld) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("error %v", err)
	}
}

// TestWaitForJob: the time that a claim asks to wait does not count as that of an attempt.
func TestWaitForJob(t *testing.T) {
	const timeout = 50 * time.Millisecond
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(3 * timeout) // until a job fits
		_, _ = io.WriteString(w, `{"job":{"id":"j1"},"duplicate":false,"notes":[]}`)
	}))
	defer server.Close()
	claim := client.JobAction{Action: client.ClaimJob, Next: &client.NextJob{}, Wait: 60}
	answer, err := newClient(t, client.Config{Timeout: timeout, Patience: -1}, server.URL).ActOnJob(t.Context(), claim)
	if err != nil || answer.Job.ID != "j1" || calls.Load() != 1 {
		t.Errorf("%d attempts, job %q, %v", calls.Load(), answer.Job.ID, err)
	}
}

// TestContextEnds ends the repetition of a call.
func TestContextEnds(t *testing.T) {
	url, _ := scripted(t, reply{hangUp: true})
	ctx, cancel := context.WithCancel(t.Context())
	hosts := http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		defer cancel()
		return http.DefaultTransport.RoundTrip(r)
	})}
	_, err := newClient(t, client.Config{HTTP: &hosts}, url).Publish(ctx, client.NewEntry{Body: "A text"})
	if unknown, is := errors.AsType[*client.UnknownError](err); !is || unknown.RequestID == "" {
		t.Errorf("%v", err)
	}
}

// TestEvents follows a stream that two nodes break, and one that has a gap.
func TestEvents(t *testing.T) {
	s, c := start(t)
	first := must.Get(c.Publish(t.Context(), client.NewEntry{Agent: "ada", Body: "The first", Channel: "watched"}))(t)
	// Every answer ends after its first event, as if the node had stopped.
	var streams atomic.Int64
	cut := http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		streams.Add(1)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			res.Body = &apitest.OneEvent{ReadCloser: res.Body}
		}
		return res, err
	})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := 0
	for event, err := range newClient(t, client.Config{HTTP: &cut}, s.URL, s.URL).Events(ctx, client.EventQuery{Channel: "watched", After: beginning(t, s)}) {
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 && event.Entry.ID != first.Entry.ID || next > 0 && event.Entry.Body != "Number "+strconv.Itoa(next) || event.Event != "entry" || event.ID == "" {
			t.Fatalf("event %d is %+v", next, event)
		}
		if next++; next == 4 {
			break
		}
		must.Get(c.Publish(t.Context(), client.NewEntry{Agent: "ada", Body: "Number " + strconv.Itoa(next), Channel: "watched"}))(t)
	}
	if next != 4 || streams.Load() < 4 {
		t.Errorf("%d events over %d streams", next, streams.Load())
	}
	gaps := 0
	for event, err := range c.Events(ctx, client.EventQuery{Channel: "watched", After: "ffffffffffff-1-1"}) {
		gap, is := errors.AsType[*client.GapError](err)
		switch {
		case is && gap.Reason == "other_cluster" && gap.Message != "":
			gaps++
			must.Get(c.Publish(t.Context(), client.NewEntry{Body: "After the gap", Channel: "watched"}))(t)
			continue
		case err != nil || event.Entry.Body != "After the gap":
			t.Errorf("%+v, %v", event, err)
		}
		break
	}
	check.Equal(t, gaps, 1, "gaps")
	for _, err := range c.Events(ctx, client.EventQuery{Events: "song"}) {
		if e, is := errors.AsType[*client.Error](err); !is || e.Status != http.StatusUnprocessableEntity {
			t.Errorf("%v", err)
		}
	}
}

// TestStreamBreaksWithinEvent reads an event whose first copy was cut short.
func TestStreamBreaksWithinEvent(t *testing.T) {
	const ping, event = "id: x-1-0\nevent: ping\ndata: {}\n\n", "id: x-2-1\nevent: entry\ndata: {\"id\":\"x-2-1\",\"event\":\"entry\"}\n\n"
	for cut := 1; cut < len(event); cut += len(event) / 4 {
		url, _ := scripted(t, reply{status: http.StatusOK, body: ping + event[:cut]}, reply{status: http.StatusOK, body: ping + event})
		for e, err := range newClient(t, client.Config{}, url).Events(t.Context(), client.EventQuery{}) {
			if err != nil || e.ID != "x-2-1" || string(e.Raw) != `{"id":"x-2-1","event":"entry"}` {
				t.Errorf("cut after %d bytes: %+v, %v", cut, e, err)
			}
			break
		}
	}
}

// beginning returns the position before the first event.
func beginning(t *testing.T, s *apitest.Server) string {
	t.Helper()
	var batch struct{ LastEventID string }
	s.Get("/api/events").Decode(t, &batch)
	cluster, _, _ := strings.Cut(batch.LastEventID, "-")
	return cluster + "-1-1"
}

// TestStreamEndsWithContext ends a stream that waits for events.
func TestStreamEndsWithContext(t *testing.T) {
	_, c := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	n := 0
	for _, err := range c.Events(ctx, client.EventQuery{}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	check.Equal(t, n, 1, "items")
}

// TestSettled: only an answer of the service's own that is final settles a write.
func TestSettled(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"rejected for good":         {&client.Error{Status: http.StatusConflict, Code: "job_done"}, true},
		"rejected for now":          {&client.Error{Status: http.StatusServiceUnavailable, Code: "no_leader", Retryable: true}, false},
		"something else's answer":   {&client.Error{Status: http.StatusNotFound}, false},
		"not known":                 {&client.UnknownError{Err: &client.Error{Status: http.StatusConflict, Code: "job_done"}}, false},
		"nothing went wrong at all": {nil, false},
	} {
		check.Equal(t, client.Settled(tt.err), tt.want, "%s: settled", name)
	}
}
