package health

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
)

func TestAheadOfMedian(t *testing.T) {
	for _, tc := range []struct {
		others []time.Duration
		want   time.Duration
	}{
		{nil, 0},
		{[]time.Duration{-600, -610}, 600},
		{[]time.Duration{600, 610}, -600},
		{[]time.Duration{1, 600}, -1},
		{[]time.Duration{-600, 5}, 0},
		{[]time.Duration{10}, -5},
		{[]time.Duration{1, 2, 3}, -1}, // (1 + 2) / 2
		{[]time.Duration{-4, -3, -2, -1}, 2},
	} {
		others := map[string]time.Duration{}
		for i, offset := range tc.others {
			others[fmt.Sprint(i)] = offset
		}
		if got, clocks := aheadOfMedian(others); got != tc.want || clocks != len(tc.others)+1 {
			t.Errorf("others %v: ahead %d of %d clocks, want %d", tc.others, got, clocks, tc.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	h := New(Config{Heartbeat: 500 * time.Millisecond})
	for want, c := range map[string]admin.Condition{
		"":                                      {ClockAheadMillis: -1999, ApplyLag: 5, Sync: admin.Timing{MeanMillis: 99, MostMillis: 900}, Stall: admin.Timing{MostMillis: 499}},
		"its clock is 10m0s behind the median":  {ClockAheadMillis: -600_000, Clocks: 3},
		"its clock is 2.1s ahead of the median": {ClockAheadMillis: 2100, Clocks: 3},
		"ran up to 500ms late":                  {Stall: admin.Timing{MostMillis: 500}},
		"50ms on average":                       {Stall: admin.Timing{MeanMillis: 50, MostMillis: 80}},
		"its disk is slow":                      {Sync: admin.Timing{MeanMillis: 100}},
		"it is too slow to lead":                {Slow: true},
		"applies the log too slowly":            {ApplyLagMillis: 1000},
		"7 lines of its log were dropped":       {LogDropped: 7},
		"writes through it are slow":            {Write: admin.Timing{MeanMillis: 1000}},
		"3 writes were rejected here in the last minute, disk_full: full": {Rejected: []admin.Rejected{{Code: "disk_full", Count: 3, Reason: "full"}}},
	} {
		got := h.Warnings(&c)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%+v: warnings %q, want %q", c, got, want)
		}
	}
	h.disk.Store(&Disk{Free: 1 << 20, Size: 1 << 30, Reserve: 1 << 25, Low: true})
	if got := h.Warnings(&admin.Condition{}); len(got) != 1 || !strings.Contains(got[0], "nearly full: 1.0 MiB are free") {
		t.Errorf("a full disk: %q", got)
	}
	h = New(Config{Heartbeat: 500 * time.Millisecond, Unanswered: true})
	if got := h.Warnings(&admin.Condition{}); len(got) != 1 || !strings.Contains(got[0], "--operator-contact") {
		t.Errorf("nobody is named: %q", got)
	}
}

// TestSlowLogIsLogged: one slow write of the log leaves a line, whatever the average is.
func TestSlowLogIsLogged(t *testing.T) {
	var lines bytes.Buffer
	h := New(Config{Started: time.Now(), Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	h.Stored(slowOne - 1)
	if lines.Len() > 0 {
		t.Errorf("a write that was quick enough: %s", &lines)
	}
	h.Stored(slowOne)
	check.Contains(t, lines.String(), "took=1s", "the lines of a slow write")
}

// stallVariable makes the test's own binary the process that is stopped.
const stallVariable = "COMMONS_TEST_STALL"

// TestStallOfAStoppedProcess holds that a process that was stopped knows for how long.
func TestStallOfAStoppedProcess(t *testing.T) {
	if os.Getenv(stallVariable) != "" {
		h := New(Config{Started: time.Now(), Logger: slog.New(slog.DiscardHandler)})
		go h.watchStalls(context.Background())
		for line := make([]byte, 1); ; { // each byte asks for the measurement
			if _, err := os.Stdin.Read(line); err != nil {
				os.Exit(0)
			}
			fmt.Printf("stalled %.0f %d\n", h.stalls.timing(h.sinceStart()).MostMillis, h.stalls.timing(h.sinceStart()).Count)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStallOfAStoppedProcess$")
	cmd.Env = append(slices.Clone(os.Environ()), stallVariable+"=1")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer func() {
		_ = in.Close()
		check.Err(t, cmd.Wait(), nil, "wait")
	}()
	// ask returns the longest stall in milliseconds, and how many ticks there were.
	ask := func() (most float64, ticks int) {
		must.Get(in.Write([]byte{1}))(t)
		must.Get(fmt.Fscanf(out, "stalled %f %d\n", &most, &ticks))(t)
		return most, ticks
	}
	waitFor := func(what string, done func(most float64, ticks int) bool) {
		for deadline := time.Now().Add(time.Minute); ; {
			most, ticks := ask()
			if done(most, ticks) {
				return
			}
			must.Equal(t, time.Now().After(deadline), false, "%s: longest stall %.0f ms in %d ticks", what, most, ticks)
			<-time.After(stallInterval)
		}
	}
	waitFor("it measures", func(_ float64, ticks int) bool { return ticks >= 2 })
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	const stopped = 1500 * time.Millisecond // the fault itself: at least as long is measured
	<-time.After(stopped)
	must.Do(t, cmd.Process.Signal(syscall.SIGCONT))
	waitFor("it was stopped", func(most float64, _ int) bool { return most >= millis(stopped-2*stallInterval) })
}
