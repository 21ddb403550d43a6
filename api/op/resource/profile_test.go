package resource_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// profiles returns the ids of a list of profiles, of all pages.
func profiles(t *testing.T, s *apitest.Server, query string) (ids []string) {
	t.Helper()
	for _, p := range apitest.Listed[client.Profile](t, s, "/api/agents?"+query, "agents") {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestAgentsGolden(t *testing.T) {
	s := apitest.New(t)
	full := `{"id":"Ada L","description":"Answers questions\r\nabout <tides>.","capabilities":["tides","tides","français"],` +
		`"endpoint":"https://example.org/ada?x=1&y=2","notify_url":"https://example.org/hook","note":"Was about to sleep.","odd":1}`
	for _, test := range []struct{ name, method, path, body string }{
		{"agent_register", http.MethodPost, "/api/agents", full},
		{"agent_unchanged", http.MethodPost, "/api/agents", `{"id":"ada-l","capabilities":["tides","français"],"request_id":"another-request"}`},
		{"agent_no_key", http.MethodPost, "/api/agents", `{"id":"ada-l","note":"Taken over."}`},
		{"agent_wrong_key", http.MethodPost, "/api/agents", `{"id":"ADA-L","note":"Taken over.","edit_key":"ck_nope"}`},
		{"agent_note", http.MethodPost, "/api/agents", `{"id":"bob","note":"Later."}`},
		{"agent_no_description", http.MethodPost, "/api/agents", `{"id":"eve","endpoint":"https://example.org"}`},
		{"agent_problems", http.MethodPost, "/api/agents", `{"id":"?","description":"abc","capabilities":["","b"],"endpoint":"http://example.org","notify_url":"https://10.0.0.1/","edit_key":5}`},
		{"agent_malformed", http.MethodPost, "/api/agents", `{"id":`},
		{"agent_get", http.MethodGet, "/api/agents/ADA-L", ""},
		{"agent_get_unknown", http.MethodGet, "/api/agents/nobody", ""},
		{"agent_list", http.MethodGet, "/api/agents?limit=1", ""},
		{"agent_list_problems", http.MethodGet, "/api/agents?limit=0&cursor=x", ""},
	} {
		apitest.CheckGolden(t, s, test.name, test.method, test.path, apitest.JSONType, test.body)
	}
}

// TestRegistration is interface 2.3 and 4.4.
func TestRegistration(t *testing.T) {
	s := apitest.New(t)
	first := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "Ada", "description": "Answers questions.", "capabilities": []string{"tides"}})
	if first.EditKey == "" || first.Agent.ID != "Ada" || first.Agent.Endpoint != "" || first.Agent.Note != "" {
		t.Fatalf("%+v", first)
	}
	for name, body := range map[string]map[string]any{
		"all":      {"id": "Ada", "description": "Answers questions.", "capabilities": []string{"tides"}, "request_id": "request-a"},
		"spelling": {"id": "ADA", "description": " Answers questions. "},
		"nothing":  {"id": "ada"},
		"nulls":    {"id": "ada", "endpoint": nil, "note": nil, "notify_url": "off"},
		"key":      {"id": "ada", "edit_key": first.EditKey},
	} {
		again := apitest.Register(t, s, http.StatusCreated, body)
		check.Equal(t, again.EditKey, "", "%s: %+v: edit key", name, again)
		check.Diff(t, again.Agent, first.Agent, "%s: %+v: agent", name, again)
	}
	changed := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "note": "Wake up.", "edit_key": first.EditKey})
	if changed.EditKey != "" || changed.Agent.Note != "Wake up." || changed.Agent.Description != "Answers questions." {
		t.Errorf("%+v", changed)
	}
	if changed.Agent.CreatedAt != first.Agent.CreatedAt || changed.Agent.UpdatedAt <= first.Agent.UpdatedAt {
		t.Errorf("created and updated at %d and %d, before at %d and %d",
			changed.Agent.CreatedAt, changed.Agent.UpdatedAt, first.Agent.CreatedAt, first.Agent.UpdatedAt)
	}
	cleared := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "note": "", "capabilities": nil, "edit_key": first.EditKey})
	check.Equal(t, cleared.Agent.Note, "", "%+v: note", cleared)
	check.Empty(t, cleared.Agent.Capabilities, "%+v: capabilities", cleared)
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "bob", "note": "Later, about tides."})
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "eve", "description": "Tidies up.", "edit_key": first.EditKey})
	for query, want := range map[string]string{
		"": "eve bob Ada", "limit=1": "eve bob Ada", "q=tides": "bob", "q=TIDI": "eve", "q=nobody": "", "q=ada": "Ada",
	} {
		apitest.Equal(t, query, strings.Join(profiles(t, s, query), " "), want)
	}
	one := apitest.Decoded[struct{ Agent client.Profile }](t, s.Get("/api/agents/aDa"))
	check.Diff(t, one.Agent, cleared.Agent, "by id")
	s.Do(http.MethodPost, "/api/agents", "id=form&description=A+form&capabilities=a,b", "Content-Type", "application/x-www-form-urlencoded").Want(t, http.StatusCreated)
}

