package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	// MaxStreams bounds how many states are sent at the same time: each one holds
	// files on the disk that Pebble may have deleted already.
	MaxStreams = 4
	// maxExports bounds the exports in the same way.
	maxExports = 1

	// tokenMagic begins what Raft reads of a snapshot that was received and is
	// about to be restored: its name, for the state is here already.
	tokenMagic    = "commons received snapshot "
	maxTokenBytes = 256
)

// Stream returns a snapshot's metadata and its stream. What it streams is the state
// as it is now, and the metadata say so: it can be newer than the snapshot that was
// asked for.
func (s *Store) Stream(id string) (Meta, io.ReadCloser, error) {
	s.mu.Lock()
	if s.pending != nil && s.pending.ID == id {
		defer s.mu.Unlock()
		token := tokenMagic + id
		meta := *s.pending
		meta.Size = int64(len(token))
		return meta, io.NopCloser(strings.NewReader(token)), nil
	}
	known := slices.IndexFunc(s.metas, func(m Meta) bool { return m.ID == id })
	if known < 0 {
		s.mu.Unlock()
		return Meta{}, nil, fmt.Errorf("open snapshot %s: %w", id, os.ErrNotExist)
	}
	if s.streams >= MaxStreams {
		s.mu.Unlock()
		return Meta{}, nil, fmt.Errorf("open snapshot: %d streams are open already", MaxStreams)
	}
	out := s.outgoing(&s.streams)
	meta := s.metas[known]
	s.mu.Unlock()
	if err := out.start(); err != nil {
		return Meta{}, nil, fmt.Errorf("open snapshot: %w", errors.Join(err, out.Close()))
	}
	meta.Index, meta.Term, meta.Size = out.contents.Index, out.contents.Term, out.Size()
	meta.Configuration, meta.ConfigurationIndex = out.contents.Configuration, out.contents.ConfigurationIndex
	return meta, out, nil
}

// Streams returns how many states are being sent to other nodes. While there is
// one, its receiver will need the log from about now on.
func (s *Store) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// Export begins a copy of the live state. Errors: ErrExporting, or those of the
// disk.
func (s *Store) Export() (*Outgoing, error) {
	s.mu.Lock()
	if s.exports >= maxExports {
		s.mu.Unlock()
		return nil, ErrExporting
	}
	out := s.outgoing(&s.exports)
	s.mu.Unlock()
	if err := out.start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// Outgoing is a consistent copy of the live state on its way out: a checkpoint, and
// its stream, which Read reads. One goroutine uses it, and closes it.
type Outgoing struct {
	s        *Store
	count    *int // of those that are open, under s.mu
	dir      string
	contents Contents
	pack     *packer
	closed   bool
}

// outgoing counts and names a new copy. The caller holds mu.
func (s *Store) outgoing(count *int) *Outgoing {
	*count++
	return &Outgoing{s: s, count: count, dir: s.path(numbered(outgoingPrefix, s.number()))}
}

// start makes the checkpoint and begins its stream. Without a write-ahead log a
// checkpoint leaves memtables out, hence the flush.
func (o *Outgoing) start() error {
	live, release := o.s.machine.LiveState()
	err := live.Flush()
	if err == nil {
		err = live.Checkpoint(o.dir)
	}
	release()
	if err != nil {
		return err
	}
	if o.contents, err = o.s.machine.ReadCheckpoint(o.dir); err != nil {
		return err
	}
	if o.contents.ConfigurationIndex == 0 {
		return errors.New("the state holds no configuration yet")
	}
	names, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	h := &streamHeader{Index: o.contents.Index, Term: o.contents.Term}
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
	o.pack, err = newPacker(o.dir, h)
	return err
}

// Dir is the directory of the checkpoint, to be read only.
func (o *Outgoing) Dir() string { return o.dir }

// Size is the length of the stream in bytes.
func (o *Outgoing) Size() int64 { return o.pack.size }

// Read reads the stream.
func (o *Outgoing) Read(p []byte) (int, error) { return o.pack.Read(p) }

// Close ends the stream and removes the checkpoint.
func (o *Outgoing) Close() error {
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
