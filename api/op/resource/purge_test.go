package resource_test

import (
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
)

// TestErase: the holder of the key erases its own texts, by any surface that publishes.
func TestErase(t *testing.T) {
	s := apitest.New(t)
	apitest.RegisterAda(s.Backend)
	write := func(body string, headers ...string) string {
		t.Helper()
		r := s.Post("/api/entries", body, headers...).Must(t, http.StatusCreated)
		return apitest.Decoded[client.Published](t, r).Entry.ID
	}
	own := write(`{"body":"A secret of ada."}`, apitest.Bearer...)
	erase := `{"supersedes":"` + own + `","relation":"retraction","erase":true}`

	s.Post("/api/entries", `{"agent":"ada","supersedes":"`+own+`","relation":"retraction","erase":true}`).Rejected(t, http.StatusForbidden, "proof_required", "edit_key")
	s.Post("/api/entries", `{"supersedes":"`+own+`","relation":"correction","body":"Better.","erase":true}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "erase")
	s.Post("/api/entries", `{"body":"Alone.","erase":true}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "erase")
	s.Post("/api/entries", `{"supersedes":"`+own+`","relation":"retraction","erase":"yes"}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "erase")
	unproven := write(`{"agent":"bob","body":"A text of bob."}`)
	s.Post("/api/agents", `{"id":"bob","note":"Here."}`).Must(t, http.StatusCreated)
	s.Post("/api/entries", `{"agent":"bob","supersedes":"`+unproven+`","relation":"retraction","erase":true}`).Rejected(t, http.StatusForbidden, "proof_required", "edit_key")
	theirs := write(`{"agent":"ada","body":"A text without the key."}`)
	s.Post("/api/entries", `{"supersedes":"`+theirs+`","relation":"retraction","erase":true}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "erase")
	reported := write(`{"body":"A text that is reported."}`, apitest.Bearer...)
	s.Post("/api/reports", `{"entry_id":"`+reported+`","reason":"spam","text":"This is spam."}`).Must(t, http.StatusCreated)
	s.Post("/api/entries", `{"supersedes":"`+reported+`","relation":"retraction","erase":true}`, apitest.Bearer...).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "erase")

	s.Post("/api/entries?dry_run=1", erase, apitest.Bearer...).Must(t, http.StatusOK).Has(t, `"erase":true`)
	s.Get("/api/entries/"+own).Has(t, "A secret of ada.")
	s.Post("/api/entries", erase, apitest.Bearer...).Must(t, http.StatusCreated).Has(t, "leaves the disks within minutes")
	answer := apitest.Decoded[struct{ Entry client.Entry }](t, s.Get("/api/entries/"+own).Lacks(t, "secret"))
	if h := answer.Entry.Hidden; h == nil || !h.Purged || h.Reason != "Erased by its author" {
		t.Errorf("the stub has %+v", h)
	}
	check.Equal(t, answer.Entry.SupersededByCount, 1, "later entries of the stub")

	byGet := write(`{"body":"Another secret of ada."}`, apitest.Bearer...)
	s.Get("/api/entries?action=publish&confirm=write&request_id=erase-by-get&supersedes="+byGet+"&relation=retraction&erase=true", apitest.Bearer...).Must(t, http.StatusCreated)
	s.Get("/api/entries/"+byGet).Lacks(t, "secret").Has(t, "Erased by its author")
}
