package membership

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestSuccessorsByFitness(t *testing.T) {
	got := byFitness([]successor{{"ill", false, 9}, {"behind", true, 7}, {"gone", false, 0}, {"best", true, 8}})
	check.Diff(t, got, []string{"best", "behind", "ill", "gone"}, "the order")
}

func TestLastTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		stats map[string]string
		want  uint64
	}{
		"log after the snapshot":     {map[string]string{"last_log_index": "9", "last_log_term": "4", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 4},
		"an installed snapshot only": {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 3},
		"a fresh node":               {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "0", "last_snapshot_term": "0"}, 0},
	} {
		check.Equal(t, lastTerm(tc.stats), tc.want, "%s: term", name)
	}
}
