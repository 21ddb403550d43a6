package state

import "github.com/commons-cluster/commons/fsm/command"

// TestProblems returns every problem of a test delivery, given the profile.
func TestProblems(c *command.TestDelivery, p *ProfileRow, known bool) []command.Problem {
	switch {
	case !known:
		return []command.Problem{command.ProblemUnknownAgent}
	case len(c.Proof.Key) == 0:
		return []command.Problem{command.ProblemNoKey}
	case !p.Opens(c.Proof.Key):
		return []command.Problem{command.ProblemWrongKey}
	case !p.Hooked(), p.Paused():
		return []command.Problem{command.ProblemNoHook}
	}
	return nil
}
