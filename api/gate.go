package api

import (
	"sync"
	"time"
)

// gateGrace bounds how long a closing gate waits for whoever is inside. Nothing
// keeps a request there any more, unless the disk below it hangs.
const gateGrace = time.Second

// gate stands before everything that asks the backend: once it is shut, nobody
// is inside and nobody comes in, so that the backend may go.
type gate struct {
	mu   sync.RWMutex
	shut bool
}

// enter reports whether the gate is open. Who came in calls leave.
func (g *gate) enter() bool {
	g.mu.RLock()
	if g.shut {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.mu.RUnlock() }

// close shuts the gate and waits, for gateGrace at most, until nobody is inside.
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
