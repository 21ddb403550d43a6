package apply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// eventDoc is an event's JSON as a client reads it.
type eventDoc struct {
	ID, Event string
	At        int64
	Entry     *fsmtest.EntryDoc
	Job       *struct {
		ID, Status     string
		ClaimedBy      *string
		ClaimExpiresAt *int64
		Results        []string
	}
	Profile string
}

func (r *rig) events() (docs []eventDoc, texts []string) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	for _, e := range fsmtest.EventsOf(r.T, r, view.EventCursor{}, 3) {
		raw, err := v.AppendEvent(nil, &e)
		if err != nil {
			r.T.Fatalf("%+v: %v", e, err)
		}
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.DisallowUnknownFields()
		var doc eventDoc
		if err := dec.Decode(&doc); err != nil {
			r.T.Fatalf("%s: %v", raw, err)
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
	r.Run(&command.Init{ClusterID: "c-1", SealedDataKey: []byte("sealed")})                   // 2
	r.Run(fsmtest.Post("ada", nil), fsmtest.PostJob("ada"))                                   // 3: e1 j2
	r.Run(fsmtest.Claim("bob", 2))                                                            // 4: e3
	r.Run(fsmtest.Release("bob", 2), fsmtest.Claim("eve", 2))                                 // 5: e4
	r.Run(finish("eve", 2))                                                                   // 6: e5
	r.Run(fsmtest.PostJob("ada"), fsmtest.PostJob("ada"), fsmtest.Claim("bob", 6))            // 7: j6 j7 e8
	r.Run(retract("ada", 7))                                                                  // 8: e9
	r.Stamp += 48 * fsmtest.Hour                                                              //
	r.Run(&command.Tick{}, fsmtest.CloseJob("ada", 6))                                        // 9
	r.Run(&command.AskHuman{Author: fsmtest.Author("ada"), Goal: "A goal", Action: "Do it."}) // 10: h10
	r.Run(fsmtest.Hide("e1"), fsmtest.Unhide("e1"), fsmtest.Hide("e3"))                       // 11
	r.Run(&command.Tick{}, retract("bob", 99))                                                // 12: not an event
	r.Run(fsmtest.Register("Ada", "key", nil))                                                // 13: not an event
	r.Run(&command.Hide{Order: fsmtest.ByOperator, Agents: []string{"ada"}})                  // 14
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
		many = append(many, fsmtest.Post("ada", nil))
	}
	r.Run(many...)
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceEvents), 3, "rows")
	v := r.View()
	defer v.Release()
	for _, from := range []uint64{0, 1, state.MaxRowEvents - 1, state.MaxRowEvents, state.MaxRowEvents + 1, n - 1, n} {
		got := fsmtest.EventsOf(t, r, view.EventCursor{EventPlace: state.EventPlace{Index: v.Index(), Number: from}}, 100)
		if len(got) != int(n-from) || len(got) > 0 && (got[0].Number != from+1 || got[0].Entry != from+1) {
			t.Errorf("%d events behind number %d: %+v", len(got), from, got[:min(1, len(got))])
		}
	}
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

// TestOldEventsGo: the ring has an end, and who is behind it is told.
func TestOldEventsGo(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	for range state.MaxEventRows + 10 {
		r.Run(fsmtest.Post("ada", nil))
	}
	v := r.View()
	defer v.Release()
	oldest := v.Index() - state.MaxEventRows + 1
	for place, gone := range map[state.EventPlace]bool{
		{}: true, {Index: 1, Number: 5}: true, {Index: oldest - 2, Number: 0}: true, {Index: oldest - 2, Number: 9}: true, {Index: oldest - 1, Number: 0}: true,
		{Index: oldest - 1, Number: 1}: false, {Index: oldest - 1, Number: 9}: false, {Index: oldest, Number: 0}: false, {Index: oldest, Number: 1}: false, {Index: oldest + 7, Number: 0}: false, {Index: v.Index(), Number: 1}: false,
	} {
		c := view.EventCursor{EventPlace: place}
		got, err := v.Events(&c, 1)
		if gone != errors.Is(err, view.ErrEventsGone) || !gone && err != nil {
			t.Errorf("behind %+v: %+v, %v", place, got, err)
		}
	}
	kept := fsmtest.EventsOf(t, r, view.EventCursor{EventPlace: state.EventPlace{Index: oldest, Number: 0}}, 1000)
	check.Equal(t, len(kept), state.MaxEventRows, "events kept")
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceEvents), state.MaxEventRows, "rows")
	c := view.EventCursor{EventPlace: state.EventPlace{Index: oldest, Number: 0}} // one that is placed and falls behind
	must.Get(v.Events(&c, 1))(t)
	r.Publish(nil)
	edge := r.View() // the events up to there are gone, and no later ones
	defer edge.Release()
	placed := c
	if got, err := edge.Events(&placed, 1); err != nil || len(got) != 1 || got[0].Index != oldest+1 {
		t.Errorf("a cursor at the edge: %+v, %v", got, err)
	}
	r.Publish(nil)
	newer := r.View()
	defer newer.Release()
	check.Err(t, check.Last(newer.Events(&c, 1)), view.ErrEventsGone, "a cursor that fell behind")
	end := view.EventCursor{EventPlace: state.EventPlace{Index: math.MaxUint64, Number: 0}}
	if got, err := newer.Events(&end, 1); len(got) > 0 || err != nil || end.Index != math.MaxUint64 {
		t.Errorf("a view behind the cursor: %+v, %v, at %+v", got, err, end)
	}
}
