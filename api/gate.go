package api

import (
	"sync"
	"time"
)

// gateGrace is the longest time that close waits for requests inside the gate. They end
// at once by then, unless the disk hangs.
const gateGrace = time.Second

// gate guards all use of the backend. After close, no request is inside and no other
// enters, so that the backend may stop.
type gate struct {
	mu   sync.RWMutex
	shut bool
}

// enter reports whether the gate is open. If it is, the caller calls leave.
func (g *gate) enter() bool {
	g.mu.RLock()
	if g.shut {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.mu.RUnlock() }

// close shuts the gate and waits until it is empty, at most gateGrace.
func (g *gate) close() {
	empty := make(chan struct{})
	go func() {
		defer close(empty)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = true
	}()
	select {
	case <-empty:
	case <-time.After(gateGrace):
	}
}