// TestFormClears holds that a field of a form without a value is cleared, as by null.
func TestFormClears(t *testing.T) {
	s := apitest.New(t)
	form := func(body string) client.Profile {
		t.Helper()
		return apitest.Decoded[client.Registered](t, s.Do(http.MethodPost, "/api/agents", body, "Content-Type", "application/x-www-form-urlencoded").Must(t, http.StatusCreated)).Agent
	}
	key := apitest.Register(t, s, http.StatusCreated, map[string]any{
		"id": "ada", "description": "Answers questions.", "note": "Hello", "endpoint": "https://example.org", "capabilities": []string{"x"},
	}).EditKey
	got := form("id=ada&note=&endpoint&edit_key=" + key)
	if got.Note != "" || got.Endpoint != "" || got.Description != "Answers questions." || len(got.Capabilities) != 1 {
		t.Errorf("%+v", got)
	}
	got = form("id=ada&capabilities=a&capabilities=b&edit_key=" + key)
	check.Diff(t, got.Capabilities, []string{"a", "b"}, "capabilities of %+v", got)
	got = form("id=ada&capabilities=&edit_key=" + key)
	check.Equal(t, len(got.Capabilities), 0, "number of capabilities of %+v", got)
}

// TestForbiddenChange checks that neither a call with a wrong or missing key changes the profile,
// nor its example, sent back.
func TestForbiddenChange(t *testing.T) {
	s := apitest.New(t)
	for _, registered := range []map[string]any{
		{"id": "Ada", "description": "Answers questions.", "capabilities": []string{"a", "b"}, "endpoint": "https://example.org/?a=b&c=<d>", "note": "A note.", "notify_url": "https://example.org/hook"},
		{"id": "bob", "note": "Only a note."},
	} {
		id, _ := registered["id"].(string)
		key := apitest.Register(t, s, http.StatusCreated, registered).EditKey
		before := s.Get("/api/agents/" + id)
		for name, change := range map[string]map[string]any{
			"no key":          {"description": "Another."},
			"null key":        {"description": "Another.", "edit_key": nil},
			"empty key":       {"note": nil, "edit_key": " "},
			"wrong key":       {"note": "Another.", "edit_key": "ck_" + strings.Repeat("b", 52)},
			"wrong key alone": {"edit_key": "wrong"},
			"case of the key": {"note": "Another.", "edit_key": strings.ToUpper(key)},
			"no notify url":   {"notify_url": "off", "note": "Another."},
		} {
			body := map[string]any{"id": id}
			maps.Copy(body, change)
			sent := must.Get(json.Marshal(body))(t)
			problem := apitest.Rejected(t, s, http.StatusForbidden, http.MethodPost, "/api/agents", string(sent))
			if problem.Code != "wrong_edit_key" || len(problem.Issues) != 1 || problem.Issues[0].Field != "edit_key" {
				t.Errorf("%s %s: %+v", id, name, problem)
			}
			check.Equal(t, string(s.Get("/api/agents/"+id).Body), string(before.Body), "%s %s: the profile is now", id, name)
		}
		// The key, and where entries are pushed to, are as they were.
		kept := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": id, "notify_url": registered["notify_url"], "note": "Mine.", "edit_key": key})
		check.Equal(t, kept.Agent.Note, "Mine.", "note of %+v", kept)
	}
}

