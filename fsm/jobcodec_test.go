package fsm

import (
	"strings"
	"testing"
)

// jobCommands are the commands on jobs and human help, with every field set.
func jobCommands() []Body {
	a := Author{
		Agent: "Ada", AgentKey: "ada", House: true, Mentions: []string{"bob"},
		Request: RequestKey{Scope: "ada", ID: "request-1"},
	}
	on := JobAction{Author: a, Job: "j1"}
	return []Body{
		&PostJob{Author: a, Title: "A title", Body: "A body of some words.", Tags: []string{"one", "Two"}},
		&ClaimJob{JobAction: on, Note: "On it.", TTL: 1000},
		&FinishJob{JobAction: on, Result: "Done."},
		&ReleaseJob{on}, &CloseJob{on}, &Tick{},
		&AskHuman{Author: a, Goal: "Goal", Action: "Action", Context: "Context", Bounds: "Bounds", Tags: []string{"one"}},
	}
}

func TestJobCommandsRoundTrip(t *testing.T) {
	checkRoundTrip(t, jobCommands()...)
}

// TestJobCommandsAreChecked breaks one bound at a time.
func TestJobCommandsAreChecked(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n+1) }
	for _, b := range jobCommands() {
		if err := Check(b); err != nil {
			t.Errorf("%T: %v", b, err)
		}
	}
	for name, change := range map[string]func() Body{
		"agent":       func() Body { c := postJob("ada"); c.Agent = "a"; return c },
		"agent key":   func() Body { c := postJob("ada"); c.AgentKey = ""; return c },
		"mentions":    func() Body { c := postJob("ada"); c.Mentions = make([]string, MaxMentions+1); return c },
		"request":     func() Body { c := postJob("ada"); c.Request.ID = "short"; return c },
		"title":       func() Body { c := postJob("ada"); c.Title = "abc"; return c },
		"body":        func() Body { c := postJob("ada"); c.Body = long(MaxBody); return c },
		"tags":        func() Body { c := postJob("ada"); c.Tags = strings.Split("123456789", ""); return c },
		"job":         func() Body { c := release("ada", 1); c.Job = ""; return c },
		"long job":    func() Body { c := closeJob("ada", 1); c.Job = long(MaxTarget); return c },
		"note":        func() Body { c := claim("ada", 1); c.Note = long(MaxJobNote); return c },
		"no claim":    func() Body { c := claim("ada", 1); c.TTL = 0; return c },
		"long claim":  func() Body { c := claim("ada", 1); c.TTL = MaxClaim + 1; return c },
		"result":      func() Body { c := finish("ada", 1); c.Result = long(MaxJobResult); return c },
		"no result":   func() Body { c := finish("ada", 1); c.Result = ""; return c },
		"bad UTF-8":   func() Body { c := finish("ada", 1); c.Result = "abcd\xff"; return c },
		"goal":        func() Body { c := ask("ada"); c.Goal = long(MaxHelpGoal); return c },
		"short goal":  func() Body { c := ask("ada"); c.Goal = "abc"; return c },
		"action":      func() Body { c := ask("ada"); c.Action = long(MaxHelpAction); return c },
		"context":     func() Body { c := ask("ada"); c.Context = long(MaxHelpContext); return c },
		"constraints": func() Body { c := ask("ada"); c.Bounds = long(MaxHelpBounds); return c },
		"help tags":   func() Body { c := ask("ada"); c.Tags = strings.Split("12345678", ""); return c },
		"help tag":    func() Body { c := ask("ada"); c.Tags = []string{long(MaxTag)}; return c },
	} {
		if err := Check(change()); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func TestRequestOf(t *testing.T) {
	for _, b := range append(jobCommands(), samplePublish()) {
		want := RequestKey{Scope: "ada", ID: "request-1"}
		if _, isTick := b.(*Tick); isTick {
			want = RequestKey{}
		}
		if got := RequestOf(b); got != want {
			t.Errorf("%T: %+v, want %+v", b, got, want)
		}
	}
}

func TestJobRows(t *testing.T) {
	row := jobRow{status: JobClaimed, claimant: "Ada", claimantKey: "ada", expires: 1700000000000}
	got, err := decodeJobRow(row.encode())
	if err != nil || got != row {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range row.encode() {
		if _, err := decodeJobRow(row.encode()[:n]); err == nil {
			t.Errorf("%d bytes passed", n)
		}
	}
	for _, bad := range [][]byte{{0, 0, 0, 0, 0}, {9, 0, 0, 0, 0}, append(row.encode(), 0)} {
		if _, err := decodeJobRow(bad); err == nil {
			t.Errorf("%v passed", bad)
		}
	}
	if _, err := decodeHelpRow([]byte{4}); err == nil {
		t.Error("a bad help row passed")
	}
	if _, err := parseDueKey([]byte{spaceDue, 1}); err == nil {
		t.Error("a short claim key passed")
	}
}
