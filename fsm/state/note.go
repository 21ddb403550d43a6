package state

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// Notes of moderators are about a name, or about a sender by its pseudonym. The oldest pseudonym of a
// sender that is known counts, see SenderFingerprint of the views: when an epoch begins, notes move to
// the pseudonym of the ended one, and those of older ones are deleted.

// Note is a row of SpaceNote.
type Note struct {
	NoteSubject
	Number uint64 // from 1
	At     int64  // milliseconds since the epoch
	By     string // the moderator
	Text   string
}

// NoteSubject is a folded name, or the pseudonym of a sender.
type NoteSubject struct {
	Sender bool
	ID     string
}

// Key returns the beginning of the keys of the subject's notes.
func (n NoteSubject) Key() []byte {
	return AppendBlob([]byte{SpaceNote, Bit(n.Sender, 1)}, n.ID)
}

// Key returns the key of the note.
func (n *Note) Key() []byte { return binary.BigEndian.AppendUint64(n.NoteSubject.Key(), n.Number) }

// Encode returns the row of SpaceNote.
func (n *Note) Encode() []byte {
	return AppendBlob(AppendBlob(AppendUints(nil, uint64(n.At)), n.By), n.Text)
}

// DecodeNote decodes a row of SpaceNote and its key.
func DecodeNote(key, row []byte) (Note, error) {
	k, r := RowReader{Rest: key[1:]}, RowReader{Rest: row}
	n := Note{NoteSubject: NoteSubject{Sender: k.Byte() != 0, ID: k.Text()}, At: int64(r.Uint()), By: r.Text(), Text: r.Text()}
	if k.Bad || len(k.Rest) != 8 {
		return n, ErrCorrupt
	}
	n.Number = binary.BigEndian.Uint64(k.Rest)
	return n, r.Done("note row")
}

// PseudonymOf returns the pseudonym that notes on the sender of an entry are under, or "".
func PseudonymOf(s Facts, seq uint64) string {
	from := SenderOf(s, seq).Fingerprint
	if former, known := s.Get(FormerlyKey(from)); known {
		return string(former)
	}
	return from
}

// IsOld reports whether the note is about a pseudonym from before an epoch.
func (n *Note) IsOld(epoch uint64) bool { return n.Sender && command.EpochOf(n.ID) < epoch }
