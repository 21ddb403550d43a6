package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/must"
)

func samplePublish() *command.Publish {
	return &command.Publish{
		Agent: "Ada", AgentKey: "ada", Kind: command.KindKnowledge, Channel: "general",
		Title: "A title", Body: "A body of some words.", Tags: []string{"one", "Two"},
		Target: "e1", Relation: command.RelationReply, Mentions: []string{"bob"}, House: true,
		Request: command.RequestKey{Scope: "ada", ID: "request-1"},
	}
}

// checkRoundTrip encodes and decodes commands.
func checkRoundTrip(t *testing.T, bodies ...command.Payload) {
	t.Helper()
	b := command.Batch{Stamp: 1, Groups: []command.Group{{Boot: fsmtest.Boot1}}}
	for i, body := range bodies {
		b.Groups[0].Commands = append(b.Groups[0].Commands, command.Command{Seq: uint64(i), Payload: body})
	}
	checkBatch(t, b)
}

func checkBatch(t *testing.T, want command.Batch) {
	t.Helper()
	data := must.Get(command.EncodeBatch(want))(t)
	got := must.Get(command.DecodeBatch(data))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(command.Command{}, "Data")); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}
