package health

import (
	"context"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

// A node is slow when its disk or its processor is: half of what it does takes as long
// as is slow. That is one that does not lead while another voter is well. A single write
// that takes long, or a process that was stopped once, does not make a node slow.
const (
	// slowLook is how often a node looks whether it is slow, slowLooks how many looks
	// it judges by.
	slowLook  = time.Second
	slowLooks = 4
	// slowLeast is how many writes, or timers, have to be late among them.
	slowLeast = 2
	// slowRest is how long a node that was slow stays so: speed that swings, or that
	// depends on who leads, must not move the leadership each time.
	slowRest = time.Minute
)

// lateness counts what was late, among all.
type lateness struct{ late, all int }

func (l *lateness) add(late bool) {
	l.all++
	if late {
		l.late++
	}
}

// slow reports whether enough of it was late.
func (l lateness) slow() bool { return l.late >= slowLeast && 2*l.late >= l.all }

// pace judges whether a node is slow. The zero value is ready.
type pace struct {
	mu           sync.Mutex
	syncs, turns [slowLooks]lateness // writes of the log, and timers, since a look
	look         int
	long         bool // the newest write took as long as all looks
	slow         bool
	last         time.Duration // when enough was late, since the start
}

// sync counts a write of the log, turn a timer of this node. Of writes that take as long
// as all looks only one comes into them: the second in a row counts twice.
func (p *pace) sync(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncs[p.look].add(took >= slowSync)
	long := took >= slowLooks*slowLook
	if long && p.long {
		p.syncs[p.look].add(true)
	}
	p.long = long
}

func (p *pace) turn(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns[p.look].add(late >= slowStall)
}

// judge looks at an instant, and reports whether the node is slow, and whether that is
// new.
func (p *pace) judge(at time.Duration) (slow, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.slow
	if total(p.syncs).slow() || total(p.turns).slow() {
		p.slow, p.last = true, at
	} else if at-p.last >= slowRest {
		p.slow = false
	}
	p.look = (p.look + 1) % slowLooks
	p.syncs[p.look], p.turns[p.look] = lateness{}, lateness{}
	return p.slow, p.slow != was
}

func total(parts [slowLooks]lateness) (sum lateness) {
	for _, p := range parts {
		sum.late += p.late
		sum.all += p.all
	}
	return sum
}

// Slow reports whether this node's disk or processor is too slow to lead.
func (h *Health) Slow() bool {
	h.pace.mu.Lock()
	defer h.pace.mu.Unlock()
	return h.pace.slow
}

func (h *Health) watchPace(ctx context.Context) {
	loop.Every(ctx, slowLook, func(ctx context.Context) {
		at := h.sinceStart()
		switch slow, changed := h.pace.judge(at); {
		case !changed:
		case slow:
			h.cfg.Logger.WarnContext(ctx, "this node is slow; it leads only while no other voter is faster",
				"sync", fromMillis(h.syncs.timing(at).MeanMillis), "late", fromMillis(h.stalls.timing(at).MeanMillis), "data", h.cfg.DataDir)
		default:
			h.cfg.Logger.InfoContext(ctx, "this node is fast enough again")
		}
	})
}
