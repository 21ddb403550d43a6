package fsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
)

// Pebble keeps replaced and deleted values in its tables until they are compacted and no
// snapshot needs them. The manifest contains index terms as bounds of tables. Directories of
// former states, and copies that are being sent, link old tables. Erase handles all of these
// and then records its progress in the state, so that a copy with that record has no such text.

const (
	// erasePoll is how often Erase checks a condition that it waits for.
	erasePoll = 20 * time.Millisecond
	// erasePasses is how often each range is compacted: the first time, tables may just be
	// moved to a lower level, together with deleted values.
	erasePasses = 2
	// eraseGap is the distance of entries up to which their range is compacted at once: they are
	// mostly in one table, which each compaction writes anew.
	eraseGap = 4096
)

// Erase removes the purged texts that the newest view knows of from all files of the state.
// It waits for copies of the state that are being sent or exported. After an error or a
// crash, call it again. It is not safe for concurrent use.
func (m *Machine) Erase(ctx context.Context) error {
	v := m.acquire()
	s := v.store
	upTo, err := v.Purged()
	done, errDone := v.Erased()
	var seqs []uint64
	profiles := false
	if err = errors.Join(err, errDone); err == nil && done < upTo {
		err = v.Purges(done, func(p state.Purge) error {
			if _, seq, isEntry := state.ParseID(p.ID); isEntry {
				seqs = append(seqs, seq)
			} else if p.ID != state.RefusedTexts {
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
	if err := s.DB.Set(state.KeyErased, state.AppendUints(nil, upTo), pebble.NoSync); err != nil {
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
	ranges := []state.KeyRange{wholeRange(state.SpaceSender)}
	if profiles {
		ranges = append(ranges, wholeRange(state.SpaceProfile), wholeRange(state.SpaceProfileIndex))
		if err := s.profiles.Erase(ctx); err != nil {
			return err
		}
	}
	slices.Sort(seqs)
	for i, first := 0, 0; i < len(seqs); i++ {
		if i+1 == len(seqs) || seqs[i+1] > seqs[i]+eraseGap {
			ranges = append(ranges, textRanges(seqs[first], seqs[i]+1)...)
			first = i + 1
		}
	}
	if len(seqs) > 0 {
		ranges = append(ranges, quotingRanges()...)
		if err := s.index.Erase(ctx); err != nil {
			return err
		}
	}
	s.m.renewView(s)
	newest := s.views.Newest()
	if err := poll(ctx, func() (bool, error) { return !s.views.OlderThan(newest), nil }); err != nil {
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
		return fmt.Errorf("waiting for old tables to be removed: %w", err)
	}
	// A copy that was begun earlier has old tables; a later one does not.
	others, err := s.otherStates()
	if err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) {
		now, err := s.otherStates()
		return !s.Live() || !slices.ContainsFunc(now, func(name string) bool { return slices.Contains(others, name) }), err
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

// textRanges returns the ranges of the texts of the entries in [from, to).
func textRanges(from, to uint64) (ranges []state.KeyRange) {
	for _, k := range state.Keyspaces {
		if k.Text {
			ranges = append(ranges, state.KeyRange{Lower: state.SeqKey(k.Letter, from), Upper: state.SeqKey(k.Letter, to)})
		}
	}
	return ranges
}

// quotingRanges returns the keyspaces that quote texts.
func quotingRanges() (ranges []state.KeyRange) {
	for _, k := range state.Keyspaces {
		if k.Quoting {
			ranges = append(ranges, wholeRange(k.Letter))
		}
	}
	return ranges
}

func wholeRange(space byte) state.KeyRange {
	lower, upper := state.SpaceBounds(space)
	return state.KeyRange{Lower: lower, Upper: upper}
}

// compact rewrites all tables that overlap the ranges. It deletes an unused key at each
// end, so that there is something to compact the tables with, down to the lowest level.
func (s *store) compact(ctx context.Context, ranges []state.KeyRange) error {
	s.files.paced.Store(true)
	defer s.files.paced.Store(false)
	batch := s.DB.NewBatch()
	var err error
	for _, r := range ranges {
		low, high := rangeEnds(r)
		err = errors.Join(err, batch.Delete(low, nil), batch.Delete(high, nil))
	}
	if err := errors.Join(err, s.DB.Apply(batch, pebble.NoSync), batch.Close()); err != nil {
		return err
	}
	if err := s.Flush(); err != nil {
		return err
	}
	for _, r := range ranges {
		low, high := rangeEnds(r)
		if err := s.DB.Compact(ctx, low, high, false); err != nil {
			return fmt.Errorf("compact the state: %w", err)
		}
	}
	return nil
}

// rangeEnds returns unused keys before and after those of a range: keys of rows are neither a
// space's byte with another one nor that long.
func rangeEnds(r state.KeyRange) (low, high []byte) {
	low = slices.Clone(r.Lower)
	if len(low) > 1 { // the key before, and more
		low = append(state.SeqKey(low[0], state.SeqOfKey(low)-1), 0xff)
	} else {
		low = append(low, 0)
	}
	high = slices.Clone(r.Upper)
	if len(high) > 1 {
		return low, append(state.SeqKey(high[0], state.SeqOfKey(high)-1), 0xff)
	}
	high[0]--
	return low, append(high, slices.Repeat([]byte{0xff}, 16)...)
}

// renewManifest makes Pebble start a new manifest, without the bounds of former tables, by
// enough changes, and removes the old one, which Pebble keeps.
func (s *store) renewManifest(ctx context.Context) error {
	dir := filepath.Join(s.m.opts.Dir, s.dir)
	first, err := s.currentManifest(dir)
	if err != nil {
		return err
	}
	for current := first; current == first; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.DB.Delete([]byte{state.SpaceErased, 0}, pebble.NoSync); err != nil {
			return err
		}
		if err := s.Flush(); err != nil {
			return err
		}
		if current, err = s.currentManifest(dir); err != nil {
			return err
		}
	}
	names, err := s.m.opts.FS.List(dir)
	if err != nil {
		return err
	}
	current, err := s.currentManifest(dir)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, "MANIFEST-") && name != current {
			err = s.m.opts.FS.Remove(filepath.Join(dir, name))
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return err
}

func (s *store) currentManifest(dir string) (string, error) {
	name, err := atomicfs.ReadMarker(s.m.opts.FS, dir, "manifest")
	if err != nil {
		return "", fmt.Errorf("find the manifest: %w", err)
	}
	return name, nil
}

// onlyLiveTables reports whether the store's directory has no table that is not in use.
func (s *store) onlyLiveTables() (bool, error) {
	names, err := s.m.opts.FS.List(filepath.Join(s.m.opts.Dir, s.dir))
	if err != nil {
		return false, err
	}
	levels, err := s.DB.SSTables()
	if err != nil {
		return false, err
	}
	live := map[string]bool{}
	for _, tables := range levels {
		for i := range tables {
			live[fmt.Sprintf("%06d.sst", uint64(tables[i].BackingSSTNum))] = true
		}
	}
	return !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") && !live[name] }), nil
}

// otherStates returns the other directories with states: former ones, and copies that
// are being received or sent.
func (s *store) otherStates() (names []string, err error) {
	entries, err := s.m.opts.FS.List(s.m.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list states: %w", err)
	}
	for _, name := range entries {
		if name != s.dir && snapshot.IsState(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// PurgeListed purges the entries and profiles of a list from elsewhere, if the state has
// them and they have not changed since. It returns how many it purged. It is not a command:
// the state must become the first one of a new cluster before it has other users.
func (m *Machine) PurgeListed(list []state.Purge, reason string) (purged int, err error) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	defer func() {
		if failed, is := recover().(*apply.Error); is {
			err = failed
		}
	}()
	tx := m.begin()
	purged = tx.PurgeList(list, reason)
	m.commit(tx)
	m.publish()
	return purged, m.store.Flush()
}
