package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

const (
	hookKey  = "ck_hook" + "234567abcdefghijklmnopqrstuvwxyz234567abcdefghij"
	hookPath = "/api/agents/ada/deliveries"
)

var bearer = []string{"Authorization", "Bearer " + hookKey}

// hook registers ada, whose receiver has passed the check.
func hook(b *apitest.Backend) {
	key := sha256.Sum256([]byte(hookKey))
	b.Apply(&command.Register{
		Agent: "Ada", AgentKey: "ada", Given: command.FieldDescription | command.FieldNotifyURL, Description: "Answers.",
		NotifyURL: "https://example.org/hook", NotifyVerified: true, NewKey: key[:],
	})
}

// deliveries is what an agent sees of them.
type deliveries struct {
	Active  bool
	Waiting int
	Next    *struct {
		ID            string
		NextAttemptAt *int64
	}
	Deliveries []struct {
		ID, Type, Status string
		Entry            *string
	}
}

func TestDeliveriesGolden(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	s.Post("/api/agents", map[string]any{"id": "bob", "note": "Later."})
	mention := map[string]any{"agent": "eve", "body": "Is @ada about?", "channel": "den"}
	s.Publish(mention)
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "For @ada", "body": "Count the birds."})
	first := command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}
	s.Backend.Apply(&command.BeginDeliveries{Holder: command.BootID{1}, Attempts: []command.Attempt{first}})
	s.Backend.Apply(&command.AckDelivery{Attempt: first, Outcome: command.AttemptFailed, Reason: "status_500"})
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
	}{
		{"delivery_test", http.MethodPost, hookPath + "/test", "", bearer},
		{"deliveries", http.MethodGet, "/api/agents/ADA/deliveries", "", []string{"Authorization", "bearer  " + hookKey}},
		{"deliveries_no_key", http.MethodGet, hookPath, "", nil},
		{"deliveries_wrong_key", http.MethodGet, hookPath, "", []string{"Authorization", "Bearer ck_other" + hookKey[len("ck_other"):]}},
		{"deliveries_key_in_url", http.MethodGet, hookPath + "?edit_key=" + hookKey, "", bearer},
		{"deliveries_unknown", http.MethodGet, "/api/agents/nobody/deliveries", "", bearer},
		{"delivery_test_no_key", http.MethodPost, hookPath + "/test", `{"edit_key":"` + hookKey + `"}`, nil},
		{"delivery_test_wrong_key", http.MethodPost, hookPath + "/test", "", []string{"Authorization", "Bearer ck_other" + hookKey[len("ck_other"):]}},
		{"delivery_test_malformed", http.MethodPost, hookPath + "/test", `{"a":`, bearer},
		{"signing_keys_none", http.MethodGet, "/.well-known/commons-keys.json", "", nil},
	} {
		checkGolden(t, s, test.name, test.method, test.path, jsonType, test.body, test.headers...)
	}
	for i, b := range []byte{1, 2} {
		s.Backend.Apply(&command.RotateSigningKey{After: uint64(i), Public: bytes.Repeat([]byte{b}, 32), Sealed: []byte{9}})
	}
	checkGolden(t, s, "signing_keys", http.MethodGet, "/.well-known/commons-keys.json", jsonType, "")
	r := s.Get("/.well-known/commons-keys.json")
	if again := s.Get("/.well-known/commons-keys.json", "If-None-Match", r.Header.Get("ETag")); again.Status != http.StatusNotModified {
		t.Errorf("the keys again: %d", again.Status)
	}
}

