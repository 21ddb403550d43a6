package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantilesAreWithinTheResolution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		var left, right histogram
		for i, v := range values {
			if i < cut {
				left.record(time.Duration(v))
			} else {
				right.record(time.Duration(v))
			}
		}
		left.merge(&right)
		slices.Sort(values)
		exact := values[max(int(q*float64(len(values))+0.5), 1)-1]
		got := int64(left.quantile(q))
		if got < exact || got > exact+exact/subBuckets {
			t.Fatalf("quantile %v is %d, exactly %d", q, got, exact)
		}
		if int64(left.max) != values[len(values)-1] || left.total != uint64(len(values)) {
			t.Fatalf("max %v, total %d", left.max, left.total)
		}
	})
}

func TestBucketsCoverEveryDuration(t *testing.T) {
	for _, ns := range []uint64{0, 1, 63, 64, 65, 127, 128, 1<<62 + 1, 1<<63 - 1} {
		b := bucketOf(ns)
		if b < 0 || b >= bucketCount || upperBound(b) < ns || (b > 0 && upperBound(b-1) >= ns) {
			t.Errorf("%d ns lies in bucket %d, up to %d", ns, b, upperBound(b))
		}
	}
	var empty histogram
	if empty.quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
}

func TestTextsHaveTheirSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(MinSize, MaxSize).Draw(t, "size")
		w := newWriter(rapid.Uint64().Draw(t, "seed"))
		text := string(w.appendText([]byte("kept"), mark("bench-abc", 7, 8), size))
		if len(text) != size+len("kept") || !strings.HasPrefix(text, "keptbench-abc-7-8 ") {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		if strings.TrimSpace(text) != text || strings.ContainsAny(text, "\"\\\n") {
			t.Fatalf("%q would be changed or need escaping", text)
		}
	})
}
