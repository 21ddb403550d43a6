package fsm

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
)

// worstBatch is the number of entries of 20 KB in a log entry.
const worstBatch = 5

// BenchmarkWorstBodies publishes the longest texts of rare code points, which make
// the most terms, and opens the state again. It reports the heap at its greatest,
// while they are applied and while the state is opened and right after. An
// operation is one entry.
func BenchmarkWorstBodies(b *testing.B) {
	dir := b.TempDir()
	m := benchOpen(b, dir)
	rng := rand.New(rand.NewPCG(31, 32))
	c := newCorpus()
	c.edit = func(p *command.Publish, _ uint64) {
		body := make([]rune, command.MaxBody)
		for i := range body {
			body[i] = rune(0x20000 + rng.IntN(0xa000))
		}
		p.Body = string(body)
	}
	before := liveHeap()
	running := uint64(0)
	for done := uint64(0); done < uint64(b.N); done += worstBatch {
		m.apply([]apply.LogEntry{{Index: m.Head.Applied + 1, Term: 1, Data: c.batch(b, done+1, worstBatch)}})
		if done/worstBatch%20 == 0 {
			running = max(running, liveHeap())
		}
	}
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	m = benchOpen(b, dir)
	defer m.Close()
	opened := liveHeap()
	b.ReportMetric(float64(running-before)/(1<<20), "MB-running")
	b.ReportMetric(float64(opened-before)/(1<<20), "MB-opened")
	b.ReportMetric(float64(running-before)/1024/float64(m.Head.LastSeq), "KB-heap/entry")
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
