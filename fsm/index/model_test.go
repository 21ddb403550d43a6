package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/must"
)

const (
	testVersion  = 7
	testDeadline = time.Minute
)

var testPrefix = []byte("\x05ix")

// openDB opens a Pebble as the state machine does, without a WAL, with memtables
// so small that some of an index is on disk and some is not.
func openDB(t testing.TB, fs vfs.FS) *pebble.DB {
	t.Helper()
	return must.Get(pebble.Open("db", &pebble.Options{
		FS: fs, DisableWAL: true, MemTableSize: 256 << 10, Logger: quiet{},
	}))(t)
}

// quiet is a Pebble logger that discards.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func openIndex(t testing.TB, db *pebble.DB, first uint64) *Index {
	t.Helper()
	return must.Get(Open(db, Options{Prefix: testPrefix, Version: testVersion, First: first}))(t)
}

// newIndex returns an empty index and its database in memory. It closes both with the test.
func newIndex(t testing.TB, first uint64) (*pebble.DB, *Index) {
	t.Helper()
	db := openDB(t, vfs.NewMem())
	x := openIndex(t, db, first)
	t.Cleanup(func() {
		x.Close()
		must.Do(t, db.Close())
	})
	return db, x
}

// waitSealed waits until every full block is sealed.
func waitSealed(t testing.TB, x *Index) {
	t.Helper()
	x.mu.Lock()
	full := x.full
	x.mu.Unlock()
	await.Eventually(t, fmt.Sprintf("sealed up to %d", full), func() bool { return x.Sealed() >= full })
}

// model is the specification of an index: the terms of each entry.
type model struct {
	first   uint64
	entries [][]string // entry first+i has entries[i]
	*inverted
}

// inverted holds the entries of each term, for the searches of the model.
type inverted struct {
	mu    sync.Mutex
	count int                 // entries that are in lists
	lists map[string][]uint64 // by term: the seqs that carry it, each once
}

func newModel(first uint64) *model {
	return &model{first: first, inverted: &inverted{lists: map[string][]uint64{}}}
}

func (m *model) next() uint64 { return m.first + uint64(len(m.entries)) }

func (m *model) terms(seq uint64) ([]string, error) { return m.entries[seq-m.first], nil }

// at returns the model as it was when next was the next entry.
func (m *model) at(next uint64) *model {
	return &model{first: m.first, entries: m.entries[:next-m.first], inverted: m.inverted}
}

// invert notes the entries that came since the last call.
func (m *model) invert() {
	for ; m.count < len(m.entries); m.count++ {
		for _, term := range m.entries[m.count] {
			seq, list := m.first+uint64(m.count), m.lists[term]
			if len(list) == 0 || list[len(list)-1] != seq {
				m.lists[term] = append(list, seq)
			}
		}
	}
}

// within returns the seqs in [from, to) that carry a term.
func (m *model) within(term string, from, to uint64) []uint64 {
	list := m.lists[term]
	low, _ := slices.BinarySearch(list, from)
	high, _ := slices.BinarySearch(list, to)
	return list[low:high]
}

// words returns the words of [from, to) that a prefix stands for.
func (m *model) words(prefix string, from, to uint64) []string {
	var found []string
	for term := range m.lists {
		if strings.HasPrefix(term, WordClass+prefix) && len(m.within(term, from, to)) > 0 {
			found = append(found, term)
		}
	}
	slices.Sort(found)
	return found[:min(len(found), MaxPrefixWords)]
}

// wordsOnDisk returns the words on disk that a prefix stands for. The reader may see
// parts that were sealed after the cut.
func wordsOnDisk(t fataler, r pebble.Reader, prefix string) (words []string) {
	t.Helper()
	lower := appendTerm(nil, testPrefix, WordClass+prefix)
	lower = lower[:len(lower)-1]
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower)})
	if err != nil {
		t.Fatalf("words on disk: %v", err)
	}
	defer iter.Close() // its reads are those of the search
	for valid := iter.First(); valid && len(words) < MaxPrefixWords; {
		term, _, _, _ := splitKey(iter.Key())
		words = append(words, string(term[len(testPrefix)+1:len(term)-1]))
		valid = iter.SeekGE(keyAfter(term))
	}
	return words
}

// search answers q by going through the entries of the rarest term. Those below sealed are found by the
// words of the prefix on disk.
func (m *model) search(q Query, sealed uint64, onDisk []string) (seqs []uint64, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invert()
	for _, seq := range slices.Backward(m.candidates(q, sealed, onDisk)) {
		if seq < q.Min || q.Before != 0 && seq >= q.Before || seq >= m.next() {
			continue
		}
		if len(seqs) == q.Limit {
			return seqs, q.Limit > 0
		}
		seqs = append(seqs, seq)
	}
	return seqs, false
}

