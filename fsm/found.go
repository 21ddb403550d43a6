package fsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Founding is what makes a state that exists already the first one of a new
// cluster.
type Founding struct {
	ClusterID     string
	SealedDataKey []byte
	// NewDataKey says that the data key is not the one of the state. What the former
	// one sealed cannot be opened any more, and is removed.
	NewDataKey    bool
	Configuration []byte // the first servers, in Raft's encoding
}

func (f *Founding) check() error {
	first := Init{ClusterID: f.ClusterID, SealedDataKey: f.SealedDataKey}
	if len(f.Configuration) == 0 {
		return errors.New("no configuration")
	}
	return first.check()
}

// Imported says what an import has brought.
type Imported struct {
	Summary
	Rows [32]byte // see View.RowDigest
}

// Import makes the state in opts.Dir, which must be empty or missing, from the
// stream of an export, for a new cluster. Nothing but what as says differs from
// what was exported. A failed import leaves files that are no state.
func Import(opts Options, r io.Reader, as Founding) (Imported, error) {
	opts.setDefaults()
	if err := as.check(); err != nil {
		return Imported{}, fmt.Errorf("import state: %w", err)
	}
	m := &Machine{opts: opts, cache: newCache(&opts)}
	defer m.cache.Unref()
	m.snaps.init(m)
	got, err := m.snaps.importState(r, as)
	if err != nil {
		return Imported{}, fmt.Errorf("import state: %w", err)
	}
	return got, nil
}

func (s *snapshots) importState(r io.Reader, as Founding) (got Imported, err error) {
	if err := os.MkdirAll(s.path(snapshotDir), 0o755); err != nil {
		return got, err
	}
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return got, err
	}
	if len(names) != 1 {
		return got, fmt.Errorf("directory %s is not empty", s.dir)
	}
	number := s.number()
	incoming, name := fmt.Sprintf("%s%010d", incomingPrefix, number), fmt.Sprintf("%s%010d", dbPrefix, number)
	if err := os.Mkdir(s.path(incoming), 0o755); err != nil {
		return got, err
	}
	h, err := unpack(r, s.path(incoming), s.admitContent)
	if err != nil {
		return got, err
	}
	if got, err = s.found(incoming, h, as); err != nil {
		return got, err
	}
	meta := snapshotMeta{
		ID: snapshotID(got.Index, got.Term, number), Version: snapshotMetaVersion, Index: got.Index, Term: got.Term,
		Configuration: as.Configuration, ConfigurationIndex: got.Index, Size: h.content(),
	}
	if err := s.write(meta); err != nil {
		return got, err
	}
	if err := os.Rename(s.path(incoming), s.path(name)); err != nil {
		return got, err
	}
	return got, s.setCurrent(name)
}

// admitContent refuses a state that does not fit on the disk.
func (s *snapshots) admitContent(h *streamHeader) error {
	usage, err := vfs.Default.GetDiskUsage(s.dir)
	if err != nil {
		return fmt.Errorf("free space: %w", err)
	}
	need := uint64(h.content()) + spaceReserve
	if usage.AvailBytes < need {
		return fmt.Errorf("%w: the state needs %d bytes, %d are free", ErrNoSpace, need, usage.AvailBytes)
	}
	return nil
}

// found checks an unpacked state and gives it to the new cluster.
func (s *snapshots) found(name string, h *streamHeader, as Founding) (got Imported, err error) {
	st, err := openStore(&s.m.opts, s.m.cache, s.path(name), name)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	head, sum, err := summarize(st.db)
	if err != nil {
		return got, err
	}
	if sum.Index != h.Index || sum.Term != h.Term {
		return got, fmt.Errorf("%w: the state is at index %d of term %d, announced were %d and %d", ErrCorrupt, sum.Index, sum.Term, h.Index, h.Term)
	}
	if err := CheckFormat(sum.Format, s.m.opts.MaxFormat); err != nil {
		return got, err
	}
	got.Summary = sum
	if got.Rows, err = digestRows(context.Background(), st.db, &head); err != nil {
		return got, err
	}
	return got, st.found(position{sum.Index, sum.Term}, got.Index, as)
}

// found names a state for a new cluster, through to the disk. configuration is the
// index that the newest snapshot gives its configuration: Raft takes it from there,
// and changes are made on the one with that index.
func (s *store) found(at position, configurationIndex uint64, as Founding) error {
	b := s.db.NewBatch()
	c := cluster{id: as.ClusterID, sealedKey: as.SealedDataKey}
	servers := configuration{index: configurationIndex, data: as.Configuration}
	var err error
	if as.NewDataKey {
		err = b.Delete(keySigning, nil)
	}
	err = errors.Join(
		err,
		b.Set(keyCluster, c.append(nil), nil),
		b.Set(keyConfig, servers.append(nil), nil),
		b.Set(keyCovered, at.append(nil), nil),
		s.db.Apply(b, pebble.NoSync),
		b.Close(),
	)
	if err != nil {
		return fmt.Errorf("found a cluster: %w", err)
	}
	return s.flush()
}

// Refound gives the state in opts.Dir, which no machine uses, to a new cluster:
// the last resort when too few servers of the old one are left. The newest
// snapshot must cover everything that the state holds, as after Raft's recovery.
func Refound(opts Options, as Founding) (sum Summary, err error) {
	opts.setDefaults()
	if err := as.check(); err != nil {
		return sum, fmt.Errorf("found a cluster: %w", err)
	}
	m := &Machine{opts: opts, cache: newCache(&opts)}
	defer m.cache.Unref()
	m.snaps.init(m)
	l, err := m.snaps.boot()
	if err != nil {
		return sum, fmt.Errorf("found a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, l.store.close()) }()
	if _, sum, err = summarize(l.store.db); err != nil {
		return sum, err
	}
	newest := m.snaps.list()
	if len(newest) == 0 {
		return sum, errors.New("found a cluster: there is no snapshot of the state")
	}
	return sum, l.store.found(position{sum.Index, sum.Term}, newest[0].ConfigurationIndex, as)
}
