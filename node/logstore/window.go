package logstore

import (
	"sort"

	"github.com/hashicorp/raft"
)

// window describes a run of consecutive entries: for each the bytes of all
// entries up to and including it, and the newest of them themselves. It is not
// safe for concurrent use.
type window struct {
	first uint64  // index of ends[0]
	base  int64   // bytes counted before ends[0]
	ends  []int64 // running byte counts

	cached     []*raft.Log // the newest entries, a suffix of the run
	cacheBytes int64
	cacheLimit int64
}

func (w *window) empty() bool { return len(w.ends) == 0 }

// last returns the index of the newest entry; it may be called on a window that is not empty.
func (w *window) last() uint64 { return w.first + uint64(len(w.ends)) - 1 }

// total returns the running byte count at the newest entry.
func (w *window) total() int64 {
	if w.empty() {
		return w.base
	}
	return w.ends[len(w.ends)-1]
}

// push appends one entry of the given size. An index that does not follow the
// newest one starts the window anew: an index at or below it replaces the tail.
func (w *window) push(index uint64, size int64) {
	switch {
	case w.empty():
		w.first = index
	case index < w.first || index > w.last()+1:
		w.reset()
		w.first = index
	case index <= w.last():
		w.dropTail(index)
	}
	w.ends = append(w.ends, w.total()+size)
}

// cache keeps an entry that was pushed, and forgets the oldest over the limit.
func (w *window) cache(l *raft.Log) {
	if n := len(w.cached); n > 0 && w.cached[n-1].Index+1 != l.Index {
		w.clearCache()
	}
	w.cached = append(w.cached, l)
	w.cacheBytes += entryBytes(l)
	for w.cacheBytes > w.cacheLimit && len(w.cached) > 0 {
		w.cacheBytes -= entryBytes(w.cached[0])
		w.cached[0] = nil
		w.cached = w.cached[1:]
	}
}

// entryAt returns the entry with the index among consecutive ones, or nil.
func entryAt(entries []*raft.Log, index uint64) *raft.Log {
	if len(entries) == 0 || index < entries[0].Index || index-entries[0].Index >= uint64(len(entries)) {
		return nil
	}
	return entries[index-entries[0].Index]
}

// dropHead removes all entries with an index up to and including upTo.
func (w *window) dropHead(upTo uint64) {
	if w.empty() || upTo < w.first {
		return
	}
	if upTo >= w.last() {
		w.reset()
		return
	}
	n := upTo - w.first + 1
	w.base = w.ends[n-1]
	// Copying frees the dropped part; truncation is rare and drops most of it.
	w.ends = append([]int64(nil), w.ends[n:]...)
	w.first = upTo + 1
	if len(w.cached) > 0 && w.cached[0].Index <= upTo {
		keep := min(upTo-w.cached[0].Index+1, uint64(len(w.cached)))
		for _, l := range w.cached[:keep] {
			w.cacheBytes -= entryBytes(l)
		}
		w.cached = append([]*raft.Log(nil), w.cached[keep:]...)
	}
}

// dropTail removes all entries with index from and above.
func (w *window) dropTail(from uint64) {
	if w.empty() || from > w.last() {
		return
	}
	if from <= w.first {
		w.reset()
		return
	}
	w.ends = w.ends[:from-w.first]
	for n := len(w.cached); n > 0 && w.cached[n-1].Index >= from; n-- {
		w.cacheBytes -= entryBytes(w.cached[n-1])
		w.cached[n-1] = nil
		w.cached = w.cached[:n-1]
	}
}

func (w *window) reset() {
	w.base = w.total()
	w.first, w.ends = 0, nil
	w.clearCache()
}

func (w *window) clearCache() { w.cached, w.cacheBytes = nil, 0 }

// bytesUpTo returns the running byte count at an index, clamped to the window.
func (w *window) bytesUpTo(index uint64) int64 {
	switch {
	case w.empty() || index < w.first:
		return w.base
	case index >= w.last():
		return w.total()
	default:
		return w.ends[index-w.first]
	}
}

// trailing returns how many of the newest entries make at most limit bytes.
func (w *window) trailing(limit int64) uint64 {
	keepFrom := sort.Search(len(w.ends), func(i int) bool {
		return w.total()-w.bytesUpTo(w.first+uint64(i)-1) <= limit
	})
	return uint64(len(w.ends) - keepFrom)
}
