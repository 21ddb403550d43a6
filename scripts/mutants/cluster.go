package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// clusterBugs are the bugs that scripts/chaos has to detect in a cluster of real nodes. In
// run are its arguments.
var clusterBugs = []bug{
	{
		name:  "a repeated command is carried out again",
		edits: []edit{{"fsm/apply/effects.go", "if r, ok := s.Answers[c.Seq]; ok {", "if r, ok := s.Answers[c.Seq]; ok && c.Seq == 0 {"}},
		run:   "-scenario,leader killed,-seed,1", because: "a write is there twice after a change of leader",
		simulated: "TestNodes",
	},
	{
		name:  "nodes forget what they answered when they restart",
		edits: []edit{{"fsm/apply/load.go", "if l.Sessions, err = loadSessions(r); err != nil {", "if l.Sessions = (Sessions{}); err != nil {"}},
		run:   "-scenario,rolling restart,-seed,1", because: "nodes hold different states",
	},
	{
		name:  "a minimum index is not waited for",
		edits: []edit{{"node/backend.go", "if err := b.machine.Wait(ctx, index); err != nil {", "if err := ctx.Err(); err != nil {"}},
		run:   "-scenario,bad network,-seed,1", because: "an agent does not read at one node what it wrote at another",
		simulated: "TestNodes",
	},
	{
		name:  "a strong read asks nobody",
		edits: []edit{{"node/backend.go", "{ return b.pipeline.ReadIndex(ctx) }", "{ return b.machine.Applied(), ctx.Err() }"}},
		run:   "-scenario,bad network,-seed,1", because: "a job that is taken reads as open",
		simulated: "TestNodes",
	},
	{
		name:  "what may have been written counts as not written",
		edits: []edit{{"node/propose/session.go", "if c.uncertain() {\n\t\treturn &command.Unavailable{Code: command.CodeOutcomeUnknown", "if c.uncertain() && false {\n\t\treturn &command.Unavailable{Code: command.CodeOutcomeUnknown"}},
		run:   "-scenario,followers paused,-seed,1", because: "an agent repeats freely, and writes twice",
	},
	{
		name:  "a follower answers before it has applied",
		edits: []edit{{"node/propose/session.go", "\t\tif c.applied {\n\t\t\ts.finish(c, nil)\n\t\t}\n\t\treturn\n\tcase r.Status == statusUnknown:", "\t\ts.finish(c, nil)\n\t\treturn\n\tcase r.Status == statusUnknown:"}},
		run:   "-scenario,bad network,-seed,1", because: "an agent does not read what it has just written",
	},
	{
		name: "a leader trusts its lease",
		edits: []edit{
			{"node/propose/readindex.go", "if err := p.confirmTerm(ctx, d, term); err != nil {", "if err := ctx.Err(); err != nil {"},
			{"node/propose/readindex.go", "if err := verify.Error(); err != nil {", "if err := ctx.Err(); verify == nil {"},
		},
		run: "-scenario,leaders paused,-seed,1", because: "who asks a leader that was stopped reads what was true before",
	},
	{
		name:  "the log is not synced",
		edits: []edit{{"node/logstore/open.go", "MsgpackUseNewTimeFormat: true,", "MsgpackUseNewTimeFormat: true, NoSync: true,"}},
		run:   "-scenario,power of everything is lost,-seed,1", because: "what was acknowledged is gone when the power fails",
	},
	{
		name:  "memory keeps the rows of what was hidden",
		edits: []edit{{"fsm/apply/effects.go", "tx.stored.Recent.Drop(tx.recast)", "tx.stored.Recent.Drop(nil)"}},
		run:   "-scenario,leader killed,-seed,1", because: "what was hidden is shown by every node that has it in memory",
	},
}

// maxShown bounds the output that is shown of a run without a finding, in bytes.
const maxShown = 2000

// tryCluster builds the program with the bug and lets chaos find it. by is the check
// that did.
func (b *bug) tryCluster(ctx context.Context, dir string) (by string, err error) {
	overlay, err := b.overlay(dir)
	if err != nil {
		return "", err
	}
	binary, chaos := filepath.Join(dir, "commons"), filepath.Join(dir, "chaos")
	for _, args := range [][]string{{"build", "-overlay", overlay, "-o", binary, "."}, {"build", "-o", chaos, "./scripts/chaos"}} {
		if out, err := command(ctx, ".", "go", args...); err != nil {
			return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
		}
	}
	run, err := os.MkdirTemp(dir, "run-") // nodes of the previous bug left their files behind
	if err != nil {
		return "", err
	}
	args := append([]string{"-binary", binary, "-dir", run, "-out", filepath.Join(dir, "report")}, strings.Split(b.run, ",")...)
	out, err := command(ctx, ".", chaos, args...)
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return "", err
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "FAILED  "); ok {
			if name, _, _ := strings.Cut(rest, ":"); !slices.Contains(found, name) { // each is printed again at the end
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no check of chaos %s found it:\n%s", b.run, out[max(0, len(out)-maxShown):])
	}
	return strings.Join(found, "; "), nil
}
