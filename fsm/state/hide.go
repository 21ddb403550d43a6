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
	Row       []byte // of SpaceEntry
	State     []byte // of SpaceJob or SpaceHelp; may be empty
	Successor []byte // its item among those of the entry that it relates to; empty if it was not listed there
	Newest    bool   // it was among the newest entries
	Asked     bool   // it waited for an answer
	Topics    uint64 // which of its topics were counted for its author, a bit for each
	Notes     uint64 // which of them it was a note of
	Owed      uint64 // who of its inbox had not answered it, a bit for each
	Order     uint64 // that hides it: the number of its first part in the record
}

// Encode returns the row of spaceHidden.
func (h *HiddenEntry) Encode() []byte {
	dst := append([]byte(nil), Bit(h.Newest, 1)|Bit(h.Asked, 2))
	dst = AppendUints(dst, h.Topics, h.Notes, h.Owed, h.Order)
	return AppendBlob(AppendBlob(AppendBlob(dst, h.Successor), h.State), h.Row)
}

// DecodeHidden decodes a row of spaceHidden.
func DecodeHidden(row []byte) (HiddenEntry, error) {
	r := RowReader{Rest: row}
	marks := r.Byte()
	h := HiddenEntry{Newest: marks&1 != 0, Asked: marks&2 != 0, Topics: r.Uint(), Notes: r.Uint(), Owed: r.Uint(), Order: r.Uint()}
	h.Successor, h.State, h.Row = r.bytes(r.Uint()), r.bytes(r.Uint()), r.bytes(r.Uint())
	return h, r.Done("hidden row")
}

// HiddenEntries is the number of entries of a row of SpaceHiddenBits, which is part of
// every digest. If the block size of the index changes, stored rows keep this size.
const HiddenEntries = 1 << 15

// Unhidden returns an entry as it was before it was hidden.
func Unhidden(r pebble.Reader, e *EntryRow) (EntryRow, error) {
	if !e.Hidden {
		return *e, nil
	}
	h, ok, err := Load(r, SeqKey(SpaceHidden, e.Seq), DecodeHidden)
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

// Append encodes the row.
func (p *Purge) Append(dst []byte) []byte {
	dst = AppendUints(dst, p.Index, uint64(p.At), uint64(p.CreatedAt), uint64(p.Since))
	return AppendBlob(AppendBlob(dst, p.Cluster), p.ID)
}

// DecodePurge decodes a row of spacePurge.
func DecodePurge(row []byte) (Purge, error) {
	r := RowReader{Rest: row}
	p := Purge{Index: r.Uint(), At: int64(r.Uint()), CreatedAt: int64(r.Uint()), Since: int64(r.Uint()), Cluster: r.Text(), ID: r.Text()}
	return p, r.Done("purge row")
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
//
//	swept last
type SweepRow struct {
	Swept uint64 // entries, in all
	Last  uint64 // seq of the newest entry that a sweep has looked at: it is swept, or in SpaceKept
}

// Append encodes the row.
func (s *SweepRow) Append(dst []byte) []byte { return AppendUints(dst, s.Swept, s.Last) }

// DecodeSweepRow decodes the row of keySweep.
func DecodeSweepRow(row []byte) (SweepRow, error) {
	r := RowReader{Rest: row}
	s := SweepRow{Swept: r.Uint(), Last: r.Uint()}
	return s, r.Done("sweep row")
}

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
		h, _ := Read(s, SeqKey(SpaceHelp, e.Seq), DecodeHelpRow)
		over = h.Status > HelpOpen
	case e.ParentType == TypeJob && e.Relation == command.RelationReply:
		job := JobOf(s, e.Parent).At(s.Instant())
		return e.CreatedAt, !job.isHeldBy(e.Seq)
	default:
		return e.CreatedAt, true
	}
	end = e.CreatedAt
	list, _ := Read(s, SeqKey(SpaceLater, e.Seq), ParseSuccessors)
	if len(list) > 0 {
		newest, _ := s.Entry(list[len(list)-1].Seq)
		end = newest.CreatedAt
	}
	return end, over
}
