package nodetest

import (
	"runtime"
	"slices"
	"time"
)

const (
	// idleTime is several times the duration of the work of slowness on an idle machine:
	// there is room for a slow machine and for tests beside this one.
	idleTime    = 40 * time.Millisecond
	maxSlowness = 8 // bounds how much longer times become: heartbeats stay far below Patience
)

// slowness returns how many times as long as usual the work of a moment takes here: 1
// unless other programs keep the processors busy. With such a factor, a cluster's
// elections depend on its faults and not on the load of the machine.
func slowness() int {
	const rounds, length, step = 32, 1 << 13, 0x9E3779B1
	began := time.Now()
	list := make([]uint32, length)
	for range rounds {
		for i := range list {
			list[i] = uint32(i) * step
		}
		slices.Sort(list)
		runtime.Gosched()
	}
	return int(min(max(time.Since(began)/idleTime, 1), maxSlowness))
}
