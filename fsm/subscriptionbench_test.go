package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/must"
)

// BenchmarkSubscriptions compares the cost of an entry beside as many subscriptions as there can
// be, all of other authors, with its cost without any. Both are measured by turns of one
// batch. The metrics are the medians of the turns, and their difference in percent:
//
//	go test ./fsm -run - -bench Subscriptions -benchtime 60000x
func BenchmarkSubscriptions(b *testing.B) {
	const turn = 64 // entries in a batch
	with, without := newSubscribed(b, command.MaxAllSubscriptions), newSubscribed(b, 0)
	b.ResetTimer()
	times := map[*subscribedLog][]time.Duration{}
	for n := 0; n < b.N; n += turn {
		for _, s := range []*subscribedLog{with, without} {
			first := s.last() + 1
			for i := range turn {
				s.add(post(fmt.Sprint("writer-", (n+i)%100), func(p *command.Publish) {
					if n+i > 0 && i%2 == 0 {
						relate(command.RelationReply, uint64(n+i))(p)
					}
				}))
			}
			start := time.Now()
			s.feed(s.m, first, s.last())
			times[s] = append(times[s], time.Since(start)/turn)
		}
	}
	median := func(s *subscribedLog) float64 {
		slices.Sort(times[s])
		return float64(times[s][len(times[s])/2].Nanoseconds())
	}
	b.ReportMetric(median(without), "ns/entry-without")
	b.ReportMetric(median(with), "ns/entry-with")
	b.ReportMetric(100*(median(with)/median(without)-1), "percent-more")
}

// subscribedLog is a log and its machine, with profiles and subscriptions.
type subscribedLog struct {
	*raftLog
	m *Machine
}

// newSubscribed returns a log with so many subscriptions. It has the same profiles in any case.
func newSubscribed(b *testing.B, subscriptions int) *subscribedLog {
	b.Helper()
	s := &subscribedLog{newLog(b), openAt(b, b.TempDir(), func(o *Options) { o.MemTableBytes, o.CacheBytes = 16<<20, 64<<20 })}
	s.feed(s.m, 1, 1)
	run := func(c command.Payload) { s.feed(s.m, s.add(c), s.last()) }
	name := func(i int) string { return fmt.Sprint("agent-", i) }
	for i := range command.MaxAllSubscriptions / command.MaxSubscriptions {
		run(hooked(name(i), nil))
	}
	s.stamp += 8 * command.DayMillis
	ways := [...]command.Way{command.WayPush, command.WayDigest, command.WayHome}
	for i := range subscriptions {
		run(subscribe(name(i/command.MaxSubscriptions), ways[i%len(ways)], byAuthor(fmt.Sprint("author-", i))))
	}
	v := s.m.View()
	defer v.Release()
	made := must.Get(state.LoadOrZero(v.Reader(), state.KeySubscriptions, state.DecodeNumber))(b)
	must.Equal(b, made, uint64(subscriptions), "subscriptions") //nolint:gosec // not negative
	return s
}

// add adds a log entry with one command, without the results of earlier ones.
func (s *subscribedLog) add(c command.Payload) uint64 {
	s.stamp += 1000
	s.nextSeq[boot1]++
	seq := s.nextSeq[boot1]
	return s.batch(command.Batch{Stamp: s.stamp, Groups: []command.Group{
		{Boot: boot1, Floor: seq, Commands: []command.Command{{Seq: seq, Payload: c}}},
	}})
}
