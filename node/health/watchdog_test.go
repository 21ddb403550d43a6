package health

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestWatchdogCountsItsOwnTicks(t *testing.T) {
	w := newWatchdog()
	ticks := func(n int) (what string) {
		for range n {
			what = w.hanging()
		}
		return what
	}
	check.Equal(t, ticks(3*watchdogTicks), "", "hanging without a write")
	w.watch("outer", func() {
		check.Equal(t, ticks(watchdogTicks), "", "hanging after %d ticks", watchdogTicks)
		w.watch("inner", func() {
			check.Equal(t, ticks(1), "outer", "hanging")
		})
	})
	check.Equal(t, ticks(3*watchdogTicks), "", "hanging, though it came back")
}
