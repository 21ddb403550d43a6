package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/propose"
)

// What is slow enough to be shown to operators.
const (
	// slowSync is what writing the log may take on average: every write of the
	// cluster waits for it.
	slowSync = 100 * time.Millisecond
	// slowWrite is what a client's write may take on average.
	slowWrite = time.Second
	// slowApply is for how long a node may lack what the leader has applied.
	slowApply = time.Second

	// stallInterval is how often a node looks whether it is given the processor.
	stallInterval = 100 * time.Millisecond
	// slowStall is how late that may be on average.
	slowStall = stallInterval / 2
)

// sinceStart is the instant for what is measured.
func (h *Health) sinceStart() time.Duration { return time.Since(h.cfg.Started) }

// NoteWrite counts a client's write that began at an instant and ended now.
func (h *Health) NoteWrite(begun time.Time, err error) {
	at := h.sinceStart()
	if err == nil {
		h.writes.add(at, time.Since(begun))
		return
	}
	if why, ok := errors.AsType[*command.Unavailable](err); ok {
		h.refused.add(at, why)
		h.refusedWrites.WithLabelValues(string(why.Code)).Inc()
	}
}

// watchStalls measures how late this node runs when it wants to: a process that is
// not given the processor, or was stopped, sends its heartbeats just as late.
func (h *Health) watchStalls(ctx context.Context) {
	tick := time.NewTimer(stallInterval)
	defer tick.Stop()
	for {
		due := h.sinceStart() + stallInterval
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at := h.sinceStart()
		h.stalls.add(at, max(at-due, 0))
		tick.Reset(stallInterval)
	}
}

// clockOffset returns how far this node's clock is ahead of the voters' median, and
// of how many clocks that is, its own included.
func (h *Health) clockOffset() (ahead time.Duration, clocks int) {
	return aheadOfMedian(h.src.Pipeline.Clocks().Offsets())
}

// aheadOfMedian works that out of the others' offsets from this node's clock. Two
// clocks alone are equally far off their median: nobody knows which of them is right.
func aheadOfMedian(others map[string]time.Duration) (ahead time.Duration, clocks int) {
	offsets := slices.AppendSeq([]time.Duration{0}, maps.Values(others))
	slices.Sort(offsets)
	middle := len(offsets) / 2
	median := offsets[middle]
	if len(offsets)%2 == 0 {
		median = (median + offsets[middle-1]) / 2
	}
	return -median, len(offsets)
}

// Condition is the node's condition as operators are shown it.
func (h *Health) Condition() admin.Condition {
	at := h.sinceStart()
	ahead, clocks := h.clockOffset()
	commit := h.src.Raft.CommitIndex()
	c := admin.Condition{
		ClockAheadMillis: millis(ahead), Clocks: clocks,
		ApplyLag: commit - min(h.src.Machine.Applied(), commit), ApplyLagMillis: millis(h.lag()),
		Sync: h.syncs.timing(at), Write: h.writes.timing(at), Stall: h.stalls.timing(at),
		Refused: h.refused.list(at),
	}
	if why := h.Refusal(); why != nil {
		c.Refuses = why.Error()
	}
	return c
}

// Warnings says in words what is not well in a condition, though it keeps nobody
// from being served.
func (h *Health) Warnings(c *admin.Condition) []string {
	list := []string{}
	warn := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	for _, r := range c.Refused {
		list = append(list, fmt.Sprintf("%d writes were refused here in the last minute, %s: %s", r.Count, r.Code, r.Reason))
	}
	warn(max(c.ClockAheadMillis, -c.ClockAheadMillis) > millis(propose.MaxClockSkew),
		"its clock is %s the median of %d clocks; look at the time service of its machine", aheadText(c.ClockAheadMillis), c.Clocks)
	warn(c.Stall.MostMillis >= millis(h.cfg.Heartbeat) || c.Stall.MeanMillis >= millis(slowStall),
		"it is not given the processor in time: in the last minute it ran up to %v late, %v on average; its machine is too busy, its share too small, or it was stopped",
		fromMillis(c.Stall.MostMillis), fromMillis(c.Stall.MeanMillis))
	warn(c.Sync.MeanMillis >= millis(slowSync),
		"its disk is slow: in the last minute a write of the log took %v on average, up to %v", fromMillis(c.Sync.MeanMillis), fromMillis(c.Sync.MostMillis))
	warn(c.ApplyLagMillis >= millis(slowApply),
		"it applies the log too slowly: for %v it has lacked what the leader has applied", fromMillis(c.ApplyLagMillis))
	warn(c.Write.MeanMillis >= millis(slowWrite),
		"writes through it are slow: in the last minute they took %v on average, up to %v", fromMillis(c.Write.MeanMillis), fromMillis(c.Write.MostMillis))
	if d := h.disk.Load(); d != nil && d.Low {
		list = append(list, fmt.Sprintf("its disk is nearly full: %s are free, %s are reserved", formatBytes(d.Free), formatBytes(d.Reserve)))
	}
	return list
}

// aheadText says how far a clock is off.
func aheadText(ms float64) string {
	if ms < 0 {
		return fmt.Sprintf("%v behind", fromMillis(-ms))
	}
	return fmt.Sprintf("%v ahead of", fromMillis(ms))
}
