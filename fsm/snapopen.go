package fsm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// maxStreams bounds how many states are sent at the same time: each one holds
	// files on the disk that Pebble may have done away with.
	maxStreams = 4

	// tokenMagic begins what Raft reads of a snapshot that was received and is
	// about to be restored: its name, for the state is here already.
	tokenMagic    = "commons received snapshot "
	maxTokenBytes = 256
)

// list returns the snapshots' metadata, newest first.
func (s *snapshots) list() []snapshotMeta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.metas)
}

// open returns a snapshot's stream. What it streams is the state as it is now,
// and the metadata say so: it can be newer than the snapshot that was asked for.
func (s *snapshots) open(id string) (snapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	if s.pending != nil && s.pending.ID == id {
		defer s.mu.Unlock()
		token := tokenMagic + id
		meta := *s.pending
		meta.Size = int64(len(token))
		return meta, io.NopCloser(strings.NewReader(token)), nil
	}
	known := slices.IndexFunc(s.metas, func(m snapshotMeta) bool { return m.ID == id })
	if known < 0 {
		s.mu.Unlock()
		return snapshotMeta{}, nil, fmt.Errorf("open snapshot %s: %w", id, os.ErrNotExist)
	}
	if s.streams >= maxStreams {
		s.mu.Unlock()
		return snapshotMeta{}, nil, fmt.Errorf("open snapshot: %d streams are open already", maxStreams)
	}
	s.streams++
	out := &outgoing{s: s, count: &s.streams, dir: s.path(fmt.Sprintf("%s%010d", outgoingPrefix, s.number()))}
	meta := s.metas[known]
	s.mu.Unlock()

	if err := out.start(&meta); err != nil {
		return snapshotMeta{}, nil, fmt.Errorf("open snapshot: %w", errors.Join(err, out.Close()))
	}
	return meta, out, nil
}

// Streams returns how many states are being sent to other nodes. While there is
// one, its receiver will need the log from about now on.
func (m *Machine) Streams() int {
	m.snaps.mu.Lock()
	defer m.snaps.mu.Unlock()
	return m.snaps.streams
}

// outgoing is a state on its way to another node: a checkpoint and its stream.
type outgoing struct {
	s      *snapshots
	count  *int // of those that are open, under s.mu
	dir    string
	pack   *packer
	closed bool
}

// start makes the checkpoint and brings the metadata up to it.
func (o *outgoing) start(meta *snapshotMeta) error {
	if err := o.checkpoint(); err != nil {
		return err
	}
	h := new(streamHeader)
	if err := o.describe(meta, h); err != nil {
		return err
	}
	names, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		info, err := n.Info()
		if err != nil {
			return err
		}
		if n.Name() != "LOCK" {
			h.Files = append(h.Files, streamFile{Name: n.Name(), Size: info.Size()})
		}
	}
	if err := h.check(); err != nil {
		return err
	}
	if o.pack, err = newPacker(o.dir, h); err != nil {
		return err
	}
	meta.Size = o.pack.size
	return nil
}

