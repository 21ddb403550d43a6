package membership

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestSuccessorsByFitness(t *testing.T) {
	got := byFitness([]successor{{"ill", false, 9}, {"behind", true, 7}, {"gone", false, 0}, {"best", true, 8}})
	check.Diff(t, got, []string{"best", "behind", "ill", "gone"}, "the order")
}
