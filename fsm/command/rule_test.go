package command_test

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
)

func TestRuleChecks(t *testing.T) {
	for _, test := range []struct {
		kind    command.RuleKind
		subject string
		forMS   int64
		hold    bool
		wrong   bool
	}{
		{kind: command.RuleName, subject: "eve", forMS: 1},
		{kind: command.RuleName, subject: "eve"},
		{kind: command.RuleChannel, subject: "den", wrong: true},
		{kind: command.RuleName, subject: "eve", forMS: command.MaxRuleMillis + 1, wrong: true},
		{kind: command.RuleName, subject: "", forMS: 1, wrong: true},
		{kind: command.RuleSender, subject: "e1", forMS: 1},
		{kind: command.RuleNetwork, subject: "192.0.2.0/24", forMS: 1},
		{kind: command.RuleNetwork, subject: "2001:db8::/32", forMS: 1},
		{kind: command.RuleNetwork, subject: "192.0.2.1/24", forMS: 1, wrong: true},
		{kind: command.RuleNetwork, subject: "0.0.0.0/0", forMS: 1, wrong: true},
		{kind: command.RuleNetwork, subject: "192.0.2.1", forMS: 1, wrong: true},
		{kind: command.RuleNetwork, subject: "::ffff:192.0.2.0/120", forMS: 1, wrong: true},
		{kind: command.RuleChannel, subject: "den", forMS: 1},
		{kind: command.RuleAll, forMS: 1},
		{kind: command.RuleAll, subject: "x", forMS: 1, wrong: true},
		{kind: command.RulePattern, subject: "(?i)pills?"},
		{kind: command.RulePattern, subject: "x*", wrong: true},
		{kind: command.RulePattern, subject: "(", wrong: true},
		{kind: command.RulePattern, subject: "", wrong: true},
		{kind: command.RulePattern, subject: strings.Repeat("a", command.MaxPatternBytes+1), wrong: true},
		{kind: command.RulePattern, subject: "(x{30}){30}", wrong: true},
		{kind: 99, subject: "x", forMS: 1, wrong: true},
	} {
		c := &command.SetRule{Order: fsmtest.ByOperator, Kind: test.kind, Subject: test.subject, For: test.forMS}
		err := command.Check(c)
		check.Equal(t, err != nil, test.wrong, "%+v is wrong, %v", c, err)
		if !test.wrong {
			command.CheckRoundTrip(t, c)
		}
	}
	command.CheckRoundTrip(t, &command.LiftRule{Order: fsmtest.ByOperator, Number: 7})
}
