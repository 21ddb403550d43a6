package apply

import (
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// A purged entry is hidden and its contents are deleted: it has a stub without mentions,
// and no row in SpaceHidden. The node erases the bytes later; see fsm/erase.go and package
// node/purge.

// listPurge adds the row of a purge.
func (tx *Txn) listPurge(p *state.Purge) {
	p.Number, p.Index, p.At = tx.count(state.KeyPurged), tx.Head.Applied, tx.now
	tx.set(state.SeqKey(state.SpacePurge, p.Number), state.Encode(p))
}

// purged reports whether an entry is purged.
func (tx *Txn) purged(seq uint64) bool { return tx.marked(state.SpacePurgedBits, seq) }

// gone reports whether an entry is swept or purged.
func (tx *Txn) gone(seq uint64) bool { return tx.marked(state.SpaceSweptBits, seq) || tx.purged(seq) }

// applyPurge purges entries and profiles. The Entry of its result is the number of its row in the
// record.
func (tx *Txn) applyPurge(c *command.Purge) command.Result {
	var changed []string
	for _, id := range c.IDs {
		e, known := state.Resolve(tx, id)
		if !known || tx.purged(e.Seq) {
			continue
		}
		tx.purge(&e, id, c.Reason)
		changed = append(changed, id)
	}
	for _, name := range c.Agents {
		p, known := tx.profile(name)
		if !known || p.Purged {
			continue
		}
		if !p.Hidden() {
			tx.happened = append(tx.happened, state.Happening{Kind: state.EventHideProfile, Profile: p.ID})
		}
		tx.listPurge(&state.Purge{Cluster: tx.Cluster.ID, ID: command.ProfileMark + name, CreatedAt: p.UpdatedAt, Since: p.CreatedAt})
		tx.purgeProfile(name, &p, c.Reason)
		changed = append(changed, command.ProfileMark+p.ID)
	}
	return tx.recordChanged(&c.Order, 0, state.ActionPurge, changed)
}

// erasedReason is the reason for which the texts are hidden that their author erased.
const erasedReason = "Erased by its author"

// purge erases the texts of an entry, and lists it for the disks of the nodes.
func (tx *Txn) purge(e *state.EntryRow, id, reason string) {
	if !e.Hidden {
		tx.hide(e, reason, 0)
	}
	tx.erase(e.Seq, state.SpacePurgedBits, reason)
	tx.listPurge(&state.Purge{Cluster: tx.Cluster.ID, ID: id, CreatedAt: e.CreatedAt, Since: e.CreatedAt})
}

// purgeProfile erases the texts of a profile. The name, its key and its protection stay, so
// that only its owner may write under it. Its words leave the index with its revision.
func (tx *Txn) purgeProfile(agentKey string, p *state.ProfileRow, reason string) {
	old := p.ProfileFields
	p.ProfileFields, p.Purged = state.ProfileFields{Protected: old.Protected, Deleted: old.Deleted}, true
	p.HiddenAt, p.HiddenFor, p.HiddenBy = tx.now, reason, 0
	tx.eraseReportsOf(state.ReportSubject{Name: command.ProfileMark + agentKey})
	tx.followHook(agentKey, &old, &p.ProfileFields)
	tx.revise(agentKey, p)
}

// PurgeList purges the entries and profiles of another cluster's list that are in this state
// and have not changed since. It returns the number of purges.
func (tx *Txn) PurgeList(list []state.Purge, reason string) (purged int) {
	tx.now = tx.Head.Now
	for i := range list {
		p := list[i]
		if name, profile := strings.CutPrefix(p.ID, command.ProfileMark); profile {
			row, known := tx.profile(name)
			if !known || row.UpdatedAt > p.CreatedAt || row.Purged {
				continue
			}
			p.Since = row.CreatedAt
			tx.purgeProfile(name, &row, reason)
		} else {
			e, known := state.Resolve(tx, p.ID)
			if !known || e.CreatedAt != p.CreatedAt || tx.purged(e.Seq) {
				continue
			}
			p.Since = e.CreatedAt
			if !e.Hidden {
				tx.hideQuietly(&e, reason, 0)
				tx.countAnswer(&e, false)
			}
			tx.erase(e.Seq, state.SpacePurgedBits, reason)
		}
		tx.listPurge(&p)
		purged++
	}
	if purged > 0 {
		tx.record(&command.Order{By: command.Operator, Reason: reason}, state.ActionPurge, fmt.Sprintf("a purge list (%d of it)", purged))
	}
	return purged
}

// erase erases the content of a hidden entry, and marks it in a keyspace of bits.
func (tx *Txn) erase(seq uint64, bits byte, reason string) {
	was, _ := tx.Entry(seq) // a stub if it was swept before it is purged
	var texts *state.EntryTexts
	if h, kept := state.Read(tx, state.SeqKey(state.SpaceHidden, seq), state.Decode[state.HiddenEntry]); kept {
		was, texts = tx.original(seq, &h)
	}
	tx.mark(bits, seq, true)
	tx.del(state.SeqKey(state.SpaceHidden, seq))
	tx.erased(&was, texts)
	was.Inbox = nil
	tx.recastEntry(was.Seq, was.Stub(tx.now, reason, true))
}
