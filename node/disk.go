package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// diskInterval is how often the free space is looked at.
	diskInterval = time.Second
	// diskResume is the part of the reserve that has to be free above it before a
	// disk no longer counts as low: 1/8.
	diskResume = 8
	// freeStep is how exactly gossip tells the free space, in MiB: every change
	// is a message to all.
	freeStep = 64
)

// diskState is what was last seen of the data directory's disk, in bytes.
type diskState struct {
	free, size, reserve uint64
	low                 bool
}

// look returns the state after a look at the disk. A disk that is low stays so
// until there is clearly more than the reserve.
func (d diskState) look(free, size uint64, keep reserve) diskState {
	next := diskState{free: free, size: size, reserve: keep.of(size)}
	next.low = free < next.reserve || d.low && free < next.reserve+next.reserve/diskResume
	return next
}

// freeMiB is the free space as gossip tells it; 0 is unknown.
func (d diskState) freeMiB() uint64 {
	mib := d.free >> 20
	return max(1, mib-mib%freeStep)
}

// watchDisk keeps an eye on the free space of this node's disk, and on those of
// the other voters.
func (n *Node) watchDisk(ctx context.Context) {
	keep, err := parseReserve(n.cfg.DiskReserve)
	if err != nil || keep == (reserve{}) {
		return // turned off; a value that cannot be read is refused at the start
	}
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	failing := false
	for {
		free, size, err := n.diskSpace()
		switch {
		case err == nil:
			n.sawDisk(ctx, free, size, keep)
		case !failing:
			n.logger.WarnContext(ctx, "the free space of the disk is not known", "error", err)
		}
		failing = err != nil
		n.weighDisks(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *Node) diskSpace() (free, size uint64, err error) {
	if hook := n.cfg.Tuning.DiskSpace; hook != nil {
		return hook()
	}
	return n.machine.DiskSpace()
}

func (n *Node) sawDisk(ctx context.Context, free, size uint64, keep reserve) {
	var was diskState
	if d := n.disk.Load(); d != nil {
		was = *d
	}
	now := was.look(free, size, keep)
	n.disk.Store(&now)
	switch {
	case now.low && !was.low:
		n.logger.WarnContext(ctx, "the disk is nearly full; this node leads only while nobody else can, and writes stop when too few voters have space",
			"free", formatBytes(now.free), "reserve", formatBytes(now.reserve), "data", n.cfg.DataDir)
	case was.low && !now.low:
		n.logger.InfoContext(ctx, "the disk has enough free space again", "free", formatBytes(now.free), "reserve", formatBytes(now.reserve))
	}
}

// weighDisks stops writes while fewer than a majority of the voters has space.
func (n *Node) weighDisks(ctx context.Context) {
	voters, room := n.raft.Voters(), 0
	var low []string
	for _, id := range voters {
		switch m, alive := n.gossip.Member(id); {
		case !alive: // says nothing
		case m.DiskLow:
			low = append(low, m.NodeName)
		default:
			room++
		}
	}
	if len(low) == 0 || room > len(voters)/2 {
		if n.diskFull.Swap(nil) != nil {
			n.logger.InfoContext(ctx, "writes are taken again: a majority of the disks has space")
		}
		return
	}
	stop := &command.Unavailable{
		Code:   command.CodeDiskFull,
		Reason: "the disks are nearly full (" + strings.Join(low, ", ") + "); reads go on, and writes as soon as the operator has made space",
	}
	if n.diskFull.Swap(stop) == nil {
		n.logger.WarnContext(ctx, "writes are refused: too few disks have space", "low", strings.Join(low, ","), "voters", len(voters))
	}
}

// room returns how many bytes of the disk are free above its reserve; 0 where that is
// not known.
func (n *Node) room() uint64 {
	free, _, err := n.diskSpace()
	if err != nil {
		return 0
	}
	reserved := uint64(0)
	if d := n.disk.Load(); d != nil {
		reserved = d.reserve
	}
	return free - min(free, reserved)
}

// diskCheck is the line of /readyz. It never keeps a node from serving: reads go
// on, and the cluster decides about writes.
func (n *Node) diskCheck() api.Check {
	c := api.Check{Name: "disk", OK: true, Detail: "not watched"}
	if d := n.disk.Load(); d != nil {
		c.Detail = formatBytes(d.free) + " free"
		if d.low {
			c.Detail += ", nearly full: less than the reserve of " + formatBytes(d.reserve)
		}
	}
	if stop := n.diskFull.Load(); stop != nil {
		c.Detail += "; writes are refused: " + stop.Reason
	}
	return c
}

// reserve is how much of a disk is to stay free: bytes, or a part of it.
type reserve struct {
	bytes   uint64
	percent uint64
}

// of returns the reserve of a disk, in bytes.
func (r reserve) of(size uint64) uint64 { return r.bytes + size/100*r.percent }

// units of --disk-reserve.
var units = []struct {
	suffix string
	bytes  uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// maxReservePercent leaves room to serve.
const maxReservePercent = 90

// parseReserve reads a size such as 256MiB, or a part such as 5%. Nothing, or 0,
// is no reserve.
func parseReserve(s string) (reserve, error) {
	if s == "" || s == "0" {
		return reserve{}, nil
	}
	if number, isPercent := strings.CutSuffix(s, "%"); isPercent {
		percent, err := strconv.ParseUint(number, 10, 8)
		if err != nil || percent > maxReservePercent {
			return reserve{}, fmt.Errorf("is no whole percentage up to %d", maxReservePercent)
		}
		return reserve{percent: percent}, nil
	}
	for _, u := range units {
		if number, is := strings.CutSuffix(s, u.suffix); is {
			n, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				break
			}
			return reserve{bytes: n * u.bytes}, nil
		}
	}
	return reserve{}, errors.New("is no size")
}

// formatBytes writes a size for a person.
func formatBytes(n uint64) string {
	for _, u := range slices.Backward(units) {
		if n >= u.bytes {
			return strconv.FormatFloat(float64(n)/float64(u.bytes), 'f', 1, 64) + " " + u.suffix
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}
