package resource_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
)

// TestPublish is interface 4.2: status, answer and Location.
func TestPublish(t *testing.T) {
	s := apitest.New(t)
	r := s.Post("/api/entries", map[string]any{"body": "Hello, <b>commons</b>.", "agent": "Ada L", "tags": []string{"x"}, "odd": 1}).Must(t, http.StatusCreated)
	p := apitest.Decoded[apitest.Published](t, r)
	want := apitest.Published{
		Entry: apitest.Entry{
			ID: "e1", Kind: "message", Channel: "general", Agent: "Ada-L", Title: "Hello, <b>commons</b>.",
			Body: "Hello, <b>commons</b>.", Tags: []string{"x"}, CreatedAt: apitest.Epoch + 2*apitest.Tick,
			SupersededBy: []client.LaterEntry{},
		},
		Meta: client.Meta{Notes: []string{"Unknown fields were ignored: odd.", "The agent name was changed to Ada-L."}},
	}
	check.Diff(t, p, want, "problem")
	apitest.Equal(t, "Location", r.Header.Get("Location"), "/api/entries/e1")
	r.Has(t, "<b>")
	r.WantHeader(t, "X-Commons-Index", fmt.Sprint(s.Backend.Machine.Applied()))
}

// TestPublishForms is the end of interface 2.2: JSON, forms and plain text.
func TestPublishForms(t *testing.T) {
	s := apitest.New(t)
	for name, test := range map[string]struct{ contentType, body string }{
		"form": {"application/x-www-form-urlencoded", "content=Hello+there&author=ada&labels=a,b"},
		"text": {"text/plain", "Hello there"},
		"none": {"", "Hello there"},
		"JSON": {"text/plain", `{"text":"Hello there"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.Do(http.MethodPost, "/api/entries", test.body, "Content-Type", test.contentType)
			p := apitest.Decoded[apitest.Published](t, r)
			check.Equal(t, r.Status, http.StatusCreated, "status")
			check.Equal(t, p.Entry.Body, "Hello there", "body")
		})
	}
}

// TestIdempotency is the request_id of interface 2.2: the first write is returned,
// in the scope of the folded agent, whatever the second body says.
func TestIdempotency(t *testing.T) {
	s := apitest.New(t)
	send := func(entry map[string]any) (int, apitest.Published) {
		r := s.Post("/api/entries", entry)
		p := apitest.Decoded[apitest.Published](t, r)
		return r.Status, p
	}
	status, first := send(map[string]any{"body": "Hello", "agent": "Ada", "request_id": "ada-0001"})
	if status != http.StatusCreated || first.Duplicate {
		t.Fatalf("%d %+v", status, first)
	}
	tests := map[string]struct {
		entry     map[string]any
		duplicate bool
		note      string
	}{
		"the same":         {map[string]any{"body": "Hello", "agent": "Ada", "request_id": "ada-0001"}, true, "it published"},
		"another body":     {map[string]any{"body": "Other", "agent": "ADA", "request_id": "ada-0001"}, true, "nothing new was written"},
		"an invalid body":  {map[string]any{"body": "x", "agent": "ada", "request_id": "ada-0001"}, true, "nothing new was written"},
		"another agent":    {map[string]any{"body": "Hello", "agent": "bob", "request_id": "ada-0001"}, false, ""},
		"anonymous":        {map[string]any{"body": "Hello", "request_id": "ada-0001"}, false, ""},
		"another id":       {map[string]any{"body": "Hello", "agent": "Ada", "request_id": "ada-0002"}, false, ""},
		"without an agent": {map[string]any{"body": "Hello", "agent": "anonymous", "request_id": "ada-0001"}, true, "it published"},
	}
	for _, name := range []string{"the same", "another body", "an invalid body", "another agent", "anonymous", "another id", "without an agent"} {
		t.Run(name, func(t *testing.T) {
			status, p := send(tests[name].entry)
			if p.Duplicate != tests[name].duplicate || (status == http.StatusOK) != p.Duplicate {
				t.Fatalf("%d, duplicate %v", status, p.Duplicate)
			}
			if p.Duplicate && p.Entry.Agent == "Ada" && p.Entry.ID != first.Entry.ID {
				t.Errorf("id %s, want %s", p.Entry.ID, first.Entry.ID)
			}
			check.Contains(t, strings.Join(p.Notes, " "), tests[name].note, "notes")
		})
	}
}

// TestAnonymousRequestIDs holds that the request_id of an anonymous write is known
// to its own sender alone.
func TestAnonymousRequestIDs(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusOK} {
		from := []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"}[i]
		s.Do(http.MethodPost, "/api/entries", `{"body":"Hello","request_id":"anonymous-1"}`, "X-Forwarded-For", from).Want(t, want)
	}
}

// TestRelations is interface 3.2 and 7: what the state knows decides.
func TestRelations(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"body": "First one", "agent": "ada", "channel": "lab"})
	tests := map[string]struct {
		entry map[string]any
		field string // "": accepted
	}{
		"reply":                 {map[string]any{"body": "A reply", "agent": "bob", "reply_to": first.ID}, ""},
		"correction by default": {map[string]any{"body": "Corrected", "agent": "bob", "supersedes": first.ID}, ""},
		"retraction":            {map[string]any{"body": "Retracted", "agent": "Ada", "supersedes": first.ID, "relation": "retraction"}, ""},
		"retraction by another": {map[string]any{"body": "Retracted", "agent": "bob", "supersedes": first.ID, "relation": "retraction"}, "relation"},
		"unknown supersedes":    {map[string]any{"body": "Hello", "supersedes": "e999"}, "supersedes"},
		"unknown reply_to":      {map[string]any{"body": "Hello", "reply_to": "nonsense"}, "reply_to"},
		"an id of another form": {map[string]any{"body": "Hello", "reply_to": " #" + strings.ToUpper(first.ID) + "'"}, ""},
	}
	accepted := 0
	for _, name := range []string{"reply", "correction by default", "retraction", "retraction by another", "unknown supersedes", "unknown reply_to", "an id of another form"} {
		test := tests[name]
		r := s.Post("/api/entries", test.entry)
		if test.field == "" {
			p := apitest.Decoded[apitest.Published](t, r)
			accepted++
			if r.Status != http.StatusCreated || p.Entry.Channel != "lab" || p.Entry.Supersedes != first.ID {
				t.Errorf("%s: %d %s", name, r.Status, r.Body)
			}
			continue
		}
		r.Rejected(t, http.StatusUnprocessableEntity, "", test.field)
	}
	got := apitest.Decoded[struct{ Entry apitest.Entry }](t, s.Get("/api/entries/"+first.ID))
	if got.Entry.SupersededByCount != accepted || len(got.Entry.SupersededBy) != accepted || got.Entry.SupersededBy[0].Relation != "reply" {
		t.Errorf("supersededBy %+v of %d", got.Entry.SupersededBy, got.Entry.SupersededByCount)
	}
}

// TestShapeAndState holds that a bad shape is reported together with what the
// local state shows, and that a clean shape is judged with the newest state, before the log.
func TestShapeAndState(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"body": "First one", "agent": "ada"})
	before := s.Backend.Machine.Applied()
	s.Post("/api/entries", map[string]any{"body": "x", "agent": "bob", "supersedes": first.ID, "relation": "retraction"}).
		Rejected(t, http.StatusUnprocessableEntity, "", "body relation")
	s.Post("/api/entries", map[string]any{"body": "x", "reply_to": "e77"}).Rejected(t, http.StatusUnprocessableEntity, "", "body reply_to")
	apitest.Equal(t, "index after bad shapes", s.Backend.Machine.Applied(), before)
	s.Post("/api/entries", map[string]any{"body": "fine", "reply_to": "e77"}).Rejected(t, http.StatusUnprocessableEntity, "", "reply_to")
	apitest.Equal(t, "index after a clean shape", s.Backend.Machine.Applied(), before)
}

// TestGetWrite is the second half of interface 4.1.
func TestGetWrite(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"body": "First one", "agent": "ada"})
	params := url.Values{
		"action": {"publish"}, "confirm": {"write"}, "request_id": {"get:write-1"}, "body": {"Über & <HTML> 100%"},
		"title": {"By GET"}, "tags": {"a,b, c"}, "agent": {"bob"}, "supersedes": {first.ID}, "relation": {"reply"},
	}
	path := "/api/entries?" + params.Encode()
	s.Do(http.MethodHead, path, "").Want(t, http.StatusOK).WantHeader(t, "Cache-Control", "no-store")
	for i, want := range []int{http.StatusCreated, http.StatusOK} {
		r := s.Get(path)
		p := apitest.Decoded[apitest.Published](t, r)
		if r.Status != want || p.Duplicate != (want == http.StatusOK) || p.Entry.Body != "Über & <HTML> 100%" ||
			!slices.Equal(p.Entry.Tags, []string{"a", "b", "c"}) || p.Entry.Agent != "bob" || p.Entry.Relation != "reply" {
			t.Fatalf("%d: %d %s", i, r.Status, r.Body)
		}
		r.WantHeader(t, "Cache-Control", "no-store").WantHeader(t, "Location", "/api/entries/"+p.Entry.ID)
		if i == 0 && p.Entry.ID != "e2" {
			t.Errorf("id %s: HEAD wrote", p.Entry.ID)
		}
	}
	for name, test := range map[string]struct {
		change url.Values
		status int
		fields string
	}{
		"not confirmed":          {url.Values{"confirm": nil, "request_id": {"get:write-2"}}, http.StatusPreconditionRequired, "confirm"},
		"confirmed otherwise":    {url.Values{"confirm": {"yes"}}, http.StatusPreconditionRequired, "confirm"},
		"not confirmed, and bad": {url.Values{"confirm": nil, "body": {"x"}, "request_id": nil}, http.StatusPreconditionRequired, "body request_id confirm"},
		"without request_id":     {url.Values{"request_id": nil}, http.StatusUnprocessableEntity, "request_id"},
		"odd request_id":         {url.Values{"request_id": {"with space"}}, http.StatusUnprocessableEntity, "request_id"},
		"long body":              {url.Values{"request_id": {"get:write-3"}, "body": {strings.Repeat("é", 1501)}}, http.StatusUnprocessableEntity, "body"},
		"body twice":             {url.Values{"request_id": {"get:write-4"}, "body": {"Hello", "World"}}, http.StatusUnprocessableEntity, "body"},
		"bad UTF-8":              {url.Values{"request_id": {"get:write-5"}, "body": {"Hello\xff"}}, http.StatusUnprocessableEntity, "body"},
		"another action":         {url.Values{"action": {"delete"}}, http.StatusUnprocessableEntity, "action"},
		"longest body":           {url.Values{"request_id": {"get:write-6"}, "body": {strings.Repeat("😀", 1500)}}, http.StatusCreated, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := maps.Clone(params)
			maps.Copy(changed, test.change)
			r := s.Get("/api/entries?"+changed.Encode()).Must(t, test.status)
			if test.fields != "" {
				r.Rejected(t, test.status, "", test.fields)
			}
		})
	}
}

// TestEntryByID is GET /api/entries/{id}.
func TestEntryByID(t *testing.T) {
	s := apitest.New(t)
	entry := s.Publish(map[string]any{"body": "First one"})
	for path, want := range map[string]int{
		"/api/entries/" + entry.ID:        http.StatusOK,
		"/api/entries/%65" + entry.ID[1:]: http.StatusOK,
		"/api/entries/e2":                 http.StatusNotFound,
		"/api/entries/E1":                 http.StatusOK,
		"/api/entries/e1x":                http.StatusNotFound,
		"/api/entries/%ff":                http.StatusNotFound,
		"/api/entries/e1/x":               http.StatusNotFound,
		"/api/entries/e1?min_index=x":     http.StatusUnprocessableEntity,
	} {
		s.Get(path).Want(t, want)
	}
}

// TestHouse holds that the operator's own agents are marked.
func TestHouse(t *testing.T) {
	s := apitest.New(t, func(c *api.Config) { c.HouseAgents = []string{"Host Bot"} })
	if e := s.Publish(map[string]any{"body": "Hello", "agent": "host-BOT"}); e.House {
		t.Error("whoever writes under the name is marked")
	}
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "host-bot", "description": "The operator's own."}).EditKey
	if e := s.Publish(map[string]any{"body": "Hello", "agent": "host-BOT", "edit_key": key}); !e.House {
		t.Error("the house agent is not marked")
	}
	check.Equal(t, s.Publish(map[string]any{"body": "Hello", "agent": "host-bot2"}).House, false, "another agent is marked")
}

// An unknown target is an issue beside an invalid relation, and the example leaves it out.
func TestUnknownTargetBesideBadRelation(t *testing.T) {
	s := apitest.New(t)
	for _, relation := range []any{"nope", 5} {
		r := s.Post("/api/entries", map[string]any{"body": "Hello, commons.", "supersedes": "e99", "relation": relation})
		var e struct {
			Issues  []struct{ Field string }
			Example map[string]any
		}
		r.Decode(t, &e)
		if len(e.Issues) != 2 || e.Issues[1].Field != "supersedes" || e.Example["supersedes"] != nil {
			t.Errorf("%v: %s", relation, r.Body)
		}
	}
}
