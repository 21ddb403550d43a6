package apitest

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/guard"
)

// UnboundedDryRuns turns off the limit of dry runs.
func UnboundedDryRuns(c *api.Config) { c.Limits.DryRuns = guard.Unbounded }

// DryRunAnswer is the answer to a dry run.
type DryRunAnswer struct {
	DryRun bool `json:"dry_run"`
	Would  map[string]any
	Notes  []string
}

// NothingWritten ends the answer to each dry run.
const NothingWritten = "Nothing was written. Send again without dry_run."

// WithoutEffect checks that a call proposes no command, asks no receiver, and leaves the state and the
// log as they are.
func WithoutEffect(t *testing.T, s *Server, call func() *Response) *Response {
	t.Helper()
	index, digest := s.Backend.Machine.Digest()
	proposed, verify := len(s.Backend.Senders), s.Backend.Verify
	s.Backend.Verify = func(string, string) error {
		t.Error("the receiver was asked")
		return nil
	}
	r := call()
	s.Backend.Verify = verify
	if after, same := s.Backend.Machine.Digest(); after != index || same != digest {
		t.Errorf("a dry run moved the log from %d to %d", index, after)
	}
	Equal(t, "commands that were proposed", len(s.Backend.Senders), proposed)
	return r
}

// DryRun sends a dry run, which must succeed.
func DryRun(t *testing.T, s *Server, call func() *Response) (answer DryRunAnswer) {
	t.Helper()
	r := WithoutEffect(t, s, call)
	r.Must(t, http.StatusOK).WantHeader(t, "Location", "")
	members := Decoded[map[string]json.RawMessage](t, r)
	Equal(t, "members of "+string(r.Body), len(members), 3)
	r.Decode(t, &answer)
	if !answer.DryRun || len(answer.Notes) == 0 || answer.Notes[0] != NothingWritten {
		t.Errorf("a dry run: %s", r.Body)
	}
	return answer
}

// Board is the state for dryRuns.
func Board(t *testing.T, configure ...func(*api.Config)) *Server {
	t.Helper()
	s := WithModerator(t, configure...)
	RegisterAda(s.Backend)
	s.Publish(map[string]any{"agent": "eve", "body": "The tide turns.", "channel": "tides"}) // e1
	for _, body := range []map[string]any{
		{"agent": "eve", "title": "An open job", "body": "To be done."},    // j2
		{"agent": "eve", "title": "A claimed job", "body": "To be done."},  // j3
		{"agent": "bob", "action": "claim", "job_id": "j3", "note": "Me."}, // e4
	} {
		s.Post("/api/jobs", body).Must(t, http.StatusCreated)
	}
	RegisterWithKey(s.Backend, "fay")
	return s
}
