package node

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
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

// snapshotStreams is a snapshot store that knows whether a snapshot is on its way
// to a follower.
type snapshotStreams struct {
	raft.SnapshotStore

	mu   sync.Mutex
	open int
	sent time.Time // when the last one was sent to its end
}

// Open opens a snapshot for sending.
func (s *snapshotStreams) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
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
func (s *snapshotStreams) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || time.Since(s.sent) < streamHold
}

// openStream is a snapshot on its way, or an attempt at it: Raft opens one before
// it knows whether the follower can be reached.
type openStream struct {
	io.ReadCloser
	of   *snapshotStreams
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

// takeSnapshots takes a snapshot, and so truncates the log, whenever enough log
// has come together. Raft itself counts entries, which differ a thousandfold in
// size, so it is kept from doing this.
func (n *Node) takeSnapshots(ctx context.Context) {
	tick := time.NewTicker(snapshotCheck)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.log.BytesSince(n.lastSnapshot()) < n.cfg.Tuning.SnapshotBytes {
			continue
		}
		if err := n.takeSnapshot(); ctx.Err() == nil {
			failing = n.tellSnapshot(ctx, failing, err)
		}
	}
}

// tellSnapshot says once that snapshots fail, and once that they do not any more.
func (n *Node) tellSnapshot(ctx context.Context, was bool, err error) (failing bool) {
	switch {
	case err != nil && !was:
		n.logger.WarnContext(ctx, "no snapshot could be taken, and the log grows; it is tried again until one is", "error", err)
	case err == nil && was:
		n.logger.InfoContext(ctx, "snapshots are taken again")
	}
	return err != nil
}

// lastSnapshot returns the index of this node's newest snapshot, 0 when there is none.
func (n *Node) lastSnapshot() uint64 { return lastSnapshot(n.streams) }

// lastSnapshot returns the index of the newest snapshot in a store, 0 when there is none.
func lastSnapshot(store raft.SnapshotStore) uint64 {
	list, err := store.List()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[0].Index
}

// held returns how many bytes of the log may be kept for a follower: as many as
// the disk has above its reserve, within bounds.
func (n *Node) held() int64 {
	free, _, err := n.diskSpace()
	if err != nil {
		return 0
	}
	reserved := uint64(0)
	if d := n.disk.Load(); d != nil {
		reserved = d.reserve
	}
	return int64(min(free-min(free, reserved), heldBytes)) //nolint:gosec // heldBytes at most
}

func (n *Node) takeSnapshot() error {
	trailing := n.cfg.Tuning.TrailingBytes
	if n.streams.busy() {
		trailing = max(trailing, n.held())
	}
	err := n.reloadRaft(func(c *raft.ReloadableConfig) { c.TrailingLogs = n.log.Trailing(trailing) })
	if err != nil {
		return err
	}
	err = n.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
