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

// How what was purged leaves the files of the state. Pebble keeps what was replaced or
// deleted in its tables until a compaction meets it and no snapshot needs it; names of
// index terms stand in the manifest as bounds of tables; directories of former states,
// and copies that are being sent, hold links to old tables. Erase goes through all of
// that and then notes in the state how far it is. The note travels with the state: a
// copy that has it was made of files without the texts.

const (
	// erasePoll is how often Erase looks whether what it waits for is over.
	erasePoll = 20 * time.Millisecond
	// erasePasses is how often each range is compacted: the first time tables may just
	// be moved to a lower level, with what is deleted in them.
	erasePasses = 2
)

// views are those of a store that are in use.
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

// newest is the newest view that was made.
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

// Erase takes the texts of what was purged out of the files of the state, as far as the
// newest view knows, and returns when none is left. Copies of the state that are being
// sent or exported are waited for. After an error, and after a crash, it is called
// again. One goroutine calls it.
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
	// A copy that was begun before this has old tables, one that is begun now has none.
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

// poll waits until what it asks for is so.
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

// renewView publishes a view of what is in the store now, unless another store has
// taken its place.
func (m *Machine) renewView(s *store) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}

// keyRange is a range of keys from lower to before upper.
type keyRange struct{ lower, upper []byte }

// Where the texts of entries stand.
var (
	// textSpaces have rows of entries, by their seqs.
	textSpaces = [...]byte{spaceEntry, spaceHelp, spaceJob, spaceHidden}
	// quotingSpaces are those in whose keys words stand, and that of reports, which may
	// quote them.
	quotingSpaces = [...]byte{spaceMember, spaceNotes, spaceReport, spaceIndex}
)

// purgedRanges are where a purge replaces and deletes rows. The keys of former epochs go
// with any.
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

// compact has all tables that reach into the ranges written anew. A deletion at each
// end, of keys that no row has, sees to it that there is something to compact them
// with, down to the lowest level.
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

// renewManifest has Pebble begin a manifest without the bounds of former tables, and
// removes the one before, which Pebble keeps. Pebble begins one when there were enough
// changes, so some are made.
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

// replaced reports whether another store is live: one of the others, which stays.
func (s *store) replaced() bool {
	v := s.m.View()
	defer v.Release()
	return v.store != s
}

// otherStates returns the directories beside the store's that hold states: former ones,
// and copies that come or go.
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
