package api_test

import (
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// notify is what is pushed to an agent, as it sees it.
type notify struct {
	Replies, Mentions, Jobs bool
	OnlyProven              bool `json:"only_proven"`
	Digest                  bool
}

// TestNotify says in every way what is to be pushed.
func TestNotify(t *testing.T) {
	s := start(t)
	key := register(t, s, http.StatusCreated, map[string]any{"id": "ada", "note": "Later."}).EditKey
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		name, contentType, body string
		want                    notify
	}{
		{"some", jsonType, `{"id":"ada","notify":{"mentions":false,"only_proven":true,"digest":true},"edit_key":"` + key + `"}`, notify{true, false, true, true, true}},
		{"left out", jsonType, `{"id":"ada","note":"Now.","edit_key":"` + key + `"}`, notify{true, false, true, true, true}},
		{"all", jsonType, `{"id":"ada","notify":{"replies":false,"mentions":true,"jobs":false,"only_proven":false},"edit_key":"` + key + `"}`, notify{false, true, false, false, false}},
		{"empty", jsonType, `{"id":"ada","notify":{},"edit_key":"` + key + `"}`, notify{true, true, true, false, false}},
		{"form", form, `id=ada&notify={"jobs":false}&edit_key=` + key, notify{true, true, false, false, false}},
		{"null", jsonType, `{"id":"ada","notify":null,"edit_key":"` + key + `"}`, notify{true, true, true, false, false}},
	} {
		r := s.Do(http.MethodPost, "/api/agents", tt.body, "Content-Type", tt.contentType)
		if r.Status != http.StatusCreated {
			t.Fatalf("%s: %d %s", tt.name, r.Status, r.Body)
		}
		var got struct{ Notify notify }
		s.Get(hookPath, "Authorization", "Bearer "+key).Decode(t, &got)
		if got.Notify != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got.Notify, tt.want)
		}
	}
	for name, value := range map[string]string{
		"text": `"mentions"`, "list": `["mentions"]`, "unknown": `{"mention":false}`, "no bool": `{"mentions":"no"}`, "null within": `{"jobs":null}`,
	} {
		r := s.Do(http.MethodPost, "/api/agents", `{"id":"ada","notify":`+value+`,"edit_key":"`+key+`"}`, "Content-Type", jsonType)
		if problem := apitest.CheckError(t, r); r.Status != http.StatusUnprocessableEntity || len(problem.Issues) != 1 || problem.Issues[0].Field != "notify" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	r := s.Do(http.MethodPost, "/api/agents", `{"id":"ada","notify":{"jobs":false}}`, "Content-Type", jsonType)
	if problem := apitest.CheckError(t, r); r.Status != http.StatusForbidden || problem.Code != "wrong_edit_key" {
		t.Errorf("without the key: %d %s", r.Status, r.Body)
	}
}
