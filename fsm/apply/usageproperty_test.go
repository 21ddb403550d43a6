package apply_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

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
		for i, rank := range s.Registers() {
			all[i] = max(all[i], rank)
		}
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
		r := newRig(t)
		defer r.Close()
		m := &usageModel{folds: map[command.BootID]apply.FoldRow{}, calls: map[command.UsageRow]uint64{}, senders: map[daySurface]*stats.Senders{}}
		var seq uint64
		for range rapid.IntRange(1, 20).Draw(rt, "log entries") {
			step := rapid.SampledFrom([]int64{0, 5000, command.HourMillis, command.DayMillis, 3 * command.DayMillis, 40 * command.DayMillis}).Draw(rt, "step")
			r.Later(step)
			m.now = r.Now() + fsmtest.StampStep
			g := command.Group{Boot: fsmtest.Boot1}
			for range rapid.IntRange(1, 3).Draw(rt, "folds") {
				c, senders := drawFold(rt, command.DayOf(m.now))
				m.apply(c, senders)
				seq++
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: c})
			}
			r.RunGroups(g)
			v := r.View()
			m.check(rt, v, rapid.SampledFrom([]int{1, 7, command.MaxUsageDays}).Draw(rt, "days"))
			v.Release()
		}
	})
}

// drawFold draws a fold of the last days, and the senders in it.
func drawFold(t *rapid.T, today command.Day) (*command.AddUsage, []string) {
	c := &command.AddUsage{
		Boot:   rapid.SampledFrom([]command.BootID{{1}, {2}, {3}}).Draw(t, "boot"),
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
	senders := rapid.SliceOfN(rapid.SampledFrom([]string{"alpha", "alphabet", "über", "世界", "a"}), 0, 5).Draw(t, "senders")
	if len(senders) > 0 {
		c.Senders = fsmtest.AddSenders(1, day(), surface.Draw(t, "surface"), senders...).Senders
	}
	return c, senders
}

// senders returns the registers of the sketch of one day's senders.
func senders(v *view.View, day command.Day, surface command.Surface) ([]byte, error) {
	registers := make([]byte, command.SketchRegisters)
	lower := append(state.DayKey(state.SpaceSenders, day), byte(surface))
	upper := append(state.DayKey(state.SpaceSenders, day), byte(surface)+1)
	err := state.ScanSpace(v.Reader(), lower, upper, func(key, chunk []byte) error { return view.MergeChunk(registers, key, chunk) })
	return registers, err
}
