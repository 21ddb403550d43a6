package fsm

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

// errSinkClosed is the error of a sink that is used after its end.
var errSinkClosed = errors.New("snapshot sink is closed")

// snapshotSink takes a snapshot in. Raft uses one either for a snapshot of its
// own, which is persist and Close, or for the leader's, which is Write and
// Close. One goroutine uses it.
type snapshotSink struct {
	s      *snapshots
	meta   snapshotMeta
	number uint64

	taken bool           // persist was called
	pipe  *io.PipeWriter // to the unpacking goroutine; nil before the first Write
	done  chan unpacked
	ended bool
}

type unpacked struct {
	header *streamHeader
	err    error
}

// create begins a snapshot with the given position and configuration.
func (s *snapshots) create(meta snapshotMeta) *snapshotSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.number()
	meta.ID = snapshotID(meta.Index, meta.Term, n)
	return &snapshotSink{s: s, meta: meta, number: n}
}

// ID returns the snapshot's name.
func (k *snapshotSink) ID() string { return k.meta.ID }

// Write takes the next bytes of the leader's stream. They are unpacked as they
// come.
func (k *snapshotSink) Write(p []byte) (int, error) {
	if k.ended || k.taken {
		return 0, errSinkClosed
	}
	if k.pipe == nil {
		dir := k.s.path(k.incoming())
		if err := os.Mkdir(dir, 0o755); err != nil {
			return 0, fmt.Errorf("receive snapshot: %w", err)
		}
		r, w := io.Pipe()
		k.pipe, k.done = w, make(chan unpacked, 1)
		go func() {
			h, err := unpack(r, dir, k.admit)
			_ = r.CloseWithError(err) // it never fails; Write returns err from now on
			k.done <- unpacked{h, err}
		}()
	}
	n, err := k.pipe.Write(p)
	k.meta.Size += int64(n)
	return n, err
}

func (k *snapshotSink) incoming() string { return fmt.Sprintf("%s%010d", incomingPrefix, k.number) }

// admit refuses a stream that is not what Raft announced or does not fit.
func (k *snapshotSink) admit(h *streamHeader) error {
	if h.Index != k.meta.Index || h.Term != k.meta.Term {
		return fmt.Errorf("%w: the stream is of index %d and term %d, announced were %d and %d",
			ErrCorrupt, h.Index, h.Term, k.meta.Index, k.meta.Term)
	}
	return k.s.admitContent(h)
}

// Close completes the snapshot. After a received one the state waits for restore.
func (k *snapshotSink) Close() error {
	if k.ended {
		return nil
	}
	k.ended = true
	if k.taken {
		return k.s.keep(k.meta)
	}
	if k.pipe == nil {
		return errors.New("close snapshot: nothing was written")
	}
	_ = k.pipe.Close()
	result := <-k.done
	if result.err != nil {
		return errors.Join(result.err, os.RemoveAll(k.s.path(k.incoming())))
	}
	return k.s.receive(k)
}

// Cancel gives the snapshot up.
func (k *snapshotSink) Cancel() error {
	if k.ended {
		return nil
	}
	k.ended = true
	if k.pipe == nil {
		return nil
	}
	_ = k.pipe.CloseWithError(errors.New("cancelled"))
	<-k.done
	if err := os.RemoveAll(k.s.path(k.incoming())); err != nil {
		return fmt.Errorf("cancel snapshot: %w", err)
	}
	return nil
}

// persist makes st durable up to the sink's position. Everything up to there was
// applied before Raft made the sink.
func (k *snapshotSink) persist(st *store) error {
	if k.ended || k.pipe != nil {
		return errSinkClosed
	}
	p := position{index: k.meta.Index, term: k.meta.Term}
	// Pebble makes writes durable in order: with this row, all before it.
	if err := st.db.Set(keyCovered, p.append(nil), pebble.NoSync); err != nil {
		return fmt.Errorf("persist snapshot: %w", err)
	}
	if err := st.flush(); err != nil {
		return fmt.Errorf("persist snapshot: %w", err)
	}
	k.s.m.opts.failpoint(stepCovered)
	k.meta.Size = int64(st.db.Metrics().DiskSpaceUsage())
	k.taken = true
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if live := k.s.m.view.Load(); live == nil || live.store != st {
		return errors.New("persist snapshot: the state was replaced meanwhile")
	}
	return nil
}

// keep writes the metadata of a snapshot that was taken here.
func (s *snapshots) keep(meta snapshotMeta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(meta); err != nil {
		return err
	}
	s.m.opts.failpoint(stepPersisted)
	s.metas = append(s.metas, meta)
	sortMetas(s.metas)
	return s.sweepMetas()
}

// write stores metadata. The caller holds mu.
func (s *snapshots) write(meta snapshotMeta) error {
	data, err := meta.encode()
	if err != nil {
		return err
	}
	return writeFileAtomic(s.metaPath(meta.ID), data)
}

// receive turns an unpacked state into a pending one.
func (s *snapshots) receive(k *snapshotSink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.dropPending(); err != nil {
		return err
	}
	meta := k.meta
	meta.Received = fmt.Sprintf("%s%010d", dbPrefix, k.number)
	s.m.opts.failpoint(stepUnpacked)
	if err := os.Rename(s.path(k.incoming()), s.path(meta.Received)); err != nil {
		return fmt.Errorf("receive snapshot: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	s.m.opts.failpoint(stepPlaced)
	if err := s.write(meta); err != nil {
		return err
	}
	s.m.opts.failpoint(stepReceived)
	s.pending = &meta
	return nil
}

// dropPending removes a received state that was not restored. The caller holds mu.
func (s *snapshots) dropPending() error {
	if s.pending == nil {
		return nil
	}
	meta := *s.pending
	s.pending = nil
	// The metadata first: without it the directory is a leftover.
	if err := removeFile(s.metaPath(meta.ID)); err != nil {
		return err
	}
	if err := os.RemoveAll(s.path(meta.Received)); err != nil {
		return fmt.Errorf("remove received state: %w", err)
	}
	return nil
}
