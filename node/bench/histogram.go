package bench

import (
	"math/bits"
	"time"
)

// Resolution of the histogram: each power of two is divided into subBuckets
// steps, so a reported value is at most 1/64 above the true one.
const (
	subBucketBits = 6
	subBuckets    = 1 << subBucketBits
	bucketCount   = (64 - subBucketBits) * subBuckets
)

// histogram counts durations in logarithmic buckets of fixed total size. The
// zero value is ready. It is not safe for concurrent use: each connection has
// one, and they are merged at the end.
type histogram struct {
	counts [bucketCount]uint64
	total  uint64
	max    time.Duration
}

// bucketOf returns the bucket of a duration in nanoseconds.
func bucketOf(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - subBucketBits - 1
	return (shift+1)*subBuckets + int(ns>>shift) - subBuckets
}

// upperBound returns the largest number of nanoseconds in a bucket.
func upperBound(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket/subBuckets - 1
	return (uint64(subBuckets+bucket%subBuckets)+1)<<shift - 1
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range &other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// quantile returns the duration that a fraction q of the recorded ones does not
// exceed, within the resolution; 0 when nothing was recorded.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.total)+0.5), 1)
	var seen uint64
	for i, n := range &h.counts {
		seen += n
		if seen >= rank {
			return min(time.Duration(upperBound(i)), h.max)
		}
	}
	return h.max
}
