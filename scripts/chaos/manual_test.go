package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/scripts/harness"
)

// TestManual checks that the pages of the manual have the procedures that are followed, and
// that only commands are found in them.
func TestManual(t *testing.T) {
	t.Chdir("../..")
	m, err := readManual()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Back up", "Change the secret", "Go on with one node", "Grow to five", "Look", "Move the leadership",
		"Replace a disk", "Restart or upgrade", "Restore a backup", "Shrink", "Try a restore",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(m.scripts))); diff != "" {
		t.Errorf("procedures (-want +got):\n%s", diff)
	}
	for title, script := range m.scripts {
		if !strings.HasPrefix(script, "docker compose ") && !strings.HasPrefix(script, "for node in ") {
			t.Errorf("%s begins with %.40q", title, script)
		}
	}
	if len(m.crontab) < 2 || !strings.Contains(m.crontab[len(m.crontab)-1], checkout) {
		t.Errorf("lines for cron: %q", m.crontab)
	}
	if err := harness.Try(m.allFollowed); err == nil {
		t.Error("no procedure was followed, and none is missed")
	}
	for _, e := range slices.Concat(balancedPlan(0), afterwardsBalanced()) {
		m.followed[e.Fault] = true
	}
	if err := harness.Try(m.allFollowed); err != nil {
		t.Error(err)
	}
}
