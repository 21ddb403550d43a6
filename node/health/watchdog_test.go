package health

import "testing"

func TestWatchdogCountsItsOwnTicks(t *testing.T) {
	w := newWatchdog()
	ticks := func(n int) (what string) {
		for range n {
			what = w.hanging()
		}
		return what
	}
	if what := ticks(3 * watchdogTicks); what != "" {
		t.Errorf("%s hangs, and nothing was written", what)
	}
	w.watch("outer", func() {
		if what := ticks(watchdogTicks); what != "" {
			t.Errorf("%s hangs after %d ticks", what, watchdogTicks)
		}
		w.watch("inner", func() {
			if what := ticks(1); what != "outer" {
				t.Errorf("%q hangs, want the outer write", what)
			}
		})
	})
	if what := ticks(3 * watchdogTicks); what != "" {
		t.Errorf("%s hangs, and it came back", what)
	}
}
