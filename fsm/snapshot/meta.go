package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Meta is the metadata of a snapshot. Its state is durable in Pebble already.
type Meta struct {
	ID                 string `json:"id"`
	Index              uint64 `json:"index"`
	Term               uint64 `json:"term"`
	Configuration      []byte `json:"configuration"` // in Raft's encoding
	ConfigurationIndex uint64 `json:"configurationIndex"`
	Size               int64  `json:"size"` // length of the stream; an estimate until one is opened
	// Received is the directory of a received state; empty if the snapshot was taken here.
	Received string `json:"received,omitempty"`
}

// Kept is how many snapshots' metadata are kept.
const Kept = 2

// snapshotID names a snapshot: its position and a number that no other has.
func snapshotID(index, term, number uint64) string {
	return fmt.Sprintf("%020d-%020d-%010d", index, term, number)
}

// numberOf returns the number at the end of a name, or 0.
func numberOf(name string) uint64 {
	name = strings.TrimSuffix(name, snapshotSuffix)
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func decodeMeta(data []byte) (Meta, error) {
	var m Meta
	sum, body, ok := strings.Cut(strings.TrimSuffix(string(data), "\n"), " ")
	if !ok || sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli)) {
		return m, fmt.Errorf("%w: snapshot metadata", ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, fmt.Errorf("%w: snapshot metadata: %w", ErrCorrupt, err)
	}
	return m, nil
}

// loadMetas reads all metadata, newest first.
func (s *Store) loadMetas() ([]Meta, error) {
	names, err := s.FS.List(s.path(snapshotDir))
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var metas []Meta
	for _, name := range names {
		if !strings.HasSuffix(name, snapshotSuffix) {
			continue
		}
		data, err := s.readFile(filepath.Join(s.path(snapshotDir), name))
		if err != nil {
			return nil, fmt.Errorf("read snapshot metadata: %w", err)
		}
		m, err := decodeMeta(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		metas = append(metas, m)
	}
	sortMetas(metas)
	return metas, nil
}

// sortMetas puts the newest first.
func sortMetas(metas []Meta) {
	slices.SortFunc(metas, func(a, b Meta) int {
		return -cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Term, b.Term), cmp.Compare(numberOf(a.ID), numberOf(b.ID)))
	})
}

// writeFileAtomic makes path hold data, or leaves it as it was.
func (s *Store) writeFileAtomic(path string, data []byte) error {
	temp := path + tempSuffix
	f, err := s.FS.Create(temp, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = s.FS.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", filepath.Base(path), err), s.removeFile(temp))
	}
	return syncDir(s.FS, filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(on vfs.FS, dir string) error {
	f, err := on.OpenDir(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// removeMeta removes metadata for good. Its state may go afterwards, and not before.
func (s *Store) removeMeta(id string) error {
	if err := s.removeFile(s.metaPath(id)); err != nil {
		return err
	}
	return syncDir(s.FS, s.path(snapshotDir))
}

// removeFile removes a file that may be gone already.
func (s *Store) removeFile(path string) error {
	if err := s.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", filepath.Base(path), err)
	}
	return nil
}

func (s *Store) readFile(path string) ([]byte, error) {
	f, err := s.FS.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}
