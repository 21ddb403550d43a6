// Package fsmtest has what tests of the state machine share. A Rig applies commands to a state in
// memory, without the machine around it, and shows it. A Hand has short ways to change and to read
// such a state, or that of a machine; functions make the commands. Others change and search the
// files of a state, for tests of corruption and of erasing.
package fsmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReplaceText replaces a text in every row of the state in dir, which must not be open, and
// returns the number of rows that had it.
func ReplaceText(dir, old, text string) (rows int, err error) {
	name, err := os.ReadFile(filepath.Join(dir, "CURRENT")) //nolint:gosec // a test's own directory
	if err != nil {
		return 0, err
	}
	db, err := pebble.Open(filepath.Join(dir, strings.TrimSpace(string(name))), &pebble.Options{})
	if err != nil {
		return 0, fmt.Errorf("open the state: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	batch := db.NewBatch()
	for valid := it.First(); valid; valid = it.Next() {
		if !bytes.Contains(it.Value(), []byte(old)) {
			continue
		}
		rows++
		if err := batch.Set(it.Key(), bytes.ReplaceAll(it.Value(), []byte(old), []byte(text)), nil); err != nil {
			return rows, errors.Join(err, it.Close())
		}
	}
	if err := errors.Join(it.Error(), it.Close(), batch.Commit(pebble.Sync)); err != nil {
		return rows, err
	}
	return rows, db.Flush()
}

// findTries is how often FindText looks at a directory that a running node changes.
const findTries = 100

// FindText returns the files below dir that contain a text, in the case given or in lower
// case. Tables are compressed, so every block of them is decoded. Other files, such as a
// manifest or the Raft log with its free pages, are not compressed.
func FindText(dir, text string) (found []string, err error) {
	for range findTries {
		if found, err = findText(dir, text); err == nil {
			break
		}
	}
	return found, err
}

// findText returns an error when a file goes, or is being written, while it looks: what
// was in it may be in a file that it has not seen.
func findText(dir, text string) (found []string, err error) {
	needles := [][]byte{[]byte(text), bytes.ToLower([]byte(text))}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		read := os.ReadFile
		if filepath.Ext(path) == ".sst" {
			read = decodeTable
		}
		data, err := read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, needle := range needles {
			if bytes.Contains(data, needle) {
				name, _ := filepath.Rel(dir, path)
				found = append(found, name)
				break
			}
		}
		return nil
	})
	return found, err
}

// decodeTable returns the bytes of a table, followed by its decoded blocks: every version of
// every row, the separators of the index, the properties.
func decodeTable(path string) (all []byte, err error) {
	if all, err = os.ReadFile(path); err != nil { //nolint:gosec // a test's own directory
		return nil, err
	}
	file, err := vfs.Default.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	layout, err := r.Layout()
	if err != nil {
		return nil, err
	}
	rows := 0
	described := layout.Describe(true, r, func(key *pebble.InternalKey, value []byte) string {
		rows++
		all = append(append(append(all, key.UserKey...), 0), value...)
		return ""
	})
	if p, err := r.ReadPropertiesBlock(context.Background(), nil); err != nil {
		return nil, err
	} else if rows == 0 && p.NumRangeDeletions == 0 {
		return nil, errors.New("a table without a row")
	}
	return append(all, described...), nil
}
