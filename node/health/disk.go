package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	diskInterval = time.Second // how often the free space is checked
	// diskResume: a disk no longer counts as low when 1/8 of the reserve is free above it.
	diskResume = 8
)

// Disk is the last measurement of the data directory's disk, in bytes.
type Disk struct {
	Free, Size, Reserve uint64
	Low                 bool // less than the reserve is free
}

// measured returns the state after a measurement. A low disk stays low until clearly more
// than the reserve is free.
func (d Disk) measured(free, size uint64, keep Reserve) Disk {
	next := Disk{Free: free, Size: size, Reserve: keep.of(size)}
	next.Low = free < next.Reserve || d.Low && free < next.Reserve+next.Reserve/diskResume
	return next
}

// DiskLow reports whether less than the reserve of the disk is free.
func (h *Health) DiskLow() bool { return h.lastDisk().Low }

// lastDisk returns the last measurement, or zero before the first.
func (h *Health) lastDisk() Disk { return *h.disk.Load() }

// watchDisk watches the free space of this node's disk and of the other voters' disks.
func (h *Health) watchDisk(ctx context.Context) {
	keep, err := ParseReserve(h.cfg.Reserve)
	if err != nil || keep == (Reserve{}) {
		return // turned off; a value that cannot be read is rejected at the start
	}
	failing := false
	loop.Every(ctx, diskInterval, func(ctx context.Context) {
		free, size, err := h.diskSpace()
		switch {
		case err == nil:
			h.sawDisk(ctx, free, size, keep)
		case !failing:
			h.cfg.Logger.WarnContext(ctx, "the free space of the disk is not known", "error", err)
		}
		failing = err != nil
		h.weighDisks(ctx)
	})
}

func (h *Health) diskSpace() (free, size uint64, err error) {
	if hook := h.cfg.DiskSpace; hook != nil {
		return hook()
	}
	return h.src.Machine.DiskSpace()
}

func (h *Health) sawDisk(ctx context.Context, free, size uint64, keep Reserve) {
	was := h.lastDisk()
	now := was.measured(free, size, keep)
	h.disk.Store(&now)
	switch {
	case now.Low && !was.Low:
		h.cfg.Logger.WarnContext(ctx, "the disk is nearly full; this node leads only while nobody else can, and writes stop when too few voters have space",
			"free", admin.BytesText(now.Free), "reserve", admin.BytesText(now.Reserve), "data", h.cfg.DataDir)
	case was.Low && !now.Low:
		h.cfg.Logger.InfoContext(ctx, "the disk has enough free space again", "free", admin.BytesText(now.Free), "reserve", admin.BytesText(now.Reserve))
	}
}

// weighDisks stops writes while less than a majority of the voters has space.
func (h *Health) weighDisks(ctx context.Context) {
	voters, room := h.src.Raft.Voters(), 0
	var low []string
	for _, id := range voters {
		switch m, alive := h.src.Gossip.Member(id); {
		case !alive: // its disk is not known
		case m.DiskLow:
			low = append(low, m.NodeName)
		default:
			room++
		}
	}
	if len(low) == 0 || room > len(voters)/2 {
		if h.diskFull.Swap(nil) != nil {
			h.cfg.Logger.InfoContext(ctx, "writes are taken again: a majority of the disks has space")
		}
		return
	}
	stop := &command.Unavailable{
		Code:   command.CodeDiskFull,
		Reason: "too few disks have space; reads go on, and writes as soon as the operator has made some",
	}
	if h.diskFull.Swap(stop) == nil {
		h.cfg.Logger.WarnContext(ctx, "writes are rejected: too few disks have space", "low", strings.Join(low, ","), "voters", len(voters))
	}
}

// Room returns the bytes of the disk that are free above its reserve. It returns 0 if the
// free space is not known.
func (h *Health) Room() uint64 {
	free, _, err := h.diskSpace()
	if err != nil {
		return 0
	}
	return free - min(free, h.lastDisk().Reserve)
}

