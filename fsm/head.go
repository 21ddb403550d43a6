package fsm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
)

// head is the progress of a state. Its row is in the same write as the changes that it
// describes.
type head struct {
	applied uint64 // index of the newest log entry that was applied
	term    uint64 // its term
	now     int64  // instant of the newest batch, milliseconds since the epoch
	lastSeq uint64 // seq of the newest entry
	rolling [sha256.Size]byte
	// eventRows is how many rows of events were written, lastEvent the place of the newest
	// event.
	eventRows uint64
	lastEvent EventPlace
}

func (h *head) append(dst []byte) []byte {
	return append(appendUints(dst, h.applied, h.term, uint64(h.now), h.lastSeq, h.eventRows, h.lastEvent.Index, h.lastEvent.Number), h.rolling[:]...)
}

func loadHead(r pebble.Reader) (head, error) {
	row, ok, err := getRow(r, keyHead)
	if err != nil || !ok {
		return head{}, err
	}
	rr := rowReader{rest: row}
	h := head{applied: rr.uint(), term: rr.uint(), now: int64(rr.uint()), lastSeq: rr.uint(), eventRows: rr.uint()}
	h.lastEvent = EventPlace{rr.uint(), rr.uint()}
	if copy(h.rolling[:], rr.bytes(sha256.Size)) != sha256.Size {
		rr.bad = true
	}
	return h, rr.done("head row")
}

// checkApplied returns an error when a log entry is not the one that was applied
// at its index, as far as that is known.
func (h *head) checkApplied(e *logEntry) error {
	if e.index == h.applied && e.term != h.term {
		return fmt.Errorf("log entry %d has the term %d, the state was made with one of term %d: wipe this node's data, the others bring it up to date",
			e.index, e.term, h.term)
	}
	return nil
}

// roll adds an applied log entry to the running digest: its index, its data and its
// results.
func (h *head) roll(index uint64, data []byte, results []command.Result) {
	sum := sha256.New()
	sum.Write(h.rolling[:])
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], index)
	binary.BigEndian.PutUint64(n[8:], uint64(len(data)))
	sum.Write(n[:])
	sum.Write(data)
	var buf []byte
	for _, r := range results {
		buf = appendResult(buf, r)
	}
	sum.Write(buf)
	sum.Sum(h.rolling[:0])
}

// cluster is the cluster's id and data key, from Init or from the founding of a new
// cluster.
type cluster struct {
	id        string
	sealedKey []byte
	founding  string // what is to be recorded of that by the first leader: action, space, clusters; else ""
}

func (c *cluster) encode() []byte {
	return appendBlob(appendBlob(appendBlob(nil, c.id), c.sealedKey), c.founding)
}

func loadCluster(r pebble.Reader) (cluster, error) {
	row, ok, err := getRow(r, keyCluster)
	if err != nil || !ok {
		return cluster{}, err
	}
	rr := rowReader{rest: row}
	c := cluster{id: rr.text(), sealedKey: []byte(rr.text()), founding: rr.text()}
	return c, rr.done("cluster row")
}

// covers returns the position in the Raft log up to which the state is complete. The
// position of the newest snapshot can be ahead of the newest applied log entry, because
// Raft's own entries never reach the state machine.
func covers(r pebble.Reader) (snapshot.Position, error) {
	h, err := loadHead(r)
	if err != nil {
		return snapshot.Position{}, err
	}
	row, ok, err := getRow(r, keyCovered)
	if err != nil {
		return snapshot.Position{}, err
	}
	applied := snapshot.Position{Index: h.applied, Term: h.term}
	if !ok {
		return applied, nil
	}
	rr := rowReader{rest: row}
	covered := snapshot.Position{Index: rr.uint(), Term: rr.uint()}
	if err := rr.done("covered row"); err != nil || covered.Index > h.applied {
		return covered, err
	}
	return applied, nil
}

// configuration is the newest Raft configuration, in Raft's own encoding.
type configuration struct {
	index uint64
	data  []byte
}

func (c *configuration) append(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, c.index), c.data...)
}

func loadConfiguration(r pebble.Reader) (configuration, error) {
	row, ok, err := getRow(r, keyConfig)
	if err != nil || !ok {
		return configuration{}, err
	}
	rr := rowReader{rest: row}
	c := configuration{index: rr.uint()}
	if rr.bad {
		return configuration{}, fmt.Errorf("%w: configuration row", ErrCorrupt)
	}
	c.data = rr.rest
	return c, nil
}

// RowDigest returns a hash over the logical rows of the state: equal on every node at
// an equal index, whether the rows were applied or received. It reads all rows, unless
// ctx ends first.
func (v *View) RowDigest(ctx context.Context) (digest [32]byte, err error) {
	return digestRows(ctx, v.snap, &v.head)
}

