package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// part is a part of an answer, in either version's form.
type part struct {
	Kind, Text string
	Data       json.RawMessage
}

// ReplyA2A is an answered message.
type ReplyA2A struct {
	Kind, MessageID, ContextID, Role string
	Parts, Content                   []part
}

// RPCAnswer is an answer of JSON-RPC.
type RPCAnswer struct {
	JSONRPC string
	ID      any
	Result  *struct {
		ReplyA2A
		Message *ReplyA2A
		Tasks   []any
	}
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// RPC sends a request of JSON-RPC and reads the answer, which has HTTP 200.
func RPC(t *testing.T, s *Server, body string, headers ...string) RPCAnswer {
	t.Helper()
	r := s.Do(http.MethodPost, "/a2a", body, append([]string{"Content-Type", JSONType}, headers...)...).Must(t, http.StatusOK)
	answer := Decoded[RPCAnswer](t, r)
	if answer.JSONRPC != "2.0" || (answer.Result == nil) == (answer.Error == nil) {
		t.Fatalf("%s: %s", body, r.Body)
	}
	return answer
}

// MessageRequest is a request that sends parts.
func MessageRequest(method, id, parts string) string {
	role := "ROLE_USER"
	if method == "message/send" {
		role = "user"
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"message":{"messageId":%q,"role":%q,"parts":%s}}}`, method, id, role, parts)
}

// ProblemA2A is the Error object in the data of an error of either version.
func ProblemA2A(t *testing.T, data json.RawMessage) Problem {
	t.Helper()
	var details []struct {
		Type  string `json:"@type"`
		Value Problem
	}
	if json.Unmarshal(data, &details) == nil {
		return details[len(details)-1].Value
	}
	var p Problem
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return p
}

// AgentCard is an agent card of either version.
type AgentCard struct {
	Name, Description, Version, ProtocolVersion, URL, PreferredTransport string
	SupportedInterfaces                                                  []struct{ URL, ProtocolBinding, ProtocolVersion string }
	AdditionalInterfaces                                                 []struct{ URL, Transport string }
	Capabilities                                                         struct{ Streaming, PushNotifications, ExtendedAgentCard bool }
	Skills                                                               []struct{ ID, Name, Description string }
}
