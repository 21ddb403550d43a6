package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/commons-cluster/commons/node/loop"
)

// Report is the result of a measurement.
type Report struct {
	Mode              Mode               `json:"mode"`
	Connections       int                `json:"connections"`
	DurationMillis    float64            `json:"durationMs"`
	Requests          uint64             `json:"requests"` // answered, whatever the status
	RequestsPerSecond float64            `json:"requestsPerSecond"`
	Errors            uint64             `json:"errors"` // statuses of 400 and above, rejections by a tool, and requests without an answer
	Latency           map[string]Latency `json:"latencyMs"`
	Statuses          map[string]uint64  `json:"statuses"`
	Failures          map[string]uint64  `json:"failures"` // requests without an answer, by kind

	Held          int64   `json:"held,omitempty"`          // of Wait: the lowest number of calls held at the same time
	PeakRSSAnonMB float64 `json:"peakRssAnonMB,omitempty"` // the most memory of the watched process
}

// Latency of one kind of request, in milliseconds.
type Latency struct {
	Requests uint64  `json:"requests"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
}

const firstErrorStatus = 400

const all = "all" // the key of the latencies of every kind of request together

func summarize(o Options, workers []*worker, elapsed time.Duration) *Report {
	r := &Report{
		Mode: o.Mode, Connections: len(workers), DurationMillis: milliseconds(elapsed),
		Latency: map[string]Latency{}, Statuses: map[string]uint64{}, Failures: map[string]uint64{},
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
		r.Latency[name] = Latency{
			Requests: uint64(h.TotalCount()),
			P50:      percentile(h, 50), P90: percentile(h, 90), P99: percentile(h, 99), Max: percentile(h, 100),
		}
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

func (r *Report) firstError() string {
	kinds := maps.Clone(r.Failures)
	for status, n := range r.Statuses {
		if code, _ := strconv.Atoi(status); code >= firstErrorStatus {
			kinds["status "+status] = n
		}
	}
	if len(kinds) == 0 {
		return "the time was too short"
	}
	kind := slices.MaxFunc(slices.Collect(maps.Keys(kinds)), func(a, b string) int { return cmp.Compare(kinds[a], kinds[b]) })
	return fmt.Sprintf("%s, %d times", kind, kinds[kind])
}

// Text returns the report for people.
func (r *Report) Text() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s: %.0f requests/s (%d requests in %.1f s over %d connections), %d errors\n",
		r.Mode, r.RequestsPerSecond, r.Requests, r.DurationMillis/1000, r.Connections, r.Errors)
	table := tabwriter.NewWriter(&w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ms\tp50\tp90\tp99\tmax\trequests\t")
	for _, name := range slices.Sorted(maps.Keys(r.Latency)) {
		l := r.Latency[name]
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t\n", name, l.P50, l.P90, l.P99, l.Max, l.Requests)
	}
	_ = table.Flush() // a builder takes everything
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		fmt.Fprintf(&w, "status %s: %d\n", status, r.Statuses[status])
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Failures)) {
		fmt.Fprintf(&w, "%s: %d\n", kind, r.Failures[kind])
	}
	if r.Mode == Wait {
		fmt.Fprintf(&w, "at least %d calls were held all the time\n", r.Held)
	}
	if r.PeakRSSAnonMB > 0 {
		fmt.Fprintf(&w, "memory of the process: at most %.0f MB (RssAnon)\n", r.PeakRSSAnonMB)
	}
	if r.Statuses["429"] > 0 {
		fmt.Fprintln(&w, "429 means that the rate limits are on; nodes started with --write-rate 0 have none")
	}
	return strings.TrimSuffix(w.String(), "\n")
}

const memoryInterval = 500 * time.Millisecond

// anonymousMemory returns the anonymous resident memory of a process in MB: its own
// allocations, without mapped files.
func anonymousMemory(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("its status has no RssAnon")
}

// peakMemory returns the highest memory of a process until ctx ends; 0 without a process.
func peakMemory(ctx context.Context, pid int) (most float64) {
	for again := pid != 0; again; again = loop.Pause(ctx, memoryInterval) {
		if now, err := anonymousMemory(pid); err == nil {
			most = max(most, now)
		}
	}
	return most
}
