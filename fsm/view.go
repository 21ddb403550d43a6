package fsm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// View is the state at one applied log entry. It never changes. Any number of
// goroutines may use it until it is released.
type View struct {
	refs  atomic.Int64
	store *store
	snap  *pebble.Snapshot
	cut   index.Cut
	// profiles is the cut of the index of profiles.
	profiles index.Cut
	born     uint64 // in the order in which the store's views were made
	head     head
	version  uint64
	cluster  cluster
	format   int
	hidden   uint64 // entries that are hidden
	policy   *Policy
	reports  *reportQueue

	channelsOnce sync.Once
	channels     []Channel

	everyHome everyHome
}

// newView makes a view of the state as it is now, with one reference. The caller
// holds applyMu. The index is cut before the rows: what is sealed in between is
// then found in both.
func (m *Machine) newView() *View {
	v := &View{
		store: m.store, cut: m.store.index.Cut(), profiles: m.store.profiles.Cut(),
		head: m.head, version: m.version, cluster: m.cluster, format: m.format, hidden: m.hidden, policy: m.policy, reports: m.reports,
	}
	v.snap = m.store.db.NewSnapshot()
	v.store.views.add(v)
	v.refs.Store(1)
	v.store.ref()
	return v
}

// acquire takes a reference; false if the view is already released.
func (v *View) acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release releases the view, which must not be used afterwards.
func (v *View) Release() {
	switch n := v.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("fsm: a view was released twice")
	}
	// Close fails only when called twice.
	_ = v.snap.Close()
	v.store.views.drop(v)
	v.store.unref()
}

// Index is the log index of the newest entry that the view holds.
func (v *View) Index() uint64 { return v.head.applied }

// Version is an index: from it up to Index nothing changed in lists, entries, threads
// and profiles. Views of one cluster with the same version show the same, on every
// node; so does home, until its time ends (see Home.Until). Searches by words may
// differ: they examine a bounded number of words.
func (v *View) Version() uint64 { return v.version }

// Time is the instant of the newest applied batch, in milliseconds since the
// epoch; 0 before the first.
func (v *View) Time() int64 { return v.head.now }

// LastSeq is the seq of the newest entry; 0 when there is none. Every seq from 1
// to it names an entry.
func (v *View) LastSeq() uint64 { return v.head.lastSeq }

// ClusterID is the id that Init gave the cluster; "" before.
func (v *View) ClusterID() string { return v.cluster.id }

// SealedDataKey is the cluster's data key under the cluster secret; nil before
// Init. It must not be changed.
func (v *View) SealedDataKey() []byte { return v.cluster.sealedKey }

// Configuration is the newest committed configuration, in Raft's encoding, and the
// index of its log entry; 0 and nil before the first.
func (v *View) Configuration() (index uint64, data []byte) {
	c, err := loadConfiguration(v.snap)
	v.must(err)
	return c.index, c.data
}

// Format is the replicated format number, which gates new kinds of commands.
func (v *View) Format() int { return v.format }

// Result returns the result of a command, while its session still keeps it.
func (v *View) Result(boot command.BootID, seq uint64) (command.Result, bool) {
	r, ok, err := load(v.snap, answerKey(boot, seq), decodeResult)
	v.must(err)
	return r, ok
}

// Resolve returns the seq of the entry, job or request for help with the given
// public id; false when there is none, or the number belongs to another type.
func (v *View) Resolve(id string) (seq uint64, ok bool) {
	entryType, seq, ok := ParseID(id)
	if !ok || seq > v.head.lastSeq {
		return 0, false
	}
	err := v.row(seq, func(row []byte) error {
		if _, err := entryJSON(row); err != nil {
			return err
		}
		ok = typeOfFlags(row[entryRowFlags]) == entryType
		return nil
	})
	v.must(err)
	return seq, ok && err == nil
}

// noSuccessors ends the JSON of an entry that nothing relates to.
const noSuccessors = `,"supersededBy":[],"supersededByCount":0`

