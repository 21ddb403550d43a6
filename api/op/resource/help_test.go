package resource_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
)

func askHuman(t *testing.T, s *apitest.Server, body map[string]any) client.HumanAsked {
	t.Helper()
	return apitest.Decoded[client.HumanAsked](t, s.Post("/api/human-requests", body).Must(t, http.StatusCreated))
}

func humanRequests(t *testing.T, s *apitest.Server, query string) []client.HumanRequest {
	t.Helper()
	r := s.Get("/api/human-requests?" + query)
	page := apitest.Decoded[struct{ Requests []client.HumanRequest }](t, r)
	r.Must(t, http.StatusOK)
	return page.Requests
}

// TestHumanHelp is interface 2.5 and 4.3.
func TestHumanHelp(t *testing.T) {
	s := apitest.New(t)
	a := askHuman(t, s, map[string]any{
		"agent": "Ada", "goal": "Sign a form", "requested_action": "Print it and sign it, @bob.", "context": "",
		"tags": []string{"paper", "human-help"},
	})
	e := a.Entry
	if e.ID != "h1" || e.Channel != "human-help" || e.Kind != "message" || e.Title != "Human help: Sign a form" || !slices.Equal(e.Tags, []string{"human-help", "paper"}) {
		t.Errorf("%+v", e)
	}
	if q := a.Request; q.ID != e.ID || q.Goal != "Sign a form" || q.Context != "" || q.Constraints != "" || q.Status != "open" {
		t.Errorf("%+v", q)
	}
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?for=bob"))
	apitest.Equal(t, "for whom it mentions", apitest.IDs(list.Entries), []string{"h1"})
	askHuman(t, s, map[string]any{"agent": "bob", "goal": "Water the plants", "requested_action": "Use water."})
	s.Publish(map[string]any{"agent": "ada", "body": "Anybody?", "reply_to": "h1"})
	if got := humanRequests(t, s, "agent=ADA"); len(got) != 1 || got[0].Status != "open" {
		t.Errorf("%+v", got)
	}
	s.Publish(map[string]any{"agent": "eve", "body": "I will.", "reply_to": "h1"})
	if got := humanRequests(t, s, "q=sign"); len(got) != 1 || got[0].Status != "answered" {
		t.Errorf("%+v", got)
	}
	s.Publish(map[string]any{"agent": "ada", "body": "Solved.", "supersedes": "h1", "relation": "retraction"})
	if got := humanRequests(t, s, ""); len(got) != 2 || got[0].ID != "h2" || got[1].Status != "closed" {
		t.Errorf("%+v", got)
	}
	check.Equal(t, len(humanRequests(t, s, "limit=1")), 1, "requests")
}

// TestHumanHelpForms takes a form, and rejects plain text with a working example.
func TestHumanHelpForms(t *testing.T) {
	s := apitest.New(t)
	s.Do(http.MethodPost, "/api/human-requests", "agent=ada&goal=A+goal&requested_action=Do+it.&tags=a,b", "Content-Type", "application/x-www-form-urlencoded").Want(t, http.StatusCreated)
	long := func(n int) string { return strings.Repeat("é", n) }
	fine := map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."}
	for _, change := range []map[string]any{
		{"agent": nil},
		{"agent": 7},
		{"agent": "-"},
		{"goal": nil},
		{"goal": "abc"},
		{"goal": long(161)},
		{"goal": "abc\x00d"},
		{"requested_action": long(1501)},
		{"requested_action": []string{}},
		{"context": long(1201)},
		{"context": 7},
		{"constraints": long(801)},
		{"tags": strings.Split("12345678", "")},
		{"tags": []string{""}},
		{"request_id": "short"},
		{"request_id": long(81), "tags": "a", "goal": "x"},
	} {
		body := maps.Clone(fine)
		maps.Copy(body, change)
		apitest.RejectedPost(t, s, "/api/human-requests", body)
	}
	apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, "/api/human-requests", "Help me", "Content-Type", "text/plain")
	longest := map[string]any{"agent": long(64), "goal": long(160), "requested_action": long(1500), "context": long(1200), "constraints": long(800), "tags": strings.Split("1234567", "")}
	if a := askHuman(t, s, longest); len(a.Entry.Tags) != 8 || a.Entry.Title != "Human help: "+long(160) {
		t.Errorf("%+v", a.Entry)
	}
}

// TestOneHumanRequest is GET /api/human-requests/{id}, and status= of the list.
func TestOneHumanRequest(t *testing.T) {
	s := apitest.New(t)
	a := askHuman(t, s, map[string]any{"agent": "ada", "goal": "Sign a form", "requested_action": "Print it and sign it."})
	askHuman(t, s, map[string]any{"agent": "ada", "goal": "Water the plants", "requested_action": "Use water."})
	s.Publish(map[string]any{"agent": "eve", "body": "I will.", "reply_to": a.Entry.ID}) // e3
	for _, id := range []string{"h1", "H1", "%22h1%22"} {
		var one struct{ Request client.HumanRequest }
		r := s.Get("/api/human-requests/" + id)
		if r.Decode(t, &one); r.Status != http.StatusOK || one.Request.ID != "h1" || one.Request.Goal != "Sign a form" || one.Request.Status != "answered" {
			t.Errorf("%s: %d %s", id, r.Status, r.Body)
		}
	}
	if r := s.Do(http.MethodHead, "/api/human-requests/h1", ""); r.Status != http.StatusOK || len(r.Body) > 0 {
		t.Errorf("HEAD: %d %q", r.Status, r.Body)
	}
	for id, near := range map[string]string{"e3": "there is h1", "e1": "there is h1", "h2f": "GET /api/human-requests lists them"} {
		p := apitest.Rejected(t, s, http.StatusNotFound, http.MethodGet, "/api/human-requests/"+id, "")
		check.Contains(t, p.Issues[0].Message, near, "the message for %s", id)
	}
	check.Contains(t, apitest.Rejected(t, s, http.StatusMethodNotAllowed, http.MethodPost, "/api/human-requests/h1", `{}`).Error, `{"reply_to":"h1"`, "the 405")
	for query, want := range map[string][]string{
		"status=open": {"h2"}, "status=answered": {"h1"}, "status=closed&q=plants": nil, "status=all&agent=ada": {"h2", "h1"}, "": {"h2", "h1"},
	} {
		var got []string
		for _, request := range humanRequests(t, s, query) {
			got = append(got, request.ID)
		}
		apitest.Equal(t, query, got, want)
	}
	apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/human-requests?status=done", "")
}
