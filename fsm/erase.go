package fsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// How purged texts are erased from the files of the state. Pebble keeps replaced and
// deleted values in its tables until they are compacted and no snapshot needs them; the
// manifest contains index terms as bounds of tables; directories of former states, and
// copies that are being sent, link old tables. Erase handles all of these and then
// records its progress in the state. A copy of the state with that record was made of
// files without the texts.

const (
	// erasePoll is how often Erase checks a condition that it waits for.
	erasePoll = 20 * time.Millisecond
	// erasePasses is how often each range is compacted: the first time, tables may just be
	// moved to a lower level, together with deleted values.
	erasePasses = 2
)

// views are the views of a store that are in use.
type views struct {
	mu   sync.Mutex
	born uint64
	open map[*View]struct{}
}

func (x *views) add(v *View) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == nil {
		x.open = map[*View]struct{}{}
	}
	x.born++
	v.born = x.born
	x.open[v] = struct{}{}
}

func (x *views) drop(v *View) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, v)
}

// newest is the number of the newest view.
func (x *views) newest() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.born
}

// olderThan reports whether a view is in use that is older than another one.
func (x *views) olderThan(born uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for v := range x.open {
		if v.born < born {
			return true
		}
	}
	return false
}

// Erase removes the purged texts that the newest view knows of from all files of the
// state, and returns when none is left. It waits for copies of the state that are being
// sent or exported. After an error or a crash, call it again. It is not safe for
// concurrent use.
func (m *Machine) Erase(ctx context.Context) error {
	v := m.View()
	s := v.store
	upTo, err := v.Purged()
	done, errDone := v.Erased()
	var seqs []uint64
	profiles := false
	if err = errors.Join(err, errDone); err == nil && done < upTo {
		err = v.Purges(done, func(p Purge) error {
			if _, seq, isEntry := ParseID(p.ID); isEntry {
				seqs = append(seqs, seq)
			} else if p.ID != "" { // and no key of an epoch
				profiles = true
			}
			return nil
		})
	}
	if err != nil || done >= upTo {
		v.Release()
		return err
	}
	s.ref() // or a snapshot that is installed closes it
	v.Release()
	defer s.unref()
	if err := s.erase(ctx, seqs, profiles); err != nil {
		return fmt.Errorf("erase what was purged: %w", err)
	}
	if err := s.db.Set(keyErased, appendUints(nil, upTo), pebble.NoSync); err != nil {
		return fmt.Errorf("erase what was purged: %w", err)
	}
	if err := s.Flush(); err != nil {
		return err
	}
	m.republish(s)
	return nil
}

// erase erases entries, and profiles where some were purged.
func (s *store) erase(ctx context.Context, seqs []uint64, profiles bool) error {
	ranges := purgedRanges(seqs)
	if profiles {
		ranges = append(ranges, wholeRange(spaceProfile), wholeRange(spaceProfileIndex))
		if err := s.profiles.Erase(ctx); err != nil {
			return err
		}
	}
	if len(seqs) > 0 {
		if err := s.index.Erase(ctx); err != nil {
			return err
		}
	}
	s.m.renewView(s)
	newest := s.views.newest()
	if err := poll(ctx, func() (bool, error) { return !s.views.olderThan(newest), nil }); err != nil {
		return fmt.Errorf("waiting for readers: %w", err)
	}
	for range erasePasses {
		if err := s.compact(ctx, ranges); err != nil {
			return err
		}
	}
	if err := s.renewManifest(ctx); err != nil {
		return err
	}
	if err := poll(ctx, s.onlyLiveTables); err != nil {
		return fmt.Errorf("waiting for old tables to go: %w", err)
	}
	// A copy that was begun earlier has old tables; one that begins now has none.
	others, err := s.otherStates()
	if err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) {
		now, err := s.otherStates()
		return s.replaced() || !slices.ContainsFunc(now, func(name string) bool { return slices.Contains(others, name) }), err
	})
	if err != nil {
		return fmt.Errorf("waiting for copies of the state to go: %w", err)
	}
	return nil
}

// poll waits until done returns true.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(erasePoll):
		}
	}
}

// renewView publishes a view of the present contents of the store, unless another store
// has replaced it.
func (m *Machine) renewView(s *store) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}

// keyRange is a range of keys from lower to before upper.
type keyRange struct{ lower, upper []byte }

// Where the texts of entries are stored.
var (
	// textSpaces have rows of entries, by their seqs.
	textSpaces = [...]byte{spaceEntry, spaceHelp, spaceJob, spaceHidden}
	// quotingSpaces are the spaces with words in their keys, and the space of reports,
	// which may quote texts.
	quotingSpaces = [...]byte{spaceMember, spaceNotes, spaceReport, spaceIndex}
)

