package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// covers returns the position in the Raft log up to which the state is complete. A snapshot's
// position can be ahead of the newest applied entry: Raft's own entries are not applied.
func covers(r pebble.Reader) (snapshot.Position, error) {
	h, err := state.LoadHead(r)
	if err != nil {
		return snapshot.Position{}, err
	}
	row, ok, err := state.GetRow(r, state.KeyCovered)
	if err != nil {
		return snapshot.Position{}, err
	}
	applied := snapshot.Position{Index: h.Applied, Term: h.Term}
	if !ok {
		return applied, nil
	}
	rr := state.RowReader{Rest: row}
	covered := snapshot.Position{Index: rr.Uint(), Term: rr.Uint()}
	if err := rr.Done("covered row"); err != nil || covered.Index > h.Applied {
		return covered, err
	}
	return applied, nil
}

// Import creates the state in opts.Dir, which must be empty or missing, from the stream
// of an export, for a new cluster. Only the changes in as differ from the export. A
// failed import leaves files that are no state.
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
		return c, s.found(c, as, state.ActionRestore, got.ClusterID)
	})
	if err != nil {
		return got, fmt.Errorf("import state: %w", err)
	}
	return got, nil
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
	if _, sum, err = summarize(s.DB); err != nil {
		return sum, err
	}
	newest := m.snaps.List()
	if len(newest) == 0 {
		return sum, errors.New("found a cluster: there is no snapshot of the state")
	}
	at := snapshot.Position{Index: sum.Index, Term: sum.Term}
	return sum, s.found(snapshot.Contents{Position: at, Configuration: as.Configuration, ConfigurationIndex: newest[0].ConfigurationIndex}, as, state.ActionRecover, sum.ClusterID)
}

// Summary describes a state: its position and contents.
type Summary struct {
	ClusterID     string
	SealedDataKey []byte
	Index, Term   uint64   // that the state covers
	Time          int64    // of the log, milliseconds since the epoch
	Entries       uint64   // published so far
	Format        int      // replicated format number
	Rolling       [32]byte // the running digest
}

// Export is a consistent copy of the state as a stream, taken while the machine runs.
// It is not safe for concurrent use, and must be closed.
type Export struct {
	*snapshot.Outgoing // Size is of the stream
	Summary
	db   *pebble.DB // of the checkpoint, read only
	head state.Head
	step func()
}

// Export begins an export of everything applied so far. Errors:
// snapshot.ErrExporting, or those of the disk.
func (m *Machine) Export() (*Export, error) {
	out, err := m.snaps.Export()
	if err != nil {
		return nil, fmt.Errorf("export the state: %w", err)
	}
	e := &Export{Outgoing: out, step: m.opts.Pace()}
	if e.db, err = m.openCheckpoint(out.Dir()); err == nil {
		e.head, e.Summary, err = summarize(e.db)
	}
	if err != nil {
		return nil, fmt.Errorf("export the state: %w", errors.Join(err, e.Close()))
	}
	return e, nil
}

// Read reads the stream.
func (e *Export) Read(p []byte) (int, error) {
	n, err := e.Outgoing.Read(p)
	e.step()
	return n, err
}

// summarize reads the head and the summary of a database.
func summarize(db pebble.Reader) (h state.Head, sum Summary, err error) {
	if h, err = state.LoadHead(db); err != nil {
		return h, sum, err
	}
	c, err := state.LoadCluster(db)
	if err != nil {
		return h, sum, err
	}
	p, err := covers(db)
	if err != nil {
		return h, sum, err
	}
	format, err := state.LoadFormat(db)
	return h, Summary{
		ClusterID: c.ID, SealedDataKey: c.SealedKey, Index: p.Index, Term: p.Term,
		Time: h.Now, Entries: h.LastSeq, Format: format, Rolling: h.Rolling,
	}, err
}

// RowDigest returns the hash over the logical rows of the export; see View.RowDigest.
// It reads all rows.
func (e *Export) RowDigest() ([32]byte, error) {
	return view.DigestRows(e.db, &e.head, nil)
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

// Founding describes the new cluster that an existing state is given to.
type Founding struct {
	ClusterID     string
	SealedDataKey []byte
	// NewDataKey means that the data key is not the one of the state. Values that the
	// former key sealed cannot be opened any more, and are removed. Receivers are paused: their
	// secrets came from it.
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

// Imported describes an imported state.
type Imported struct {
	Summary
	Rows [32]byte // see View.RowDigest
}

// check reads all of a state that was announced for a position.
func (s *store) check(announced snapshot.Position) (got Imported, err error) {
	head, sum, err := summarize(s.DB)
	if err != nil {
		return got, err
	}
	if sum.Index != announced.Index || sum.Term != announced.Term {
		return got, fmt.Errorf("%w: the state is at index %d of term %d, announced were %d and %d",
			state.ErrCorrupt, sum.Index, sum.Term, announced.Index, announced.Term)
	}
	if err := command.CheckFormat(sum.Format, s.m.opts.MaxFormat); err != nil {
		return got, err
	}
	got.Summary = sum
	got.Rows, err = view.DigestRows(s.DB, &head, nil)
	return got, err
}

// found gives a state to a new cluster and makes this durable. Raft bases changes of the
// configuration on the index that the newest snapshot names. The first leader records the
// action with the former cluster's id.
func (s *store) found(c snapshot.Contents, as Founding, action, former string) error {
	b := s.DB.NewBatch()
	named := state.Cluster{ID: as.ClusterID, SealedKey: as.SealedDataKey, Founding: action + " " + former + " -> " + as.ClusterID}
	servers := state.Configuration{Index: c.ConfigurationIndex, Data: c.Configuration}
	var err error
	if as.NewDataKey {
		err = s.pauseReceivers(b)
	}
	err = errors.Join(
		err,
		b.Set(state.KeyCluster, state.Encode(&named), nil),
		b.Set(state.KeyConfig, state.Encode(&servers), nil),
		b.Set(state.KeyCovered, state.AppendUints(nil, c.Index, c.Term), nil),
		s.DB.Apply(b, pebble.NoSync),
		b.Close(),
	)
	if err != nil {
		return fmt.Errorf("found a cluster: %w", err)
	}
	return s.Flush()
}

// pauseReceivers pauses all receivers until their agents set them again.
func (s *store) pauseReceivers(b *pebble.Batch) error {
	return state.ScanAll(s.DB, state.SpaceOutbox, func(key, row []byte) error {
		o, err := outbox.DecodeOutbox(row)
		if err != nil || !o.Active {
			return err
		}
		agentKey := string(key[1:])
		p, _, err := state.Load(s.DB, state.ProfileKey(agentKey), state.Decode[state.ProfileRow])
		if err != nil {
			return err
		}
		if o.DueAt != 0 {
			err = b.Delete(outbox.DueKey(o.DueAt, agentKey), nil)
		}
		o.Paused, p.NotifySalt = true, ""
		return errors.Join(err, b.Set(outbox.Key(agentKey), state.Encode(o), nil), b.Set(state.ProfileKey(agentKey), state.Encode(&p), nil))
	})
}
