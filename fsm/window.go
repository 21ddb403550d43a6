package fsm

import (
	"fmt"
	"slices"
)

// window says which commands of a boot may still come: those from floor on, and
// the open ones below it. All others have been answered.
type window struct {
	floor uint64
	open  []uint64 // rising, below floor, at most MaxOpen
}

// checkWindow reports a Floor and an Open that do not go together.
func (g *Group) checkWindow() error {
	if len(g.Open) > MaxOpen {
		return fmt.Errorf("%d open numbers, at most %d", len(g.Open), MaxOpen)
	}
	limit := g.Floor
	for _, seq := range slices.Backward(g.Open) {
		if seq >= limit {
			return fmt.Errorf("open numbers %d below floor %d: they must rise and stay below it", g.Open, g.Floor)
		}
		limit = seq
	}
	return nil
}

// holds reports whether the command of that number may still come.
func (w window) holds(seq uint64) bool {
	if seq >= w.floor {
		return true
	}
	_, open := slices.BinarySearch(w.open, seq)
	return open
}

// meet returns what may still come according to both windows. Groups of one boot
// reach the log in any order, so neither of the two need be the newer one.
func (w window) meet(o window) window {
	if o.floor > w.floor {
		w, o = o, w
	}
	// What lies below the higher floor may come only if it is open there.
	both := window{floor: w.floor}
	for _, seq := range w.open {
		if o.holds(seq) {
			both.open = append(both.open, seq)
		}
	}
	return both
}

func (w window) equal(o window) bool {
	return w.floor == o.floor && slices.Equal(w.open, o.open)
}
