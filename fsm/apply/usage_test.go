package apply_test

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

// usage returns the calls of the newest days.
func (r *rig) usage(days int) view.Usage {
	r.T.Helper()
	return fsmtest.InView(r.T, r, func(v *view.View) (view.Usage, error) {
		return v.Usage(r.Today().Minus(days-1), r.Today())
	})
}

// TestUsageDaysAreBounded holds that a day has a bounded number of rows, and that their sum
// is complete.
func TestUsageDaysAreBounded(t *testing.T) {
	r := newRig(t)
	r.Run(&command.Tick{})
	var number, sent uint64
	for i := range 3 {
		number++
		c := &command.AddUsage{Boot: fsmtest.Boot1, Number: number}
		for j := range command.MaxUsageRows {
			c.Rows = append(c.Rows, command.UsageRow{Day: r.Today(), Surface: command.SurfaceAPI, Action: fmt.Sprintf("a%d-%d", i, j), Client: "c", Count: 2})
			sent += 2
		}
		r.Run(c)
	}
	u := r.usage(1)
	if len(u.Rows) != apply.MaxDayRows+1 || u.Calls != sent {
		t.Errorf("%d rows with %d calls, want %d with %d", len(u.Rows), u.Calls, apply.MaxDayRows+1, sent)
	}
	last := u.Rows[len(u.Rows)-1]
	want := command.UsageRow{Day: r.Today(), Surface: command.SurfaceAPI, Action: "other", Client: "other", Count: sent - 2*apply.MaxDayRows}
	check.Equal(t, last, want, "the rest")
}

// TestUsageListIsCut holds that totals cover rows that are not listed.
func TestUsageListIsCut(t *testing.T) {
	r := newRig(t)
	r.Stamp += 30 * command.DayMillis
	r.Run(&command.Tick{})
	var number uint64
	for back := range command.MaxUsageListed/apply.MaxDayRows + 1 {
		number++
		c := &command.AddUsage{Boot: fsmtest.Boot1, Number: number}
		for j := range apply.MaxDayRows {
			c.Rows = append(c.Rows, command.UsageRow{Day: r.Today().Minus(back), Surface: command.SurfaceAPI, Action: fmt.Sprint("a", j), Client: "c", Count: 1})
		}
		r.Run(c)
	}
	u := r.usage(30)
	if len(u.Rows) != command.MaxUsageListed || !u.Cut || u.Calls != number*apply.MaxDayRows {
		t.Errorf("%d rows, cut %v, %d calls", len(u.Rows), u.Cut, u.Calls)
	}
	if first, last := u.Rows[0].Day, u.Rows[len(u.Rows)-1].Day; first != r.Today() || last >= first {
		t.Errorf("days %d to %d", first, last)
	}
}

// TestUsageIsPruned holds for how long calls are kept, and numbers of folds.
func TestUsageIsPruned(t *testing.T) {
	r := newRig(t)
	r.Run(&command.Tick{})
	first := r.Today()
	r.Run(fsmtest.AddCalls(1, first, 1), fsmtest.AddSenders(2, first, command.SurfaceAPI, "x"))
	r.Run(fsmtest.AddCalls(3, first-command.MaxUsageDays, 1)) // too old already
	r.Run(fsmtest.AddCalls(4, first+5, 1))                    // a clock ahead: counted today
	if u := r.usage(command.MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Fatalf("%+v", u)
	}
	other := fsmtest.AddCalls(1, 0, 1)
	other.Boot = command.BootID{2}
	r.Stamp += (command.MaxUsageDays - 1) * command.DayMillis
	r.Run(other)
	if u := r.usage(command.MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Errorf("on the last day: %+v", u)
	}
	r.Stamp += command.DayMillis
	other.Number++
	r.Run(other)
	v := r.View()
	defer v.Release()
	for _, space := range []byte{state.SpaceUsage, state.SpaceSenders} {
		check.Err(t, state.ScanAll(v.Reader(), space, func(key, _ []byte) error { return fmt.Errorf("row %x", key) }), nil, "the day after")
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(fsmtest.Boot1)); ok || err != nil {
		t.Errorf("the number of an old run: %v, %v", ok, err)
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(command.BootID{2})); !ok || err != nil {
		t.Errorf("the number of this run: %v, %v", ok, err)
	}
}
