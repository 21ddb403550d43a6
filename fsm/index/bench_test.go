package index

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/text"
)

// benchEnv names the variable that sets the sizes to measure: numbers of entries,
// comma-separated. One million takes about a minute to build.
const benchEnv = "COMMONS_BENCH_ENTRIES"

func benchSizes(b *testing.B) []int {
	b.Helper()
	var sizes []int
	for s := range strings.SplitSeq(os.Getenv(benchEnv), ",") {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatalf("%s: %v", benchEnv, err)
		}
		sizes = append(sizes, n)
	}
	if sizes == nil {
		return []int{10_000, 100_000}
	}
	return sizes
}

// corpus writes bodies whose words are distributed as in a language: few often,
// many rarely, and some never seen before.
type corpus struct {
	rng  *rand.Rand
	dist []float64 // cumulative weights of the words
	dict []string
}

const (
	corpusWords = 60_000
	bodyWords   = 130
)

func newCorpus() *corpus {
	c := &corpus{rng: rand.New(rand.NewPCG(11, 12))}
	seen := map[string]bool{}
	for len(c.dict) < corpusWords {
		w := c.word(2 + len(c.dict)*3/corpusWords)
		if !seen[w] {
			seen[w] = true
			c.dict = append(c.dict, w)
		}
	}
	total := 0.0
	for i := range c.dict {
		total += 1 / math.Pow(float64(i)+2.7, 1.05)
		c.dist = append(c.dist, total)
	}
	return c
}

// word makes up a word of the given number of syllables, with an ending.
func (c *corpus) word(syllables int) string {
	var b strings.Builder
	for range syllables {
		b.WriteByte("bcdfghjklmnprstvwz"[c.rng.IntN(18)])
		b.WriteByte("aeiou"[c.rng.IntN(5)])
	}
	b.WriteString([]string{"", "s", "n", "ing", "ed", "er", "t"}[c.rng.IntN(7)])
	return b.String()
}

