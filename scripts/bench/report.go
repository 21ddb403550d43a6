package bench

import (
	"context"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Report is the result of a measurement.
type Report struct {
	DurationMillis    float64            `json:"durationMs"`
	Requests          uint64             `json:"requests"` // answered, whatever the status
	RequestsPerSecond float64            `json:"requestsPerSecond"`
	Errors            uint64             `json:"errors"` // statuses of 400 and above, rejections by a tool, and requests without an answer
	Latency           map[string]Latency `json:"latencyMs"`
	Statuses          map[string]uint64  `json:"statuses"`
	Failures          map[string]uint64  `json:"failures"` // requests without an answer, by kind

	PeakRSSAnonMB float64 `json:"peakRssAnonMB,omitempty"` // the most memory of the watched process
}

// Latency of one kind of request, in milliseconds.
type Latency struct {
	Requests uint64  `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

const firstErrorStatus = 400

const all = "all" // the key of the latencies of every kind of request together

func summarize(o Options, workers []*worker, elapsed time.Duration) *Report {
	r := &Report{
		DurationMillis: milliseconds(elapsed), Latency: map[string]Latency{}, Statuses: map[string]uint64{}, Failures: map[string]uint64{},
	}
	merged := map[string]*hdrhistogram.Histogram{all: newHistogram()}
	for _, w := range workers {
		for name, h := range w.latencies {
			if merged[name] == nil {
				merged[name] = newHistogram()
			}
			merged[name].Merge(h)
			merged[all].Merge(h)
		}
		for status, n := range w.statuses {
			r.Statuses[strconv.Itoa(status)] += n
			r.Requests += n
			if status >= firstErrorStatus {
				r.Errors += n
			}
		}
		for kind, n := range w.failures {
			r.Failures[kind] += n
			r.Errors += n
		}
	}
	for name, h := range merged {
		if name == all && o.Mode != Mixed {
			continue
		}
		r.Latency[name] = Latency{Requests: uint64(h.TotalCount()), P50: percentile(h, 50), P99: percentile(h, 99)}
	}
	r.RequestsPerSecond = float64(r.Requests) / elapsed.Seconds()
	return r
}

// Latencies are recorded in nanoseconds, from a microsecond to an hour, and reported
// at most 1/100 or a microsecond above the true value.
const (
	minLatency    = time.Microsecond
	maxLatency    = time.Hour
	latencyDigits = 2
)

// newHistogram returns a histogram of latencies. It is not safe for concurrent use:
// each connection has one, and they are merged at the end.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(minLatency), int64(maxLatency), latencyDigits)
}

func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(int64(min(max(took, 0), maxLatency))) // fails out of these bounds only
}

// percentile returns the latency, in milliseconds, that p percent of the recorded ones do
// not exceed. It returns 0 for an empty histogram.
func percentile(h *hdrhistogram.Histogram, p float64) float64 {
	return milliseconds(time.Duration(h.ValueAtPercentile(p)))
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

const memoryInterval = 500 * time.Millisecond

// peakMemory returns the highest anonymous resident memory of a process until ctx ends, in MB: its
// own allocations, without mapped files. It returns 0 without a process.
func peakMemory(ctx context.Context, pid int) (most float64) {
	for again := pid != 0; again; again = harness.Pause(ctx, memoryInterval) {
		if now, err := harness.Memory(pid); err == nil {
			most = max(most, float64(now.RssAnon)/(1<<20))
		}
	}
	return most
}
