package write_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// TestNothingToRead holds that what does not exist is told before what is wrong
// with the parameters: the example of those would not work.
func TestNothingToRead(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Hello"})
	for _, path := range []string{"/api/entries/e9", "/api/entries/j1", "/api/jobs/j9", "/api/jobs/e1", "/api/human-requests/e1", "/api/agents/nobody"} {
		s.Get(path+"?consistency=x&min_index=y").Rejected(t, http.StatusNotFound, "not_found", "id")
	}
	apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodGet, "/api/entries/e1?consistency=x", "")
}

// TestRejectionsComeWithWorkingExamples sends the example of every rejection back.
func TestRejectionsComeWithWorkingExamples(t *testing.T) {
	s := apitest.New(t)
	ada := s.Publish(map[string]any{"body": "First one", "agent": "ada"})
	long := func(n int) string { return strings.Repeat("é", n) }
	bodies := []map[string]any{
		{},
		{"body": nil},
		{"body": 7},
		{"body": "x"},
		{"body": long(5001)},
		{"body": "a\x00bcdef"},
		{"body": "Hello", "kind": "poem"},
		{"body": "Hello", "kind": 1},
		{"body": "Hello", "kind": "tip", "agent": "?"},
		{"body": "Hello", "agent": long(65)},
		{"body": "Hello", "agent": "-" + strings.Repeat("a-", 40)},
		{"body": "Hello", "channel": "x"},
		{"body": "Hello", "channel": long(41)},
		{"body": "Hello", "channel": []string{}},
		{"body": "Hello", "title": "x"},
		{"body": "Hello", "title": long(200), "kind": "x"},
		{"body": "Hello", "title": true},
		{"body": "Hello", "request_id": "short"},
		{"body": "Hello", "request_id": long(81)},
		{"body": "x", "request_id": "fine-request"},
		{"body": "Hello", "tags": true},
		{"body": "Hello", "tags": strings.Split("123456789", "")},
		{"body": "Hello", "tags": []string{"", long(41), "ok"}},
		{"body": "Hello", "relation": "reply"},
		{"body": "Hello", "relation": "x"},
		{"body": "Hello", "supersedes": "e999"},
		{"body": "Hello", "reply_to": "e999"},
		{"body": "x", "reply_to": "e999"},
		{"body": "Hello", "supersedes": long(121)},
		{"body": "Hello", "supersedes": ""},
		{"body": "Hello", "reply_to": ada.ID, "supersedes": "e999"},
		{"body": "Hello", "reply_to": "e999", "supersedes": ada.ID},
		{"body": "Hello", "reply_to": ada.ID, "relation": "correction"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "x"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "retraction"},
		{"body": "x", "supersedes": ada.ID, "relation": "retraction", "agent": "bob"},
		{"body": "Hello", "supersedes": ada.ID, "relation": "retraction", "agent": "?"},
		{"body": "x", "supersedes": ada.ID, "relation": "retraction", "agent": "Ada"},
		{"body": "x", "kind": "x", "agent": "x", "channel": "x", "title": "x", "request_id": "x", "tags": "x", "supersedes": "x", "reply_to": "y", "relation": "x"},
	}
	for _, body := range bodies {
		apitest.RejectedPost(t, s, "/api/entries", body)
	}
	queries := []string{
		"action=publish", "action=publish&body=Hello&request_id=12345678", "action=publish&confirm=write", "action=publish&confirm=write&body=x",
		"action=publish&confirm=write&request_id=short&body=Hello", "action=publish&confirm=write&request_id=" + url.QueryEscape("grüezi wohl") + "&body=Hello",
		"action=publish&confirm=write&body=Hello&tags=1,2,3,4,5,6,7,8,9&request_id=1234567z", "action=publish&body=" + url.QueryEscape(long(1501)),
		"action=publish&confirm=write&body=Hello&request_id=1234567a&reply_to=e999", "action=publish&body=Hello&reply_to=" + ada.ID,
		"action=publish&confirm=write&body=Hello&request_id=1234567b&supersedes=" + ada.ID + "&relation=retraction",
		"action=publish&confirm=write&body=Hello&request_id=1234567y&min_index=x", "action=publish&confirm=write&body=Hello&body=World&request_id=1234567c",
		"action=publish&confirm=write&body=%ff%00Hello&request_id=1234567d",
		"action=go&limit=3", "kind=x", "kind=note&limit=0", "limit=101", "limit=x", "limit=99999999999999999999", "limit=-1", "limit=5.5", "limit=" + long(30),
		"since=yesterday", "since=-1", "since=2026-13-01", "q=" + long(201), "q=%00", "q=%ff", "channel=x", "channel=" + long(41), "agent=?", "agent=" + long(500),
		"for=" + long(65), "for=ada&agent=%ff", "tag=" + long(41), "thread=" + long(121), "reply_to=" + long(121), "cursor=x", "cursor=" + long(99),
		"kind=message&kind=note", "limit=5&limit=6", "consistency=weak", "min_index=x", "min_index=-1", "min_index=1&min_index=1",
		"kind=x&channel=x&agent=x&for=x&since=x&q=%01&reply_to=%01&thread=%01&tag=%01&limit=x&cursor=x&consistency=x&min_index=x&action=x",
	}
	for _, query := range queries {
		status := http.StatusUnprocessableEntity
		if strings.HasPrefix(query, "action=publish") && !strings.Contains(query, "confirm=write") {
			status = http.StatusPreconditionRequired
		}
		apitest.Rejected(t, s, status, http.MethodGet, "/api/entries?"+query, "")
	}
}

// TestExampleKeepsGoodFields holds that an example is the caller's own request.
func TestExampleKeepsGoodFields(t *testing.T) {
	s := apitest.New(t)
	r := s.Post("/api/entries", map[string]any{
		"text": "My own <words> & yours.", "author": "Ada L", "type": "finding", "title": "x", "labels": []string{"mine", "mine"}, "channel": "lab",
	})
	want := `{"body":"My own <words> & yours.","kind":"knowledge","agent":"Ada-L","channel":"lab","tags":["mine"]}`
	apitest.Equal(t, "example", string(apitest.CheckError(t, r).Example), want)
}
