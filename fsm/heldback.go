package fsm

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// What a pattern holds is published hidden: both happen in one write batch. A row lists
// it until a moderator shows it, or hides it with a reason.

// heldReason is the reason for which held entries and profiles are hidden.
const heldReason = "Held until a moderator has looked at it"

// holdBack hides what a command has just written.
func (tx *txn) holdBack(p command.Payload, seq, rule uint64) {
	number := binary.AppendUvarint(nil, rule)
	if c, is := p.(*command.Register); is {
		if profile, _ := tx.profile(c.AgentKey); !profile.hidden() {
			tx.hideProfile(c.AgentKey, &profile, heldReason)
			tx.keep(heldProfileKey(c.AgentKey), number)
		}
		return
	}
	if len(command.TextsOf(p)) == 0 {
		return
	}
	if e, known := tx.entry(seq); known && !e.Hidden {
		e.held = true
		tx.hide(&e, heldReason)
		tx.happen(EventHide, seq)
		tx.keep(heldBackKey(seq), number)
	}
}

// keepHidden hides a held entry, which is hidden already, with a moderator's reason.
func (tx *txn) keepHidden(e *entryRow, reason string) {
	if parent, ok := tx.entry(e.Parent); ok {
		e.parentType = parent.Type
	}
	tx.recastEntry(e.Seq, e.stub(tx.now, reason, false))
	tx.happen(EventHide, e.Seq)
}

// release removes something from the list of held items; false if it was not on it.
func (tx *txn) release(key []byte) bool {
	_, held := tx.get(key)
	if held {
		tx.keep(key, nil)
	}
	return held
}

// HeldBack is an entry or profile that was published hidden, for a moderator to review.
type HeldBack struct {
	ID    string // an entry's id, or an agent's name
	Rule  uint64 // number of the rule because of which it is held
	At    int64  // milliseconds since the epoch
	Agent string // folded
	Texts []string
}

// HeldBack returns entries that are held, newest first: those with a seq below before unless
// that is 0, and at most limit; on the first page also as many profiles, by their names.
// next is the before of the next page; 0 on the last page.
func (v *View) HeldBack(before uint64, limit int) (held []HeldBack, next uint64, err error) {
	limit = pageLimit(limit)
	if before == 0 {
		if held, err = v.heldProfiles(limit); err != nil {
			return nil, 0, err
		}
	}
	seqs, err := v.seqsBefore([]byte{spaceHeldBack, heldEntries}, before, limit+1)
	if err != nil {
		return nil, 0, err
	}
	seqs, next = cutPage(seqs, limit)
	for _, seq := range seqs {
		rule, _, err := load(v.snap, heldBackKey(seq), decodeNumber)
		if err != nil {
			return nil, 0, err
		}
		h, found, err := load(v.snap, seqKey(spaceHidden, seq), decodeHidden)
		if err != nil || !found {
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		e, err := decodeEntryRow(seq, h.row)
		if err != nil {
			return nil, 0, err
		}
		texts, err := e.texts()
		if err != nil {
			return nil, 0, err
		}
		held = append(held, HeldBack{
			ID: FormatID(e.Type, seq), Rule: rule, At: e.CreatedAt, Agent: e.AgentKey,
			Texts: append([]string{texts.Title, texts.Body}, texts.Tags...),
		})
	}
	return held, next, nil
}

func (v *View) heldProfiles(limit int) (held []HeldBack, err error) {
	lower, upper := []byte{spaceHeldBack, heldProfiles}, []byte{spaceHeldBack, heldProfiles + 1}
	err = scanSpace(v.snap, lower, upper, func(key, row []byte) error {
		if len(held) == limit {
			return errEnough
		}
		rule, err := decodeNumber(row)
		if err != nil {
			return err
		}
		p, _, err := v.profile(string(key[2:]))
		held = append(held, HeldBack{ID: p.id, Rule: rule, At: p.hiddenAt, Agent: string(key[2:]), Texts: p.texts()})
		return err
	})
	return held, err
}
