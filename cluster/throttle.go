package cluster

import (
	"sync"
	"time"
)

const (
	logEvery    = time.Minute // per kind of line
	maxLogKinds = 256         // distinct kinds remembered
)

// throttle keeps strangers from filling the log: of each kind of line one is
// let through per logEvery.
type throttle struct {
	mu    sync.Mutex
	kinds map[string]*logKind
}

type logKind struct {
	last       time.Time
	suppressed int
}

// allow reports whether a line of the kind may be written now, and how many
// were held back since the last one.
func (t *throttle) allow(kind string) (suppressed int, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]*logKind)
	}
	k := t.kinds[kind]
	if k == nil {
		t.makeRoom(now)
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

func (t *throttle) makeRoom(now time.Time) {
	if len(t.kinds) < maxLogKinds {
		return
	}
	for kind, k := range t.kinds {
		if now.Sub(k.last) >= logEvery {
			delete(t.kinds, kind)
		}
	}
}
