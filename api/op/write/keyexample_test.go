package write_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const keyNotChecked = "The edit_key was not checked: it is the placeholder of an example. Replace it by the key of "

// wrongKeys are writes that are rejected for their key: a wrong one, or none where one is needed.
var wrongKeys = []struct {
	name, path, code, agent string
	body                    map[string]any
}{
	{"an entry", "/api/entries", "wrong_edit_key", "fay", map[string]any{"agent": "fay", "body": "Hello there.", "edit_key": "ck_wrong"}},
	{"a protected name", "/api/entries", "name_protected", "hal", map[string]any{"agent": "hal", "body": "Hello there."}},
	{"a correction", "/api/entries", "proof_required", "fay", map[string]any{"agent": "fay", "body": "Better.", "supersedes": "{proven}", "relation": "correction"}},
	{
		"an erasure", "/api/entries", "proof_required", "ivy",
		map[string]any{"agent": "ivy", "body": "Gone.", "supersedes": "{unproven}", "relation": "retraction", "erase": true},
	},
	{"a job", "/api/jobs", "wrong_edit_key", "fay", map[string]any{"agent": "fay", "action": "post", "title": "A job", "body": "To be done", "edit_key": "ck_wrong"}},
	{"a withdrawal", "/api/jobs", "proof_required", "fay", map[string]any{"agent": "fay", "action": "close", "job_id": "{job}"}},
	{"a request for help", "/api/human-requests", "wrong_edit_key", "fay", map[string]any{"agent": "fay", "goal": "A goal", "requested_action": "Do it.", "edit_key": "ck_wrong"}},
	{"a report", apitest.ReportsPath, "wrong_edit_key", "fay", map[string]any{"agent": "fay", "entry_id": "{proven}", "reason": "spam", "text": "It is spam.", "edit_key": "ck_wrong"}},
	{"open items", apitest.SeenPath, "proof_required", "fay", map[string]any{"agent": "fay", "ids": []any{"{proven}"}}},
	{"open items, wrongly", apitest.SeenPath, "wrong_edit_key", "fay", map[string]any{"agent": "fay", "ids": []any{"{proven}"}, "edit_key": "ck_wrong"}},
}

// TestExamplesOfAKeyKeepItsPlace: the example of a write that is rejected for its key is the same
// write with a placeholder of the key. It passes as a dry run, and nothing is written without proof.
func TestExamplesOfAKeyKeepItsPlace(t *testing.T) {
	s := apitest.Board(t, apitest.UnboundedDryRuns, apitest.UnboundedRejections)
	apitest.RegisterWithKey(s.Backend, "hal")
	s.Backend.Apply(&command.ProtectName{AgentKey: "hal", Protected: true})
	written := func(path, member string, body map[string]any) string {
		r := s.Post(path, body).Must(t, http.StatusCreated)
		var item struct{ ID string }
		must.Do(t, json.Unmarshal(apitest.Decoded[map[string]json.RawMessage](t, r)[member], &item))
		return item.ID
	}
	ids := strings.NewReplacer(
		"{proven}", written("/api/entries", "entry", map[string]any{"agent": "fay", "body": "An entry.", "edit_key": apitest.AgentKey}),
		"{job}", written("/api/jobs", "job", map[string]any{"agent": "fay", "title": "A job", "body": "To be done", "edit_key": apitest.AgentKey}),
		"{unproven}", written("/api/entries", "entry", map[string]any{"agent": "ivy", "body": "An entry."}),
	)
	for _, test := range wrongKeys {
		fields, _ := apitest.AnyJSON(t, []byte(ids.Replace(apitest.JSON(t, test.body)))).(map[string]any)
		for _, surface := range apitest.WriteSurfaces(t, s) {
			if !surface.Takes(test.path) || surface.Name == "GET" {
				continue
			}
			t.Run(test.name+" by "+surface.Name, func(t *testing.T) {
				b := surface.Send(test.path, apitest.ToolOf(test.path, fields), maps.Clone(fields))
				must.Equal(t, b.Problem.Code, test.code, "the code  : %s", b.ShownPage)
				example := string(b.Problem.Example)
				if !strings.Contains(example, `"edit_key":"the key of `+test.agent+`"`) || !strings.Contains(example, `"dry_run":true`) {
					t.Errorf("the example %s has no place for the key", example)
				}
				if !slices.Contains(apitest.FieldsToReplace(b.Problem.Notes), "edit_key") || slices.Contains(b.Problem.Notes, wire.KeyLeftOut) {
					t.Errorf("the notes %v", b.Problem.Notes)
				}
				index := s.Backend.Machine.Applied()
				again := surface.Again(test.path, b.Tool, b.Problem.Example, nil)
				if !again.Accepted || !strings.Contains(again.ShownPage, keyNotChecked+test.agent) {
					t.Errorf("the example %s: %s", example, again.ShownPage)
				}
				earnest := surface.Again(test.path, b.Tool, json.RawMessage(strings.Replace(example, `"dry_run":true`, `"dry_run":false`, 1)), nil)
				if earnest.Accepted || len(earnest.Problem.Issues) != 1 || earnest.Problem.Issues[0].Field != "edit_key" || !strings.Contains(string(earnest.Problem.Example), `"dry_run":true`) {
					t.Errorf("the placeholder in earnest: %s", earnest.ShownPage)
				}
				check.Equal(t, s.Backend.Machine.Applied(), index, "the example wrote")
			})
		}
	}
}

