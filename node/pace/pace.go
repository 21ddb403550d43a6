// Package pace makes background work yield to the writes of clients. The work rests longer if
// writes to the Raft log take longer than they did without the work.
package pace

import (
	"cmp"
	"io"
	"sync"
	"time"
)

const (
	minWork = 4 * time.Millisecond // between two rests
	maxRest = 200 * time.Millisecond
	// maxShare bounds a rest, as a multiple of the work before it: writes may be slow for
	// another reason.
	maxShare = 4
	// Work does not rest until writes take more than tolerated times as long as without it.
	// A rest is the excess times gain, as a multiple of the work.
	tolerated, gain = 1.25, 4
	// idle is the time without writes after which work does not rest, and the time without
	// work after which writes count as undisturbed.
	idle = time.Second
	// The averages of latencies decay over so many writes.
	presentWrites, undisturbedWrites = 8, 256
)

// Pacer measures writes, and decides how long background work rests. The zero value is ready.
// Work of a nil Pacer does not rest.
type Pacer struct {
	Sleep func(time.Duration) // nil is time.Sleep

	mu sync.Mutex
	// Average latencies of writes in seconds, 0 before the first one. The second is that
	// without background work.
	present, undisturbed float64
	wrote, worked        time.Time
}

// Wrote counts a write with its latency.
func (p *Pacer) Wrote(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote = time.Now()
	update(&p.present, took, presentWrites)
	if p.wrote.Sub(p.worked) > idle {
		update(&p.undisturbed, took, undisturbedWrites)
	}
}

func update(average *float64, took time.Duration, writes float64) {
	*average = cmp.Or(*average, took.Seconds())
	*average += (took.Seconds() - *average) / writes
}

// restAfter returns the duration of a rest after work of a duration.
func (p *Pacer) restAfter(work time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worked = time.Now()
	if p.worked.Sub(p.wrote) > idle || p.undisturbed == 0 {
		return 0
	}
	share := min(max(0, gain*(p.present/p.undisturbed-tolerated)), maxShare)
	return min(time.Duration(share*float64(work)), maxRest)
}

// Begin begins background work. step is called between small parts of it, and rests after
// enough of them. It is safe for concurrent use.
func (p *Pacer) Begin() (step func()) { return (&work{pacer: p, since: time.Now()}).step }

// work is background work in progress.
type work struct {
	pacer *Pacer

	mu    sync.Mutex
	since time.Time // the end of the newest rest
}

func (w *work) step() {
	w.mu.Lock()
	took := time.Since(w.since)
	if w.pacer == nil || took < minWork {
		w.mu.Unlock()
		return
	}
	w.since = time.Now()
	w.mu.Unlock() // not held during a sleep: virtual time stands still for a mutex's waiters
	rest := w.pacer.restAfter(took)
	if w.pacer.Sleep != nil {
		w.pacer.Sleep(rest)
	} else {
		time.Sleep(rest)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
}

// Reader is a reader of background work.
type Reader struct {
	io.Reader
	Step func()
}

func (r Reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.Step()
	return n, err
}