// AppendEntry appends the entry's JSON to dst. It returns ErrNotFound when there
// is no such entry.
func (v *View) AppendEntry(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendEntries(dst, []uint64{seq})
}

// appendEntry appends the JSON of an entry with a row; nil: there is none.
func (v *View) appendEntry(dst []byte, seq uint64, row []byte) ([]byte, error) {
	dst, counts, err := v.appendOpenEntry(dst, seq, row)
	if err != nil {
		return dst, err
	}
	if status := counts.status(); status != "" {
		dst = append(append(append(dst, `,"status":"`...), status...), '"')
	}
	return append(dst, '}'), nil
}

// appendOpenEntry is appendEntry without the entry's status and the closing brace.
func (v *View) appendOpenEntry(dst []byte, seq uint64, row []byte) (_ []byte, counts laterCounts, err error) {
	if row == nil || seq > v.head.lastSeq {
		return dst, counts, ErrNotFound
	}
	start := len(dst)
	text, err := entryJSON(row)
	if err != nil {
		return dst, counts, fmt.Errorf("read entry %d: %w", seq, err)
	}
	dst = append(dst, text...)
	has, err := v.store.later.has(seq)
	if err != nil {
		return dst[:start], counts, err
	}
	if !has {
		return append(dst, noSuccessors...), counts, nil
	}
	if counts, err = v.counts(seq); err != nil {
		return dst[:start], counts, err
	}
	dst = append(dst, `,"supersededBy":[`...)
	if counts.listed > 0 {
		items, closer, err := v.snap.Get(seqKey(spaceLater, seq))
		if err != nil {
			return dst[:start], counts, fmt.Errorf("successors of entry %d: %w", seq, err)
		}
		dst = append(dst, items...)
		if err := closeRow(closer); err != nil {
			return dst[:start], counts, err
		}
	}
	dst = append(dst, `],"supersededByCount":`...)
	return appendInt(dst, int64(counts.total)), counts, nil
}

// row calls f with an entry's row, which is valid during the call only.
func (v *View) row(seq uint64, f func(row []byte) error) error {
	if seq == 0 || seq > v.head.lastSeq {
		return ErrNotFound
	}
	if row := v.store.recent.get(seq); row != nil {
		return v.show(seq, row, f)
	}
	row, closer, err := v.snap.Get(seqKey(spaceEntry, seq))
	if err != nil {
		return fmt.Errorf("read entry %d: %w", seq, err)
	}
	if err := v.show(seq, row, f); err != nil {
		_ = closer.Close()
		return fmt.Errorf("read entry %d: %w", seq, err)
	}
	return closeRow(closer)
}

// rowKept returns an entry's row, which must not be changed, and stays valid.
func (v *View) rowKept(seq uint64) ([]byte, error) {
	if seq == 0 || seq > v.head.lastSeq {
		return nil, ErrNotFound
	}
	row := v.store.recent.get(seq)
	if row == nil {
		var err error
		if row, _, err = getRow(v.snap, seqKey(spaceEntry, seq)); err != nil {
			return nil, fmt.Errorf("read entry %d: %w", seq, err)
		}
	}
	return v.shown(seq, row)
}

// originalRow is row for moderators: that of a hidden entry is as its author wrote it.
func (v *View) originalRow(seq uint64, f func(row []byte) error) error {
	h, hidden, err := load(v.snap, seqKey(spaceHidden, seq), decodeHidden)
	switch {
	case err != nil:
		return fmt.Errorf("read hidden entry %d: %w", seq, err)
	case !hidden:
		return v.row(seq, f)
	}
	return v.show(seq, h.row, f)
}

// counts returns how many entries relate to an entry.
func (v *View) counts(seq uint64) (laterCounts, error) {
	c, _, err := load(v.snap, seqKey(spaceCounts, seq), decodeLaterCounts)
	return c, err
}

