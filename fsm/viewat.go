package fsm

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrPassed is returned by ViewAt for an index that is behind the state.
var ErrPassed = errors.New("the state is past that index")

// captures are the views that somebody waits for, each of one index.
type captures struct {
	mu   sync.Mutex
	open []*capture
}

type capture struct {
	index uint64
	view  chan *View // gets one value; nil when the index was passed
}

func (c *captures) add(index uint64) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &capture{index: index, view: make(chan *View, 1)}
	c.open = append(c.open, one)
	return one
}

// drop forgets a capture, and gives back what it got.
func (c *captures) drop(one *capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(o *capture) bool { return o == one })
	select {
	case v := <-one.view:
		if v != nil {
			v.Release()
		}
	default:
	}
}

// next returns how many of the entries come up to the first index that is waited
// for: all when none is among them.
func (c *captures) next(entries []logEntry) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(entries)
	for _, one := range c.open {
		at, _ := slices.BinarySearchFunc(entries[:n], one.index, func(e logEntry, index uint64) int {
			if e.index <= index {
				return -1
			}
			return 1
		})
		if at > 0 {
			n = at
		}
	}
	return n
}

// serve answers those whose index is reached. It is called by the goroutine that
// applies, between two entries.
func (c *captures) serve(m *Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		return
	}
	applied := m.Applied()
	c.open = slices.DeleteFunc(c.open, func(one *capture) bool {
		switch {
		case one.index > applied:
			return false
		case one.index == applied:
			one.view <- m.View()
		default:
			one.view <- nil
		}
		return true
	})
}

// ViewAt returns the view of exactly one index, once that is applied: states of
// two nodes can be compared there. The caller releases it. Errors: ErrPassed,
// also for an index that no view has because it is of no command and no
// configuration; ctx's.
func (m *Machine) ViewAt(ctx context.Context, index uint64) (*View, error) {
	one := m.captures.add(index)
	defer m.captures.drop(one)
	if m.Applied() >= index {
		v := m.View()
		if v.Index() == index {
			return v, nil
		}
		v.Release()
		return nil, ErrPassed
	}
	select {
	case v := <-one.view:
		if v == nil {
			return nil, ErrPassed
		}
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
