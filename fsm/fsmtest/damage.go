// Package fsmtest does to a state on disk what the state machine never would, for
// tests of what notices it.
package fsmtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// ReplaceText replaces a text in every row of the state in dir, which nobody has
// open, and returns in how many it stood.
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
