package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
)

// jobCommands are the commands on jobs and human help, with every field set.
func jobCommands() []command.Payload {
	a := command.Author{
		Agent: "Ada", AgentKey: "ada", House: true, Mentions: []string{"bob"},
		Request: command.RequestKey{Scope: "ada", ID: "request-1"},
	}
	on := command.JobAction{Author: a, Job: "j1"}
	return []command.Payload{
		&command.PostJob{Author: a, Title: "A title", Body: "A body of some words.", Tags: []string{"one", "Two"}},
		&command.ClaimJob{JobAction: on, Note: "On it.", TTL: 1000},
		&command.FinishJob{JobAction: on, Result: "Done."},
		&command.ReleaseJob{JobAction: on}, &command.CloseJob{JobAction: on}, &command.Tick{},
		&command.TakeJob{Author: a, Note: "Mine.", TTL: 1000, Jobs: []string{"j1", "j2"}, Next: "{}"},
		&command.AskHuman{Author: a, Goal: "Goal", Action: "Action", Context: "Context", Bounds: "Bounds", Tags: []string{"one"}},
	}
}

func TestJobCommandsRoundTrip(t *testing.T) {
	command.CheckRoundTrip(t, append(jobCommands(), fsmtest.MarkSeen("ada", "k1", 1, 2))...)
}

// TestJobCommandsAreChecked breaks one bound at a time.
func TestJobCommandsAreChecked(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n+1) }
	finish := func() *command.FinishJob {
		return &command.FinishJob{JobAction: fsmtest.OnJob("ada", 1), Result: "There are seven."}
	}
	for _, b := range jobCommands() {
		check.Err(t, command.Check(b), nil, "%T", b)
	}
	for name, change := range map[string]func() command.Payload{
		"agent":     func() command.Payload { c := fsmtest.PostJob("ada"); c.Agent = "a"; return c },
		"agent key": func() command.Payload { c := fsmtest.PostJob("ada"); c.AgentKey = ""; return c },
		"mentions": func() command.Payload {
			c := fsmtest.PostJob("ada")
			c.Mentions = make([]string, command.MaxMentions+1)
			return c
		},
		"request":       func() command.Payload { c := fsmtest.PostJob("ada"); c.Request.ID = "short"; return c },
		"title":         func() command.Payload { c := fsmtest.PostJob("ada"); c.Title = "abc"; return c },
		"body":          func() command.Payload { c := fsmtest.PostJob("ada"); c.Body = long(command.MaxBody); return c },
		"tags":          func() command.Payload { c := fsmtest.PostJob("ada"); c.Tags = strings.Split("123456789", ""); return c },
		"job":           func() command.Payload { c := fsmtest.Release("ada", 1); c.Job = ""; return c },
		"long job":      func() command.Payload { c := fsmtest.CloseJob("ada", 1); c.Job = long(command.MaxTarget); return c },
		"note":          func() command.Payload { c := fsmtest.Claim("ada", 1); c.Note = long(command.MaxJobNote); return c },
		"no claim":      func() command.Payload { c := fsmtest.Claim("ada", 1); c.TTL = 0; return c },
		"long claim":    func() command.Payload { c := fsmtest.Claim("ada", 1); c.TTL = command.MaxClaim + 1; return c },
		"result":        func() command.Payload { c := finish(); c.Result = long(command.MaxJobResult); return c },
		"no result":     func() command.Payload { c := finish(); c.Result = ""; return c },
		"bad UTF-8":     func() command.Payload { c := finish(); c.Result = "abcd\xff"; return c },
		"no candidates": func() command.Payload { return &command.TakeJob{Author: fsmtest.Author("ada"), TTL: 1, Next: "{}"} },
		"candidates": func() command.Payload {
			return &command.TakeJob{Author: fsmtest.Author("ada"), TTL: 1, Next: "{}", Jobs: slices.Repeat([]string{"j1"}, command.MaxCandidates+1)}
		},
		"long next": func() command.Payload {
			return &command.TakeJob{Author: fsmtest.Author("ada"), TTL: 1, Next: long(command.MaxNextBytes), Jobs: []string{"j1"}}
		},
		"seen by":     func() command.Payload { return fsmtest.MarkSeen("", "k1", 1) },
		"nothing":     func() command.Payload { return fsmtest.MarkSeen("ada", "k1") },
		"too many":    func() command.Payload { return fsmtest.MarkSeen("ada", "k1", make([]uint64, command.MaxSeen+1)...) },
		"seen key":    func() command.Payload { c := fsmtest.MarkSeen("ada", "k1", 1); c.Proof.Key = []byte{1}; return c },
		"goal":        func() command.Payload { c := fsmtest.Help("ada"); c.Goal = long(command.MaxHelpGoal); return c },
		"short goal":  func() command.Payload { c := fsmtest.Help("ada"); c.Goal = "abc"; return c },
		"action":      func() command.Payload { c := fsmtest.Help("ada"); c.Action = long(command.MaxHelpAction); return c },
		"context":     func() command.Payload { c := fsmtest.Help("ada"); c.Context = long(command.MaxHelpContext); return c },
		"constraints": func() command.Payload { c := fsmtest.Help("ada"); c.Bounds = long(command.MaxHelpBounds); return c },
		"help tags":   func() command.Payload { c := fsmtest.Help("ada"); c.Tags = strings.Split("12345678", ""); return c },
		"help tag":    func() command.Payload { c := fsmtest.Help("ada"); c.Tags = []string{long(command.MaxTag)}; return c },
	} {
		check.Fails(command.Check(change()))(t, "%s: passed", name)
	}
}

func TestSignatureOf(t *testing.T) {
	for _, b := range append(jobCommands(), command.SamplePublish()) {
		want := command.RequestKey{Scope: "ada", ID: "request-1"}
		if _, isTick := b.(*command.Tick); isTick {
			want = command.RequestKey{}
		}
		by, signed := command.SignatureOf(b)
		if by.Request != want || signed != (want.ID != "") || signed && (by.AgentKey != "ada" || by.Proof == nil) {
			t.Errorf("%T: %+v, want %+v", b, by, want)
		}
	}
}
