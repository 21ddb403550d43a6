package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
)

// errSinkClosed is the error of a sink that is used after Close or Cancel.
var errSinkClosed = errors.New("snapshot sink is closed")

// Sink receives a snapshot. Raft calls Persist and Close for a snapshot of this node,
// and Write and Close for one that the leader sends. It is not safe for concurrent use.
type Sink struct {
	s      *Store
	meta   Meta
	number uint64

	taken bool           // Persist was called
	pipe  *io.PipeWriter // to the unpacking goroutine; nil before the first Write
	done  chan error
	ended bool
}

// Create begins a snapshot with the given position and configuration.
func (s *Store) Create(meta Meta) *Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.number()
	meta.ID = snapshotID(meta.Index, meta.Term, n)
	return &Sink{s: s, meta: meta, number: n}
}

// ID returns the snapshot's name.
func (k *Sink) ID() string { return k.meta.ID }

// Write takes the next bytes of the leader's stream and unpacks them at once.
func (k *Sink) Write(p []byte) (int, error) {
	if k.ended || k.taken {
		return 0, errSinkClosed
	}
	if k.pipe == nil {
		dir := k.s.path(k.incoming())
		if err := k.s.FS.MkdirAll(dir, 0o755); err != nil {
			return 0, fmt.Errorf("receive snapshot: %w", err)
		}
		r, w := io.Pipe()
		k.pipe, k.done = w, make(chan error, 1)
		go func() {
			_, err := unpack(r, k.s.FS, dir, k.admit)
			_ = r.CloseWithError(err) // it never fails; Write returns err from now on
			k.done <- err
		}()
	}
	n, err := k.pipe.Write(p)
	k.meta.Size += int64(n)
	return n, err
}

func (k *Sink) incoming() string { return numbered(incomingPrefix, k.number) }

// admit rejects a stream that differs from Raft's announcement or does not fit on the disk.
func (k *Sink) admit(h *streamHeader) error {
	if h.Index != k.meta.Index || h.Term != k.meta.Term {
		return fmt.Errorf("%w: the stream is of index %d and term %d, announced were %d and %d",
			ErrCorrupt, h.Index, h.Term, k.meta.Index, k.meta.Term)
	}
	return k.s.admitContent(h)
}

// Close completes the snapshot. A received state then waits for Restore.
func (k *Sink) Close() error {
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
	if err := <-k.done; err != nil {
		return errors.Join(err, k.s.FS.RemoveAll(k.s.path(k.incoming())))
	}
	return k.s.receive(k)
}

// Cancel discards the snapshot.
func (k *Sink) Cancel() error {
	if k.ended || k.pipe == nil {
		k.ended = true
		return nil
	}
	k.ended = true
	_ = k.pipe.CloseWithError(errors.New("cancelled"))
	<-k.done //nolint:errcheck // why it ended does not matter
	if err := k.s.FS.RemoveAll(k.s.path(k.incoming())); err != nil {
		return fmt.Errorf("cancel snapshot: %w", err)
	}
	return nil
}

// Persist makes st durable up to the sink's position. Everything up to that position
// was applied before Raft created the sink.
func (k *Sink) Persist(st State) error {
	if k.ended || k.pipe != nil {
		return errSinkClosed
	}
	if err := st.Cover(Position{k.meta.Index, k.meta.Term}); err != nil {
		return fmt.Errorf("persist snapshot: %w", err)
	}
	if err := st.Flush(); err != nil {
		return fmt.Errorf("persist snapshot: %w", err)
	}
	k.s.Failpoint(StepCovered)
	k.meta.Size = st.Size()
	k.taken = true
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if !st.Live() {
		return errors.New("persist snapshot: the state was replaced meanwhile")
	}
	return nil
}

// keep writes the metadata of a snapshot that was taken here.
func (s *Store) keep(meta Meta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(meta); err != nil {
		return err
	}
	s.Failpoint(StepPersisted)
	return s.add(meta)
}

// add lists a snapshot, and removes the metadata of old ones. The caller holds mu.
func (s *Store) add(meta Meta) error {
	s.metas = append(s.metas, meta)
	sortMetas(s.metas)
	return s.sweepMetas()
}

// write stores metadata: a checksum, and JSON. The caller holds mu.
func (s *Store) write(meta Meta) error {
	data, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("encode snapshot metadata: %w", err)
	}
	return s.writeFileAtomic(s.metaPath(meta.ID), fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(data, castagnoli), data))
}

// receive turns an unpacked state into a pending one.
func (s *Store) receive(k *Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.dropPending(); err != nil {
		return err
	}
	meta := k.meta
	meta.Received = numbered(dbPrefix, k.number)
	if err := s.FS.Rename(s.path(k.incoming()), s.path(meta.Received)); err != nil {
		return fmt.Errorf("receive snapshot: %w", err)
	}
	if err := syncDir(s.FS, s.Dir); err != nil {
		return err
	}
	if err := s.write(meta); err != nil {
		return err
	}
	s.Failpoint(StepReceived)
	s.pending = &meta
	return nil
}