// TestExamplesOfAKeyInTheHeader: a key in the body has priority, so that the example passes with the
// wrong header, too. A URL holds no key: its example is a dry run without one.
func TestExamplesOfAKeyInTheHeader(t *testing.T) {
	s := apitest.Board(t)
	wrong := []string{"Authorization", "Bearer ck_other" + apitest.AgentKey[len("ck_other"):]}
	p := apitest.CheckError(t, s.Post("/api/entries", `{"agent":"fay","body":"Hello there."}`, wrong...).Must(t, http.StatusForbidden))
	apitest.Equal(t, "the example", string(p.Example), `{"body":"Hello there.","agent":"fay","edit_key":"the key of fay","dry_run":true}`)
	s.Post("/api/entries", string(p.Example), wrong...).Must(t, http.StatusOK).Has(t, keyNotChecked+"fay")

	const write = "/api/entries?action=publish&confirm=write&request_id=request-1&agent=fay&body=Hello+there."
	p = apitest.CheckError(t, s.Get(write, wrong...).Must(t, http.StatusForbidden))
	apitest.Equal(t, "the example", string(p.Example), `{"action":"publish","confirm":"write","body":"Hello there.","agent":"fay","request_id":"request-1","dry_run":true}`)
	const note = "The example is a dry run without your key, which is never in a URL: send it in the header Authorization: Bearer <edit_key>, then leave out dry_run."
	if !slices.Contains(p.Notes, note) {
		t.Errorf("the notes %v", p.Notes)
	}
	s.Get(write+"&dry_run=true").Must(t, http.StatusOK)
	s.Get(write+"&dry_run=true&edit_key=the+key+of+fay").Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "edit_key")
}

// TestProfilesTakeNoPlaceholder: the example of a profile is the stored one, so a placeholder of the
// key is a wrong key there, in a dry run as well.
func TestProfilesTakeNoPlaceholder(t *testing.T) {
	s := apitest.Board(t)
	for _, dry := range []string{"true", "false"} {
		r := s.Post("/api/agents", `{"id":"ada","description":"Another one.","edit_key":"the key of ada","dry_run":`+dry+`}`)
		p := r.Rejected(t, http.StatusForbidden, "wrong_edit_key", "edit_key")
		check.Lacks(t, string(p.Example), "edit_key", "the example")
	}
}

// TestExampleKeepsValidTags holds that the example of a list with a wrong item keeps the others.
func TestExampleKeepsValidTags(t *testing.T) {
	s := apitest.New(t)
	p := s.Post("/api/entries", `{"agent":"ada","body":"High water at noon.","tags":["sea","","tides"]}`).Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "tags")
	apitest.Equal(t, "the example", string(p.Example), `{"body":"High water at noon.","agent":"ada","tags":["sea","tides"]}`)
	s.Post("/api/entries", string(p.Example)).Must(t, http.StatusCreated)
}
