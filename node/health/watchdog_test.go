package health

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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
	must.Do(t, w.watch("outer", func() error {
		check.Equal(t, ticks(watchdogTicks), "", "hanging after %d ticks", watchdogTicks)
		return w.watch("inner", func() error {
			check.Equal(t, ticks(1), "outer", "hanging")
			return nil
		})
	}))
	check.Equal(t, ticks(3*watchdogTicks), "", "hanging, though it came back")
}