// dropPending removes a received state that was not restored. The caller holds mu.
func (s *Store) dropPending() error {
	if s.pending == nil {
		return nil
	}
	meta := *s.pending
	s.pending = nil
	// Remove the metadata first: a directory without metadata is a leftover.
	if err := s.removeMeta(meta.ID); err != nil {
		return err
	}
	if err := s.FS.RemoveAll(s.path(meta.Received)); err != nil {
		return fmt.Errorf("remove received state: %w", err)
	}
	return nil
}

// admitContent rejects a state that does not fit on the disk.
func (s *Store) admitContent(h *streamHeader) error {
	usage, err := s.FS.GetDiskUsage(s.Dir)
	if err != nil {
		return fmt.Errorf("free space: %w", err)
	}
	need := uint64(h.content()) + spaceReserve
	if usage.AvailBytes < need {
		return fmt.Errorf("%w: the state needs %d bytes, %d are free", ErrNoSpace, need, usage.AvailBytes)
	}
	return nil
}

// Restore makes the received state that r names live. The caller holds the lock of apply.
func (s *Store) Restore(r io.Reader) error {
	token, err := io.ReadAll(io.LimitReader(r, maxTokenBytes))
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	id, ok := strings.CutPrefix(string(token), tokenMagic)
	if !ok {
		return errors.New("restore snapshot: not a received snapshot")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.install(id); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}

// install swaps the pending state in. The caller holds mu.
func (s *Store) install(id string) error {
	if s.pending == nil || s.pending.ID != id {
		return fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	meta := *s.pending
	live, release := s.machine.LiveState()
	defer release()
	covered, err := live.Covers()
	if err != nil {
		return err
	}
	if meta.Index > covered.Index {
		next, err := s.openReceived(&meta)
		if err != nil {
			return errors.Join(err, s.dropPending())
		}
		if err := s.setCurrent(meta.Received); err != nil {
			// CURRENT may name either state, so neither may be used any more.
			s.Fatal(fmt.Errorf("restore snapshot: %w", err))
			return err
		}
		next.Adopt()
	} else {
		// The live state is newer: it is made of the same log and covers more.
		s.Logger.Info("kept the state, it is newer than the snapshot", "index", covered.Index, "snapshot", meta.Index)
		if err := s.keepInstead(live, &meta); err != nil {
			return err
		}
	}
	s.pending = nil
	if err := s.add(meta); err != nil {
		s.Logger.Warn("removing old snapshot metadata failed", "error", err)
	}
	return nil
}

// keepInstead removes a received state, because the live one covers more. Raft relies on
// the snapshot afterwards, so the live state is flushed first. The caller holds mu.
func (s *Store) keepInstead(live State, meta *Meta) error {
	if err := live.Flush(); err != nil {
		return fmt.Errorf("keep the state: %w", err)
	}
	s.Failpoint(StepKept)
	received := meta.Received
	meta.Received = ""
	if err := s.write(*meta); err != nil {
		return err
	}
	s.Failpoint(StepForgotten)
	if err := s.FS.RemoveAll(s.path(received)); err != nil {
		return fmt.Errorf("remove received state: %w", err)
	}
	return nil
}

// Import creates a state from a stream, in a directory that must be empty or missing.
// found gets the unpacked state and its announced position. It checks the state, makes its
// changes durable, and returns the new contents. A failed import leaves files without a state.
func (s *Store) Import(r io.Reader, found func(st State, announced Position) (Contents, error)) error {
	if err := s.FS.MkdirAll(s.path(snapshotDir), 0o755); err != nil {
		return err
	}
	names, err := s.FS.List(s.Dir)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("directory %s is not empty", s.Dir)
	}
	number := s.number()
	incoming, name := numbered(incomingPrefix, number), numbered(dbPrefix, number)
	if err := s.FS.MkdirAll(s.path(incoming), 0o755); err != nil {
		return err
	}
	h, err := unpack(r, s.FS, s.path(incoming), s.admitContent)
	if err != nil {
		return err
	}
	st, err := s.machine.OpenState(s.path(incoming), incoming)
	if err != nil {
		return err
	}
	c, err := found(st, Position{h.Index, h.Term})
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	err = s.write(Meta{
		ID: snapshotID(c.Index, c.Term, number), Index: c.Index, Term: c.Term,
		Configuration: c.Configuration, ConfigurationIndex: c.ConfigurationIndex, Size: h.content(),
	})
	if err != nil {
		return err
	}
	if err := s.FS.Rename(s.path(incoming), s.path(name)); err != nil {
		return err
	}
	return s.setCurrent(name)
}