// CheckReserve measures this node's disk and returns an error if less than its reserve is free.
func (h *Health) CheckReserve() error {
	keep, err := ParseReserve(h.cfg.Reserve)
	if err != nil || keep == (Reserve{}) {
		return err // a value that cannot be read is rejected at the start
	}
	if free, size, err := h.diskSpace(); err == nil {
		if now := h.lastDisk().measured(free, size, keep); now.Low {
			return fmt.Errorf("the leader's disk is nearly full: %s of %s are free, and %s are reserved; make room in %s, or have a node with more room lead",
				admin.BytesText(free), admin.BytesText(size), admin.BytesText(now.Reserve), h.cfg.DataDir)
		}
	}
	return nil
}

// diskCheck never fails: reads go on with a full disk, and the cluster decides about writes.
func (h *Health) diskCheck() Check {
	c := Check{Name: "disk", OK: true, Detail: "writes are taken"}
	if h.diskFull.Load() != nil {
		c.Detail = "writes are rejected: too few disks have space"
	}
	return c
}

// Reserve is the space of a disk that must stay free: bytes, or a percentage of its size.
type Reserve struct {
	bytes   uint64
	percent uint64
}

func (r Reserve) of(size uint64) uint64 { return r.bytes + size/100*r.percent }

// maxReservePercent leaves room to serve.
const maxReservePercent = 90

// ParseReserve parses a size such as 256MiB, or a percentage such as 5%. "" and 0 mean
// no reserve.
func ParseReserve(s string) (Reserve, error) {
	if s == "" || s == "0" {
		return Reserve{}, nil
	}
	if number, isPercent := strings.CutSuffix(s, "%"); isPercent {
		percent, err := strconv.ParseUint(number, 10, 8)
		if err != nil || percent > maxReservePercent {
			return Reserve{}, fmt.Errorf("is no whole percentage up to %d", maxReservePercent)
		}
		return Reserve{percent: percent}, nil
	}
	n, err := admin.ParseBytes(s, math.MaxUint64)
	if err != nil || !strings.HasSuffix(s, "B") {
		return Reserve{}, errors.New("is no size")
	}
	return Reserve{bytes: n}, nil
}

const (
	minDescriptors = 256 // the lowest limit of open files and connections with which a node can run
	// reservedDescriptors are kept, if the limit allows it, for everything but clients'
	// connections: the files of two states while a snapshot is received, the log, the
	// private port, gossip, and receivers.
	reservedDescriptors = 2*fsm.DefaultMaxOpenFiles + otherDescriptors
	// otherDescriptors are those of the reserve that are not for the files of states; of a
	// small reserve it is a third.
	otherDescriptors = 560
)

// Descriptors is the division of the files and connections that the process may open.
// Above the limit every open fails, also of the log and the state.
type Descriptors struct {
	limit       int
	Connections int // of clients
	StateFiles  int
}

// divide divides a limit: half of a small one is for what keeps the node alive, and
// all that is not reserved of a large one is for clients.
func divide(limit uint64, maxClients int) (Descriptors, error) {
	if limit < minDescriptors {
		return Descriptors{}, fmt.Errorf("this process may open %d files and connections, a node needs %d; raise the limit with `ulimit -n`, LimitNOFILE of systemd, or nofile of the container engine",
			limit, minDescriptors)
	}
	total := int(min(limit, uint64(maxClients+reservedDescriptors))) // more is of no use
	reserved := min(total/2, reservedDescriptors)
	others := min(reserved/3, otherDescriptors)
	return Descriptors{total, total - reserved, min((reserved-others)/2, fsm.DefaultMaxOpenFiles)}, nil
}

// CountDescriptors divides the limit of this process, which Go has raised to the hard one;
// maxClients is the maximum for clients' connections.
func CountDescriptors(maxClients int, logger *slog.Logger) (Descriptors, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return Descriptors{}, fmt.Errorf("reading the limit of open files: %w", err)
	}
	d, err := divide(limit.Cur, maxClients)
	if err != nil {
		return d, err
	}
	logger.Info("open files and connections", "limit", limit.Cur, "clients", d.Connections, "state", d.StateFiles, "others", d.limit-d.Connections-d.StateFiles)
	return d, nil
}