func (c *corpus) draw() string {
	at := c.rng.Float64() * c.dist[len(c.dist)-1]
	low, high := 0, len(c.dist)-1
	for low < high {
		if mid := (low + high) / 2; c.dist[mid] < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return c.dict[low]
}

func (c *corpus) body() string {
	var b strings.Builder
	for i := range bodyWords {
		switch w := c.draw(); {
		case i%60 == 59:
			fmt.Fprintf(&b, "%x ", c.rng.Uint32())
		case i%13 == 0:
			b.WriteString(strings.ToUpper(w[:1]) + w[1:] + " ")
		case i%13 == 12:
			b.WriteString(w + ". ")
		default:
			b.WriteString(w + " ")
		}
	}
	return b.String()
}

// appendTerms appends what the state machine would file an entry under, beside
// its words.
func (c *corpus) appendTerms(dst []string, seq uint64) []string {
	dst = append(dst, "kind:message", "channel:room"+strconv.Itoa(c.rng.IntN(20)), "agent:agent"+strconv.Itoa(c.rng.IntN(1000)))
	if c.rng.IntN(3) == 0 {
		parent := strconv.FormatUint(seq-min(seq, uint64(c.rng.IntN(500))), 10)
		dst = append(dst, "parent:"+parent, "thread:"+parent)
	}
	return dst
}

// posts makes entries.
func (c *corpus) posts(count int) []post {
	all := make([]post, count)
	for i := range all {
		all[i] = post{c.appendTerms(nil, uint64(i)), text.Words(nil, c.body())}
	}
	return all
}

type post struct{ terms, words []string }

func openBenchDB(b *testing.B, dir string) *pebble.DB {
	b.Helper()
	opts := &pebble.Options{
		DisableWAL: true, MemTableSize: 32 << 20, MemTableStopWritesThreshold: 4,
		CacheSize: 64 << 20, Logger: quiet{},
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// BenchmarkAdd adds entries with bodies of 130 words, tokenised already, while
// full blocks are sealed in the background.
func BenchmarkAdd(b *testing.B) {
	db := openBenchDB(b, b.TempDir())
	defer db.Close()
	x := openIndex(b, db, 0)
	posts := newCorpus().posts(20_000)
	b.ReportAllocs()
	seq := uint64(0)
	for b.Loop() {
		p := &posts[seq%uint64(len(posts))]
		x.Add(seq, p.terms, p.words...)
		seq++
	}
	x.Close()
}

// BenchmarkFile files entries as BenchmarkAdd does, one block after the other,
// without sealing. It reports the CPU time of an entry, and the heap for each entry of a
// full block.
func BenchmarkFile(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	posts := newCorpus().posts(20_000)
	var full *part
	before := heapBytes()
	p := newPart(0, 0)
	b.ReportAllocs()
	seq, began := uint64(0), threadTime(b)
	for b.Loop() {
		if seq > 0 && seq%BlockEntries == 0 {
			full, p = p, newPart(seq, len(p.terms))
		}
		post := &posts[seq%uint64(len(posts))]
		p.add(uint16(seq%BlockEntries), post.terms, post.words)
		seq++
	}
	b.ReportMetric(float64(threadTime(b)-began)/float64(seq), "cpu-ns/op")
	if full != nil {
		b.ReportMetric(float64(heapBytes()-before)/BlockEntries, "heap-B/entry")
	}
	runtime.KeepAlive(full)
	runtime.KeepAlive(posts)
}

// threadTime returns the CPU time of the calling thread.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	const rusageThread = 1
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSeal seals one block; b.N counts blocks.
func BenchmarkSeal(b *testing.B) {
	db := openBenchDB(b, b.TempDir())
	defer db.Close()
	x := openIndex(b, db, 0)
	p := newPart(0, 0)
	for off, post := range newCorpus().posts(BlockEntries) {
		p.add(uint16(off), post.terms, post.words)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := x.seal(p, x.commit); err != nil {
			b.Fatal(err)
		}
		p.start += BlockEntries
	}
	b.ReportMetric(float64(len(p.terms)), "terms")
	x.Close()
}

// built is an index of one size, kept for all benchmarks of that size.
type built struct {
	db    *pebble.DB
	index *Index
	cut   Cut
	snap  *pebble.Snapshot
}

var (
	builtMu sync.Mutex
	builts  = map[int]*built{}
)

func buildIndex(b *testing.B, size int) *built {
	b.Helper()
	builtMu.Lock()
	defer builtMu.Unlock()
	if have := builts[size]; have != nil {
		return have
	}
	dir, err := os.MkdirTemp("", "index-bench-")
	if err != nil {
		b.Fatal(err)
	}
	benchDirs = append(benchDirs, dir)
	c := newCorpus()
	before := heapBytes()
	built := &built{db: openBenchDB(b, dir)}
	built.index = openIndex(b, built.db, 0)
	var terms, words []string
	for seq := range uint64(size) {
		terms, words = c.appendTerms(terms[:0], seq), text.Words(words[:0], c.body())
		// Two words that are rare and never meet.
		if seq%(BlockEntries/2) == 77 {
			words = append(words, "rareone")
		}
		if seq%(BlockEntries/2) == 78 {
			words = append(words, "raretwo")
		}
		built.index.Add(seq, terms, words...)
	}
	waitSealed(b, built.index)
	if err := built.db.Flush(); err != nil {
		b.Fatal(err)
	}
	built.index.Cut()
	built.cut = built.index.Cut()
	built.snap = built.db.NewSnapshot()
	m := built.db.Metrics()
	b.Logf("%d entries: %d MB on disk, %d MB more heap, %d parts in memory, L0 sublevels %d",
		size, m.DiskSpaceUsage()>>20, (heapBytes()-before)>>20, len(built.cut.parts), m.Levels[0].Sublevels)
	builts[size] = built
	return built
}

var benchDirs []string

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range benchDirs {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// BenchmarkSearch lists the newest 50 entries by queries of several shapes.
func BenchmarkSearch(b *testing.B) {
	common := newCorpus().dict
	shapes := []struct {
		name  string
		query Query
	}{
		{"newest", Query{}},
		{"one filter", Query{All: []string{"channel:room7"}}},
		{"rare filter", Query{All: []string{"agent:agent77"}}},
		{"two filters", Query{All: []string{"channel:room7", "agent:agent77"}}},
		{"two common words", Query{All: []string{"w:" + common[3], "w:" + common[5]}}},
		{"two middling words", Query{All: []string{"w:" + common[200], "w:" + common[300]}}},
		{"word and channel", Query{All: []string{"w:" + common[100], "channel:room7"}}},
		{"two words and channel", Query{All: []string{"w:" + common[40], "w:" + common[60], "channel:room7"}}},
		{"word, prefix and channel", Query{All: []string{"w:" + common[40], "channel:room7"}, Prefix: common[60]}},
		{"prefix", Query{Prefix: common[400]}},
		{"wide prefix", Query{Prefix: "bar"}},
		{"widest prefix", Query{Prefix: "ba"}},
		{"wide prefix, rare word", Query{All: []string{"w:rareone"}, Prefix: "bar"}},
		{"two rare words, no hit", Query{All: []string{"w:rareone", "w:raretwo"}}},
		{"unknown word", Query{All: []string{"w:nowhere", "channel:room7"}}},
	}
	for _, size := range benchSizes(b) {
		built := buildIndex(b, size)
		for _, shape := range shapes {
			b.Run(fmt.Sprintf("%d/%s", size, shape.name), func(b *testing.B) {
				q := shape.query
				q.Limit = 50
				b.ReportAllocs()
				hits := 0
				for b.Loop() {
					seqs, _, err := built.cut.Search(built.snap, q)
					if err != nil {
						b.Fatal(err)
					}
					hits = len(seqs)
				}
				b.ReportMetric(float64(hits), "hits")
			})
		}
	}
}

// BenchmarkWorstBodies adds texts that make the most terms: bigrams of rare code
// points, and words of one entry each. It reports the heap that the index takes
// at most, what the parts in memory count of it, and the disk per entry.
func BenchmarkWorstBodies(b *testing.B) {
	rng := rand.New(rand.NewPCG(13, 14))
	bodies := map[string]func() []string{
		"rare code points": func() []string { return rareWords(rng, 5000) },
		"short words": func() []string {
			words := make([]string, 1250)
			for i := range words {
				words[i] = strconv.FormatUint(uint64(rng.Uint32())%(36*36*36), 36)
			}
			return words
		},
		"one beginning": func() []string {
			words := make([]string, 700)
			for i := range words {
				words[i] = fmt.Sprintf("aaa%04x", rng.IntN(1<<16))
			}
			return words
		},
	}
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		b.Run(name, func(b *testing.B) {
			db := openBenchDB(b, b.TempDir())
			defer db.Close()
			before := heapBytes()
			x := openIndex(b, db, 0)
			most, counted, seq := int64(0), 0, uint64(0)
			for b.Loop() {
				x.Add(seq, nil, bodies[name]()...)
				seq++
				if seq%100 != 0 {
					continue
				}
				x.Cut()
				if heap := heapBytes() - before; heap > most {
					most, counted = heap, 0
					for _, p := range x.parts {
						counted += p.bytes
					}
				}
			}
			x.Close()
			b.ReportMetric(float64(most)/(1<<20), "MB-heap")
			b.ReportMetric(float64(counted)/(1<<20), "MB-counted")
			b.ReportMetric(float64(db.Metrics().DiskSpaceUsage())/float64(seq), "disk-B/entry")
		})
	}
}
