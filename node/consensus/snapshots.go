package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/loop"
)

const (
	snapshotCheck = 500 * time.Millisecond // how often the size of the log is looked at
	streamHold    = 30 * time.Second       // how long the log is kept for a follower after it received a snapshot
	heldBytes     = 1 << 30                // of the log for such followers; the free disk space bounds it, too
)

// Snapshots is a snapshot store that knows whether a snapshot is on its way to a follower.
type Snapshots struct {
	raft.SnapshotStore

	mu     sync.Mutex
	open   int
	sent   time.Time // when the last one was sent to its end
	broken int       // how often those under way were broken off
}

// Open opens a snapshot for sending.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.open++
	broken := s.broken
	s.mu.Unlock()
	return meta, &openStream{ReadCloser: r, of: s, broken: broken}, nil
}

// Busy reports whether a snapshot is on its way to a follower.
func (s *Snapshots) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

// Break ends the running streams: Raft sends new snapshots instead.
func (s *Snapshots) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken++
}

var errBroken = errors.New("broken off: a purge waits for the end of what was sent before it")

// busy reports whether a follower receives a snapshot, or did a moment ago.
func (s *Snapshots) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || time.Since(s.sent) < streamHold
}

// openStream is a snapshot on its way, or an attempt at it: Raft opens one before
// it tries to reach the follower.
type openStream struct {
	io.ReadCloser
	of     *Snapshots
	broken int  // of.broken when it was opened
	all    bool // was read
	once   sync.Once
}

func (o *openStream) Read(p []byte) (int, error) {
	o.of.mu.Lock()
	broken := o.of.broken != o.broken
	o.of.mu.Unlock()
	if broken {
		return 0, errBroken
	}
	n, err := o.ReadCloser.Read(p)
	o.all = o.all || errors.Is(err, io.EOF)
	return n, err
}

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

// TakeSnapshots takes a snapshot, and so truncates the log, whenever the log has grown
// enough, until ctx ends. Raft's own trigger is off: it counts entries, which differ a
// thousandfold in size. room returns how many bytes of the disk are free above its
// reserve.
func (r *Raft) TakeSnapshots(ctx context.Context, room func() uint64) {
	failing := false
	loop.Every(ctx, snapshotCheck, func(ctx context.Context) {
		if err := r.exclusively(ctx, func() error { return r.takeSnapshot(room) }); ctx.Err() == nil {
			failing = reportSnapshot(ctx, r.cfg.Logger, failing, err)
		}
	})
}

// LogBytes returns how many bytes of log came after the newest snapshot.
func (r *Raft) LogBytes() int64 { return r.cfg.Log.BytesSince(LastSnapshot(r.cfg.Snapshots)) }

// takeSnapshot takes a snapshot if the log has grown enough.
func (r *Raft) takeSnapshot(room func() uint64) error {
	if r.LogBytes() < r.cfg.SnapshotBytes {
		return nil
	}
	trailing := r.cfg.TrailingBytes
	if r.cfg.Snapshots.busy() {
		trailing = max(trailing, held(room()))
	}
	return r.snapshot(r.cfg.Log.Trailing(trailing))
}

// exclusively calls take while no other snapshot is taken or received.
func (r *Raft) exclusively(ctx context.Context, take func() error) error {
	select {
	case r.transport.snapshotting <- struct{}{}:
		defer func() { <-r.transport.snapshotting }()
		return take()
	case <-r.transport.end:
		return raft.ErrRaftShutdown
	case <-ctx.Done():
		return ctx.Err()
	}
}

// snapshot takes a snapshot, unless no entry was applied since the start, and keeps a number of
// entries of the log.
func (r *Raft) snapshot(trailing uint64) error {
	if err := r.Reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing }); err != nil {
		return err
	}
	err := r.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// held returns how many bytes of the log may be kept for a follower: the free space
// above the reserve, up to heldBytes.
func held(room uint64) int64 {
	return int64(min(room, heldBytes)) //nolint:gosec // heldBytes at most
}

func reportSnapshot(ctx context.Context, logger *slog.Logger, was bool, err error) (failing bool) {
	switch {
	case err != nil && !was:
		logger.WarnContext(ctx, "no snapshot could be taken, and the log grows; it is tried again until one is", "error", err)
	case err == nil && was:
		logger.InfoContext(ctx, "snapshots are taken again")
	}
	return err != nil
}

// LastSnapshot returns the index of the newest snapshot in a store, 0 if the store is empty.
func LastSnapshot(store raft.SnapshotStore) uint64 {
	list, err := store.List()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[0].Index
}

// cutTrailingBytes bounds the log that is kept when it is cut for a purge. That part is
// copied into a new file while writes wait.
const cutTrailingBytes = 4 << 20

// CutLog removes the log up to an applied index, from all pages of its file, too. A
// follower that has less of the log is sent the state.
func (r *Raft) CutLog(ctx context.Context, index uint64) error {
	return r.exclusively(ctx, func() error {
		if err := r.snapshot(min(r.LastIndex()-index, r.cfg.Log.Trailing(cutTrailingBytes))); err != nil {
			return fmt.Errorf("a snapshot, to cut the log: %w", err)
		}
		// Raft truncates the log only with a new snapshot, and that needs an entry that was
		// applied since the start. The log may have entries that the newest snapshot covers.
		if err := r.cfg.Log.DeleteRange(0, min(index, LastSnapshot(r.cfg.Snapshots))); err != nil {
			return fmt.Errorf("cut the log: %w", err)
		}
		return r.cfg.Log.Rewrite(index)
	})
}
