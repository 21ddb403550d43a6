package node

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

// condition is what a node has measured of itself.
type condition struct {
	syncs   recent // writes of the log, through to the disk
	writes  recent // of clients, from when they came to their answer
	stalls  recent // by how much it was late when it wanted to run
	refused refusals
}

// sinceStart is the instant for what is measured.
func (n *Node) sinceStart() time.Duration { return time.Since(n.started) }

// noteWrite counts a client's write that began at an instant and ended now.
func (n *Node) noteWrite(begun time.Duration, err error) {
	at := n.sinceStart()
	if err == nil {
		n.condition.writes.add(at, at-begun)
		return
	}
	if why, ok := errors.AsType[*command.Unavailable](err); ok {
		n.condition.refused.add(at, why)
		n.refusedWrites.WithLabelValues(string(why.Code)).Inc()
	}
}

// watchStalls measures how late this node runs when it wants to: a process that is
// not given the processor, or was stopped, sends its heartbeats just as late.
func (n *Node) watchStalls(ctx context.Context) {
	tick := time.NewTimer(stallInterval)
	defer tick.Stop()
	for {
		due := n.sinceStart() + stallInterval
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at := n.sinceStart()
		n.condition.stalls.add(at, max(at-due, 0))
		tick.Reset(stallInterval)
	}
}

// clockOffset returns how far this node's clock is ahead of the voters' median, and
// of how many clocks that is, its own included.
func (n *Node) clockOffset() (ahead time.Duration, clocks int) {
	return aheadOfMedian(n.pipeline.Clocks().Offsets())
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

// measured is the node's condition as operators are shown it.
func (n *Node) measured() admin.Condition {
	at := n.sinceStart()
	ahead, clocks := n.clockOffset()
	commit := n.raft.CommitIndex()
	c := admin.Condition{
		ClockAheadMillis: millis(ahead), Clocks: clocks,
		ApplyLag: commit - min(n.machine.Applied(), commit), ApplyLagMillis: millis(n.lag()),
		Sync: n.condition.syncs.timing(at), Write: n.condition.writes.timing(at), Stall: n.condition.stalls.timing(at),
		Refused: n.condition.refused.list(at),
	}
	if why := n.refusal(); why != nil {
		c.Refuses = why.Error()
	}
	return c
}

// warnings says in words what is not well in a condition, though it keeps nobody
// from being served.
func (n *Node) warnings(c *admin.Condition) []string {
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
	warn(c.Stall.MostMillis >= millis(n.cfg.Heartbeat) || c.Stall.MeanMillis >= millis(slowStall),
		"it is not given the processor in time: in the last minute it ran up to %v late, %v on average; its machine is too busy, its share too small, or it was stopped",
		fromMillis(c.Stall.MostMillis), fromMillis(c.Stall.MeanMillis))
	warn(c.Sync.MeanMillis >= millis(slowSync),
		"its disk is slow: in the last minute a write of the log took %v on average, up to %v", fromMillis(c.Sync.MeanMillis), fromMillis(c.Sync.MostMillis))
	warn(c.ApplyLagMillis >= millis(slowApply),
		"it applies the log too slowly: for %v it has lacked what the leader has applied", fromMillis(c.ApplyLagMillis))
	warn(c.Write.MeanMillis >= millis(slowWrite),
		"writes through it are slow: in the last minute they took %v on average, up to %v", fromMillis(c.Write.MeanMillis), fromMillis(c.Write.MostMillis))
	if d := n.disk.Load(); d != nil && d.low {
		list = append(list, fmt.Sprintf("its disk is nearly full: %s are free, %s are reserved", formatBytes(d.free), formatBytes(d.reserve)))
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
