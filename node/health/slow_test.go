package health

import (
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPace: what is slow for seconds makes a node slow until it was well for a while, and
// one thing that takes long does not.
func TestPace(t *testing.T) {
	const fast, late, seconds = time.Millisecond, slowSync, 100
	for name, tt := range map[string]struct {
		syncs func(second int) []time.Duration
		turns func(second int) time.Duration // each of ten
		from  int                            // the second from which on it is slow; -1: never
		until int
	}{
		"well":                     {from: -1},
		"slow disk":                {syncs: func(s int) []time.Duration { return []time.Duration{late, late} }, from: 1, until: seconds},
		"a write that takes long":  {syncs: func(s int) []time.Duration { return pick(s == 5, 3*time.Second, fast) }, from: -1},
		"a write now and then":     {syncs: func(s int) []time.Duration { return pick(s%4 == 0, late) }, from: -1},
		"two seconds for each":     {syncs: func(s int) []time.Duration { return pick(s%2 == 0, 2*time.Second) }, from: 2, until: seconds},
		"five seconds for each":    {syncs: func(s int) []time.Duration { return pick(s%5 == 0, 5*time.Second) }, from: 5, until: seconds},
		"every third is slow":      {syncs: func(s int) []time.Duration { return []time.Duration{fast, late, fast} }, from: -1},
		"slow for ten seconds":     {syncs: func(s int) []time.Duration { return pick(s < 10, late, fast) }, from: 1, until: 70},
		"starved":                  {turns: func(s int) time.Duration { return slowStall }, from: 1, until: seconds},
		"starved when it was well": {turns: func(s int) time.Duration { return pick(s >= 5, slowStall, 0)[0] }, from: 7, until: seconds},
		"slow disk after many writes": {syncs: func(s int) []time.Duration {
			return pick(s >= 5, late, slices.Repeat([]time.Duration{fast}, 100)...)
		}, from: 7, until: seconds},
		"stopped once": {turns: func(s int) time.Duration { return 0 }, syncs: func(s int) []time.Duration { return pick(s == 3, time.Minute) }, from: -1},
		"slow disk, processor well": {
			syncs: func(s int) []time.Duration { return []time.Duration{late} }, turns: func(int) time.Duration { return 0 }, from: 1, until: seconds,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p slowness
			for second := range seconds {
				if tt.syncs != nil {
					for _, took := range tt.syncs(second) {
						p.sync(took)
					}
				}
				for range 10 {
					if tt.turns != nil {
						p.turn(tt.turns(second))
					}
				}
				slow, _ := p.check(time.Duration(second) * time.Second)
				must.Equal(t, slow, tt.from >= 0 && second >= tt.from && second < tt.until, "after %d s: slow", second)
			}
		})
	}
}

// pick returns a when it holds, and else what is otherwise, if anything.
func pick(holds bool, a time.Duration, otherwise ...time.Duration) []time.Duration {
	if holds {
		return []time.Duration{a}
	}
	return otherwise
}

// TestSlowWrite: with a duration of late writes, neither faster writes nor late timers
// make a node slow.
func TestSlowWrite(t *testing.T) {
	const long = 2 * time.Second
	for _, tc := range []struct {
		slowWrite, sync, turn time.Duration
		want                  bool
	}{
		{0, slowSync, 0, true},
		{0, 0, slowStall, true},
		{long, long, 0, true},
		{long, long - 1, 0, false},
		{long, 0, slowStall, false},
	} {
		p := slowness{slowWrite: tc.slowWrite}
		for range slowLooks {
			p.sync(tc.sync)
			p.turn(tc.turn)
			p.check(0)
		}
		check.Equal(t, p.slow, tc.want, "%+v: slow", tc)
	}
}
