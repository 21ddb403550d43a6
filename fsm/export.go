package fsm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
)

// Summary says what a state holds and how far it has come.
type Summary struct {
	ClusterID     string
	SealedDataKey []byte
	Index, Term   uint64   // of the newest log entry that was applied
	Time          int64    // of the log, milliseconds since the epoch
	Entries       uint64   // published so far
	Format        int      // replicated format number
	Rolling       [32]byte // the running digest
}

// Export is a consistent copy of the state as a stream, taken while the machine
// goes on. One goroutine uses it, and closes it.
type Export struct {
	*snapshot.Outgoing // Read and Size are of the stream
	Summary
	db   *pebble.DB // of the checkpoint, read only
	head head
}

// Export begins an export of everything applied so far. Errors:
// snapshot.ErrExporting, or those of the disk.
func (m *Machine) Export() (*Export, error) {
	out, err := m.snaps.Export()
	if err != nil {
		return nil, fmt.Errorf("export the state: %w", err)
	}
	e := &Export{Outgoing: out}
	if e.db, err = m.openCheckpoint(out.Dir()); err == nil {
		e.head, e.Summary, err = summarize(e.db)
	}
	if err != nil {
		return nil, fmt.Errorf("export the state: %w", errors.Join(err, e.Close()))
	}
	return e, nil
}

// summarize reads what a database says of itself.
func summarize(db pebble.Reader) (h head, sum Summary, err error) {
	if h, err = loadHead(db); err != nil {
		return h, sum, err
	}
	c, err := loadCluster(db)
	if err != nil {
		return h, sum, err
	}
	p, err := covers(db)
	if err != nil {
		return h, sum, err
	}
	format, err := loadFormat(db)
	return h, Summary{
		ClusterID: c.id, SealedDataKey: c.sealedKey, Index: p.Index, Term: p.Term,
		Time: h.now, Entries: h.lastSeq, Format: format, Rolling: h.rolling,
	}, err
}

// RowDigest returns the hash over the logical rows of what is exported; see
// View.RowDigest. It reads everything and takes as long.
func (e *Export) RowDigest() ([32]byte, error) {
	return digestRows(context.Background(), e.db, &e.head)
}

// Close ends the export and removes the copy.
func (e *Export) Close() error {
	var err error
	if e.db != nil {
		err = e.db.Close()
		e.db = nil
	}
	return errors.Join(err, e.Outgoing.Close())
}

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
	first := command.Init{ClusterID: f.ClusterID, SealedDataKey: f.SealedDataKey}
	if len(f.Configuration) == 0 {
		return errors.New("no configuration")
	}
	return command.Check(&first)
}

// Imported says what an import has brought.
type Imported struct {
	Summary
	Rows [32]byte // see View.RowDigest
}

// Import makes the state in opts.Dir, which must be empty or missing, from the
// stream of an export, for a new cluster. Nothing but what as says differs from
// what was exported. A failed import leaves files that are no state.
func Import(opts Options, r io.Reader, as Founding) (got Imported, err error) {
	if err := as.check(); err != nil {
		return got, fmt.Errorf("import state: %w", err)
	}
	m := newMachine(opts)
	defer m.cache.Unref()
	err = m.snaps.Import(r, func(st snapshot.State, announced snapshot.Position) (c snapshot.Contents, err error) {
		s := st.(*store)
		if got, err = s.check(announced); err != nil {
			return c, err
		}
		c = snapshot.Contents{Position: announced, Configuration: as.Configuration, ConfigurationIndex: got.Index}
		return c, s.found(c, as)
	})
	if err != nil {
		return got, fmt.Errorf("import state: %w", err)
	}
	return got, nil
}

// check reads all of a state that was announced for a position.
func (s *store) check(announced snapshot.Position) (got Imported, err error) {
	head, sum, err := summarize(s.db)
	if err != nil {
		return got, err
	}
	if sum.Index != announced.Index || sum.Term != announced.Term {
		return got, fmt.Errorf("%w: the state is at index %d of term %d, announced were %d and %d",
			ErrCorrupt, sum.Index, sum.Term, announced.Index, announced.Term)
	}
	if err := command.CheckFormat(sum.Format, s.m.opts.MaxFormat); err != nil {
		return got, err
	}
	got.Summary = sum
	got.Rows, err = digestRows(context.Background(), s.db, &head)
	return got, err
}

// found gives a state to a new cluster, through to the disk. Raft takes the index of
// the configuration from the newest snapshot, and makes changes on the one with that
// index.
func (s *store) found(c snapshot.Contents, as Founding) error {
	b := s.db.NewBatch()
	named := cluster{id: as.ClusterID, sealedKey: as.SealedDataKey}
	servers := configuration{index: c.ConfigurationIndex, data: c.Configuration}
	var err error
	if as.NewDataKey {
		err = b.Delete(keySigning, nil)
	}
	err = errors.Join(
		err,
		b.Set(keyCluster, named.append(nil), nil),
		b.Set(keyConfig, servers.append(nil), nil),
		b.Set(keyCovered, appendUints(nil, c.Index, c.Term), nil),
		s.db.Apply(b, pebble.NoSync),
		b.Close(),
	)
	if err != nil {
		return fmt.Errorf("found a cluster: %w", err)
	}
	return s.Flush()
}

// Refound gives the state in opts.Dir, which no machine uses, to a new cluster:
// the last resort when too few servers of the old one are left. The newest
// snapshot must cover everything that the state holds, as after Raft's recovery.
func Refound(opts Options, as Founding) (sum Summary, err error) {
	if err := as.check(); err != nil {
		return sum, fmt.Errorf("found a cluster: %w", err)
	}
	m := newMachine(opts)
	defer m.cache.Unref()
	st, err := m.snaps.Open()
	if err != nil {
		return sum, fmt.Errorf("found a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s := st.(*store)
	if _, sum, err = summarize(s.db); err != nil {
		return sum, err
	}
	newest := m.snaps.List()
	if len(newest) == 0 {
		return sum, errors.New("found a cluster: there is no snapshot of the state")
	}
	at := snapshot.Position{Index: sum.Index, Term: sum.Term}
	return sum, s.found(snapshot.Contents{Position: at, Configuration: as.Configuration, ConfigurationIndex: newest[0].ConfigurationIndex}, as)
}