// checkpoint links the state as it is on disk. Without a write-ahead log that
// leaves memtables out, hence the flush.
func (o *outgoing) checkpoint() error {
	v := o.s.m.View()
	defer v.Release()
	if err := v.store.flush(); err != nil {
		return err
	}
	if err := v.store.db.Checkpoint(o.dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// describe reads from the checkpoint itself what it holds: writes that came
// after the flush may be in it or not.
func (o *outgoing) describe(meta *snapshotMeta, h *streamHeader) (err error) {
	db, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := covers(db)
	if err != nil {
		return err
	}
	c, err := loadConfiguration(db)
	if err != nil {
		return err
	}
	if c.index == 0 {
		return errors.New("the state holds no configuration yet")
	}
	h.Index, h.Term = p.index, p.term
	meta.Index, meta.Term = p.index, p.term
	meta.Configuration, meta.ConfigurationIndex = c.data, c.index
	return nil
}

// open opens the checkpoint for reading.
func (o *outgoing) open() (*pebble.DB, error) {
	po := pebbleOptions(&o.s.m.opts, o.s.m.cache, o.s.m.opts.Fatal)
	po.ReadOnly = true
	db, err := pebble.Open(o.dir, po)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return db, nil
}

// Read reads the stream.
func (o *outgoing) Read(p []byte) (int, error) { return o.pack.Read(p) }

// Close ends the stream and removes the checkpoint.
func (o *outgoing) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	o.s.mu.Lock()
	*o.count--
	o.s.mu.Unlock()
	var err error
	if o.pack != nil {
		err = o.pack.closeFile()
	}
	return errors.Join(err, os.RemoveAll(o.dir))
}

// restore makes the received state that r names the live one. It is called on
// the apply goroutine. Views of the old state stay valid.
func (m *Machine) restore(r io.Reader) error {
	token, err := io.ReadAll(io.LimitReader(r, maxTokenBytes))
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	id, ok := strings.CutPrefix(string(token), tokenMagic)
	if !ok {
		return errors.New("restore snapshot: not a received snapshot")
	}
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.snaps.mu.Lock()
	defer m.snaps.mu.Unlock()
	if err := m.install(id); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}

// install swaps the pending state in. The caller holds applyMu and snaps.mu.
func (m *Machine) install(id string) error {
	s := &m.snaps
	if s.pending == nil || s.pending.ID != id {
		return fmt.Errorf("%s: %w", id, os.ErrNotExist)
	}
	meta := *s.pending
	covered, err := covers(m.store.db)
	if err != nil {
		return err
	}
	if meta.Index > covered.index {
		next, err := m.prepare(&meta)
		if err != nil {
			return errors.Join(err, s.dropPending())
		}
		if err := s.setCurrent(meta.Received); err != nil {
			// CURRENT may name either state, so neither may go on.
			m.opts.Fatal(fmt.Errorf("restore snapshot: %w", err))
			return err
		}
		m.opts.failpoint(stepSwapped)
		m.adopt(next)
	} else {
		// Nothing is gained: the same log made more of the state here already.
		s.m.opts.Logger.Info("kept the state, it is newer than the snapshot", "index", covered.index, "snapshot", meta.Index)
		if err := m.keepInstead(&meta); err != nil {
			return err
		}
	}
	s.pending = nil
	s.metas = append(s.metas, meta)
	sortMetas(s.metas)
	if err := s.sweepMetas(); err != nil {
		s.m.opts.Logger.Warn("removing old snapshot metadata failed", "error", err)
	}
	return nil
}

// keepInstead throws the received state of a snapshot away for the live one, which
// holds more. Raft relies on the snapshot afterwards, so the live state is on the
// disk before the received one is gone. The caller holds applyMu and snaps.mu.
func (m *Machine) keepInstead(meta *snapshotMeta) error {
	if err := m.store.flush(); err != nil {
		return fmt.Errorf("keep the state: %w", err)
	}
	m.opts.failpoint(stepKept)
	received := meta.Received
	meta.Received = ""
	if err := m.snaps.write(*meta); err != nil {
		return err
	}
	m.opts.failpoint(stepForgotten)
	if err := os.RemoveAll(m.snaps.path(received)); err != nil {
		return fmt.Errorf("remove received state: %w", err)
	}
	return nil
}

// prepare opens a received state and reads what is kept in memory of it, so that
// making it the live one cannot fail any more.
func (m *Machine) prepare(meta *snapshotMeta) (loaded, error) {
	st, err := m.snaps.openReceived(meta)
	if err != nil {
		return loaded{}, err
	}
	next, err := m.load(st)
	if err != nil {
		return loaded{}, errors.Join(err, st.close())
	}
	m.prepared = st
	m.opts.failpoint(stepOpened)
	return next, nil
}
