package apply_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// fold is a fold of one row.
func fold(number uint64, day command.Day, count uint64) *command.AddUsage {
	return &command.AddUsage{
		Boot: fsmtest.Boot1, Number: number,
		Rows: []command.UsageRow{{Day: day, Surface: command.SurfaceAPI, Action: "listEntries", Client: "curl", Count: count}},
	}
}

// usage returns the calls of the newest days.
func (r *rig) usage(days int) view.Usage {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	u := must.Get(v.Usage(r.Today().Minus(days-1), r.Today()))(r.T)
	return u
}

func TestUsageRoundTrip(t *testing.T) {
	full := fold(3, 20_000, 7)
	full.Senders = fsmtest.Seen(3, 20_000, command.SurfaceMCP, "x", "y").Senders
	checkRoundTrip(t, full)
}

// TestLargestFoldFits holds that a fold of the largest size is fit for the log.
func TestLargestFoldFits(t *testing.T) {
	c := &command.AddUsage{Boot: fsmtest.Boot1, Number: 1 << 60}
	for range command.MaxUsageRows {
		c.Rows = append(c.Rows, command.UsageRow{
			Day: 1 << 31, Surface: command.SurfaceWeb, Count: command.MaxUsageCount,
			Action: strings.Repeat("a", command.MaxUsageLabel), Client: strings.Repeat("c", command.MaxUsageLabel),
		})
	}
	for i := range command.MaxSenderRows {
		row := command.SenderRow{Day: 1 << 31, Surface: command.SurfaceWeb}
		for j := range command.MaxSenderRegisters / command.MaxSenderRows {
			row.Registers = command.AppendRegister(row.Registers, i*command.MaxSenderRows+j, command.MaxRank)
		}
		c.Senders = append(c.Senders, row)
	}
	data := must.Get(command.EncodeGroup(command.Group{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: 1, Payload: c}}}))(t)
	if err := command.Check(c); err != nil || len(data) > command.MaxBatchBytes {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestUsageIsChecked breaks one bound at a time.
func TestUsageIsChecked(t *testing.T) {
	for name, change := range map[string]func(*command.AddUsage){
		"no run":    func(c *command.AddUsage) { c.Boot = command.BootID{} },
		"no number": func(c *command.AddUsage) { c.Number = 0 },
		"rows":      func(c *command.AddUsage) { c.Rows = slices.Repeat(c.Rows, command.MaxUsageRows+1) },
		"surface":   func(c *command.AddUsage) { c.Rows[0].Surface = command.SurfaceWeb + 1 },
		"surface 0": func(c *command.AddUsage) { c.Rows[0].Surface = 0 },
		"action":    func(c *command.AddUsage) { c.Rows[0].Action = "" },
		"client":    func(c *command.AddUsage) { c.Rows[0].Client = "192.0.2.1, a proxy" },
		"long":      func(c *command.AddUsage) { c.Rows[0].Client = strings.Repeat("x", command.MaxUsageLabel+1) },
		"no count":  func(c *command.AddUsage) { c.Rows[0].Count = 0 },
		"count":     func(c *command.AddUsage) { c.Rows[0].Count = command.MaxUsageCount + 1 },
		"senders": func(c *command.AddUsage) {
			c.Senders = slices.Repeat([]command.SenderRow{{Surface: command.SurfaceAPI}}, command.MaxSenderRows+1)
		},
		"senders' surface": func(c *command.AddUsage) { c.Senders = []command.SenderRow{{}} },
		"half a register": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: []byte{0, 1}}}
		},
		"register": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, command.SketchRegisters, 1)}}
		},
		"rank 0": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, 0, 0)}}
		},
		"rank": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, 0, command.MaxRank+1)}}
		},
		"registers": func(c *command.AddUsage) {
			all := bytes.Repeat(command.AppendRegister(nil, 0, 1), command.MaxSenderRegisters+1)
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: all}}
		},
	} {
		c := fold(1, 0, 1)
		must.Do(t, command.Check(c))
		if change(c); command.Check(c) == nil {
			t.Errorf("%s: not rejected", name)
		}
	}
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
	if want := (command.UsageRow{Day: r.Today(), Surface: command.SurfaceAPI, Action: "other", Client: "other", Count: sent - 2*apply.MaxDayRows}); last != want {
		t.Errorf("the rest is %+v, want %+v", last, want)
	}
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
	r.Run(fold(1, first, 1), fsmtest.Seen(2, first, command.SurfaceAPI, "x"))
	r.Run(fold(3, first-command.MaxUsageDays, 1)) // too old already
	r.Run(fold(4, first+5, 1))                    // a clock ahead: counted today
	if u := r.usage(command.MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Fatalf("%+v", u)
	}
	other := fold(1, 0, 1)
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
		lower, upper := state.SpaceBounds(space)
		check.Err(t, state.ScanSpace(v.Reader(), lower, upper, func(key, _ []byte) error { return fmt.Errorf("row %x", key) }), nil, "the day after")
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(fsmtest.Boot1)); ok || err != nil {
		t.Errorf("the number of an old run: %v, %v", ok, err)
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(command.BootID{2})); !ok || err != nil {
		t.Errorf("the number of this run: %v, %v", ok, err)
	}
}
