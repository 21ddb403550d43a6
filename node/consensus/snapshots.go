package consensus

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/loop"
)

const (
	// snapshotCheck is how often the size of the log is looked at.
	snapshotCheck = 500 * time.Millisecond
	// streamHold is how long after a snapshot was sent the log is kept for the
	// follower that received it.
	streamHold = 30 * time.Second
	// heldBytes bounds the log that is kept for such followers, as does the disk.
	heldBytes = 1 << 30
)

// Snapshots is a snapshot store that knows whether a snapshot is on its way
// to a follower.
type Snapshots struct {
	raft.SnapshotStore

	mu   sync.Mutex
	open int
	sent time.Time // when the last one was sent to its end
}

// Open opens a snapshot for sending.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	return meta, &openStream{ReadCloser: r, of: s}, nil
}

// busy reports whether a follower receives a snapshot, or did a moment ago.
func (s *Snapshots) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || time.Since(s.sent) < streamHold
}

// openStream is a snapshot on its way, or an attempt at it: Raft opens one before
// it knows whether the follower can be reached.
type openStream struct {
	io.ReadCloser
	of   *Snapshots
	all  bool // was read
	once sync.Once
}

// Read reads on.
func (o *openStream) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.all = o.all || errors.Is(err, io.EOF)
	return n, err
}

// Close ends the sending.
func (o *openStream) Close() error {
	o.once.Do(func() {
		o.of.mu.Lock()
		defer o.of.mu.Unlock()
		o.of.open--
		if o.all {
			o.of.sent = time.Now()
		}
	})
	return o.ReadCloser.Close()
}

// TakeSnapshots takes a snapshot, and so truncates the log, whenever enough log
// has come together, until ctx ends. Raft itself counts entries, which differ a
// thousandfold in size, so it is kept from doing this. room returns how many bytes of
// the disk are free above its reserve.
func (r *Raft) TakeSnapshots(ctx context.Context, room func() uint64) {
	failing := false
	loop.Every(ctx, snapshotCheck, func(ctx context.Context) {
		if r.LogBytes() < r.cfg.SnapshotBytes {
			return
		}
		if err := r.takeSnapshot(room); ctx.Err() == nil {
			failing = reportSnapshot(ctx, r.cfg.Logger, failing, err)
		}
	})
}

// LogBytes returns how many bytes of log came after the newest snapshot.
func (r *Raft) LogBytes() int64 { return r.cfg.Log.BytesSince(LastSnapshot(r.cfg.Snapshots)) }

func (r *Raft) takeSnapshot(room func() uint64) error {
	trailing := r.cfg.TrailingBytes
	if r.cfg.Snapshots.busy() {
		trailing = max(trailing, held(room()))
	}
	err := r.Reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = r.cfg.Log.Trailing(trailing) })
	if err != nil {
		return err
	}
	err = r.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// held returns how many bytes of the log may be kept for a follower: as many as
// the disk has above its reserve, within bounds.
func held(room uint64) int64 {
	return int64(min(room, heldBytes)) //nolint:gosec // heldBytes at most
}

// reportSnapshot says once that snapshots fail, and once that they do not any more.
func reportSnapshot(ctx context.Context, logger *slog.Logger, was bool, err error) (failing bool) {
	switch {
	case err != nil && !was:
		logger.WarnContext(ctx, "no snapshot could be taken, and the log grows; it is tried again until one is", "error", err)
	case err == nil && was:
		logger.InfoContext(ctx, "snapshots are taken again")
	}
	return err != nil
}

// LastSnapshot returns the index of the newest snapshot in a store, 0 when there is none.
func LastSnapshot(store raft.SnapshotStore) uint64 {
	list, err := store.List()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[0].Index
}
