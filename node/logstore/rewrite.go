package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Rewriting is the name of Rewrite for Options.Around.
const Rewriting = "a new file for the log"

// The steps of Rewrite after which a test has it crash.
const (
	stepCopied  = "the new file is complete"
	stepRenamed = "the new file has the log's name"
)

var (
	bucketStable = []byte("conf")          // where raft-boltdb keeps stable values
	keyErased    = []byte("CommonsErased") // the key of the index up to which all entries are erased from the file
)

// Erased returns the index up to which the file holds no log entry, not even in free
// pages: the index of the newest Rewrite; 0 before the first.
func (s *Store) Erased() (uint64, error) {
	index, err := s.GetUint64(keyErased)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return index, err
}

// Rewrite replaces the log's file by a new one with the same entries and stable values, so
// that no byte is left of the deleted entries up to an index: bbolt keeps the pages of
// deleted entries until it needs them. Writes and reads wait meanwhile. After a crash one
// of the two files is there, and each is the whole log. An error leaves the log as it was,
// unless the store ends with it.
func (s *Store) Rewrite(erased uint64) error {
	s.appending <- struct{}{}
	defer func() { <-s.appending }()
	if err := s.fileForGood(); err != nil {
		return fmt.Errorf("writing the log anew: %w", err)
	}
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if err := s.over(); err != nil {
		return err
	}
	if first, last := s.Bounds(); last != 0 && first <= erased {
		return fmt.Errorf("writing the log anew: it begins at entry %d, which is to be gone", first)
	}
	return s.around(Rewriting, func() error {
		s.swap.Lock()
		defer s.swap.Unlock()
		return s.rewrite(erased)
	})
}

// rewrite has both locks.
func (s *Store) rewrite(erased uint64) error {
	temp := s.path + newSuffix
	if err := s.bolt.Close(); err != nil {
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("closing it to write it anew: %w", err)})
	}
	err := copyFile(s.path, temp, erased)
	if err == nil {
		s.failpoint(stepCopied)
		err = os.Rename(temp, s.path)
	}
	if err == nil {
		s.failpoint(stepRenamed)
		if err := syncDir(filepath.Dir(s.path)); err != nil {
			// A power failure could bring back the old file, which lacks all later writes.
			return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("the name of its new file is not safe: %w", err)})
		}
	}
	if opened := s.openBolt(); opened != nil {
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("opening it after it was written anew: %w", opened)})
	}
	if err != nil {
		// On a full disk the partial copy takes space that is needed.
		return fmt.Errorf("writing the log anew: %w", errors.Join(err, removeFile(temp)))
	}
	return nil
}

// copyFile makes a compact copy of a log that is not open, synced to the disk, and checks
// the copy.
func copyFile(from, to string, erased uint64) (err error) {
	if err := removeFile(to); err != nil {
		return err
	}
	return guard(func() (err error) {
		src, err := bbolt.Open(from, fileMode, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		dst, err := bbolt.Open(to, fileMode, &bbolt.Options{
			Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, PageSize: src.Info().PageSize,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dst.Close()) }()
		if err := bbolt.Compact(dst, src, 0); err != nil {
			return err
		}
		if err := sameContent(src, dst); err != nil {
			return err
		}
		return dst.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucketStable)
			if err != nil {
				return err
			}
			return b.Put(keyErased, binary.BigEndian.AppendUint64(nil, erased))
		})
	})
}

// sameContent compares two files: their buckets, and all that is in them.
func sameContent(one, other *bbolt.DB) error {
	return one.View(func(a *bbolt.Tx) error {
		return other.View(func(b *bbolt.Tx) error {
			buckets := 0
			if err := b.ForEach(func([]byte, *bbolt.Bucket) error { buckets++; return nil }); err != nil {
				return err
			}
			err := a.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
				buckets--
				copied := b.Bucket(name)
				if copied == nil {
					return fmt.Errorf("the copy lacks %q", name)
				}
				c := copied.Cursor()
				k, v := c.First()
				err := bucket.ForEach(func(key, value []byte) error {
					if !bytes.Equal(k, key) || !bytes.Equal(v, value) {
						return fmt.Errorf("the copy differs at %q %x", name, key)
					}
					k, v = c.Next()
					return nil
				})
				if err == nil && k != nil {
					err = fmt.Errorf("the copy has %x in %q, too", k, name)
				}
				return err
			})
			if err == nil && buckets != 0 {
				err = errors.New("the copy has other buckets")
			}
			return err
		})
	})
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