// purgedRanges are the key ranges in which purges replace and delete rows, and those of
// former epochs' keys.
func purgedRanges(seqs []uint64) []keyRange {
	whole := []byte{spaceEpoch, spaceFormerly, spaceSender}
	if len(seqs) > 0 {
		whole = append(whole, quotingSpaces[:]...)
	}
	ranges := make([]keyRange, 0, len(textSpaces)*len(seqs)+len(whole))
	for _, space := range textSpaces {
		for _, seq := range seqs {
			ranges = append(ranges, keyRange{seqKey(space, seq), seqKey(space, seq+1)})
		}
	}
	for _, space := range whole {
		ranges = append(ranges, wholeRange(space))
	}
	return ranges
}

func wholeRange(space byte) keyRange {
	lower, upper := spaceBounds(space)
	return keyRange{lower, upper}
}

// compact rewrites all tables that overlap the ranges. It deletes an unused key at each
// end, so that there is something to compact the tables with, down to the lowest level.
func (s *store) compact(ctx context.Context, ranges []keyRange) error {
	batch := s.db.NewBatch()
	var err error
	for _, r := range ranges {
		low, high := rangeEnds(r)
		err = errors.Join(err, batch.Delete(low, nil), batch.Delete(high, nil))
	}
	if err := errors.Join(err, s.db.Apply(batch, pebble.NoSync), batch.Close()); err != nil {
		return err
	}
	if err := s.Flush(); err != nil {
		return err
	}
	for _, r := range ranges {
		low, high := rangeEnds(r)
		if err := s.db.Compact(ctx, low, high, false); err != nil {
			return fmt.Errorf("compact the state: %w", err)
		}
	}
	return nil
}

// rangeEnds returns keys before and after those of a range that no row has: keys of
// rows are neither a space's byte with another one nor that long.
func rangeEnds(r keyRange) (low, high []byte) {
	low = slices.Clone(r.lower)
	if len(low) > 1 { // the key before, and more
		low = append(seqKey(low[0], seqOfKey(low)-1), 0xff)
	} else {
		low = append(low, 0)
	}
	high = slices.Clone(r.upper)
	if len(high) > 1 {
		return low, append(seqKey(high[0], seqOfKey(high)-1), 0xff)
	}
	high[0]--
	return low, append(high, slices.Repeat([]byte{0xff}, 16)...)
}

// renewManifest makes Pebble start a new manifest without the bounds of former tables,
// and removes the old one, which Pebble keeps. Pebble starts one after enough changes,
// so some are made.
func (s *store) renewManifest(ctx context.Context) error {
	dir := filepath.Join(s.m.opts.Dir, s.dir)
	first, err := currentManifest(dir)
	if err != nil {
		return err
	}
	for current := first; current == first; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.db.Delete([]byte{spaceErased, 0}, pebble.NoSync); err != nil {
			return err
		}
		if err := s.Flush(); err != nil {
			return err
		}
		if current, err = currentManifest(dir); err != nil {
			return err
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil {
		return err
	}
	current, err := currentManifest(dir)
	for _, name := range names {
		if err == nil && filepath.Base(name) != current {
			err = os.Remove(name)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return err
}

func currentManifest(dir string) (string, error) {
	name, err := atomicfs.ReadMarker(vfs.Default, dir, "manifest")
	if err != nil {
		return "", fmt.Errorf("find the manifest: %w", err)
	}
	return name, nil
}

// onlyLiveTables reports whether the store's directory has no table that is not in use.
func (s *store) onlyLiveTables() (bool, error) {
	names, err := filepath.Glob(filepath.Join(s.m.opts.Dir, s.dir, "*.sst"))
	if err != nil {
		return false, err
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return false, err
	}
	live := map[string]bool{}
	for _, tables := range levels {
		for i := range tables {
			live[fmt.Sprintf("%06d.sst", uint64(tables[i].BackingSSTNum))] = true
		}
	}
	return !slices.ContainsFunc(names, func(path string) bool { return !live[filepath.Base(path)] }), nil
}

// replaced reports whether another store is live.
func (s *store) replaced() bool {
	v := s.m.View()
	defer v.Release()
	return v.store != s
}

// otherStates returns the other directories with states: former ones, and copies that
// are being received or sent.
func (s *store) otherStates() (names []string, err error) {
	entries, err := os.ReadDir(s.m.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list states: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != s.dir && !strings.HasPrefix(e.Name(), "snapshots") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
