package operate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
)

func TestRotationStepByStep(t *testing.T) {
	servers := func(secrets, sealed string, more ...*admin.NodeReport) []admin.Server {
		list := []admin.Server{{ID: "a-1", Report: &admin.NodeReport{Secrets: strings.Fields(secrets), SealedUnder: sealed}}}
		for _, r := range more {
			list = append(list, admin.Server{ID: "b-2", Report: r})
		}
		return list
	}
	report := func(secrets, sealed string) *admin.NodeReport {
		return &admin.NodeReport{Secrets: strings.Fields(secrets), SealedUnder: sealed}
	}
	for name, tc := range map[string]struct {
		file, next string
		servers    []admin.Server
		want       step
		waiting    []string
	}{
		"nothing begun":                  {"old", "", servers("old", "old"), stepAdd, nil},
		"added, not read by all":         {"old new", "new", servers("old new", "old", report("old", "old")), stepWaitAccepted, []string{"b-2"}},
		"added, one does not answer":     {"old new", "new", servers("old new", "old", nil), stepWaitAccepted, []string{"b-2"}},
		"accepted by all":                {"old new", "new", servers("old new", "old", report("old new", "old")), stepSwap, nil},
		"swapped, not read by all":       {"new old", "new", servers("new old", "old", report("old new", "old")), stepWaitUsed, []string{"b-2"}},
		"swapped and resealed, one late": {"new old", "new", servers("new old", "new", report("old new", "new")), stepWaitUsed, []string{"b-2"}},
		"used by all":                    {"new old", "new", servers("new old", "old"), stepWaitSealed, []string{"a-1"}},
		"resealed":                       {"new old", "new", servers("new old", "new", report("new old", "new")), stepDrop, nil},
		"dropped, not read by all":       {"new", "new", servers("new", "new", report("new old", "new")), stepWaitDropped, []string{"b-2"}},
		"dropped by all":                 {"new", "new", servers("new", "new", report("new", "new")), stepDone, nil},
	} {
		r := rotation{file: strings.Fields(tc.file), next: tc.next, servers: tc.servers}
		if got, waiting := r.decide(); got != tc.want || !slices.Equal(idsOf(waiting), tc.waiting) {
			t.Errorf("%s: step %d waiting for %v, want %d and %v", name, got, idsOf(waiting), tc.want, tc.waiting)
		}
	}
}

// TestRotationAsksOnce holds that a copy is asked for once after a change, and only for nodes that have
// had the time to read a file that they share.
func TestRotationAsksOnce(t *testing.T) {
	all := []admin.Server{{ID: "a", Report: &admin.NodeReport{}}, {ID: "b", Report: &admin.NodeReport{}}, {ID: "dead"}}
	copied := map[string]bool{}
	check.Diff(t, idsOf(toTell(all, copied, time.Second)), []string{"dead"}, "right after the change")
	check.Diff(t, idsOf(toTell(all[1:], copied, time.Minute)), []string{"b", "dead"}, "of two nodes, one has read it")
	check.Diff(t, idsOf(toTell(all[1:], copied, time.Minute)), []string{"dead"}, "asked before")
	check.Contains(t, waitingText("FILE", all), "copy FILE to a, b: each", "the request")
}