// Digest returns the running hash over everything applied up to the view's index.
func (v *View) Digest() [32]byte { return v.head.rolling }

func digestRows(ctx context.Context, r pebble.Reader, h *head) (digest [32]byte, err error) {
	sum := sha256.New()
	var buf []byte
	for _, space := range logicalSpaces {
		lower, upper := spaceBounds(space)
		err := scanSpace(r, lower, upper, func(key, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf = appendBlob(appendBlob(buf[:0], key), value)
			sum.Write(buf)
			return nil
		})
		if err != nil {
			return digest, fmt.Errorf("digest rows: %w", err)
		}
	}
	var n [32]byte
	binary.BigEndian.PutUint64(n[:], h.applied)
	binary.BigEndian.PutUint64(n[8:], uint64(h.now))
	binary.BigEndian.PutUint64(n[16:], h.lastSeq)
	binary.BigEndian.PutUint64(n[24:], h.eventRows)
	sum.Write(n[:])
	sum.Sum(digest[:0])
	return digest, nil
}

// keptDigests is how many of the newest running digests are remembered, so that
// nodes which are not at the same index can still be compared at one: seconds of
// log under full load.
const keptDigests = 4096

// rolled is the running digest after one log entry with a batch.
type rolled struct {
	index  uint64
	digest [sha256.Size]byte
}

// digests are the newest running digests, oldest first.
type digests struct {
	mu   sync.Mutex
	list []rolled
}

// add appends the digests of one call.
func (d *digests) add(newest []rolled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, newest...)
	if len(d.list) >= 2*keptDigests {
		d.list = append(d.list[:0], d.list[len(d.list)-keptDigests:]...)
	}
}

// reset drops all digests but that of a state that was just loaded.
func (d *digests) reset(h *head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list[:0], rolled{h.applied, h.rolling})
}

// at returns the digest of the newest log entry that is not above index.
func (d *digests) at(index uint64) ([sha256.Size]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, exact := slices.BinarySearchFunc(d.list, index, func(r rolled, index uint64) int { return cmp.Compare(r.index, index) })
	if exact {
		return d.list[i].digest, true
	}
	if i == 0 {
		return [sha256.Size]byte{}, false
	}
	return d.list[i-1].digest, true
}

// DigestAt is Digest at an earlier index. It returns false for an index that is
// not applied yet, or too far back.
func (m *Machine) DigestAt(index uint64) (rolling [sha256.Size]byte, ok bool) {
	if index > m.Applied() {
		return rolling, false
	}
	return m.digests.at(index)
}

// Summary describes a state: its position and contents.
type Summary struct {
	ClusterID     string
	SealedDataKey []byte
	Index, Term   uint64   // of the newest log entry that was applied
	Time          int64    // of the log, milliseconds since the epoch
	Entries       uint64   // published so far
	Format        int      // replicated format number
	Rolling       [32]byte // the running digest
}

// Export is a consistent copy of the state as a stream, taken while the machine runs.
// It is not safe for concurrent use, and must be closed.
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

// summarize reads the head and the summary of a database.
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

// RowDigest returns the hash over the logical rows of the export; see View.RowDigest.
// It reads all rows.
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

// Founding describes the new cluster that an existing state is given to.
type Founding struct {
	ClusterID     string
	SealedDataKey []byte
	// NewDataKey means that the data key is not the one of the state. Values that the
	// former key sealed cannot be opened any more, and are removed.
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
		return c, s.found(c, as, ActionRestore, got.ClusterID)
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

// found gives a state to a new cluster and makes this durable. Raft takes the index of
// the configuration from the newest snapshot, and makes changes on the one with that
// index.
//
// The first leader records that, with the action and the former cluster's id.
func (s *store) found(c snapshot.Contents, as Founding, action, former string) error {
	b := s.db.NewBatch()
	named := cluster{id: as.ClusterID, sealedKey: as.SealedDataKey, founding: action + " " + former + " -> " + as.ClusterID}
	servers := configuration{index: c.ConfigurationIndex, data: c.Configuration}
	var err error
	if as.NewDataKey {
		err = errors.Join(b.Delete(keySigning, nil), b.Delete(keyEpoch, nil))
	}
	err = errors.Join(
		err,
		b.Set(keyCluster, named.encode(), nil),
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
	return sum, s.found(snapshot.Contents{Position: at, Configuration: as.Configuration, ConfigurationIndex: newest[0].ConfigurationIndex}, as, ActionRecover, sum.ClusterID)
}
