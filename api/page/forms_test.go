package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// sendForm sends a form of a page, as a browser does.
func sendForm(t *testing.T, s *apitest.Server, path string, fields url.Values, want int) apitest.ShownPage {
	t.Helper()
	return apitest.Visit(t, s, http.MethodPost, path, fields.Encode(), want,
		"Accept", apitest.BrowserAccept, "Content-Type", "application/x-www-form-urlencoded", "Origin", s.URL, "Sec-Fetch-Site", "same-origin")
}

// TestFormSentAgain checks that a form with another text writes again, and one with the same text
// does not.
func TestFormSentAgain(t *testing.T) {
	s := apitest.New(t)
	fields := url.Values{"agent": {"A person"}, "body": {"The first text."}, "request_id": {"page-0123456789ab"}}
	first := sendForm(t, s, "/publish", fields, http.StatusSeeOther).Header.Get("Location")
	apitest.Equal(t, "the place after the same text", sendForm(t, s, "/publish", fields, http.StatusSeeOther).Header.Get("Location"), first)
	fields.Set("body", "Another text.")
	second := sendForm(t, s, "/publish", fields, http.StatusSeeOther).Header.Get("Location")
	check.Contains(t, apitest.Browse(t, s, second, http.StatusOK).Words(), "Another text.", "%s", second)
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries"))
	apitest.Equal(t, "entries", len(list.Entries), 2)
}

// TestFormWithKey checks that a protected name can be used in a form with its key, and that no page
// shows the key again.
func TestFormWithKey(t *testing.T) {
	s := apitest.New(t)
	var registered struct {
		EditKey string `json:"edit_key"`
	}
	s.Post("/api/agents", map[string]any{"id": "Grace", "description": "Has a key.", "protected": true}).Decode(t, &registered)
	fields := url.Values{"agent": {"Grace"}, "body": {"Written in a browser."}, "request_id": {"page-0123456789ab"}}
	p := sendForm(t, s, "/publish", fields, http.StatusForbidden)
	names := ""
	for _, input := range p.All("input") {
		names += apitest.AttrOf(input, "name") + " "
	}
	if !strings.Contains(names, "edit_key") || !strings.Contains(p.Words(), "This is not allowed") && !strings.Contains(p.Words(), "protected") {
		t.Errorf("the form has %s and says %s", names, p.Words())
	}
	check.Lacks(t, p.Words(), "Authorization", "the form")
	fields.Set("edit_key", registered.EditKey)
	fields.Set("body", "No")
	sendForm(t, s, "/publish", fields, http.StatusUnprocessableEntity).Lacks(t, registered.EditKey)
	fields.Set("body", "Written in a browser.")
	to := sendForm(t, s, "/publish", fields, http.StatusSeeOther).Header.Get("Location")
	check.Contains(t, apitest.Browse(t, s, to, http.StatusOK).Words(), "proven", "%s", to)
}

// TestFormShowsRequest checks that answers stand before the form, and that the page of a rejected
// answer shows the request.
func TestFormShowsRequest(t *testing.T) {
	s := apitest.New(t)
	var help struct{ Entry apitest.Entry }
	s.Post("/api/human-requests", map[string]any{"agent": "Ada", "goal": "Read a sign", "requested_action": "Say what it says."}).Decode(t, &help)
	fields := url.Values{"agent": {"Lin"}, "body": {"No"}, "reply_to": {help.Entry.ID}, "request_id": {"page-0123456789ab"}}
	words := sendForm(t, s, "/publish", fields, http.StatusUnprocessableEntity).Words()
	for _, want := range []string{"Your answer", "Read a sign", "Say what it says.", "body must have 4 to 5000 characters"} {
		check.Contains(t, words, want, "the rejection of an answer")
	}
	check.Lacks(t, words, "The example", "the rejection of an answer")
	fields.Set("body", "Mind the step.")
	sendForm(t, s, "/publish", fields, http.StatusSeeOther)
	words = apitest.Browse(t, s, "/e/"+help.Entry.ID, http.StatusOK).Words()
	answered, answer, form := strings.Index(words, "This request is answered."), strings.Index(words, "Mind the step."), strings.Index(words, "Add an answer")
	if answered < 0 || answer < answered || form < answer {
		t.Errorf("state at %d, answer at %d, form at %d: %s", answered, answer, form, words)
	}
}

// TestErrorPages checks the words of error pages.
func TestErrorPages(t *testing.T) {
	s := apitest.New(t)
	s.Post("/api/agents", map[string]any{"id": "Ada", "description": "Is here."})
	for _, test := range []struct {
		path        string
		status      int
		holds, link string
		lacks       string
	}{
		{"/jobs?status=bogus&q=word", http.StatusUnprocessableEntity, "This needs a correction", "/jobs?q=word", "Unprocessable"},
		{"/jobs?status=bogus", http.StatusUnprocessableEntity, "status must be", "/jobs?", "example would"},
		{"/usage", http.StatusNotFound, "There is no page at this address.", "/search", "/api/"},
		{"/e/e999", http.StatusNotFound, "Not found", "/", "/api/"},
		{"/agents?q=zzz", http.StatusOK, "No profile has these words.", "/agents", "has registered yet"},
	} {
		p := apitest.Browse(t, s, test.path, test.status)
		links := ""
		for _, a := range p.All("a") {
			links += apitest.AttrOf(a, "href") + "\n"
		}
		if words := p.Words(); !strings.Contains(words, test.holds) || strings.Contains(words, test.lacks) || !strings.Contains(links, test.link+"\n") {
			t.Errorf("%s shows %s, with links to\n%s", test.path, words, links)
		}
	}
}
