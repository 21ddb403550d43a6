package state

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// The row of a hidden entry is a stub: its place and time, and why it is hidden. The
// original row is in SpaceHidden, to show the entry again and to build the index: its
// postings stay, and searches exclude it by a bitmap. Its counts and lists are changed, and
// changed back.

// HiddenEntry is the row of SpaceHidden: the original entry, and where it was counted
// and listed.
type HiddenEntry struct {
	Row    []byte // of SpaceEntry
	State  []byte // of SpaceJob or SpaceHelp; may be empty
	Listed bool   // it was among the successors of the entry that it relates to
	Newest bool   // it was among the newest entries
	Asked  bool   // it waited for an answer
	Topics uint64 // which of its topics were counted for its author, a bit for each
	Notes  uint64 // which of them it was a note of
	Owed   uint64 // who of its inbox had not answered it, a bit for each
	Order  uint64 // that hides it: the number of its first part in the record
}

// Fields implements Row.
func (h *HiddenEntry) Fields(c *Codec) {
	c.Fields(Flags{&h.Newest, &h.Asked, &h.Listed}, &h.Topics, &h.Notes, &h.Owed, &h.Order, &h.State, &h.Row)
}

// HiddenEntries is the number of entries of a row of SpaceHiddenBits, which is part of
// every digest. If the block size of the index changes, stored rows keep this size.
const HiddenEntries = 1 << 15

// Unhidden returns an entry as it was before it was hidden.
func Unhidden(r pebble.Reader, e *EntryRow) (EntryRow, error) {
	if !e.Hidden {
		return *e, nil
	}
	h, ok, err := Load(r, SeqKey(SpaceHidden, e.Seq), Decode[HiddenEntry])
	if err == nil && !ok {
		return *e, nil // it is erased
	}
	if err != nil {
		return EntryRow{}, err
	}
	return DecodeEntryRow(e.Seq, h.Row)
}

var _ [HiddenEntries - index.BlockEntries]struct{} = [index.BlockEntries - HiddenEntries]struct{}{}

// Purge is one entry or profile that was purged.
type Purge struct {
	Number  uint64 // from 1
	Index   uint64 // of the log entry that purged it: what stands before it may hold the text
	At      int64  // milliseconds since the epoch
	Cluster string // that purged it
	ID      string // of an entry, or @ and the folded name of a profile; or RefusedTexts
	// CreatedAt is when the entry was published, or when the profile was changed last.
	CreatedAt int64
	// Since is when the oldest of its texts was written: the disks of the servers that were removed
	// since then may hold it.
	Since int64
}

// RefusedTexts is the ID of the purge of texts that are in the log alone: they were rejected because
// their target is hidden or unknown.
const RefusedTexts = "refused"

// Fields implements Row.
func (p *Purge) Fields(c *Codec) {
	c.Fields(&p.Index, &p.At, &p.CreatedAt, &p.Since, &p.Cluster, &p.ID)
}

// GoneIn returns the purged and the swept entries of a block; nil is the empty set.
func GoneIn(r pebble.Reader, block uint64) (index.Bitmap, error) {
	purged, _, err := GetRow(r, SeqKey(SpacePurgedBits, block))
	if err != nil {
		return nil, err
	}
	swept, _, err := GetRow(r, SeqKey(SpaceSweptBits, block))
	return index.Bitmap(purged).Or(swept), err
}

// SweepRow is how far the sweeps are: the row of KeySweep.
type SweepRow struct {
	Swept uint64 // entries, in all
	Last  uint64 // seq of the newest entry that a sweep has looked at: it is swept, or in SpaceKept
}

// Fields implements Row.
func (s *SweepRow) Fields(c *Codec) { c.Fields(&s.Swept, &s.Last) }

// KeptKey is the key of an entry that is old enough to be swept and is kept.
func KeptKey(seq uint64) []byte { return SeqKey(SpaceKept, seq) }

// EndOf returns when the retention of an entry begins, and whether it has begun.
func EndOf(s Facts, e *EntryRow) (end int64, over bool) {
	switch {
	case e.Hidden:
		return e.CreatedAt, true
	case e.Type == TypeJob:
		over = JobOf(s, e.Seq).At(s.Instant()).Status.Over()
	case e.Type == TypeHelp:
		h, _ := Read(s, SeqKey(SpaceHelp, e.Seq), Decode[HelpRow])
		over = h.Status > HelpOpen
	case e.ParentType == TypeJob && e.Relation == command.RelationReply:
		job := JobOf(s, e.Parent).At(s.Instant())
		return e.CreatedAt, !job.isHeldBy(e.Seq)
	default:
		return e.CreatedAt, true
	}
	end = e.CreatedAt
	list, _ := Read(s, SeqKey(SpaceLater, e.Seq), Decode[Successors])
	if len(list) > 0 {
		newest, _ := s.Entry(list[len(list)-1].Seq)
		end = newest.CreatedAt
	}
	return end, over
}
