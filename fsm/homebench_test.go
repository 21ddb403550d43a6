package fsm

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// benchReader is the agent whose home is measured. Of a hundred entries one
// concerns it and one is its own.
const benchReader = "reader"

// concern makes some of the corpus's entries concern the reader.
func concern(p *command.Publish, seq uint64) {
	switch seq % 100 {
	case 0:
		p.Agent, p.AgentKey, p.Question = benchReader, benchReader, seq%1000 == 0
	case 50:
		p.Mentions = []string{benchReader}
	}
}

// BenchmarkHome measures home of an agent whom one of a hundred entries concerns,
// among COMMONS_BENCH_ENTRIES: neither number may matter. The shapes differ in how
// long ago the agent has called.
func BenchmarkHome(b *testing.B) {
	m := benchOpen(b, b.TempDir())
	defer m.Close()
	c := newCorpus()
	c.edit = concern
	c.fill(b, m, benchEntries(b))
	now := m.Head.Now
	for _, shape := range []struct {
		name  string
		since int64
	}{
		{"no news", now},
		{"the last thousand entries", now - 1000*benchStep},
		{"everything", 0},
	} {
		b.Run(shape.name, func(b *testing.B) {
			benchHome(b, m, shape.since)
		})
	}
	b.Run("woken for nothing", func(b *testing.B) {
		v := m.View()
		defer v.Release()
		b.ReportAllocs()
		for b.Loop() {
			if has, err := v.HasFor(&view.Preferences{AgentKey: "stranger"}, 0); has || err != nil {
				b.Fatal(has, err)
			}
		}
	})
}

// benchHome measures home and what shows it.
func benchHome(b *testing.B, m *Machine, since int64) {
	b.Helper()
	v := m.View()
	defer v.Release()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	var shown []byte
	before, _ := cpu(b)
	items := 0
	for b.Loop() {
		start := time.Now()
		h, err := v.Home(&view.Preferences{AgentKey: benchReader}, since, false)
		if err != nil {
			b.Fatal(err)
		}
		shown = shown[:0]
		for _, item := range slices.Concat(h.ForYou, h.OwedByYou) {
			h.New = append(h.New, item.Seq)
		}
		items = len(h.New)
		for _, seq := range slices.Concat(h.New, h.OwedToYou, h.TopicNotes, h.Waiting) {
			if shown, err = v.AppendSummary(shown, seq, 280, false); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(start))
	}
	after, _ := cpu(b)
	slices.Sort(took)
	b.ReportMetric(float64((after-before).Microseconds())/float64(len(took)), "cpu-µs/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(items), "items")
}