// Meta returns an entry's head; false when there is no such entry.
func (v *View) Meta(seq uint64) (Meta, bool, error) {
	if seq == 0 || seq > v.head.lastSeq {
		return Meta{}, false, nil
	}
	var e entryRow
	err := v.row(seq, func(row []byte) (err error) {
		e, err = decodeEntryRow(seq, row)
		return err
	})
	if err != nil {
		return Meta{}, false, err
	}
	err = v.addCounts(&e.Meta)
	return e.Meta, err == nil, err
}

// addCounts adds what later entries say of an entry.
func (v *View) addCounts(m *Meta) error {
	if has, err := v.store.later.has(m.Seq); err != nil || !has {
		return err
	}
	counts, err := v.counts(m.Seq)
	m.Replies, m.Successors, m.Status = counts.replies, counts.total, counts.status()
	return err
}

// Request returns the entry that a command of this kind with this key wrote, in the
// scope of a standing; false when the key is unknown there.
func (v *View) Request(op command.Op, standing command.Standing, by command.Signature) (seq uint64, ok bool) {
	if by.Request == (command.RequestKey{}) {
		return 0, false
	}
	s := &viewState{v: v}
	_, row, ok := requestOf(s, op, standing, by)
	v.must(s.err)
	if !ok {
		return 0, false
	}
	q, err := decodeRequestRow(row)
	v.must(err)
	return q.entry, true
}

// Repeat returns the result of a command that writes nothing new, as far as the view knows:
// its request_id was used before, its sender has reported the entry before, or the profile
// is already as it says. False for any other. Such a command need not enter the log, where
// its text would stand again, though it may have been purged.
func (v *View) Repeat(c command.Payload) (r command.Result, known bool, err error) {
	by, signed := command.SignatureOf(c)
	if !signed {
		return r, false, nil
	}
	s := &viewState{v: v}
	switch c := c.(type) {
	case *command.Register:
		r, known = unchanged(s, c)
	case *command.Report:
		r, known = reportedBefore(s, &writer{by, standingOf(s, by)}, c.Target)
	default:
		var row []byte
		standing := standingOf(s, by)
		if by.Request == (command.RequestKey{}) || standing.WrongKey {
			break
		}
		if _, row, known = requestOf(s, command.OpOf(c), standing, by); known {
			r, err = repeated(c, row)
			s.must(err)
		}
	}
	return r, known && s.err == nil, s.err
}

// Channels returns the most recently active channels, newest first, at most
// MaxChannels. The slice is shared and must not be changed.
func (v *View) Channels() []Channel {
	v.channelsOnce.Do(func() {
		var err error
		v.channels, err = v.readChannels()
		v.must(err)
	})
	return v.channels
}

// must hands an error of the storage to Options.Fatal where a read has no way to
// report it.
func (v *View) must(err error) {
	if err != nil {
		v.store.fatal(fmt.Errorf("read state: %w", err))
	}
}

func (v *View) readChannels() ([]Channel, error) {
	lower, upper := spaceBounds(spaceRecent)
	var out []Channel
	err := scanBack(v.snap, lower, upper, func(_, row []byte) error {
		if len(out) == command.MaxChannels {
			return errEnough
		}
		c, name, err := decodeChannelRow(row)
		out = append(out, Channel{Name: string(name), Entries: c.entries, LastEntryAt: c.lastAt})
		return err
	})
	return out, err
}

// Meta is what the state knows about an entry beside its text.
type Meta struct {
	Seq        uint64
	CreatedAt  int64 // milliseconds since the epoch
	AgentKey   string
	Channel    string
	Kind       command.Kind
	Type       EntryType
	Relation   command.Relation
	House      bool
	Hidden     bool   // what is shown of it is a stub
	Parent     uint64 // the entry this one relates to; 0: none
	Thread     uint64 // the first entry of the conversation; its own seq at a root
	Successors uint64 // entries that relate to this one
	Replies    uint64 // those of them with relation reply
	Status     string // what its author says of it by now: corrected, retracted or ""
}

// Channel is a channel with its counts.
type Channel struct {
	Name        string
	Entries     uint64
	LastEntryAt int64 // milliseconds since the epoch
}
