package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
)

// newestCode returns the newest recovery code of a name, as its receiver gets it.
func newestCode(t *testing.T, s *apitest.Server, agent string) string {
	t.Helper()
	v := s.Backend.View()
	defer v.Release()
	codes, err := v.RecoveryCodes(agent)
	if err != nil || len(codes) == 0 {
		t.Fatalf("%v, %v", codes, err)
	}
	c := codes[len(codes)-1]
	return s.Backend.RecoveryCode(agent, c.Number, c.At)
}

// recoverable sets ada's recover_by.
func recoverable(t *testing.T) *apitest.Server {
	t.Helper()
	s := start(t)
	hook(s.Backend)
	s.Post("/api/agents", `{"id":"ada","recover_by":"receiver"}`, bearer...).Must(t, http.StatusCreated)
	return s
}

func TestRecoverKey(t *testing.T) {
	s := recoverable(t)
	s.Backend.Apply(&command.SetSettings{WriteRate: new(int64)}) // a sender may ask at any time
	var first string
	for _, name := range []string{"ada", "nobody", "ADA"} {
		answer := s.Post("/api/agents", `{"id":"`+name+`","recover":true}`).Must(t, http.StatusAccepted)
		if first == "" {
			first = string(answer.Body)
		}
		if diff := cmp.Diff(first, string(answer.Body)); diff != "" {
			t.Errorf("%s (-first +this):\n%s", name, diff)
		}
	}
	code := newestCode(t, s, "ada")
	s.Post("/api/agents", `{"id":"ada","recovery_code":"crc_`+strings.Repeat("a", 26)+`"}`).Rejected(t, http.StatusForbidden, "wrong_recovery_code", "recovery_code")
	s.Post("/api/agents", `{"id":"nobody","recovery_code":"`+code+`"}`).Rejected(t, http.StatusForbidden, "wrong_recovery_code", "recovery_code")
	s.Post("/api/agents?recovery_code="+code, `{"id":"ada"}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "edit_key")
	s.Post("/api/agents", `{"id":"ada","recovery_code":"`+code+`","note":"x"}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "recovery_code")
	s.Post("/api/entries", `{"body":"My code is `+code+`."}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "body")
	s.Post("/api/agents", `{"id":"ada","recovery_code":"`+code+`","dry_run":true}`).Must(t, http.StatusOK)

	redeem := `{"id":"ada","recovery_code":"` + code + `","request_id":"ada-recovers-1"}`
	redeemed := func() string {
		var answer client.Registered
		s.Post("/api/agents", redeem).Must(t, http.StatusCreated).Decode(t, &answer)
		return answer.EditKey
	}
	key, again := redeemed(), redeemed()
	if key == again || key == "" || again == "" {
		t.Errorf("keys %q, %q", key, again)
	}
	s.Post("/api/agents", `{"id":"ada","note":"x"}`, bearer...).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	s.Post("/api/agents", `{"id":"ada","note":"x","edit_key":"`+again+`"}`).Must(t, http.StatusCreated)
	s.Post("/api/agents", redeem).Rejected(t, http.StatusForbidden, "wrong_recovery_code", "recovery_code")
}

func TestDeleteProfile(t *testing.T) {
	s := recoverable(t)
	s.Post("/api/agents", `{"id":"nobody","delete":true}`).Rejected(t, http.StatusNotFound, "not_found", "id")
	s.Post("/api/agents", `{"id":"ada","delete":true}`).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	s.Post("/api/agents", `{"id":"ada","delete":true,"note":"x"}`, bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "delete")
	s.Post("/api/agents", `{"id":"ada","delete":true,"rotate_key":true}`, bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "delete")
	s.Post("/api/agents", `{"id":"ada","delete":true,"dry_run":true}`, bearer...).Must(t, http.StatusOK)
	s.Post("/api/agents", `{"id":"ada","delete":true}`, bearer...).Must(t, http.StatusCreated)
	s.Get("/api/agents/ada").Must(t, http.StatusNotFound)
	// Its name stays reserved, and pages say who does not own it.
	s.Post("/api/entries", `{"agent":"ada","channel":"lab","body":"I am not her."}`, "X-Forwarded-For", "203.0.113.99").Must(t, http.StatusCreated)
	if words := browse(t, s, "/c/lab", http.StatusOK).words(); !strings.Contains(words, "ada not proven") {
		t.Errorf("the page of the channel shows %s", words)
	}
	s.Post("/api/agents", `{"id":"ada","description":"Somebody else."}`).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	s.Post("/api/agents", `{"id":"ada","description":"Back again."}`, bearer...).Must(t, http.StatusCreated)
}

// TestRecoveriesOfASender: the limit depends on the sender, not on the name.
func TestRecoveriesOfASender(t *testing.T) {
	s := recoverable(t)
	s.Post("/api/agents", `{"id":"nobody","recover":true}`).Must(t, http.StatusAccepted)
	for _, name := range []string{"ada", "nobody"} {
		r := s.Post("/api/agents", `{"id":"`+name+`","recover":true}`)
		r.Rejected(t, http.StatusTooManyRequests, "rate_limited", "recover")
		if wait := r.Header.Get("Retry-After"); wait != "3600" {
			t.Errorf("%s: Retry-After is %s", name, wait)
		}
	}
}
