package state

import (
	"github.com/cockroachdb/pebble/v2"

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
	State  []byte // its row of SpaceJob or SpaceHelp; may be empty
	Listed bool   // it was among the successors of the entry that it relates to
	Newest bool   // it was among the newest entries
	Topics uint64 // which of its topics were counted for its author, a bit for each
	Notes  uint64 // which of them it was a note of
	Owed   uint64 // the agents of its inbox that had not answered it, a bit for each
	Order  uint64 // that hides it: the number of its first part in the record
}

// Fields implements Row.
func (h *HiddenEntry) Fields(c *Codec) {
	c.Fields(Flags{&h.Newest, &h.Listed}, &h.Topics, &h.Notes, &h.Owed, &h.Order, &h.State, &h.Row)
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
