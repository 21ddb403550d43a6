package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// fold is a fold of one row.
func fold(number uint64, day command.Day, count uint64) *command.AddUsage {
	return &command.AddUsage{
		Boot: boot1, Number: number,
		Rows: []command.UsageRow{{Day: day, Surface: command.SurfaceAPI, Action: "listEntries", Client: "curl", Count: count}},
	}
}

// seen is a fold of senders alone.
func seen(number uint64, day command.Day, surface command.Surface, senders ...string) *command.AddUsage {
	s := stats.NewSenders()
	for _, name := range senders {
		s.Insert(name)
	}
	row := command.SenderRow{Day: day, Surface: surface}
	for i, rank := range s.Registers() {
		if rank > 0 {
			row.Registers = command.AppendRegister(row.Registers, i, rank)
		}
	}
	return &command.AddUsage{Boot: boot1, Number: number, Senders: []command.SenderRow{row}}
}

// today is the day of the rig's newest log entry.
func (r *rig) today() command.Day {
	v := r.View()
	defer v.Release()
	return command.DayOf(v.Time())
}

// usage returns the calls of the newest days.
func (r *rig) usage(days int) view.Usage {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	u := must.Get(v.Usage(r.today().Minus(days-1), r.today()))(r.t)
	return u
}

func TestUsageRoundTrip(t *testing.T) {
	full := fold(3, 20_000, 7)
	full.Senders = seen(3, 20_000, command.SurfaceMCP, "x", "y").Senders
	checkRoundTrip(t, full)
}

// TestLargestFoldFits holds that a fold of the largest size is fit for the log.
func TestLargestFoldFits(t *testing.T) {
	c := &command.AddUsage{Boot: boot1, Number: 1 << 60}
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
	data := must.Get(command.EncodeGroup(command.Group{Boot: boot1, Commands: []command.Command{{Seq: 1, Payload: c}}}))(t)
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
	r.run(&command.Tick{})
	var number, sent uint64
	for i := range 3 {
		number++
		c := &command.AddUsage{Boot: boot1, Number: number}
		for j := range command.MaxUsageRows {
			c.Rows = append(c.Rows, command.UsageRow{Day: r.today(), Surface: command.SurfaceAPI, Action: fmt.Sprintf("a%d-%d", i, j), Client: "c", Count: 2})
			sent += 2
		}
		r.run(c)
	}
	u := r.usage(1)
	if len(u.Rows) != apply.MaxDayRows+1 || u.Calls != sent {
		t.Errorf("%d rows with %d calls, want %d with %d", len(u.Rows), u.Calls, apply.MaxDayRows+1, sent)
	}
	last := u.Rows[len(u.Rows)-1]
	if want := (command.UsageRow{Day: r.today(), Surface: command.SurfaceAPI, Action: "other", Client: "other", Count: sent - 2*apply.MaxDayRows}); last != want {
		t.Errorf("the rest is %+v, want %+v", last, want)
	}
}

// TestUsageListIsCut holds that totals cover rows that are not listed.
func TestUsageListIsCut(t *testing.T) {
	r := newRig(t)
	r.log.stamp += 30 * command.DayMillis
	r.run(&command.Tick{})
	var number uint64
	for back := range command.MaxUsageListed/apply.MaxDayRows + 1 {
		number++
		c := &command.AddUsage{Boot: boot1, Number: number}
		for j := range apply.MaxDayRows {
			c.Rows = append(c.Rows, command.UsageRow{Day: r.today().Minus(back), Surface: command.SurfaceAPI, Action: fmt.Sprint("a", j), Client: "c", Count: 1})
		}
		r.run(c)
	}
	u := r.usage(30)
	if len(u.Rows) != command.MaxUsageListed || !u.Cut || u.Calls != number*apply.MaxDayRows {
		t.Errorf("%d rows, cut %v, %d calls", len(u.Rows), u.Cut, u.Calls)
	}
	if first, last := u.Rows[0].Day, u.Rows[len(u.Rows)-1].Day; first != r.today() || last >= first {
		t.Errorf("days %d to %d", first, last)
	}
}

// TestUsageIsPruned holds for how long calls are kept, and numbers of folds.
func TestUsageIsPruned(t *testing.T) {
	r := newRig(t)
	r.run(&command.Tick{})
	first := r.today()
	r.run(fold(1, first, 1), seen(2, first, command.SurfaceAPI, "x"))
	r.run(fold(3, first-command.MaxUsageDays, 1)) // too old already
	r.run(fold(4, first+5, 1))                    // a clock ahead: counted today
	if u := r.usage(command.MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Fatalf("%+v", u)
	}
	other := fold(1, 0, 1)
	other.Boot = command.BootID{2}
	r.log.stamp += (command.MaxUsageDays - 1) * command.DayMillis
	r.run(other)
	if u := r.usage(command.MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Errorf("on the last day: %+v", u)
	}
	r.log.stamp += command.DayMillis
	other.Number++
	r.run(other)
	v := r.View()
	defer v.Release()
	for _, space := range []byte{state.SpaceUsage, state.SpaceSenders} {
		lower, upper := state.SpaceBounds(space)
		check.Err(t, state.ScanSpace(v.Reader(), lower, upper, func(key, _ []byte) error { return fmt.Errorf("row %x", key) }), nil, "the day after")
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(boot1)); ok || err != nil {
		t.Errorf("the number of an old run: %v, %v", ok, err)
	}
	if _, ok, err := state.GetRow(v.Reader(), apply.FoldKey(command.BootID{2})); !ok || err != nil {
		t.Errorf("the number of this run: %v, %v", ok, err)
	}
}

