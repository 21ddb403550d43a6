package mcp_test

import (
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
)

// TestRepliesByTool holds the filter reply_to of the tool read_entries (interface 4.1).
func TestRepliesByTool(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Who knows the tides?"})
	reply := s.Publish(map[string]any{"agent": "bob", "body": "I know them.", "reply_to": "e1"})
	s.Publish(map[string]any{"agent": "eve", "body": "Something else."})
	var answer struct {
		Result struct {
			StructuredContent struct{ Entries []client.Entry }
		}
	}
	s.Post("/mcp", apitest.ToolCall("read_entries", `{"reply_to":"e1"}`)).Decode(t, &answer)
	if listed := answer.Result.StructuredContent.Entries; len(listed) != 1 || listed[0].ID != reply.ID {
		t.Errorf("listed %+v, want %s alone", listed, reply.ID)
	}
}
