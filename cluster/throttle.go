package cluster

import (
	"maps"
	"sync"
	"time"
)

const (
	logEvery    = time.Minute // per kind of line
	maxLogKinds = 256         // distinct kinds remembered
)

// Throttle limits log lines to one of each kind per logEvery. The zero value is ready. It is safe for concurrent use.
type Throttle struct {
	mu    sync.Mutex
	kinds map[string]*logKind
}

type logKind struct {
	last       time.Time
	suppressed int
}

// Allow reports whether a line of this kind may be logged now, and the number of lines
// suppressed since the last one.
func (t *Throttle) Allow(kind string) (suppressed int, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]*logKind)
	}
	k := t.kinds[kind]
	if k == nil && len(t.kinds) >= maxLogKinds {
		maps.DeleteFunc(t.kinds, func(_ string, k *logKind) bool { return now.Sub(k.last) >= logEvery })
		if len(t.kinds) >= maxLogKinds {
			kind = "" // all that do not fit share one kind
			k = t.kinds[kind]
		}
	}
	if k == nil {
		t.kinds[kind] = &logKind{last: now}
		return 0, true
	}
	if now.Sub(k.last) < logEvery {
		k.suppressed++
		return 0, false
	}
	suppressed = k.suppressed
	k.last, k.suppressed = now, 0
	return suppressed, true
}