// usageModel models usage.
type usageModel struct {
	now     int64
	pruned  command.Day
	folds   map[command.BootID]apply.FoldRow
	calls   map[command.UsageRow]uint64 // Count is zero in the key
	senders map[daySurface]*stats.Senders
}

// daySurface is whose senders a sketch holds.
type daySurface struct {
	day     command.Day
	surface command.Surface
}

func (m *usageModel) apply(c *command.AddUsage, senders []string) {
	today := command.DayOf(m.now)
	if c.Number <= m.folds[c.Boot].Number {
		return
	}
	if m.pruned != today {
		m.pruned = today
		maps.DeleteFunc(m.folds, func(_ command.BootID, f apply.FoldRow) bool { return f.Day < today.Minus(apply.FoldDays) })
	}
	m.folds[c.Boot] = apply.FoldRow{Number: c.Number, Day: today}
	for _, r := range c.Rows {
		count := r.Count
		r.Day, r.Count = min(r.Day, today), 0
		m.calls[r] += count
	}
	for _, r := range c.Senders {
		key := daySurface{min(r.Day, today), r.Surface}
		if m.senders[key] == nil {
			m.senders[key] = stats.NewSenders()
		}
		for _, name := range senders {
			m.senders[key].Insert(name)
		}
	}
}

// check compares the newest days.
func (m *usageModel) check(t *rapid.T, v *view.View, days int) {
	today := command.DayOf(m.now)
	first := today.Minus(days - 1)
	var want view.Usage
	for r, count := range m.calls {
		if r.Day >= first {
			r.Count = count
			want.Calls += count
			want.Rows = append(want.Rows, r)
		}
	}
	slices.SortFunc(want.Rows, func(a, b command.UsageRow) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Surface, b.Surface), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Client, b.Client))
	})
	all := make([]byte, command.SketchRegisters)
	for key, s := range m.senders {
		if key.day < first {
			continue
		}
		stats.MergeRegisters(all, s.Registers())
		got := must.Get(senders(v, key.day, key.surface))(t)
		check.Equal(t, string(got), string(s.Registers()), "the registers of %+v differ", key)
	}
	var err error
	want.DistinctSenders = must.Get(stats.Estimate(all))(t)
	got, err := v.Usage(first, today)
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Fatalf("usage of %d days, %v (-want +got):\n%s", days, err, diff)
	}
}

// TestUsageProperty draws folds over months, some of them sent again or late, and
// compares the counts with a plain model.
func TestUsageProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		one := tempMachine(rt)
		defer func() { dropMachine(rt, one) }()
		l := newLog(t)
		l.feed(one, 1, 1)
		m := &usageModel{folds: map[command.BootID]apply.FoldRow{}, calls: map[command.UsageRow]uint64{}, senders: map[daySurface]*stats.Senders{}}
		var seq uint64
		for range rapid.IntRange(1, 20).Draw(rt, "log entries") {
			l.stamp += rapid.SampledFrom([]int64{0, 5000, command.HourMillis, command.DayMillis, 3 * command.DayMillis, 40 * command.DayMillis}).Draw(rt, "step")
			m.now = max(l.stamp, m.now+1)
			g := command.Group{Boot: boot1}
			for range rapid.IntRange(1, 3).Draw(rt, "folds") {
				c, senders := drawFold(rt, command.DayOf(m.now))
				m.apply(c, senders)
				seq++
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: c})
			}
			index := l.batch(command.Batch{Stamp: l.stamp, Groups: []command.Group{g}})
			l.feed(one, index, index)
			v := one.View()
			m.check(rt, v, rapid.SampledFrom([]int{1, 7, command.MaxUsageDays}).Draw(rt, "days"))
			v.Release()
		}
	})
}

// drawFold draws a fold of the last days, and the senders in it.
func drawFold(t *rapid.T, today command.Day) (*command.AddUsage, []string) {
	c := &command.AddUsage{
		Boot:   rapid.SampledFrom(someBoots).Draw(t, "boot"),
		Number: rapid.Uint64Range(1, 30).Draw(t, "number"),
	}
	day := func() command.Day { return today - 1 + command.Day(rapid.IntRange(0, 2).Draw(t, "day")) }
	surface := rapid.SampledFrom([]command.Surface{command.SurfaceAPI, command.SurfaceWeb})
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		c.Rows = append(c.Rows, command.UsageRow{
			Day: day(), Surface: surface.Draw(t, "surface"), Count: rapid.Uint64Range(1, 9).Draw(t, "count"),
			Action: rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "action"),
			Client: rapid.SampledFrom([]string{"bc", "c"}).Draw(t, "client"),
		})
	}
	senders := rapid.SliceOfN(rapid.SampledFrom(someWords), 0, 5).Draw(t, "senders")
	if len(senders) > 0 {
		c.Senders = seen(1, day(), surface.Draw(t, "surface"), senders...).Senders
	}
	return c, senders
}