// TestKeysInURLs rejects them under every name, before anything else is looked at.
func TestKeysInURLs(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	for _, query := range []string{"?edit_key=x", "?EDIT_KEY=x", "?key=x", "?token=x", "?access_token=x", "?authorization=Bearer+x", "?q=" + hookKey} {
		for path, method := range map[string]string{hookPath: http.MethodGet, hookPath + "/test": http.MethodPost} {
			r := s.Do(method, path+query, "", bearer...)
			problem := apitest.CheckError(t, r)
			if r.Status != http.StatusUnprocessableEntity || problem.Issues[0].Field != "edit_key" || strings.Contains(string(r.Body), hookKey) {
				t.Errorf("%s%s: %d %s", path, query, r.Status, r.Body)
			}
		}
	}
	if r := s.Get(hookPath+"?min_index=1&consistency=strong", bearer...); r.Status != http.StatusOK {
		t.Errorf("other parameters: %d %s", r.Status, r.Body)
	}
}

// TestTestDelivery queues test events, to the last one for which there is room.
func TestTestDelivery(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	var answer struct {
		Delivery struct{ ID, Type, Status, Reason string }
		Notes    []string
	}
	for i := range command.MaxWaitingDeliveries + 1 {
		r := s.Do(http.MethodPost, hookPath+"/test", "", bearer...)
		r.Decode(t, &answer)
		want := "waiting"
		if i == command.MaxWaitingDeliveries {
			want = "dropped"
		}
		if r.Status != http.StatusCreated || answer.Delivery.Status != want || len(answer.Notes) != 1 {
			t.Fatalf("test %d: %d %s", i, r.Status, r.Body)
		}
	}
	if answer.Delivery.Reason != fsm.ReasonQueueFull || !strings.HasPrefix(answer.Notes[0], "It was dropped") {
		t.Errorf("%+v", answer)
	}
	var list deliveries
	r := s.Get(hookPath, bearer...)
	r.Decode(t, &list)
	if list.Waiting != command.MaxWaitingDeliveries || len(list.Deliveries) != command.MaxListedDeliveries || !list.Active || list.Next == nil || list.Next.NextAttemptAt == nil {
		t.Errorf("%s", r.Body)
	}
	if list.Deliveries[0].ID != answer.Delivery.ID || list.Deliveries[0].Entry != nil {
		t.Errorf("the newest: %+v", list.Deliveries[0])
	}
	if from := s.Backend.LastSender(); from.AgentKey != "ada" || from.Fingerprint == "" {
		t.Errorf("limited as %+v", from)
	}
}

// TestTestDeliveryNeedsReceiver asks for agents to which nothing can be pushed.
func TestTestDeliveryNeedsReceiver(t *testing.T) {
	s := start(t)
	key := register(t, s, http.StatusCreated, map[string]any{"id": "bob", "note": "Later."}).EditKey
	r := s.Do(http.MethodPost, "/api/agents/bob/deliveries/test", "", "Authorization", "Bearer "+key)
	if problem := apitest.CheckError(t, r); r.Status != http.StatusConflict || problem.Code != "no_receiver" || problem.Retryable {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	var list deliveries
	s.Get("/api/agents/bob/deliveries", "Authorization", "Bearer "+key).Decode(t, &list)
	if list.Active || list.Waiting != 0 || list.Next != nil || list.Deliveries == nil || len(list.Deliveries) != 0 {
		t.Errorf("%+v", list)
	}
	if r := s.Do(http.MethodPost, "/api/agents/nobody/deliveries/test", "", "Authorization", "Bearer "+key); r.Status != http.StatusNotFound {
		t.Errorf("nobody: %d %s", r.Status, r.Body)
	}
	if r := s.Do(http.MethodHead, "/api/agents/bob/deliveries", "", "Authorization", "Bearer "+key); r.Status != http.StatusOK {
		t.Errorf("HEAD: %d", r.Status)
	}
}

// TestDeliveriesAreTheAgentsOwn holds that nothing of a receiver is told to anybody.
func TestDeliveriesAreTheAgentsOwn(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	s.Publish(map[string]any{"agent": "eve", "body": "Is @ada about?"})
	for _, path := range []string{"/api/agents", "/api/agents/ada", "/api/home?for=ada", hookPath} {
		r := s.Get(path, bearer...)
		if !json.Valid(r.Body) || r.Status != http.StatusOK || strings.Contains(string(r.Body), "example.org") || strings.Contains(string(r.Body), hookKey) {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
}
