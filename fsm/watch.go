package fsm

import (
	"sync"
	"sync/atomic"
)

// watchers are woken when something for their agent was applied. Without any,
// telling them costs the apply goroutine one look at a number.
type watchers struct {
	count atomic.Int64
	mu    sync.Mutex
	by    map[string]map[*watcher]struct{}
}

type watcher struct{ wake chan struct{} }

// Watch returns a channel that gets a value when something that concerns the agent
// (text.Fold) was applied, after the view that holds it was published; and also
// when the whole state was replaced or closed. Whoever watches first and looks at
// a view then misses nothing. The caller calls stop when done.
func (m *Machine) Watch(agentKey string) (wake <-chan struct{}, stop func()) {
	w := &watcher{wake: make(chan struct{}, 1)}
	ws := &m.watchers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = make(map[string]map[*watcher]struct{})
	}
	if ws.by[agentKey] == nil {
		ws.by[agentKey] = make(map[*watcher]struct{})
	}
	ws.by[agentKey][w] = struct{}{}
	ws.count.Add(1)
	return w.wake, sync.OnceFunc(func() { ws.remove(agentKey, w) })
}

func (ws *watchers) remove(agentKey string, w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.by[agentKey], w)
	if len(ws.by[agentKey]) == 0 {
		delete(ws.by, agentKey)
	}
	ws.count.Add(-1)
}

// tell wakes whom the entries concern.
func (ws *watchers) tell(added []indexed) {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := range added {
		for _, name := range added[i].entry.inbox {
			wakeAll(ws.by[name])
		}
	}
}

// watchDeliveries stands for the deliveries among the agents: none is called so.
const watchDeliveries = ""

// WatchDeliveries is Watch for changes of any agent's deliveries.
func (m *Machine) WatchDeliveries() (wake <-chan struct{}, stop func()) {
	return m.Watch(watchDeliveries)
}

// tellDeliveries wakes who watches the deliveries.
func (ws *watchers) tellDeliveries() {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wakeAll(ws.by[watchDeliveries])
}

// tellAll wakes everybody.
func (ws *watchers) tellAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, set := range ws.by {
		wakeAll(set)
	}
}

func wakeAll(set map[*watcher]struct{}) {
	for w := range set {
		select {
		case w.wake <- struct{}{}:
		default: // it is woken already
		}
	}
}
