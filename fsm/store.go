package fsm

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/index"
)

// store is one Pebble database with what is kept in memory about its rows. A
// snapshot from the leader replaces the whole store; views of the old one keep
// it open until they are released.
type store struct {
	db    *pebble.DB
	dir   string // name below Options.Dir
	index *index.Index
	// profiles is the index of the revisions of profiles.
	profiles *index.Index
	recent   recentRows
	later    laterBits
	memory   *memory // of the apply goroutine
	refs     atomic.Int64
	closed   func(*store) // called once, when the last reference is gone

	trouble trouble
	onFatal func(error) // Options.Fatal
	live    atomic.Bool // the store was made the live one
}

// openStore opens or creates the database in path and checks that it is ours.
func openStore(opts *Options, cache *pebble.Cache, path, name string) (*store, error) {
	s := &store{dir: name, memory: newMemory(), onFatal: opts.Fatal}
	po := pebbleOptions(opts, cache, s.fatal)
	po.EventListener.BackgroundError = func(err error) { s.backgroundError(opts.Logger, err) }
	po.EventListener.FlushEnd = func(info pebble.FlushInfo) {
		if info.Err == nil {
			s.trouble.over(opts.Logger)
		}
	}
	db, err := pebble.Open(path, po)
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", name, err)
	}
	s.db, s.later.db = db, db
	if err := s.checkVersion(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// checkVersion stamps an empty database and refuses one with another schema.
func (s *store) checkVersion() error {
	row, ok, err := getRow(s.db, keyVersion)
	switch {
	case err != nil:
		return err
	case ok && len(row) == 1 && row[0] == keyspaceVersion:
		return nil
	case ok:
		return fmt.Errorf("state %s has keyspace version %v, this program knows %d", s.dir, row, keyspaceVersion)
	}
	if _, ok, err := getRow(s.db, keyHead); err != nil || ok {
		return errors.Join(err, fmt.Errorf("%w: state %s has no keyspace version", ErrCorrupt, s.dir))
	}
	if err := s.db.Set(keyVersion, []byte{keyspaceVersion}, pebble.NoSync); err != nil {
		return fmt.Errorf("stamp state %s: %w", s.dir, err)
	}
	return nil
}

// fatal tells of an error after which the state must not be used any more. As
// long as the store is not the live one, whoever opens it gets the error and
// decides.
func (s *store) fatal(err error) {
	if s.live.Load() {
		s.onFatal(err)
	}
}

func (s *store) ref() { s.refs.Add(1) }

func (s *store) unref() {
	if s.refs.Add(-1) == 0 {
		s.closed(s)
	}
}

// close closes the database without flushing it.
func (s *store) close() error {
	if s.index != nil {
		s.index.Close()
	}
	if s.profiles != nil {
		s.profiles.Close()
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close state %s: %w", s.dir, err)
	}
	return nil
}

// flush makes everything written so far durable. It ends with an error when a
// write fails meanwhile, where Pebble's own would wait for as long as that takes.
func (s *store) flush() error {
	failed := s.trouble.wait()
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flush state %s: %w", s.dir, err)
	}
	select {
	case <-flushed:
		return nil
	case <-failed:
		return fmt.Errorf("flush state %s: %w", s.dir, s.trouble.last())
	}
}

// getRow returns a copy of a row.
func getRow(r pebble.Reader, key []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read row: %w", err)
	}
	row := append([]byte(nil), value...)
	return row, true, closeRow(closer)
}

func closeRow(c io.Closer) error {
	if err := c.Close(); err != nil {
		return fmt.Errorf("read row: %w", err)
	}
	return nil
}

// scanSpace calls f for each row of a keyspace in key order. The slices are
// valid during the call only.
func scanSpace(r pebble.Reader, lower, upper []byte, f func(key, value []byte) error) (err error) {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("scan rows: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan rows: %w", err)
		}
		if err := f(iter.Key(), value); err != nil {
			return err
		}
	}
	return nil
}
