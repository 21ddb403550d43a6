package stats

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
)

// TestSketch holds that estimates are near, and that the registers are as the
// state keeps them: by the first bits of the hash, the rank of the others.
func TestSketch(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 10, 100, 1000, 50_000} {
		s := NewSenders()
		for i := range n {
			s.Insert(fmt.Sprintf("sender-%d", i))
			s.Insert(fmt.Sprintf("sender-%d", i))
		}
		got, err := Estimate(s.Registers())
		if diff := int(got) - n; err != nil || max(diff, -diff) > n/30 {
			t.Errorf("%d senders are estimated as %d, %v", n, got, err)
		}
	}
	s := NewSenders()
	s.sketch.InsertHash(5<<50 | 1<<40)
	s.sketch.InsertHash(9 << 50)
	want := make([]byte, command.SketchRegisters)
	want[5], want[9] = 10, command.MaxRank
	if !bytes.Equal(s.Registers(), want) {
		t.Errorf("registers 5 and 9 are %d and %d", s.Registers()[5], s.Registers()[9])
	}
	check.Fails(Estimate(want[1:]))(t, "estimate without a register")
}

func FuzzRows(f *testing.F) {
	f.Add(UsageKey(7, command.SurfaceAPI, "publishEntry", "curl"))
	f.Fuzz(func(_ *testing.T, row []byte) {
		_, _ = state.Decode[HourRow](row)
		_, _ = ParseUsageKey(row)
	})
}
