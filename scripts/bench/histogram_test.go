package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestPercentilesAreWithinTheResolution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(maxLatency)), 1, 200).Draw(t, "durations")
		p := rapid.Float64Range(0.1, 100).Draw(t, "p")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		left, right := newHistogram(), newHistogram()
		for i, v := range values {
			if i < cut {
				record(left, time.Duration(v))
			} else {
				record(right, time.Duration(v))
			}
		}
		left.Merge(right)
		slices.Sort(values)
		exact := values[max(int(p/100*float64(len(values))+0.5), 1)-1]
		if got := left.ValueAtPercentile(p); got < exact || got > exact+exact/100+int64(minLatency) {
			t.Fatalf("percentile %v is %d, exactly %d", p, got, exact)
		}
		must.Equal(t, left.TotalCount(), int64(len(values)), "total")
	})
}

// TestEveryLatencyCounts holds that what is out of bounds counts as the bound.
func TestEveryLatencyCounts(t *testing.T) {
	h := newHistogram()
	check.Equal(t, percentile(h, 50), 0, "an empty histogram has the median")
	for _, d := range []time.Duration{-1, 0, 1, maxLatency, 3 * maxLatency} {
		record(h, d)
	}
	if got, most := percentile(h, 100), milliseconds(maxLatency)*1.01; h.TotalCount() != 5 || got < milliseconds(maxLatency) || got > most {
		t.Errorf("%d latencies, the highest of %v ms", h.TotalCount(), got)
	}
}

func TestTextsHaveTheirSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWriter(rapid.Uint64().Draw(t, "seed"))
		text := string(w.appendText([]byte("kept"), "bench-abc-7-8"))
		if len(text) != bodySize+len("kept") || !strings.HasPrefix(text, "keptbench-abc-7-8 ") {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		if strings.TrimSpace(text) != text || strings.ContainsAny(text, "\"\\\n") {
			t.Fatalf("%q would be changed or need escaping", text)
		}
	})
}
