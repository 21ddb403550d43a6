package state

import "github.com/commons-cluster/commons/fsm/command"

// MarkSeenProblems returns every problem of marking open items as seen.
func (w *Writer) MarkSeenProblems() []command.Problem {
	if problems := w.Problems(); len(problems) > 0 || w.Strength == command.ByKey {
		return problems
	}
	return []command.Problem{command.ProblemNoKey}
}
