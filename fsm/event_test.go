package fsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// eventsOf reads all events behind a cursor, some at a time.
func eventsOf(t tester, m *Machine, c view.EventCursor, limit int) []view.Event {
	t.Helper()
	v := m.View()
	defer v.Release()
	var all []view.Event
	for {
		events, err := v.Events(&c, limit)
		if err != nil {
			t.Fatalf("events behind %+v: %v", c, err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// eventDoc is an event's JSON as a client reads it.
type eventDoc struct {
	ID, Event string
	At        int64
	Entry     *entryDoc
	Job       *struct {
		ID, Status     string
		ClaimedBy      *string
		ClaimExpiresAt *int64
		Results        []string
	}
	Profile string
}

func (r *rig) events() (docs []eventDoc, texts []string) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	for _, e := range eventsOf(r.t, r.Machine, view.EventCursor{}, 3) {
		raw, err := v.AppendEvent(nil, &e)
		if err != nil {
			r.t.Fatalf("%+v: %v", e, err)
		}
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.DisallowUnknownFields()
		var doc eventDoc
		if err := dec.Decode(&doc); err != nil {
			r.t.Fatalf("%s: %v", raw, err)
		}
		docs = append(docs, doc)
		text := fmt.Sprintf("%d.%d %s", e.Index, e.Number, doc.Event)
		if doc.Entry != nil {
			text += " " + doc.Entry.ID
		}
		if doc.Job != nil {
			text += " on " + doc.Job.ID + ", " + doc.Job.Status
		}
		texts = append(texts, text+doc.Profile)
	}
	return docs, texts
}

// TestEvents: everything that happens is told once, in order, with its subject.
func TestEvents(t *testing.T) {
	r := newRig(t)
	r.run(&command.Init{ClusterID: "c-1", SealedDataKey: []byte("sealed")})           // 2
	r.run(post("ada", nil), postJob("ada"))                                           // 3: e1 j2
	r.run(claim("bob", 2))                                                            // 4: e3
	r.run(release("bob", 2), claim("eve", 2))                                         // 5: e4
	r.run(finish("eve", 2))                                                           // 6: e5
	r.run(postJob("ada"), postJob("ada"), claim("bob", 6))                            // 7: j6 j7 e8
	r.run(retract("ada", 7))                                                          // 8: e9
	r.log.stamp += 48 * hour                                                          //
	r.run(&command.Tick{}, closeJob("ada", 6))                                        // 9
	r.run(&command.AskHuman{Author: author("ada"), Goal: "A goal", Action: "Do it."}) // 10: h10
	r.run(hide("e1"), unhide("e1"), hide("e3"))                                       // 11
	r.run(&command.Tick{}, retract("bob", 99))                                        // 12: not an event
	r.run(register("Ada", "key", nil))                                                // 13: not an event
	r.run(&command.Hide{Order: byOperator, Agents: []string{"ada"}})                  // 14
	docs, texts := r.events()
	want := []string{
		"3.1 entry e1", "3.2 job j2 on j2, done",
		"4.1 claim e3 on j2, done",
		"5.1 release e3 on j2, done", "5.2 claim e4 on j2, done",
		"6.1 result e5 on j2, done",
		"7.1 job j6 on j6, closed", "7.2 job j7 on j7, closed", "7.3 claim e8 on j6, closed",
		"8.1 entry e9", "8.2 close j7 on j7, closed",
		"9.1 expiry e8 on j6, closed", "9.2 close j6 on j6, closed",
		"10.1 human_request ha",
		"11.1 hide e1", "11.2 unhide e1", "11.3 hide e3",
		"14.1 hide_profileAda",
	}
	check.Equal(t, strings.Join(texts, "\n"), strings.Join(want, "\n"), "events")
	if docs[0].ID != "c-1-3-1" || docs[0].At == 0 || docs[0].Entry.Agent != "ada" || docs[0].Entry.Hidden != nil {
		t.Errorf("the first event is %+v", docs[0])
	}
	for _, i := range []int{2, 3, 16} { // its claim is hidden now
		if e := docs[i].Entry; e.Hidden == nil || e.Agent != "" || e.Body != "" {
			t.Errorf("a hidden entry is shown as %+v", e)
		}
	}
}

// TestManyEventsOfOneLogEntry fill several rows.
func TestManyEventsOfOneLogEntry(t *testing.T) {
	r := newRig(t)
	const n = 2*state.MaxRowEvents + 3
	var many []command.Payload
	for range n {
		many = append(many, post("ada", nil))
	}
	r.run(many...)
	check.Equal(t, r.Head.EventRows, 3, "rows")
	for _, from := range []uint64{0, 1, state.MaxRowEvents - 1, state.MaxRowEvents, state.MaxRowEvents + 1, n - 1, n} {
		got := eventsOf(t, r.Machine, view.EventsAfter(state.EventPlace{Index: r.Applied(), Number: from}), 100)
		if len(got) != int(n-from) || len(got) > 0 && (got[0].Number != from+1 || got[0].Entry != from+1) {
			t.Errorf("%d events behind number %d: %+v", len(got), from, got[:min(1, len(got))])
		}
	}
}

// TestOldEventsGo: the ring has an end, and who is behind it is told.
func TestOldEventsGo(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	log := make([]apply.LogEntry, 0, 1000)
	flush := func() {
		r.applyAll(log)
		log = log[:0]
	}
	for i := range state.MaxEventRows + 10 {
		index := r.log.commands(post("ada", nil))
		log = append(log, apply.LogEntry{Index: index, Term: r.log.entries[index-1].Term, Data: r.log.entries[index-1].Data})
		r.log.entries[index-1].Data = nil
		if len(log) == cap(log) || i == state.MaxEventRows+9 {
			flush()
		}
	}
	v := r.View()
	defer v.Release()
	oldest := r.Applied() - state.MaxEventRows + 1
	for place, gone := range map[state.EventPlace]bool{
		{}: true, {Index: 1, Number: 5}: true, {Index: oldest - 2, Number: 0}: true, {Index: oldest - 2, Number: 9}: true, {Index: oldest - 1, Number: 0}: true,
		{Index: oldest - 1, Number: 1}: false, {Index: oldest - 1, Number: 9}: false, {Index: oldest, Number: 0}: false, {Index: oldest, Number: 1}: false, {Index: oldest + 7, Number: 0}: false, {Index: r.Applied(), Number: 1}: false,
	} {
		c := view.EventsAfter(place)
		got, err := v.Events(&c, 1)
		if gone != errors.Is(err, view.ErrEventsGone) || !gone && err != nil {
			t.Errorf("behind %+v: %+v, %v", place, got, err)
		}
	}
	if got := eventsOf(t, r.Machine, view.EventsAfter(state.EventPlace{Index: oldest, Number: 0}), 1000); len(got) != state.MaxEventRows {
		t.Errorf("%d events are kept", len(got))
	}
	rows := 0
	lower, upper := state.SpaceBounds(state.SpaceEvents)
	if err := state.ScanSpace(v.Reader(), lower, upper, func(_, _ []byte) error { rows++; return nil }); err != nil || rows != state.MaxEventRows {
		t.Errorf("%d rows, %v", rows, err)
	}
	c := view.EventsAfter(state.EventPlace{Index: oldest, Number: 0}) // one that is placed and falls behind
	must.Get(v.Events(&c, 1))(t)
	r.publish(nil)
	edge := r.View() // the events up to there are gone, and no later ones
	defer edge.Release()
	placed := c
	if got, err := edge.Events(&placed, 1); err != nil || len(got) != 1 || got[0].Index != oldest+1 {
		t.Errorf("a cursor at the edge: %+v, %v", got, err)
	}
	r.publish(nil)
	newer := r.View()
	defer newer.Release()
	check.Err(t, check.Last(newer.Events(&c, 1)), view.ErrEventsGone, "a cursor that fell behind")
	end := view.EventsAfter(state.EventPlace{Index: math.MaxUint64, Number: 0})
	if got, err := newer.Events(&end, 1); len(got) > 0 || err != nil || end.Index != math.MaxUint64 {
		t.Errorf("a view behind the cursor: %+v, %v, at %+v", got, err, end)
	}
}

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
		all := eventsOf(rt, one, view.EventCursor{}, rapid.IntRange(1, 10).Draw(rt, "at a time"))
		checkEvents(rt, one, all)
		v := one.View()
		defer v.Release()
		for range 5 {
			from := state.EventPlace{Index: rapid.Uint64Range(0, l.last()).Draw(rt, "index"), Number: rapid.Uint64Range(0, 4).Draw(rt, "number")}
			i, exact := slices.BinarySearchFunc(all, from, func(e view.Event, p state.EventPlace) int { return e.Compare(p) })
			if exact {
				i++
			}
			if rest := eventsOf(rt, one, view.EventsAfter(from), 4); !slices.Equal(rest, all[i:]) {
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
func checkEvents(t tester, m *Machine, all []view.Event) {
	t.Helper()
	told := uint64(0)
	var before state.EventPlace
	for _, e := range all {
		if e.Compare(before) <= 0 || e.Index == before.Index && e.Number != before.Number+1 || e.Index > before.Index && e.Number != 1 {
			t.Fatalf("%+v comes after %+v", e, before)
		}
		before = e.EventPlace
		if e.Kind <= state.EventResult {
			if told++; e.Entry != told {
				t.Fatalf("entry %d is told of after %d", e.Entry, told-1)
			}
		}
	}
	must.Equal(t, told, m.Head.LastSeq, "entries that are told")
}

// FuzzParseEventID: an id is taken in the one form that it is written in.
func FuzzParseEventID(f *testing.F) {
	for _, id := range []string{"", "-", "c-1-2", "c-1-0", "0190-ab-12-3", "c-01-2", "c--1-2", "c-1-18446744073709551616", "-1-2", "c-+1-2"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		cluster, place, ok := state.ParseEventID(id)
		if ok && (state.FormatEventID(cluster, place) != id || cluster == "") {
			t.Errorf("%q is %q %+v", id, cluster, place)
		}
		if again, p, ok := state.ParseEventID(state.FormatEventID("c-"+strings.ToValidUTF8(id[:min(len(id), 20)], ""), place)); !ok || p != place || again == "" {
			t.Errorf("%+v is not read back: %q %+v %v", place, again, p, ok)
		}
	})
}
