package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/scripts/bench"
)

// BenchmarkWritesWhileDeliveriesWait compares the writes of two clusters of three
// nodes by turns: one without receivers, and one in which 10,000 deliveries wait
// for receivers that fail. Medians over the turns: slower-% is the loss of the second in
// writes a second, and cpu-% its additional processor time for each, which a busy machine
// disturbs less.
func BenchmarkWritesWhileDeliveriesWait(b *testing.B) {
	const (
		agents, each, turns = 50, 200, 15
		turn                = time.Second
	)
	h := newHooks(b)
	h.answerWith(http.StatusServiceUnavailable)
	plain, with := newCluster(b, 3), newCluster(b, 3, h.reach)
	names := with.listenAll(h, agents, 1)
	for n := range each {
		for _, c := range []*testCluster{plain, with} {
			c.MustPublish(0, nodetest.Post{Agent: "bob", Body: fmt.Sprintf("Number %d: %s", n, strings.Join(names, " "))})
		}
	}
	type turnCost struct{ rate, cpu float64 }
	writes := func(c *testCluster) turnCost {
		var urls []string
		for _, nd := range c.Nodes {
			urls = append(urls, nd.URL())
		}
		before := processorTime(b)
		r := must.Get(bench.Run(b.Context(), bench.Options{Mode: bench.Write, URLs: urls, Connections: 32, Duration: turn, Size: 1000}))(b)
		return turnCost{r.RequestsPerSecond, (processorTime(b) - before).Seconds() / float64(r.Requests)}
	}
	writes(plain)
	writes(with)
	for b.Loop() {
		var slower, cpu, rates []float64
		for i := range turns {
			var one, two turnCost
			if i%2 == 0 {
				one = writes(plain)
				two = writes(with)
			} else {
				two = writes(with)
				one = writes(plain)
			}
			slower, cpu = append(slower, 100*(one.rate/two.rate-1)), append(cpu, 100*(two.cpu/one.cpu-1))
			rates = append(rates, two.rate)
		}
		for name, values := range map[string][]float64{"slower-%": slower, "cpu-%": cpu, "writes/s": rates} {
			slices.Sort(values)
			b.ReportMetric(values[turns/2], name)
		}
	}
	b.Log("commons_push_waiting", with.Nodes[0].Metric("commons_push_waiting"))
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