// TestStrangersLearnNoReceiver: without the key the answer is the same for any notify_url, nothing
// changes, and no receiver is asked; a hidden profile is compared with nothing.
func TestStrangersLearnNoReceiver(t *testing.T) {
	s := apitest.New(t)
	const own = "https://example.org/hook"
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers questions.", "notify_url": own})
	s.Backend.Verify = func(string, string) error {
		t.Error("a stranger had a receiver asked")
		return nil
	}
	for _, query := range []string{"", "?dry_run=true"} {
		var first string
		for _, receiver := range []any{own, "https://example.org/other", "off", nil} {
			r := s.Post("/api/agents"+query, map[string]any{"id": "ada", "description": "Answers questions.", "notify_url": receiver})
			if !strings.Contains(string(r.Body), "notify_url is private and needs the edit_key") || r.Status >= http.StatusBadRequest {
				t.Errorf("%s%v: %d %s", query, receiver, r.Status, r.Body)
			}
			if first == "" {
				first = string(r.Body)
			}
			check.Equal(t, string(r.Body), first, "%s%v: the answer, as for another url,", query, receiver)
		}
	}
	s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "spam"}, Agents: []string{"ada"}})
	var first string
	for _, text := range []string{"Answers questions.", "Answers nothing."} {
		r := s.Post("/api/agents", map[string]any{"id": "ada", "description": text})
		if first == "" {
			first = string(r.Body)
		}
		check.Equal(t, r.Status, http.StatusForbidden, "%s: status", text)
		check.Equal(t, string(r.Body), first, "%s: body", text)
	}
}

// TestAgentExamples sends the example of every rejection back, for a new name and
// for one that somebody else has registered.
func TestAgentExamples(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	ghp := "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	changes := []map[string]any{
		{"id": nil},
		{"id": 7},
		{"id": "-"},
		{"id": long(65)},
		{"id": "Anonymous"},
		{"id": "x-" + ghp},
		{"description": nil},
		{"description": ""},
		{"description": "abc"},
		{"description": long(501)},
		{"description": "a\x00bcdef"},
		{"description": []string{"abcd"}},
		{"description": "The key is " + ghp + " for all."},
		{"description": nil, "note": long(1001)},
		{"description": nil, "note": 5},
		{"description": nil, "note": "Key: " + ghp},
		{"capabilities": true},
		{"capabilities": strings.Split("123456789", "")},
		{"capabilities": []any{"", long(41), 5}},
		{"capabilities": []string{ghp}},
		{"endpoint": ""},
		{"endpoint": "http://example.org"},
		{"endpoint": "https://"},
		{"endpoint": "https://ada:secret@example.org/"},
		{"endpoint": "https://example.org/" + long(2000)},
		{"endpoint": "https://example.org/a b"},
		{"notify_url": "on"},
		{"notify_url": "https://localhost/"},
		{"notify_url": 5, "edit_key": []string{}},
		{"edit_key": 5},
		{"request_id": "short", "note": "Fine."},
		{"request_id": long(81)},
		{"id": "?", "description": "x", "capabilities": 5, "endpoint": "x", "notify_url": "x", "note": long(2000), "edit_key": 7, "request_id": "x"},
	}
	for _, registered := range []bool{false, true} {
		s := apitest.New(t)
		for i, change := range changes {
			id := fmt.Sprint("ada-", i)
			if registered {
				apitest.Register(t, s, http.StatusCreated, map[string]any{"id": id, "description": "Somebody else."})
			}
			body := map[string]any{"id": id, "description": "Answers questions."}
			maps.Copy(body, change)
			if description, cleared := change["description"]; registered && cleared && description == nil && len(change) == 1 {
				s.Post("/api/agents", body).Want(t, http.StatusForbidden)
				continue
			}
			if p := apitest.RejectedPost(t, s, "/api/agents", body); strings.Contains(fmt.Sprintf("%s %+v", p.Example, p), ghp) {
				t.Errorf("%d %v: the credential is shown again: %+v", i, body, p)
			}
		}
	}
}

// TestNobodysName checks that the name anonymous and names that look like it cannot be registered.
func TestNobodysName(t *testing.T) {
	s := apitest.New(t)
	for _, id := range []string{"anonymous", "Anonymous", "anonyrnous", "аnonymous"} {
		body, _ := json.Marshal(map[string]string{"id": id, "description": "Nobody."})
		if p := apitest.Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, "/api/agents", string(body)); len(p.Issues) != 1 || p.Issues[0].Field != "id" {
			t.Errorf("%s: %+v", id, p)
		}
	}
}
