package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// noon is an instant in the middle of a day.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// counts is a state that folds go into, as the state machine takes them.
type counts struct {
	number    uint64
	calls     map[command.UsageRow]uint64
	registers map[sendersOf][]byte
}

func newCounts() *counts {
	return &counts{calls: map[command.UsageRow]uint64{}, registers: map[sendersOf][]byte{}}
}

// replicate applies a fold unless its number was applied before.
func (c *counts) replicate(_ context.Context, body command.Payload) error {
	f, isFold := body.(*command.AddUsage)
	if !isFold {
		return fmt.Errorf("%T is no fold", body)
	}
	if err := command.Check(f); err != nil {
		return err
	}
	if f.Number <= c.number {
		return nil
	}
	c.number = f.Number
	for _, r := range f.Rows {
		count := r.Count
		r.Count = 0
		c.calls[r] += count
	}
	for _, r := range f.Senders {
		of := sendersOf{r.Day, r.Surface}
		if c.registers[of] == nil {
			c.registers[of] = make([]byte, command.SketchRegisters)
		}
		for b := r.Registers; len(b) > 0; b = b[command.RegisterBytes:] {
			c.registers[of][int(b[0])<<8|int(b[1])] = b[2]
		}
	}
	return nil
}

func (c *counts) total() (n uint64) {
	for _, count := range c.calls {
		n += count
	}
	return n
}

// TestFoldsCountOnce draws calls and outcomes of folds, and holds the state against
// what was counted.
func TestFoldsCountOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		u, stored, want := New(Config{Boot: command.BootID{1}}), newCounts(), newCounts()
		sketches := map[sendersOf]*stats.Senders{}
		now := noon
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 11 * time.Hour}).Draw(rt, "pause"))
			if rapid.Bool().Draw(rt, "call") {
				c := op.Counted{
					At: now, Surface: rapid.SampledFrom([]command.Surface{command.SurfaceAPI, command.SurfaceWeb}).Draw(rt, "surface"),
					Action: rapid.SampledFrom([]string{"listEntries", "getHome"}).Draw(rt, "action"), Client: "curl",
					Sender: rapid.SampledFrom([]string{"", "one", "two", "three"}).Draw(rt, "sender"),
				}
				u.Count(c)
				day := command.DayOf(now.UnixMilli())
				want.calls[command.UsageRow{Day: day, Surface: c.Surface, Action: c.Action, Client: c.Client}]++
				if of := (sendersOf{day, c.Surface}); c.Sender != "" {
					if sketches[of] == nil {
						sketches[of] = stats.NewSenders()
					}
					sketches[of].Insert(c.Sender)
				}
				continue
			}
			end := rapid.SampledFrom([]command.Code{"", command.CodeNotEnqueued, command.CodeOutcomeUnknown}).Draw(rt, "end")
			u.since = now // so that no fold is given up
			_, _ = u.fold(t.Context(), now, func(ctx context.Context, body command.Payload) error {
				if end == command.CodeNotEnqueued {
					return &command.Unavailable{Code: end}
				}
				must.Do(rt, stored.replicate(ctx, body))
				if end != "" {
					return &command.Unavailable{Code: end}
				}
				return nil
			})
		}
		u.since = now
		for folded := true; folded; {
			var err error
			folded, err = u.fold(t.Context(), now, stored.replicate)
			must.Do(rt, err)
		}
		must.Equal(rt, fmt.Sprint(stored.calls), fmt.Sprint(want.calls), "calls in the state")
		for of, s := range sketches {
			if !bytes.Equal(stored.registers[of], s.Registers()) {
				rt.Fatalf("the sketch of %+v differs", of)
			}
		}
		must.Equal(rt, len(u.calls), 0, "calls that are left")
	})
}

// TestUsageIsBounded counts more kinds of calls, days and senders than a node may
// hold, and loses no call of them.
func TestUsageIsBounded(t *testing.T) {
	u, stored := New(Config{Boot: command.BootID{1}}), newCounts()
	const kinds, senders = 3 * maxCountedRows, 20_000
	for i := range kinds {
		u.Count(op.Counted{At: noon, Surface: command.SurfaceAPI, Action: fmt.Sprint("action", i), Client: "curl"})
	}
	check.Equal(t, len(u.calls), maxCountedRows+1, "rows held")
	for i := range senders {
		u.Count(op.Counted{At: noon, Surface: command.SurfaceWeb, Action: "getDocs", Client: "curl", Sender: fmt.Sprint("sender", i)})
	}
	for back := range 2 * command.MaxSenderRows {
		u.Count(op.Counted{At: noon.AddDate(0, 0, -back), Surface: command.SurfaceAPI, Action: "getDocs", Client: "curl", Sender: "x"})
	}
	check.Equal(t, len(u.senders), command.MaxSenderRows, "sketches held")
	folds := 0
	for folded := true; folded; folds++ {
		folded = must.Get(u.fold(t.Context(), noon, stored.replicate))(t)
	}
	if got, want := stored.total(), uint64(kinds+senders+2*command.MaxSenderRows); got != want || folds < 3 {
		t.Errorf("%d calls in %d folds, want %d", got, folds, want)
	}
	all := stats.NewSenders()
	for i := range senders {
		all.Insert(fmt.Sprint("sender", i))
	}
	if !bytes.Equal(stored.registers[sendersOf{command.DayOf(noon.UnixMilli()), command.SurfaceWeb}], all.Registers()) {
		t.Error("senders are missing")
	}
	if len(u.calls) > 0 || len(u.senders) > 2 {
		t.Errorf("%d rows and %d sketches of past days are left", len(u.calls), len(u.senders))
	}
}

