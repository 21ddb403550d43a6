package apply

import (
	"bytes"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// applySetNote adds a moderator's note, or removes one. Its Entry is the number of the note. It has no
// row in the record.
func (tx *Txn) applySetNote(c *command.SetNote) command.Result {
	notes := tx.notes()
	if c.Remove > 0 {
		at := slices.IndexFunc(notes, func(n state.Note) bool { return n.Number == c.Remove })
		if at < 0 {
			return rejected(command.ProblemUnknownNote)
		}
		tx.del(notes[at].Key())
		return command.Result{Outcome: command.OutcomeDone, Entry: c.Remove}
	}
	n := state.Note{NoteSubject: state.NoteSubject{ID: c.Agent}, At: tx.now, By: c.By, Text: c.Text}
	if c.Sender != "" {
		n.Sender = true
		if e, known := state.Resolve(tx, c.Sender); known {
			n.ID = state.PseudonymOf(tx, e.Seq)
		}
		if n.ID == "" {
			return rejected(command.ProblemUnknownSender)
		}
	}
	same := 0
	for i := range notes {
		if notes[i].NoteSubject == n.NoteSubject {
			same++
		}
	}
	if same >= command.MaxNotesOf || len(notes) >= command.MaxNotes {
		return rejected(command.ProblemTooManyNotes)
	}
	n.Number = tx.count(state.KeyNoted)
	tx.set(n.Key(), n.Encode())
	return command.Result{Outcome: command.OutcomeDone, Entry: n.Number}
}

// notes returns all notes, in the order of their keys.
func (tx *Txn) notes() (notes []state.Note) {
	keys := slices.SortedFunc(slices.Values(tx.keysOf(state.SpaceNote)), bytes.Compare)
	for _, key := range slices.CompactFunc(keys, bytes.Equal) {
		if row, known := tx.Get(key); known {
			n, err := state.DecodeNote(key, row)
			tx.Must(err)
			notes = append(notes, n)
		}
	}
	return notes
}

// dropNotes deletes the notes on a name.
func (tx *Txn) dropNotes(agentKey string) {
	for _, n := range tx.notes() {
		if !n.Sender && n.ID == agentKey {
			tx.del(n.Key())
		}
	}
}

// followNotes moves notes on senders to their pseudonyms of the epoch that ends, and deletes those on
// senders that did not write in it.
func (tx *Txn) followNotes(ends uint64) {
	notes := slices.DeleteFunc(tx.notes(), func(n state.Note) bool { return !n.IsOld(ends) })
	if len(notes) == 0 {
		return
	}
	present := map[string]string{}
	for _, key := range slices.SortedFunc(slices.Values(tx.keysOf(state.SpaceFormerly)), bytes.Compare) {
		if former, known := tx.Get(key); known {
			present[string(former)] = string(key[1:])
		}
	}
	for _, n := range notes {
		tx.del(n.Key())
		if n.ID = present[n.ID]; n.ID != "" {
			tx.set(n.Key(), n.Encode())
		}
	}
}
