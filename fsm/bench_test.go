package fsm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// benchEntries is the size of the state that the benchmarks build:
// COMMONS_BENCH_ENTRIES, or a small one.
func benchEntries(b *testing.B) int {
	b.Helper()
	s := os.Getenv("COMMONS_BENCH_ENTRIES")
	if s == "" {
		return 20_000
	}
	return must.Get(strconv.Atoi(s))(b)
}

// corpus makes entries of about 1 KB: 130 words, some common and most rare.
type corpus struct {
	rand  *rand.Rand
	zipf  *rand.Zipf
	vocab []string
}

func newCorpus() *corpus {
	r := rand.New(rand.NewPCG(1, 2))
	c := &corpus{rand: r, zipf: rand.NewZipf(r, 1.07, 8, 99_999)}
	for i := range 100_000 {
		c.vocab = append(c.vocab, benchWord(i))
	}
	return c
}

// benchWord spells a number in syllables.
func benchWord(i int) string {
	syllables := []string{"ka", "to", "mi", "re", "su", "no", "la", "pe", "di", "vo"}
	var w strings.Builder
	for i += 100; i > 0; i /= 10 {
		w.WriteString(syllables[i%10])
	}
	return w.String()
}

func (c *corpus) words(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = c.vocab[c.zipf.Uint64()]
	}
	return strings.Join(words, " ")
}

// post makes the entry after seq entries.
func (c *corpus) post(seq uint64) *command.Publish {
	agent := fmt.Sprintf("agent-%d", c.rand.IntN(1000))
	p := &command.Publish{
		Agent: agent, AgentKey: agent, Kind: command.Kind(1 + c.rand.IntN(3)), Channel: fmt.Sprintf("room-%d", c.rand.IntN(50)),
		Title: c.words(6), Body: c.words(124), Tags: []string{c.vocab[c.rand.IntN(200)]},
	}
	if seq > 0 && c.rand.IntN(5) == 0 {
		p.Relation, p.Target = command.RelationReply, state.EntryID(seq-uint64(c.rand.IntN(int(min(seq, 500)))))
	}
	return p
}

// batch encodes a log entry of n entries.
func (c *corpus) batch(b *testing.B, first uint64, n int) []byte {
	b.Helper()
	g := command.Group{Boot: fsmtest.Boot1, Floor: first}
	for i := range n {
		seq, p := first+uint64(i), c.post(first-1)
		g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: p})
	}
	return must.Get(command.EncodeBatch(command.Batch{Stamp: int64(first) * benchStep, Groups: []command.Group{g}}))(b)
}

const (
	benchBatch = 80  // entries in a log entry: about 100 KiB
	benchStep  = 100 // milliseconds from one entry to the next: a day's fit into its budget
)

// fillCost is the cost of filling a machine, without making the entries.
type fillCost struct {
	wall   time.Duration
	thread time.Duration // CPU time of the apply goroutine
	all    time.Duration // CPU time of the process, background work included
}