// TestNoFoldWithoutCalls holds that a node without calls does not write.
func TestNoFoldWithoutCalls(t *testing.T) {
	u := New(Config{Boot: command.BootID{1}})
	call := op.Counted{At: noon, Surface: command.SurfaceAPI, Action: "getHome", Client: "curl", Sender: "one"}
	u.Count(call)
	for i, want := range []bool{true, false, false} {
		proposed := 0
		folded, err := u.fold(t.Context(), noon, func(context.Context, command.Payload) error { proposed++; return nil })
		if folded != want || err != nil || (proposed == 1) != want {
			t.Errorf("fold %d: %v, %v, proposed %d times", i, folded, err, proposed)
		}
	}
	u.Count(call)
	_, err := u.fold(t.Context(), noon, func(_ context.Context, body command.Payload) error {
		if f := body.(*command.AddUsage); len(f.Rows) != 1 || len(f.Senders) != 0 {
			t.Errorf("a sender that is known: %+v", f)
		}
		return nil
	})
	check.Err(t, err, nil, "fold")
}

// TestFoldIsGivenUp holds when a fold is repeated and when it is not.
func TestFoldIsGivenUp(t *testing.T) {
	lost := &command.Unavailable{Code: command.CodeOutcomeUnknown}
	for name, test := range map[string]struct {
		err    error
		later  time.Duration
		number uint64 // of the next fold
	}{
		"unknown":         {lost, foldPatience, 1},
		"unknown for far": {lost, foldPatience + time.Second, 2},
		"not fit":         {errors.New("not fit for the log"), 0, 2},
		"done":            {nil, 0, 2},
	} {
		u := New(Config{Boot: command.BootID{1}})
		u.Count(op.Counted{At: noon, Surface: command.SurfaceAPI, Action: "getHome", Client: "curl"})
		_, err := u.fold(t.Context(), noon, func(context.Context, command.Payload) error { return test.err })
		check.Err(t, err, test.err, "%s", name)
		u.Count(op.Counted{At: noon, Surface: command.SurfaceAPI, Action: "getHome", Client: "wget"})
		var got uint64
		if _, err := u.fold(t.Context(), noon.Add(test.later), func(_ context.Context, body command.Payload) error {
			got = body.(*command.AddUsage).Number
			return nil
		}); err != nil || got != test.number {
			t.Errorf("%s: the next fold has number %d, %v, want %d", name, got, err, test.number)
		}
	}
	u := New(Config{Boot: command.BootID{1}})
	u.folding <- struct{}{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check.Err(t, check.Last(u.fold(ended, noon, nil)), context.Canceled, "behind another fold")
}

// TestNoFoldOnFullDisks holds that counts wait while the disks are full.
func TestNoFoldOnFullDisks(t *testing.T) {
	u := New(Config{Boot: command.BootID{1}, Rejected: func() bool { return true }})
	u.Count(op.Counted{At: noon, Surface: command.SurfaceAPI, Action: "getHome", Client: "curl"})
	if u.foldOnce(t.Context()) || len(u.calls) != 1 || u.pending != nil {
		t.Errorf("folded; left are %v", u.calls)
	}
}

// TestLastFold: a node that shuts down waits until a leader is known.
func TestLastFold(t *testing.T) {
	looks, proposed := 0, 0
	u := New(Config{
		Boot: command.BootID{1}, Now: func() time.Time { return noon }, Logger: slog.New(slog.DiscardHandler),
		Rejected: func() bool { looks++; return looks < 4 },
		Propose:  func(context.Context, command.Payload) error { proposed++; return nil },
	})
	u.Count(op.Counted{At: noon, Surface: command.SurfaceAPI, Action: "getHome", Client: "curl"})
	u.Finish(t.Context())
	check.Equal(t, proposed, 1, "folds that were proposed")
}
