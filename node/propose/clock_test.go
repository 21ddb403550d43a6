package propose

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// handClock is a clock that the test moves.
type handClock struct {
	mu    sync.Mutex
	truth time.Time     // the time of a correct clock
	mono  time.Duration // the monotonic clock
	off   time.Duration // of the wall clock from the truth
}

func (c *handClock) Read() (time.Time, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth.Add(c.off), c.mono
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth
}

// add advances the time.
func (c *handClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.truth, c.mono = c.truth.Add(d), c.mono+d
}

// set sets the offset of the wall clock from the truth.
func (c *handClock) set(off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// asker answers for clocks with an offset from the truth. Absent clocks fail.
func asker(c *handClock, off map[string]time.Duration) func(context.Context, string) (time.Time, error) {
	return func(_ context.Context, id string) (time.Time, error) {
		d, ok := off[id]
		if !ok {
			return time.Time{}, errors.New("no answer")
		}
		return c.now().Add(d), nil
	}
}

// emptyLog is the time of a log without entries.
func emptyLog() time.Time { return time.UnixMilli(0) }

func TestStampFollowsTheMedian(t *testing.T) {
	const m = time.Minute
	for _, tt := range []struct {
		name   string
		voters string
		off    map[string]time.Duration
		want   time.Duration
	}{
		{"alone", "", nil, 0},
		{"agreeing", "b c", map[string]time.Duration{"b": time.Second, "c": -time.Second}, 0},
		{"just within", "b c", map[string]time.Duration{"b": 2 * time.Second, "c": 2 * time.Second}, 0},
		{"just beyond", "b c", map[string]time.Duration{"b": 2001 * time.Millisecond, "c": 2001 * time.Millisecond}, 2001 * time.Millisecond},
		{"behind", "b c", map[string]time.Duration{"b": 10 * m, "c": 10 * m}, 10 * m},
		{"ahead", "b c", map[string]time.Duration{"b": -10 * m, "c": -10*m + time.Second}, -10*m + time.Second},
		{"another one is off", "b c", map[string]time.Duration{"b": 0, "c": 10 * m}, 0},
		{"two of five are off", "b c d e", map[string]time.Duration{"b": 10 * m, "c": 10 * m, "d": 1, "e": 2}, 0},
		{"one does not answer", "b c", map[string]time.Duration{"b": -10 * m}, -10 * m},
		{"of two the earlier", "b", map[string]time.Duration{"b": 10 * m}, 0},
		{"nobody answers", "b c", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &handClock{truth: noon}
			s := NewClockSync(clock, slog.New(slog.DiscardHandler))
			s.compare(context.Background(), strings.Fields(tt.voters), emptyLog, asker(clock, tt.off))
			check.Equal(t, s.Correction(), tt.want, "correction")
			clock.add(time.Second)
			check.Equal(t, s.Stamp(), noon.Add(time.Second+tt.want).UnixMilli(), "stamp")
			check.Equal(t, len(s.Offsets()), len(tt.off), "offsets %v", s.Offsets())
		})
	}
}

// TestStampIsInRange holds that no clock makes a stamp that a state machine rejects.
func TestStampIsInRange(t *testing.T) {
	for at, want := range map[time.Time]int64{
		time.Date(1901, 12, 13, 0, 0, 0, 0, time.UTC): 0,
		time.UnixMilli(0): 0,
		noon:              noon.UnixMilli(),
		time.Date(9999, 12, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC): command.MaxStamp,
		time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC):                             command.MaxStamp,
	} {
		got := NewClockSync(&handClock{truth: at}, slog.New(slog.DiscardHandler)).Stamp()
		check.Equal(t, got, want, "at %v: stamp", at)
		check.Err(t, check.Last(command.EncodeBatch(command.Batch{Stamp: got})), nil, "encode at %v", at)
	}
}

func TestMeasurementTakesHalfTheRoundTripOff(t *testing.T) {
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	s.compare(context.Background(), []string{"b"}, emptyLog, func(context.Context, string) (time.Time, error) {
		clock.add(300 * time.Millisecond)
		theirs := clock.now().Add(time.Hour)
		clock.add(300 * time.Millisecond)
		return theirs, nil
	})
	check.Equal(t, s.Offsets()["b"], time.Hour, "offset")
}

// A process that was stopped before it read an answer does not use that answer.
func TestLateAnswerIsNoMeasurement(t *testing.T) {
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	others := []string{"b", "c"}
	good := asker(clock, map[string]time.Duration{"b": 0, "c": 0})
	s.compare(context.Background(), others, emptyLog, func(ctx context.Context, id string) (time.Time, error) {
		theirs, err := good(ctx, id)
		clock.add(time.Hour)
		return theirs, err
	})
	if s.knowsMajority() || len(s.Offsets()) != 0 {
		t.Errorf("it knows %v by answers that are an hour old", s.Offsets())
	}
}

func TestMeasurementsExpire(t *testing.T) {
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.DiscardHandler))
	compare := func(voters string, off map[string]time.Duration) {
		s.compare(context.Background(), strings.Fields(voters), emptyLog, asker(clock, off))
	}
	compare("b c", map[string]time.Duration{"b": time.Hour, "c": time.Hour})
	clock.add(ClockExpiry)
	compare("b c", nil)
	if len(s.Offsets()) != 2 || !s.knowsMajority() {
		t.Error("forgot too soon")
	}
	compare("b", nil)
	check.Equal(t, len(s.Offsets()), 1, "one that votes no more still counts: %v", s.Offsets())
	clock.add(time.Millisecond)
	compare("b c", nil)
	if len(s.Offsets()) != 0 || s.knowsMajority() {
		t.Errorf("still knows %v", s.Offsets())
	}
	check.Equal(t, s.Correction(), time.Hour, "the time so far does not go on: corrected by")
}

func TestOneLinePerChange(t *testing.T) {
	var out bytes.Buffer
	clock := &handClock{truth: noon}
	s := NewClockSync(clock, slog.New(slog.NewTextHandler(&out, nil)))
	lines := func() (warnings, infos int) {
		return strings.Count(out.String(), "level=WARN"), strings.Count(out.String(), "level=INFO")
	}
	step := func(off time.Duration, warnings, infos int) {
		t.Helper()
		s.compare(context.Background(), []string{"b", "c"}, emptyLog, asker(clock, map[string]time.Duration{"b": off, "c": off}))
		if w, i := lines(); w != warnings || i != infos {
			t.Errorf("off by %v: %d warnings and %d lines, want %d and %d", off, w, i, warnings, infos)
		}
	}
	step(0, 0, 0)
	step(10*time.Minute, 1, 0)
	step(10*time.Minute+20*time.Millisecond, 1, 0)
	step(20*time.Minute, 2, 0)
	step(time.Second, 2, 1)
	step(0, 2, 1)
	step(-time.Hour, 3, 1)
}
