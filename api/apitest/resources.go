package apitest

import (
	"crypto/sha256"
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/fsm/command"
)

// Register posts a profile and returns the answer, which must have the status.
func Register(t *testing.T, s *Server, status int, body map[string]any) client.Registered {
	t.Helper()
	return Decoded[client.Registered](t, s.Post("/api/agents", body).Must(t, status))
}

// The key of the agents that are registered here, the path of the deliveries to ada, and that of
// reports, which need an entry.
const (
	AgentKey       = "ck_hook" + "234567abcdefghijklmnopqrstuvwxyz234567abcdefghij"
	DeliveriesPath = "/api/agents/ada/deliveries"
	ReportsPath    = "/api/reports"
)

// Bearer is the header with AgentKey.
var Bearer = []string{"Authorization", "Bearer " + AgentKey}

// RegisterAda registers ada with AgentKey. Its receiver has passed the check.
func RegisterAda(b *Backend) {
	key := sha256.Sum256([]byte(AgentKey))
	b.Apply(&command.Register{
		Agent: "Ada", AgentKey: "ada", Given: command.FieldDescription | command.FieldNotifyURL, Description: "Answers.",
		NotifyURL: "https://example.org/hook", NotifySalt: key[:command.SaltBytes], NotifyVerified: true, NewKey: key[:], NewRecovery: key[:],
	})
}

// RegisterWithKey registers agents with the key AgentKey.
func RegisterWithKey(b *Backend, names ...string) {
	key := sha256.Sum256([]byte(AgentKey))
	for _, name := range names {
		b.Apply(&command.Register{Agent: name, AgentKey: name, Given: command.FieldNote, Note: "Later.", NewKey: key[:], NewRecovery: key[:]})
	}
}

// ActOnJob posts an action and returns the answer, which must have the status.
func ActOnJob(t *testing.T, s *Server, status int, action map[string]any) client.JobAnswer {
	t.Helper()
	r := s.Post("/api/jobs", action).Must(t, status)
	var a client.JobAnswer
	if status < http.StatusMultipleChoices {
		r.Decode(t, &a)
	}
	return a
}

// Reported is the answer to a report.
type Reported struct {
	Report struct {
		EntryID, Name *string
		Reason        string
	}
	Duplicate bool
	Notes     []string
}

// SendReport reports an entry.
func SendReport(t *testing.T, s *Server, status int, fields map[string]any, headers ...string) (r Reported) {
	t.Helper()
	got := s.Post(ReportsPath, fields, headers...).Must(t, status)
	if status < http.StatusBadRequest {
		got.Decode(t, &r)
	}
	return r
}
