package node

import (
	"slices"
	"testing"
)

func TestHeirsByFitness(t *testing.T) {
	got := byFitness([]heir{{"ill", false, 9}, {"behind", true, 7}, {"gone", false, 0}, {"best", true, 8}})
	if want := []string{"best", "behind", "ill", "gone"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
