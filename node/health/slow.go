package health

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

// A node is slow when its disk or its processor is slow: for seconds, half of its work
// is late. A slow node does not lead while another voter is fast. A single slow write,
// or a process that was stopped once, does not make a node slow.
const (
	// slowLook is how often a node checks whether it is slow, and slowLooks how many checks
	// decide.
	slowLook  = time.Second
	slowLooks = 4
	// slowLeast is in how many of them half of the work has to be late, which also has to
	// be the majority of those with work.
	slowLeast = 2
	// slowRest is how long a slow node still counts as slow: a speed that varies, or that
	// depends on who leads, must not move the leadership each time.
	slowRest = time.Minute
)

type lateness struct{ late, all int }

func (l *lateness) add(late bool) {
	l.all++
	if late {
		l.late++
	}
}

// The results of a check.
const (
	idle = iota // without work
	well
	late // half of the work was late
)

// looks are the newest checks of one kind of work. Each has the same weight, however
// much work it covers: a node that becomes slow does less work.
type looks struct {
	now      lateness // since the newest
	verdicts [slowLooks]int
}

// look stores the verdict on the work since the last check, under a number.
func (l *looks) look(number int) {
	verdict := well
	if l.now.all == 0 {
		verdict = idle
	} else if 2*l.now.late >= l.now.all {
		verdict = late
	}
	l.verdicts[number%slowLooks] = verdict
	l.now = lateness{}
}

func (l *looks) slow() bool {
	var count [late + 1]int
	for _, verdict := range l.verdicts {
		count[verdict]++
	}
	return count[late] >= slowLeast && count[late] > count[well]
}

// slowness decides whether a node is slow. The zero value is ready.
type slowness struct {
	slowWrite time.Duration // see Config.SlowWrite

	mu           sync.Mutex
	syncs, turns looks // writes of the log, and timers
	number       int   // of the next look
	long         bool  // the newest write took as long as all looks
	slow         bool
	last         time.Duration // when enough was late, since the start
}

// sync counts a write of the log, turn a timer of this node. Only one write that takes
// as long as all checks together fits into them: after two in a row, every check was
// late.
func (p *slowness) sync(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncs.now.add(took >= cmp.Or(p.slowWrite, slowSync))
	long := took >= max(p.slowWrite, slowLooks*slowLook)
	if long && p.long {
		for i := range p.syncs.verdicts {
			p.syncs.verdicts[i] = late
		}
	}
	p.long = long
}

func (p *slowness) turn(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns.now.add(took >= slowStall && p.slowWrite == 0)
}

// check looks once, and reports whether the node is slow, and whether that has
// changed.
func (p *slowness) check(at time.Duration) (slow, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.slow
	p.syncs.look(p.number)
	p.turns.look(p.number)
	p.number++
	if p.syncs.slow() || p.turns.slow() {
		p.slow, p.last = true, at
	} else if at-p.last >= slowRest {
		p.slow = false
	}
	return p.slow, p.slow != was
}

// Slow reports whether this node's disk or processor is too slow to lead.
func (h *Health) Slow() bool {
	h.slowness.mu.Lock()
	defer h.slowness.mu.Unlock()
	return h.slowness.slow
}

func (h *Health) watchPace(ctx context.Context) {
	loop.Every(ctx, slowLook, func(ctx context.Context) {
		at := h.sinceStart()
		switch slow, changed := h.slowness.check(at); {
		case !changed:
		case slow:
			h.cfg.Logger.WarnContext(ctx, "this node is slow; it leads only while no other voter is faster",
				"sync", fromMillis(h.syncs.timing(at).MeanMillis), "late", fromMillis(h.stalls.timing(at).MeanMillis), "data", h.cfg.DataDir)
		default:
			h.cfg.Logger.InfoContext(ctx, "this node is fast enough again")
		}
	})
}
