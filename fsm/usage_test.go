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
)

// fold is a fold of one row.
func fold(number uint64, day Day, count uint64) *AddUsage {
	return &AddUsage{
		Boot: boot1, Number: number,
		Rows: []UsageRow{{Day: day, Surface: SurfaceAPI, Action: "listEntries", Client: "curl", Count: count}},
	}
}

// seen is a fold of senders alone.
func seen(number uint64, day Day, surface Surface, senders ...string) *AddUsage {
	s := NewSenders()
	for _, name := range senders {
		s.Insert(name)
	}
	row := SenderRow{Day: day, Surface: surface}
	for i, rank := range s.Registers() {
		if rank > 0 {
			row.Registers = AppendRegister(row.Registers, i, rank)
		}
	}
	return &AddUsage{Boot: boot1, Number: number, Senders: []SenderRow{row}}
}

// today is the day of the rig's newest log entry.
func (r *rig) today() Day {
	v := r.View()
	defer v.Release()
	return DayOf(v.Time())
}

// usage returns the calls of the newest days.
func (r *rig) usage(days int) Usage {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	u, err := v.Usage(r.today().minus(days-1), r.today())
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

func TestUsageRoundTrip(t *testing.T) {
	full := fold(3, 20_000, 7)
	full.Senders = seen(3, 20_000, SurfaceMCP, "x", "y").Senders
	checkRoundTrip(t, full)
}

// TestLargestFoldFits holds that a fold of the largest size is fit for the log.
func TestLargestFoldFits(t *testing.T) {
	c := &AddUsage{Boot: boot1, Number: 1 << 60}
	for range MaxUsageRows {
		c.Rows = append(c.Rows, UsageRow{
			Day: 1 << 31, Surface: SurfaceWeb, Count: maxUsageCount,
			Action: strings.Repeat("a", MaxUsageLabel), Client: strings.Repeat("c", MaxUsageLabel),
		})
	}
	for i := range MaxSenderRows {
		row := SenderRow{Day: 1 << 31, Surface: SurfaceWeb}
		for j := range MaxSenderRegisters / MaxSenderRows {
			row.Registers = AppendRegister(row.Registers, i*MaxSenderRows+j, maxRank)
		}
		c.Senders = append(c.Senders, row)
	}
	data, err := EncodeGroup(Group{Boot: boot1, Commands: []Command{{Seq: 1, Body: c}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(c); err != nil || len(data) > MaxBatchBytes {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestUsageIsChecked breaks one bound at a time.
func TestUsageIsChecked(t *testing.T) {
	for name, change := range map[string]func(*AddUsage){
		"no run":    func(c *AddUsage) { c.Boot = BootID{} },
		"no number": func(c *AddUsage) { c.Number = 0 },
		"rows":      func(c *AddUsage) { c.Rows = slices.Repeat(c.Rows, MaxUsageRows+1) },
		"surface":   func(c *AddUsage) { c.Rows[0].Surface = SurfaceWeb + 1 },
		"surface 0": func(c *AddUsage) { c.Rows[0].Surface = 0 },
		"action":    func(c *AddUsage) { c.Rows[0].Action = "" },
		"client":    func(c *AddUsage) { c.Rows[0].Client = "192.0.2.1, a proxy" },
		"long":      func(c *AddUsage) { c.Rows[0].Client = strings.Repeat("x", MaxUsageLabel+1) },
		"no count":  func(c *AddUsage) { c.Rows[0].Count = 0 },
		"count":     func(c *AddUsage) { c.Rows[0].Count = maxUsageCount + 1 },
		"senders": func(c *AddUsage) {
			c.Senders = slices.Repeat([]SenderRow{{Surface: SurfaceAPI}}, MaxSenderRows+1)
		},
		"senders' surface": func(c *AddUsage) { c.Senders = []SenderRow{{}} },
		"half a register":  func(c *AddUsage) { c.Senders = []SenderRow{{Surface: SurfaceAPI, Registers: []byte{0, 1}}} },
		"register": func(c *AddUsage) {
			c.Senders = []SenderRow{{Surface: SurfaceAPI, Registers: AppendRegister(nil, SketchRegisters, 1)}}
		},
		"rank 0": func(c *AddUsage) {
			c.Senders = []SenderRow{{Surface: SurfaceAPI, Registers: AppendRegister(nil, 0, 0)}}
		},
		"rank": func(c *AddUsage) {
			c.Senders = []SenderRow{{Surface: SurfaceAPI, Registers: AppendRegister(nil, 0, maxRank+1)}}
		},
		"registers": func(c *AddUsage) {
			all := bytes.Repeat(AppendRegister(nil, 0, 1), MaxSenderRegisters+1)
			c.Senders = []SenderRow{{Surface: SurfaceAPI, Registers: all}}
		},
	} {
		c := fold(1, 0, 1)
		if err := Check(c); err != nil {
			t.Fatal(err)
		}
		if change(c); Check(c) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// TestFoldCountsOnce sends folds again, late and from another run.
func TestFoldCountsOnce(t *testing.T) {
	r := newRig(t)
	r.run(&Tick{})
	day := r.today()
	for i, step := range []struct {
		number, calls uint64
		boot          BootID
		outcome       Outcome
	}{
		{1, 5, boot1, OutcomeDone},
		{1, 5, boot1, OutcomeDuplicate},
		{4, 7, boot1, OutcomeDuplicate}, // numbers 2 and 3 never came
		{4, 7, boot1, OutcomeDuplicate},
		{1, 12, BootID{2}, OutcomeDone},
	} {
		c := fold(step.number, day, 5)
		if i == 2 {
			c.Rows[0].Count, step.outcome = 2, OutcomeDone
		}
		c.Boot = step.boot
		if got := r.run(c)[0].Outcome; got != step.outcome {
			t.Errorf("step %d: outcome %d, want %d", i, got, step.outcome)
		}
		if got := r.usage(1).Calls; got != step.calls {
			t.Errorf("step %d: %d calls, want %d", i, got, step.calls)
		}
	}
}

// TestUsageDaysAreBounded holds that a day has only so many rows, and that
// nothing is lost with them.
func TestUsageDaysAreBounded(t *testing.T) {
	r := newRig(t)
	r.run(&Tick{})
	var number, sent uint64
	for i := range 3 {
		number++
		c := &AddUsage{Boot: boot1, Number: number}
		for j := range MaxUsageRows {
			c.Rows = append(c.Rows, UsageRow{Day: r.today(), Surface: SurfaceAPI, Action: fmt.Sprintf("a%d-%d", i, j), Client: "c", Count: 2})
			sent += 2
		}
		r.run(c)
	}
	u := r.usage(1)
	if len(u.Rows) != maxDayRows+1 || u.Calls != sent {
		t.Errorf("%d rows with %d calls, want %d with %d", len(u.Rows), u.Calls, maxDayRows+1, sent)
	}
	last := u.Rows[len(u.Rows)-1]
	if want := (UsageRow{Day: r.today(), Surface: SurfaceAPI, Action: "other", Client: "other", Count: sent - 2*maxDayRows}); last != want {
		t.Errorf("the rest is %+v, want %+v", last, want)
	}
}

// TestUsageListIsCut holds that totals cover rows that are not listed.
func TestUsageListIsCut(t *testing.T) {
	r := newRig(t)
	r.log.stamp += 30 * dayMillis
	r.run(&Tick{})
	var number uint64
	for back := range MaxUsageListed/maxDayRows + 1 {
		number++
		c := &AddUsage{Boot: boot1, Number: number}
		for j := range maxDayRows {
			c.Rows = append(c.Rows, UsageRow{Day: r.today().minus(back), Surface: SurfaceAPI, Action: fmt.Sprint("a", j), Client: "c", Count: 1})
		}
		r.run(c)
	}
	u := r.usage(30)
	if len(u.Rows) != MaxUsageListed || !u.Cut || u.Calls != number*maxDayRows {
		t.Errorf("%d rows, cut %v, %d calls", len(u.Rows), u.Cut, u.Calls)
	}
	if first, last := u.Rows[0].Day, u.Rows[len(u.Rows)-1].Day; first != r.today() || last >= first {
		t.Errorf("days %d to %d", first, last)
	}
}

// TestUsageIsPruned holds for how long calls are kept, and numbers of folds.
func TestUsageIsPruned(t *testing.T) {
	r := newRig(t)
	r.run(&Tick{})
	first := r.today()
	r.run(fold(1, first, 1), seen(2, first, SurfaceAPI, "x"))
	r.run(fold(3, first-MaxUsageDays, 1)) // too old already
	r.run(fold(4, first+5, 1))            // a clock ahead: counted today
	if u := r.usage(MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Fatalf("%+v", u)
	}
	other := fold(1, 0, 1)
	other.Boot = BootID{2}
	r.log.stamp += (MaxUsageDays - 1) * dayMillis
	r.run(other)
	if u := r.usage(MaxUsageDays); u.Calls != 2 || u.DistinctSenders != 1 {
		t.Errorf("on the last day: %+v", u)
	}
	r.log.stamp += dayMillis
	other.Number++
	r.run(other)
	v := r.View()
	defer v.Release()
	for _, space := range []byte{spaceUsage, spaceSenders} {
		lower, upper := spaceBounds(space)
		if err := scanSpace(v.snap, lower, upper, func(key, _ []byte) error { return fmt.Errorf("row %x", key) }); err != nil {
			t.Errorf("the day after: %v", err)
		}
	}
	if _, ok, err := getRow(v.snap, foldKey(boot1)); ok || err != nil {
		t.Errorf("the number of an old run: %v, %v", ok, err)
	}
	if _, ok, err := getRow(v.snap, foldKey(BootID{2})); !ok || err != nil {
		t.Errorf("the number of this run: %v, %v", ok, err)
	}
}

// TestSketch holds that estimates are near, and that the registers are as the
// state keeps them: by the first bits of the hash, the rank of the others.
func TestSketch(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 10, 100, 1000, 50_000} {
		s := NewSenders()
		for i := range n {
			s.Insert(fmt.Sprintf("sender-%d", i))
			s.Insert(fmt.Sprintf("sender-%d", i))
		}
		got, err := estimate(s.Registers())
		if diff := int(got) - n; err != nil || max(diff, -diff) > n/30 {
			t.Errorf("%d senders are estimated as %d, %v", n, got, err)
		}
	}
	s := NewSenders()
	s.sketch.InsertHash(5<<50 | 1<<40)
	s.sketch.InsertHash(9 << 50)
	want := make([]byte, SketchRegisters)
	want[5], want[9] = 10, maxRank
	if !bytes.Equal(s.Registers(), want) {
		t.Errorf("registers 5 and 9 are %d and %d", s.Registers()[5], s.Registers()[9])
	}
	if _, err := estimate(want[1:]); err == nil {
		t.Error("a register is missing and was not missed")
	}
}

// usageModel is what usage should be.
type usageModel struct {
	now     int64
	pruned  Day
	folds   map[BootID]foldRow
	calls   map[UsageRow]uint64 // Count is zero in the key
	senders map[daySurface]*Senders
}

// daySurface is whose senders a sketch holds.
type daySurface struct {
	day     Day
	surface Surface
}

func (m *usageModel) apply(c *AddUsage, senders []string) {
	today := DayOf(m.now)
	if c.Number <= m.folds[c.Boot].number {
		return
	}
	if m.pruned != today {
		m.pruned = today
		maps.DeleteFunc(m.folds, func(_ BootID, f foldRow) bool { return f.day < today.minus(foldDays) })
	}
	m.folds[c.Boot] = foldRow{c.Number, today}
	for _, r := range c.Rows {
		count := r.Count
		r.Day, r.Count = min(r.Day, today), 0
		m.calls[r] += count
	}
	for _, r := range c.Senders {
		key := daySurface{min(r.Day, today), r.Surface}
		if m.senders[key] == nil {
			m.senders[key] = NewSenders()
		}
		for _, name := range senders {
			m.senders[key].Insert(name)
		}
	}
}

// check compares the newest days.
func (m *usageModel) check(t *rapid.T, v *View, days int) {
	today := DayOf(m.now)
	first := today.minus(days - 1)
	var want Usage
	for r, count := range m.calls {
		if r.Day >= first {
			r.Count = count
			want.Calls += count
			want.Rows = append(want.Rows, r)
		}
	}
	slices.SortFunc(want.Rows, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Surface, b.Surface), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Client, b.Client))
	})
	all := make([]byte, SketchRegisters)
	for key, s := range m.senders {
		if key.day < first {
			continue
		}
		mergeRegisters(all, s.Registers())
		got, err := v.Senders(key.day, key.surface)
		if err != nil || !bytes.Equal(got, s.Registers()) {
			t.Fatalf("the registers of %+v differ, %v", key, err)
		}
	}
	var err error
	if want.DistinctSenders, err = estimate(all); err != nil {
		t.Fatal(err)
	}
	got, err := v.Usage(first, today)
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Fatalf("usage of %d days, %v (-want +got):\n%s", days, err, diff)
	}
}

// TestUsageProperty draws folds, some of them sent again or late, over months,
// and holds them against a plain model; and that other batches give equal bytes.
func TestUsageProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one := tempMachine(rt)
		defer func() { dropMachine(rt, one) }()
		l := newLog(t)
		l.feed(one, 1, 1)
		m := &usageModel{folds: map[BootID]foldRow{}, calls: map[UsageRow]uint64{}, senders: map[daySurface]*Senders{}}
		var seq uint64
		for range rapid.IntRange(1, 20).Draw(rt, "log entries") {
			l.stamp += rapid.SampledFrom([]int64{0, 5000, hourMillis, dayMillis, 3 * dayMillis, 40 * dayMillis}).Draw(rt, "step")
			m.now = max(l.stamp, m.now+1)
			g := Group{Boot: boot1}
			for range rapid.IntRange(1, 3).Draw(rt, "folds") {
				c, senders := drawFold(rt, DayOf(m.now))
				m.apply(c, senders)
				seq++
				g.Commands = append(g.Commands, Command{Seq: seq, Body: c})
			}
			index := l.batch(Batch{Stamp: l.stamp, Groups: []Group{g}})
			l.feed(one, index, index)
			v := one.View()
			m.check(rt, v, rapid.SampledFrom([]int{1, 7, MaxUsageDays}).Draw(rt, "days"))
			v.Release()
		}
		two := tempMachine(rt)
		defer func() { dropMachine(rt, two) }()
		two = feedRoughly(rt, l, two)
		sameState(rt, stateOf(rt, one), stateOf(rt, two))
	})
}

// drawFold draws a fold of the last days, and the senders in it.
func drawFold(t *rapid.T, today Day) (*AddUsage, []string) {
	c := &AddUsage{
		Boot:   rapid.SampledFrom(someBoots).Draw(t, "boot"),
		Number: rapid.Uint64Range(1, 30).Draw(t, "number"),
	}
	day := func() Day { return today - 1 + Day(rapid.IntRange(0, 2).Draw(t, "day")) }
	surface := rapid.SampledFrom([]Surface{SurfaceAPI, SurfaceWeb})
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		c.Rows = append(c.Rows, UsageRow{
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
