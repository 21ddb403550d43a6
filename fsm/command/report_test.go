package command_test

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
)

func TestReportChecks(t *testing.T) {
	for name, c := range map[string]command.Payload{
		"no reason":  &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Text: "Spam"},
		"reason":     &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 7, Text: "Spam"},
		"no text":    &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 1},
		"long text":  &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 1, Text: strings.Repeat("x", command.MaxReport+1)},
		"no target":  &command.Report{Agent: "ada", AgentKey: "ada", Reason: 1, Text: "Spam"},
		"nobody":     &command.Report{Target: "e1", Reason: 1, Text: "Spam"},
		"nothing":    &command.ResolveReports{Order: fsmtest.ByOperator, Outcome: command.ReportKept},
		"no outcome": fsmtest.ResolveReport(command.ReportOpen, "e1"),
		"expired":    fsmtest.ResolveReport(command.ReportExpired, "e1"),
	} {
		check.Fails(command.Check(c))(t, "%s: %+v is taken", name, c)
	}
	command.CheckRoundTrip(t, fsmtest.Report("e1", "s1"), fsmtest.ResolveReport(command.ReportErased, "e1"))
	for _, name := range command.ReportReasons.List() {
		check.Equal(t, command.ReportReason(command.ReportReasons.Parse(name)).String(), name, "the name that is written again")
	}
	for _, name := range command.ReportOutcomes.List() {
		check.Equal(t, command.ReportOutcome(command.ReportOutcomes.Parse(name)).String(), name, "the name that is written again")
	}
	if command.ReportReasons.Parse("") != 0 || command.ReportReasons.Parse("rude") != 0 {
		t.Error("an unknown reason has a number")
	}
}
