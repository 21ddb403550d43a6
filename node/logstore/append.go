package logstore

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// StoreLog stores one entry; see StoreLogs.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores consecutive entries durably. An entry that comes with a
// checksum is verified, one that comes without is given its own; the caller's
// entries are left as they are. The first one follows the newest entry held.
// Where it leaves a gap instead, a snapshot was installed in between, and all that
// is older goes: it may never have been committed. Errors: a *CorruptError for a
// received entry, or what kept the entries from disk. After a deletion of the
// tail every error is fatal, because Raft goes on as if that had not been.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	err := s.append(logs)
	if err == nil {
		return nil
	}
	return s.endIfCut(err)
}

func (s *Store) append(logs []*raft.Log) error {
	sealed, err := s.seal(logs)
	if err != nil {
		return err
	}
	if err := s.makeRoom(sealed[0].Index); err != nil {
		return err
	}
	err = s.write(Storing, func() error { return s.bolt.StoreLogs(sealed) }, func() {
		for _, l := range sealed {
			s.win.push(l.Index, entryBytes(l))
			s.win.cache(l)
		}
		s.cut = false
	})
	if err != nil {
		return fmt.Errorf("appending to the log: %w", err)
	}
	return nil
}

// seal returns copies of consecutive entries, each with its checksum.
func (s *Store) seal(logs []*raft.Log) ([]*raft.Log, error) {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		if l.Index != logs[0].Index+uint64(i) {
			return nil, fmt.Errorf("appending to the log: entry %d after entry %d", l.Index, logs[i-1].Index)
		}
		c := *l
		if len(c.Extensions) == 0 {
			c.Extensions = extension(&c)
		} else if err := verify(&c); err != nil {
			// The damage is the sender's, or the network's: this log is sound.
			return nil, &CorruptError{Path: "a message from the leader for " + s.path, Index: c.Index, Err: err}
		}
		sealed[i] = &c
	}
	return sealed, nil
}

// makeRoom deletes what a snapshot replaces, when an entry with the index does not
// follow the newest one held. Where no snapshot covers all that is before the
// entry, Raft takes the log for another than it is.
func (s *Store) makeRoom(index uint64) error {
	first, last := s.bounds()
	if last != 0 && index == last+1 {
		return nil
	}
	if covered := s.snapshot(); index <= last || index > covered+1 {
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf(
			"entry %d is to follow, the log holds %d to %d, and the newest snapshot covers what is up to %d", index, first, last, covered)})
	}
	if last == 0 {
		return nil
	}
	return s.deleteUpward(first, last)
}
