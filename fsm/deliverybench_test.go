package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
)

// BenchmarkPush compares the cost of an entry on a machine without receivers and on one
// with: 10,000 waiting deliveries of agents that the entries do not concern; as many idle
// receivers; and receivers of all agents that are answered. Both apply the same entries by
// turns; cost-% is that of the second.
func BenchmarkPush(b *testing.B) {
	for _, bench := range []struct {
		name     string
		agents   int
		prefix   string
		mentions int // of each
	}{
		{"nobody", 0, "", 0},
		{"10000 waiting", 50, "other", command.MaxWaitingDeliveries},
		{"10000 receivers", 10_000, "other", 0},
		{"everybody answered", 1000, "agent", 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			plain, with := benchOpen(b, b.TempDir()), benchOpen(b, b.TempDir())
			defer plain.Close()
			defer with.Close()
			benchReceivers(b, with, bench.prefix, bench.agents, bench.mentions)
			one, two := newCorpus(), newCorpus()
			var a, c fillCost
			step := 8 * benchBatch
			for n, round := step, 0; n <= b.N+step; n, round = n+step, round+1 {
				var d, e fillCost
				if round%2 == 0 {
					d, e = one.fill(b, plain, n), two.fill(b, with, bench.mentions+n)
				} else {
					e, d = two.fill(b, with, bench.mentions+n), one.fill(b, plain, n)
				}
				if round > 0 { // the first one warms both up
					a.add(d)
					c.add(e)
				}
			}
			v := with.View()
			defer v.Release()
			waiting, err := v.WaitingDeliveries()
			if err != nil || waiting < bench.agents*bench.mentions {
				b.Fatalf("%d wait, %v", waiting, err)
			}
			b.ReportMetric(100*c.thread.Seconds()/a.thread.Seconds()-100, "apply-cpu-%")
			b.ReportMetric(100*c.wall.Seconds()/a.wall.Seconds()-100, "wall-%")
			b.ReportMetric(float64(waiting), "waiting")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (f *fillCost) add(o fillCost) {
	f.wall += o.wall
	f.thread += o.thread
	f.all += o.all
}

// benchReceivers registers agents with receivers, and mentions each of them so
// often.
func benchReceivers(b *testing.B, m *Machine, prefix string, agents, mentions int) {
	b.Helper()
	var names []string
	var bodies []command.Payload
	seq := uint64(0)
	flush := func() {
		g := command.Group{Boot: command.BootID{9}, Floor: seq}
		for _, body := range bodies {
			seq++
			g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: body})
		}
		bodies = nil
		data, err := command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{g}})
		if err != nil {
			b.Fatal(err)
		}
		m.apply([]apply.LogEntry{{Index: m.Head.Applied + 1, Term: 1, Data: data}})
	}
	for i := range agents {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		if bodies = append(bodies, hooked(names[i], nil)); len(bodies) == 100 {
			flush()
		}
	}
	for range mentions {
		for chunk := range slices.Chunk(names, command.MaxMentions) {
			bodies = append(bodies, post("eve", mention(chunk...)))
		}
		flush()
	}
	if len(bodies) > 0 {
		flush()
	}
}

// BenchmarkDueDeliveries looks for as many deliveries as are sent at once, where so
// many agents have one waiting: their number must not matter.
func BenchmarkDueDeliveries(b *testing.B) {
	const most = 64
	for _, agents := range []int{100, 10_000} {
		m := benchOpen(b, b.TempDir())
		benchReceivers(b, m, "agent", agents, 1)
		v := m.View()
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			for b.Loop() {
				found := 0
				err := v.DueDeliveries(v.Time(), nobody, func(outbox.Delivery) bool { found++; return found < most })
				if err != nil || found != most {
					b.Fatal(found, err)
				}
			}
		})
		v.Release()
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
