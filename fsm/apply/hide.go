package apply

import (
	"cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// applyHide hides or shows entries and profiles. The Entry of its result is the number of its row
// in the record.
func (tx *Txn) applyHide(c *command.Hide) command.Result {
	action := state.ActionHide
	if c.Unhide {
		action = state.ActionUnhide
	}
	order := cmp.Or(c.Of, tx.number(state.KeyRecorded)+1)
	return tx.recordChanged(&c.Order, c.Of, action, tx.changeHidden(c, order))
}

// changeHidden hides entries and profiles by an order, or shows them, and returns those that it
// changed.
func (tx *Txn) changeHidden(c *command.Hide, order uint64) (changed []string) {
	for _, id := range c.IDs {
		e, known := state.Resolve(tx, id)
		if !known || tx.gone(e.Seq) || e.Hidden != c.Unhide {
			continue
		}
		if !c.Unhide {
			tx.hide(&e, c.Reason, order)
		} else if !tx.unhide(&e, c.Of) {
			continue
		}
		changed = append(changed, id)
	}
	for _, name := range c.Agents {
		p, known := tx.profile(name)
		if !known || p.Hidden() != c.Unhide || c.Unhide && c.Of != 0 && p.HiddenBy != c.Of {
			continue
		}
		if c.Unhide {
			p.HiddenAt, p.HiddenFor, p.HiddenBy = 0, "", 0
			tx.putHidden(name, &p, state.EventUnhideProfile)
		} else {
			p.HiddenAt, p.HiddenFor, p.HiddenBy = tx.now, c.Reason, order
			tx.putHidden(name, &p, state.EventHideProfile)
		}
		changed = append(changed, command.ProfileMark+p.ID)
	}
	return changed
}

// putHidden stores a profile that was hidden or shown, with an event.
func (tx *Txn) putHidden(agentKey string, p *state.ProfileRow, event state.EventKind) {
	tx.happened = append(tx.happened, state.Happening{Kind: event, Profile: p.ID})
	tx.putProfile(agentKey, p)
	tx.set(state.SeqKey(state.SpaceRevision, p.Revision), p.RevisionRow(agentKey))
}

// hide makes a stub of an entry, with an event. order is 0 if the caller erases the entry.
func (tx *Txn) hide(e *state.EntryRow, reason string, order uint64) {
	tx.hideQuietly(e, reason, order)
	tx.countAnswer(e, false)
	tx.happen(state.EventHide, e.Seq)
}

// hideQuietly makes a stub of an entry, which still counts as an answer.
func (tx *Txn) hideQuietly(e *state.EntryRow, reason string, order uint64) {
	h := state.HiddenEntry{Row: tx.entryRow(e.Seq), Order: order}
	tx.hidden(e, &h)
	tx.mark(state.SpaceHiddenBits, e.Seq, true)
	tx.Hidden++
	tx.setNumber(state.KeyHidden, tx.Hidden)
	tx.set(state.SeqKey(state.SpaceHidden, e.Seq), state.Encode(&h))
	tx.recastEntry(e.Seq, e.Stub(tx.now, reason, false))
}

// original returns the hidden entry of a row of SpaceHidden, with its texts.
func (tx *Txn) original(seq uint64, h *state.HiddenEntry) (state.EntryRow, *state.EntryTexts) {
	e, err := state.DecodeEntryRow(seq, h.Row)
	tx.Must(err)
	texts := tx.texts(&e)
	return e, &texts
}

// unhide puts a hidden entry back, without its deliveries and without the claim of a job. It leaves
// an entry that another order hides than the given one, unless that is 0, and returns false.
func (tx *Txn) unhide(stub *state.EntryRow, order uint64) bool {
	seq := stub.Seq
	h := need(tx, state.SeqKey(state.SpaceHidden, seq), state.Decode[state.HiddenEntry], "hidden entry")
	if order != 0 && h.Order != order {
		return false
	}
	e, texts := tx.original(seq, &h)
	tx.recastEntry(seq, h.Row)
	tx.del(state.SeqKey(state.SpaceHidden, seq))
	tx.mark(state.SpaceHiddenBits, seq, false)
	tx.Hidden--
	tx.setNumber(state.KeyHidden, tx.Hidden)
	tx.unhidden(&e, texts, &h)
	tx.countAnswer(&e, true)
	tx.happen(state.EventUnhide, seq)
	return true
}