// cpu returns the CPU time of the calling thread and of the process.
func cpu(b *testing.B) (thread, process time.Duration) {
	b.Helper()
	const rusageThread = 1
	read := func(who int) time.Duration {
		var u syscall.Rusage
		must.Do(b, syscall.Getrusage(who, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return read(rusageThread), read(syscall.RUSAGE_SELF)
}

// fill applies entries until there are n.
func (c *corpus) fill(b *testing.B, m *Machine, n int) (cost fillCost) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for done := m.Head.LastSeq; done < uint64(n); done = m.Head.LastSeq {
		var logs []apply.LogEntry
		size := uint64(0)
		for range 8 {
			logs = append(logs, apply.LogEntry{
				Index: m.Head.Applied + uint64(len(logs)) + 1, Term: 1,
				Data: c.batch(b, done+size+1, benchBatch),
			})
			size += benchBatch
		}
		start := time.Now()
		thread, process := cpu(b)
		m.apply(logs)
		must.Equal(b, m.Head.LastSeq, done+size, "entries after %d more than %d", size, done)
		cost.wall += time.Since(start)
		thread2, process2 := cpu(b)
		cost.thread += thread2 - thread
		cost.all += process2 - process
	}
	return cost
}

func (f fillCost) report(b *testing.B, entries uint64) {
	b.Helper()
	n := float64(entries)
	b.ReportMetric(n/f.wall.Seconds(), "entries/s")
	b.ReportMetric(f.thread.Seconds()*1e6/n, "apply-cpu-µs/entry")
	b.ReportMetric(f.all.Seconds()*1e6/n, "all-cpu-µs/entry")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkApply measures apply with indexing; an operation is one entry.
func BenchmarkApply(b *testing.B) {
	m := benchOpen(b, b.TempDir())
	defer m.Close()
	b.ReportAllocs()
	newCorpus().fill(b, m, b.N).report(b, m.Head.LastSeq)
}

func benchOpen(b *testing.B, dir string) *Machine {
	b.Helper()
	mib, _ := strconv.ParseInt(os.Getenv("COMMONS_BENCH_CACHE"), 10, 64) // 0 is the default
	return must.Get(Open(Options{Dir: dir, CacheBytes: mib << 20}))(b)
}

// rssAnon returns the anonymous resident memory in MB.
func rssAnon() float64 {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// BenchmarkState builds one state, opens it again, and measures reading.
func BenchmarkState(b *testing.B) {
	n := benchEntries(b)
	dir := cmp.Or(os.Getenv("COMMONS_BENCH_DIR"), b.TempDir()) // the first is kept, and filled once
	m := benchOpen(b, dir)
	c := newCorpus()
	cost := c.fill(b, m, n)
	filled := rssAnon()
	if os.Getenv("COMMONS_BENCH_METRICS") != "" {
		b.Log(m.store.DB.Metrics())
	}
	must.Do(b, m.Close())
	runtime.GC()
	debug.FreeOSMemory()
	start := time.Now()
	m = benchOpen(b, dir)
	defer m.Close()
	reopen := time.Since(start)
	b.Run("fill", func(b *testing.B) {
		cost.report(b, m.Head.LastSeq)
		b.ReportMetric(reopen.Seconds(), "reopen-s")
		b.ReportMetric(filled, "RssAnon-MB")
		b.ReportMetric(float64(m.store.DB.Metrics().DiskSpaceUsage())/float64(m.Head.LastSeq), "disk-B/entry")
	})
	benchQueries(b, m, c)
	b.Run("list50/newest", func(b *testing.B) { benchLists(b, m, func(int) view.Query { return view.Query{} }) })
	b.Run("list50/channel", func(b *testing.B) {
		benchLists(b, m, func(i int) view.Query { return view.Query{Channel: fmt.Sprintf("room-%d", i%50)} })
	})
	b.Run("list50/channel+old", func(b *testing.B) {
		r := rand.New(rand.NewPCG(3, 4))
		var before [1024]uint64
		for i := range before {
			before[i] = 5000 + r.Uint64N(m.Head.LastSeq)
		}
		benchLists(b, m, func(i int) view.Query {
			return view.Query{Channel: fmt.Sprintf("room-%d", i%50), Before: before[i%len(before)]}
		})
	})
	b.Run("rss", func(b *testing.B) {
		b.ReportMetric(rssAnon(), "RssAnon-MB")
		b.ReportMetric(0, "ns/op")
	})
}

// benchQueries measures finding alone, for each shape of query.
func benchQueries(b *testing.B, m *Machine, c *corpus) {
	b.Helper()
	word := func(i int) string { return c.vocab[i] }
	for _, s := range []struct {
		name string
		q    func(i int) view.Query
	}{
		{"newest", func(i int) view.Query { return view.Query{} }},
		{"agent", func(i int) view.Query { return view.Query{AgentKey: fmt.Sprintf("agent-%d", i%1000)} }},
		{"channel", func(i int) view.Query { return view.Query{Channel: fmt.Sprintf("room-%d", i%50)} }},
		{"8 channels", func(i int) view.Query {
			channel := fmt.Sprintf("room-%d", i%50)
			for n := 1; n < command.MaxValues; n++ {
				channel += view.Or + fmt.Sprintf("room-%d", (i+n)%50)
			}
			return view.Query{Channel: channel}
		}},
		{"8 agents", func(i int) view.Query {
			agent := fmt.Sprintf("agent-%d", i%1000)
			for n := 1; n < command.MaxValues; n++ {
				agent += view.Or + fmt.Sprintf("agent-%d", (i+n)%1000)
			}
			return view.Query{AgentKey: agent}
		}},
		{"any of 8 words", func(i int) view.Query {
			var words string
			for n := range 8 {
				words += word(200+(i*8+n)%5000) + " "
			}
			return view.Query{Q: words, AnyWord: true}
		}},
		{"phrase", func(i int) view.Query { return view.Query{Q: `"` + word(i%20) + " " + word(20+i%20) + `"`} }},
		{"channel+kind", func(i int) view.Query {
			return view.Query{Channel: fmt.Sprintf("room-%d", i%50), Kind: command.Kind(1 + i%3).String()}
		}},
		{"inbox", func(i int) view.Query { return view.Query{ForKey: fmt.Sprintf("agent-%d", i%1000)} }},
		{"two words+channel", func(i int) view.Query {
			return view.Query{Channel: fmt.Sprintf("room-%d", i%50), Q: word(i%50) + " " + word(50+i%200) + " "}
		}},
		{"two rare words", func(i int) view.Query { return view.Query{Q: word(20_000+i%1000) + " " + word(30_000+i%1000) + " "} }},
		{"prefix", func(i int) view.Query { return view.Query{Q: word(i % 5000)[:4]} }},
		{"since", func(i int) view.Query { return view.Query{Since: m.Head.Now - int64(i%10_000)} }},
		{"thread", func(i int) view.Query { return view.Query{Thread: 1 + uint64(i)*7919%m.Head.LastSeq} }},
	} {
		b.Run("query/"+s.name, func(b *testing.B) {
			v := m.View()
			defer v.Release()
			b.ReportAllocs()
			var took []time.Duration
			hits := 0
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				seqs, _, err := v.List(s.q(i))
				must.Do(b, err)
				took = append(took, time.Since(start))
				hits += len(seqs)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(hits)/float64(len(took)), "hits")
		})
	}
}

// benchLists measures whole lists as a handler makes them, on all cores.
func benchLists(b *testing.B, m *Machine, q func(i int) view.Query) {
	b.Helper()
	b.ReportAllocs()
	var count, size atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		var buf []byte
		for i := int(count.Load()); pb.Next(); i++ {
			v := m.View()
			seqs, _, err := v.List(q(i))
			if err != nil { // check.Err takes a lock of the benchmark
				b.Error(err)
			}
			buf = append(buf[:0], `{"entries":[`...)
			for _, seq := range seqs {
				if buf, err = v.AppendEntry(buf, seq); err != nil {
					b.Error(err)
				}
				buf = append(buf, ',')
			}
			v.Release()
			count.Add(1)
			size.Add(int64(len(buf)))
		}
	})
	b.ReportMetric(float64(count.Load())/b.Elapsed().Seconds(), "lists/s")
	b.ReportMetric(float64(size.Load())/float64(count.Load()), "B/list")
}
