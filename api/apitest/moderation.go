package apitest

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// ModToken is the token of the moderator mia.
const ModToken = "cmod_mia"

// addModerator gives a moderator a token.
func addModerator(s *Server, name, token string) {
	hash := sha256.Sum256([]byte(token))
	s.Backend.Apply(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: name, Token: hash[:], For: command.TokenMillis})
}

// WithModerator serves a backend that knows mia.
func WithModerator(t *testing.T, configure ...func(*api.Config)) *Server {
	t.Helper()
	s := New(t, configure...)
	addModerator(s, "mia", ModToken)
	return s
}

// AsModerator sends a call of moderation.
func AsModerator(s *Server, path string, body any) *Response {
	return s.Post("/api/moderation/"+path, body, "Authorization", "Bearer "+ModToken)
}

// ModerationLog returns the newest rows of the record.
func ModerationLog(s *Server) *Response {
	return s.Get("/api/moderation/log?limit=100", "Authorization", "Bearer "+ModToken)
}

// HideAnswer is the answer to hiding, unhiding and purging.
type HideAnswer struct {
	Matched, Changed int
	Blocked          int
	Next             *string
	Samples          []struct{ ID string }
	Record           *uint64
}

// Moderate carries a call of moderation out.
func Moderate(t *testing.T, s *Server, path string, body any) HideAnswer {
	t.Helper()
	return Decoded[HideAnswer](t, AsModerator(s, path, body).Must(t, http.StatusOK))
}

// Operate runs an operation of moderation as the operator does, over the private port.
func Operate(s *Server, operation string, body any) *Response {
	data, _ := json.Marshal(body)
	doc, _ := wire.DecodeBody(wire.MediaJSON, data)
	done := s.API.Operate(operation, wire.Invocation{Document: doc})
	return &Response{Status: done.Status, Body: done.Body}
}

// Purge purges entries and profiles as the operator does.
func Purge(t *testing.T, s *Server, body any) HideAnswer {
	t.Helper()
	return Decoded[HideAnswer](t, Operate(s, "purge", body).Must(t, http.StatusOK))
}
