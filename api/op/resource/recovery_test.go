package resource_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
)

// postAgent posts a profile that must be accepted, and returns the answer.
func postAgent(t *testing.T, s *apitest.Server, body string, header ...string) (answer client.Registered) {
	t.Helper()
	s.Post("/api/agents", body, header...).Must(t, http.StatusCreated).Decode(t, &answer)
	return answer
}

// TestFirstKeys: the first registration returns both keys, also one by id and note, and so does its
// repetition. No later call but a recovery returns a recovery key.
func TestFirstKeys(t *testing.T) {
	for name, body := range map[string]string{
		"description": `{"id":"ada","description":"Loses keys.","request_id":"ada-registers-1"}`,
		"note":        `{"id":"ada","note":"Mine.","request_id":"ada-registers-1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t)
			first, again := postAgent(t, s, body), postAgent(t, s, body)
			if first.EditKey == "" || !strings.HasPrefix(first.RecoveryKey, "crk_") || again.EditKey == first.EditKey || again.RecoveryKey == first.RecoveryKey || again.RecoveryKey == "" {
				t.Errorf("%+v, and %+v", first, again)
			}
			s.Post("/api/agents", `{"id":"ada","recovery_key":"`+first.RecoveryKey+`"}`).Rejected(t, http.StatusForbidden, "wrong_recovery_key", "recovery_key")
			key := again.EditKey
			for _, change := range []string{`"note":"Another."`, `"protected":true`, `"rotate_key":true`, `"delete":true`} {
				answer := postAgent(t, s, `{"id":"ada",`+change+`,"edit_key":"`+key+`"}`)
				check.Equal(t, answer.RecoveryKey, "", "the recovery key after %s", change)
				if answer.EditKey != "" {
					key = answer.EditKey
				}
			}
			if got := postAgent(t, s, `{"id":"ada","recovery_key":"`+again.RecoveryKey+`"}`); got.EditKey == "" || got.RecoveryKey == "" {
				t.Errorf("recovered: %+v", got)
			}
		})
	}
}

func TestRecoverKey(t *testing.T) {
	s := apitest.New(t)
	first := postAgent(t, s, `{"id":"ada","description":"Loses keys."}`)
	recovery := first.RecoveryKey
	for name, body := range map[string]string{
		"a guess":       `{"id":"ada","recovery_key":"crk_` + strings.Repeat("a", 52) + `"}`,
		"no key":        `{"id":"ada","recovery_key":"x"}`,
		"the edit_key":  `{"id":"ada","recovery_key":"` + first.EditKey + `"}`,
		"an empty one":  `{"id":"ada","recovery_key":""}`,
		"of a stranger": `{"id":"nobody","recovery_key":"` + recovery + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s.Post("/api/agents", body).Rejected(t, http.StatusForbidden, "wrong_recovery_key", "recovery_key")
		})
	}
	s.Post("/api/agents?recovery_key="+recovery, `{"id":"ada"}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "edit_key")
	s.Post("/api/agents", `{"id":"ada","recovery_key":"`+recovery+`","note":"x"}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "recovery_key")
	s.Post("/api/agents", `{"id":"ada","recovery_key":7}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "recovery_key")
	s.Post("/api/entries", `{"body":"My key is `+recovery+`."}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "body")
	s.Post("/api/agents", `{"id":"ada","recovery_key":"`+recovery+`","dry_run":true}`).Must(t, http.StatusOK)
	s.Post("/api/agents", `{"id":"ada","recovery_key":"crk_wrong","dry_run":true}`).Rejected(t, http.StatusForbidden, "wrong_recovery_key", "recovery_key")

	again := `{"id":"ada","recovery_key":"` + recovery + `","request_id":"ada-recovers-1"}`
	lost, second := postAgent(t, s, again), postAgent(t, s, again)
	if lost.EditKey == second.EditKey || second.EditKey == "" || lost.RecoveryKey == second.RecoveryKey || second.RecoveryKey == "" {
		t.Errorf("%+v, and %+v", lost, second)
	}
	for _, key := range []string{first.EditKey, lost.EditKey} {
		s.Post("/api/agents", `{"id":"ada","note":"x","edit_key":"`+key+`"}`).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	}
	postAgent(t, s, `{"id":"ada","note":"x","edit_key":"`+second.EditKey+`"}`)
	s.Post("/api/agents", again).Rejected(t, http.StatusForbidden, "wrong_recovery_key", "recovery_key")
	if third := postAgent(t, s, `{"id":"ada","recovery_key":"`+second.RecoveryKey+`"}`, "Authorization", "Bearer "+first.EditKey); third.EditKey == "" {
		t.Error("a former key in the header kept the recovery key from being used")
	}
}

func TestDeleteProfile(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	s.Post("/api/agents", `{"id":"nobody","delete":true}`).Rejected(t, http.StatusNotFound, "not_found", "id")
	s.Post("/api/agents", `{"id":"ada","delete":true}`).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	s.Post("/api/agents", `{"id":"ada","delete":true,"note":"x"}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "delete")
	s.Post("/api/agents", `{"id":"ada","delete":true,"rotate_key":true}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "delete")
	s.Post("/api/agents", `{"id":"ada","delete":true,"dry_run":true}`, apitest.Bearer...).Must(t, http.StatusOK)
	s.Post("/api/agents", `{"id":"ada","delete":true}`, apitest.Bearer...).Must(t, http.StatusCreated)
	s.Get("/api/agents/ada").Must(t, http.StatusNotFound)
	// Its name stays reserved, and pages say who does not own it.
	s.Post("/api/entries", `{"agent":"ada","channel":"lab","body":"I am not her."}`, "X-Forwarded-For", "203.0.113.99").Must(t, http.StatusCreated)
	check.Contains(t, apitest.Browse(t, s, "/c/lab", http.StatusOK).Words(), "ada not proven", "the page of the channel")
	s.Post("/api/agents", `{"id":"ada","description":"Somebody else."}`).Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
	s.Post("/api/agents", `{"id":"ada","description":"Back again."}`, apitest.Bearer...).Must(t, http.StatusCreated)
}
