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
	// diskInterval is how often the free space is looked at.
	diskInterval = time.Second
	// diskResume is the part of the reserve that has to be free above it before a
	// disk no longer counts as low: 1/8.
	diskResume = 8
	// freeStep is how exactly gossip gives the free space, in MiB: every change
	// is a message to all.
	freeStep = 64
)

// Disk is what was last seen of the data directory's disk, in bytes.
type Disk struct {
	Free, Size, Reserve uint64
	Low                 bool // less than the reserve is free
}

// look returns the state after a look at the disk. A disk that is low stays so
// until there is clearly more than the reserve.
func (d Disk) look(free, size uint64, keep Reserve) Disk {
	next := Disk{Free: free, Size: size, Reserve: keep.of(size)}
	next.Low = free < next.Reserve || d.Low && free < next.Reserve+next.Reserve/diskResume
	return next
}

// FreeMiB is the free space as gossip gives it; 0 is unknown.
func (d Disk) FreeMiB() uint64 {
	mib := d.Free >> 20
	return max(1, mib-mib%freeStep)
}

// Disk returns what was last seen of the disk; nil while it is not watched.
func (h *Health) Disk() *Disk { return h.disk.Load() }

// watchDisk keeps an eye on the free space of this node's disk, and on those of
// the other voters.
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
	var was Disk
	if d := h.disk.Load(); d != nil {
		was = *d
	}
	now := was.look(free, size, keep)
	h.disk.Store(&now)
	switch {
	case now.Low && !was.Low:
		h.cfg.Logger.WarnContext(ctx, "the disk is nearly full; this node leads only while nobody else can, and writes stop when too few voters have space",
			"free", admin.BytesText(now.Free), "reserve", admin.BytesText(now.Reserve), "data", h.cfg.DataDir)
	case was.Low && !now.Low:
		h.cfg.Logger.InfoContext(ctx, "the disk has enough free space again", "free", admin.BytesText(now.Free), "reserve", admin.BytesText(now.Reserve))
	}
}

// weighDisks stops writes while fewer than a majority of the voters has space.
func (h *Health) weighDisks(ctx context.Context) {
	voters, room := h.src.Raft.Voters(), 0
	var low []string
	for _, id := range voters {
		switch m, alive := h.src.Gossip.Member(id); {
		case !alive: // says nothing
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

// Room returns how many bytes of the disk are free above its reserve; 0 where that is
// not known.
func (h *Health) Room() uint64 {
	free, _, err := h.diskSpace()
	if err != nil {
		return 0
	}
	reserved := uint64(0)
	if d := h.disk.Load(); d != nil {
		reserved = d.Reserve
	}
	return free - min(free, reserved)
}

// diskCheck is the line of /readyz. It never keeps a node from serving: reads go
// on, and the cluster decides about writes.
func (h *Health) diskCheck() Check {
	c := Check{Name: "disk", OK: true, Detail: "writes are taken"}
	if h.diskFull.Load() != nil {
		c.Detail = "writes are rejected: too few disks have space"
	}
	return c
}

// Reserve is how much of a disk is to stay free: bytes, or a part of it.
type Reserve struct {
	bytes   uint64
	percent uint64
}

// of returns the reserve of a disk, in bytes.
func (r Reserve) of(size uint64) uint64 { return r.bytes + size/100*r.percent }

// maxReservePercent leaves room to serve.
const maxReservePercent = 90

// ParseReserve reads a size such as 256MiB, or a part such as 5%. Nothing, or 0,
// is no reserve.
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
	// minDescriptors is how many files and connections a process has to be allowed
	// for a node to run in it.
	minDescriptors = 256
	// reservedDescriptors are kept for what is not a client's connection, where
	// the limit allows it: the files of two states while a snapshot is received,
	// the log, the private port, gossip, and receivers.
	reservedDescriptors = 2*fsm.DefaultMaxOpenFiles + otherDescriptors
	// otherDescriptors are those that are not for the files of states: of a small
	// reserve a third.
	otherDescriptors = 560
)

// Descriptors says how the files and connections that the process may open are
// divided. Whatever opens one above the limit fails, also the log and the state.
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

// CountDescriptors divides the limit of this process; maxClients is how many connections
// of clients are of use. Go has raised it to the hard one
// when the process began.
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
