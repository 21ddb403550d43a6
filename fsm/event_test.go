package fsm

import (
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// TestEventsAreTheSameFromEverywhere draws logs of jobs and of entries: a reader sees each event once
// from wherever it goes on, and filters let through what lists show.
func TestEventsAreTheSameFromEverywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog(t)
		want := newModel()
		var b command.Batch
		for range rapid.IntRange(1, 25).Draw(rt, "log entries") {
			b = drawBatch(rt, b, want)
			for i := range b.Groups {
				for j := range b.Groups[i].Commands {
					if c, is := b.Groups[i].Commands[j].Payload.(*command.SetRule); is && c.Kind.OnArrival() {
						b.Groups[i].Commands[j].Payload = &command.Tick{} // else most writes were checked against an older policy
					}
					if rapid.IntRange(0, 2).Draw(rt, "of jobs") == 0 {
						b.Groups[i].Commands[j].Payload, _ = drawJobCommand(rt, uint64(len(l.entries)))
					}
				}
			}
			l.batch(b)
		}
		one := tempMachine(rt)
		l.feed(one, 1, l.last())
		defer func() { dropMachine(rt, one) }()
		all := fsmtest.EventsOf(rt, one, view.EventCursor{}, rapid.IntRange(1, 10).Draw(rt, "at a time"))
		checkEvents(rt, one, all)
		v := one.View()
		defer v.Release()
		for range 5 {
			from := state.EventPlace{Index: rapid.Uint64Range(0, l.last()).Draw(rt, "index"), Number: rapid.Uint64Range(0, 4).Draw(rt, "number")}
			i, exact := slices.BinarySearchFunc(all, from, func(e view.Event, p state.EventPlace) int { return e.Compare(p) })
			if exact {
				i++
			}
			if rest := fsmtest.EventsOf(rt, one, view.EventCursor{EventPlace: from}, 4); !slices.Equal(rest, all[i:]) {
				rt.Fatalf("behind %+v:\n%+v, want\n%+v", from, rest, all[i:])
			}
			q := drawQuery(rt, want)
			q.AnyWord = false // of lists alone
			q.Since, q.Limit = -1, command.MaxList
			if !q.ShowsStubs() && q.NamesNothingHidden() {
				continue // of hidden ones there are events, and they are not listed
			}
			listed, _, err := v.List(q)
			must.Do(rt, err)
			kept := slices.DeleteFunc(slices.Clone(all), func(e view.Event) bool { return !slices.Contains(listed, e.Entry) })
			if got, err := v.SelectEvents(slices.Clone(all), q); err != nil || !slices.Equal(got, kept) {
				rt.Fatalf("%+v selects %+v, %v, want %+v", q, got, err, kept)
			}
		}
	})
}

// checkEvents holds that each entry was told of once, in their order, and that places
// grow.
func checkEvents(t fsmtest.Tester, m *Machine, all []view.Event) {
	t.Helper()
	told := uint64(0)
	var before state.EventPlace
	for _, e := range all {
		if e.Compare(before) <= 0 || e.Index == before.Index && e.Number != before.Number+1 || e.Index > before.Index && e.Number != 1 {
			t.Fatalf("%+v comes after %+v", e, before)
		}
		before = e.EventPlace
		if e.Kind <= state.EventResult {
			told++
			must.Equal(t, e.Entry, told, "the entry that is told of next")
		}
	}
	must.Equal(t, told, m.Head.LastSeq, "entries that are told")
}