// candidates returns the seqs that carry everything, in order.
func (m *model) candidates(q Query, sealed uint64, onDisk []string) []uint64 {
	var sets [][]uint64
	for i, term := range q.All {
		list := m.lists[term]
		if i == len(q.All)-1 && q.Also != 0 && q.Also >= m.first {
			if at, found := slices.BinarySearch(list, q.Also); !found {
				list = slices.Insert(slices.Clone(list), at, q.Also)
			}
		}
		sets = append(sets, list)
	}
	for _, group := range q.Any {
		var union []uint64
		for _, term := range group {
			union = append(union, m.lists[term]...)
		}
		slices.Sort(union)
		sets = append(sets, slices.Compact(union))
	}
	if q.Prefix != "" {
		var union []uint64
		for _, word := range onDisk {
			union = append(union, m.within(word, m.first, sealed)...)
		}
		for _, word := range m.words(q.Prefix, sealed, m.next()) {
			union = append(union, m.within(word, sealed, m.next())...)
		}
		slices.Sort(union)
		sets = append(sets, slices.Compact(union))
	}
	if sets == nil {
		var all []uint64
		for seq := m.first; seq < m.next(); seq++ {
			all = append(all, seq)
		}
		sets = append(sets, all)
	}
	slices.SortFunc(sets, func(a, b []uint64) int { return len(a) - len(b) })
	has := func(set []uint64, seq uint64) bool {
		_, found := slices.BinarySearch(set, seq)
		return found
	}
	return slices.DeleteFunc(slices.Clone(sets[0]), func(seq uint64) bool {
		return slices.ContainsFunc(sets[1:], func(set []uint64) bool { return !has(set, seq) }) ||
			slices.ContainsFunc(q.Not, func(group []string) bool {
				return !slices.ContainsFunc(group, func(term string) bool { return !has(m.lists[term], seq) })
			})
	})
}

// fill adds count entries with generated terms to the model. Most are plain, so
// that blocks fill quickly.
func (m *model) fill(rng *rand.Rand, count int) {
	for range count {
		seq := m.next()
		terms := []string{fmt.Sprintf("channel:c%d", rng.IntN(3)), fmt.Sprintf("agent:a%d", rng.IntN(40))}
		if rng.IntN(8) == 0 {
			for range rng.IntN(6) {
				terms = append(terms, testWord(rng))
			}
		}
		if rng.IntN(500) == 0 {
			terms = append(terms, "tag:rare", fmt.Sprintf("thread:%d", m.first+uint64(rng.IntN(9))))
		}
		if rng.IntN(900) == 0 {
			terms = append(terms, "tag:with\x00nul", terms[0])
		}
		if seq%7 == 0 {
			terms = append(terms, "kind:seventh")
		}
		m.entries = append(m.entries, terms)
	}
}

// testWord draws words of few letters, some of them often.
func testWord(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return WordClass + "common"
	case 1:
		return fmt.Sprintf("%scomm%c", WordClass, 'a'+rng.IntN(26))
	case 2:
		return fmt.Sprintf("%swide%03d", WordClass, rng.IntN(600))
	default:
		return fmt.Sprintf("%s%c%c", WordClass, 'a'+rng.IntN(26), 'a'+rng.IntN(26))
	}
}

// draw makes a query of which all parts occur now and then.
func (m *model) draw(rng *rand.Rand) Query {
	var q Query
	candidates := []string{
		"channel:c0", "channel:c1", "agent:a1", "agent:a2", "w:common", "w:comma", "w:ab", "w:wide007",
		"tag:rare", "kind:seventh", "tag:with\x00nul", "tag:none",
	}
	term := func() string { return candidates[rng.IntN(len(candidates)-rng.IntN(2))] }
	for range rng.IntN(4) {
		q.All = append(q.All, term())
	}
	for _, groups := range []*[][]string{&q.Any, &q.Not} {
		for range rng.IntN(6) - 3 {
			group := make([]string, 1+rng.IntN(4))
			for i := range group {
				group[i] = term()
			}
			*groups = append(*groups, group)
		}
	}
	if rng.IntN(4) == 0 {
		q.All = append(q.All, fmt.Sprintf("thread:%d", m.first+uint64(rng.IntN(9))))
		q.Also = m.first + uint64(rng.IntN(len(m.entries)+2))
	}
	if rng.IntN(3) == 0 {
		q.Prefix = []string{"com", "common", "wide", "wide0", "wide59", "a", "ab", "zzz"}[rng.IntN(8)]
	}
	if rng.IntN(3) == 0 {
		q.Min = uint64(rng.IntN(int(m.next()) + 2))
	}
	if rng.IntN(3) == 0 {
		q.Before = uint64(rng.IntN(int(m.next()) + 2))
	}
	q.Limit = []int{0, 1, 3, 50, 100_000}[rng.IntN(5)]
	return q
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkSearch compares a search with the model.
func checkSearch(t fataler, c Cut, r pebble.Reader, m *model, q Query) {
	t.Helper()
	var onDisk []string
	if q.Prefix != "" {
		onDisk = wordsOnDisk(t, r, q.Prefix)
	}
	want, wantMore := m.search(q, c.sealed, onDisk)
	got, more, err := c.Search(r, q)
	if err != nil {
		t.Fatalf("search %+v: %v", q, err)
	}
	if !slices.Equal(got, want) || more != wantMore {
		t.Fatalf("search %+v in %d entries, %d sealed:\n got %d %v, more %v\nwant %d %v, more %v",
			q, len(m.entries), c.sealed, len(got), head(got), more, len(want), head(want), wantMore)
	}
}

func head(seqs []uint64) []uint64 { return seqs[:min(len(seqs), 20)] }
