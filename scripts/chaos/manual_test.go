package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/scripts/harness"
)

// TestManual checks that the pages of the manual have the procedures that are followed, and
// that only commands are found in them.
func TestManual(t *testing.T) {
	t.Chdir("../..")
	m := readManual()
	want := []string{
		"Add a node", "Back up", "Change the secret", "Get a debug bundle", "Go on with one node", "Look", "Move the leadership",
		"Put a node into or out of HAProxy", "Remove a node", "Replace a machine", "Restart or upgrade", "Restore a backup", "Roll an upgrade back", "Try a restore",
	}
	check.Diff(t, slices.Sorted(maps.Keys(m.scripts)), want, "procedures")
	for title, script := range m.scripts {
		if !strings.HasPrefix(script, "docker ") && !strings.HasPrefix(script, "for node in ") {
			t.Errorf("%s begins with %.40q", title, script)
		}
	}
	if len(m.crontab) < 2 || !strings.Contains(m.crontab[len(m.crontab)-1], checkout) {
		t.Errorf("lines for cron: %q", m.crontab)
	}
	check.Fails(harness.Try(m.allFollowed))(t, "no procedure was followed, and none is missed")
	for _, e := range slices.Concat(balancedPlan(0), afterwardsBalanced()) {
		m.followed[e.Fault] = true
	}
	check.Err(t, harness.Try(m.allFollowed), nil, "try")
}

func TestExamples(t *testing.T) {
	got := examples("text\n\n    one \\\n      two\n\nmore text\n    three\n")
	check.Diff(t, got, []string{"one \\\n  two\n", "three\n"}, "examples")
}
