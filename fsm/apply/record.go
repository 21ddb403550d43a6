package apply

import (
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// record adds a row to the record of moderators and operators, and returns its number.
func (tx *Txn) record(o *command.Order, action, what string) uint64 {
	return tx.journal(state.ModerationRecord, state.Record{By: o.By, Action: action, What: what, Reason: o.Reason})
}

// note adds a row to the record of changes in the cluster.
func (tx *Txn) note(by, action, what, reason string) {
	tx.journal(state.ChangeRecord, state.Record{By: by, Action: action, What: what, Reason: reason})
}

// applyNoteChange records a change of the cluster's servers.
func (tx *Txn) applyNoteChange(c *command.NoteChange) command.Result {
	tx.note(c.By, c.Action, c.Server, c.Reason)
	return done
}

// journal adds a row to a record and returns its number.
func (tx *Txn) journal(to state.Journal, r state.Record) uint64 {
	r.At, r.What = tx.now, r.What[:min(len(r.What), state.MaxRecordedBytes)]
	r.Number = tx.count(to.Newest)
	tx.set(state.SeqKey(to.Space, r.Number), state.Encode(&r))
	if r.Number > to.Keeps {
		tx.del(state.SeqKey(to.Space, r.Number-to.Keeps))
	}
	return r.Number
}

// noteLead records that a leader began its term, and before the first one the founding.
func (tx *Txn) noteLead(server string) {
	if action, what, has := strings.Cut(tx.Cluster.Founding, " "); has {
		tx.Cluster.Founding = ""
		tx.set(state.KeyCluster, state.Encode(&tx.Cluster))
		tx.note(command.Operator, action, what, "")
	}
	tx.note(server, state.ActionLead, "term "+strconv.FormatUint(tx.Head.Term, 10), "")
}

func (tx *Txn) applySetModerator(c *command.SetModerator) command.Result {
	key, action := state.ModeratorKey(c.Name), state.ActionSetModerator
	_, known := tx.Get(key)
	switch {
	case len(c.Token) > 0 && !known && len(tx.keysOf(state.SpaceModerator)) >= command.MaxModerators:
		return rejected(command.ProblemTooManyModerators)
	case len(c.Token) > 0:
		m := state.Moderator{Token: c.Token, Until: tx.now + c.For}
		tx.set(key, state.Encode(&m))
	case known:
		action = state.ActionRemoveModerator
		tx.del(key)
	default:
		return rejected(command.ProblemUnknownModerator)
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, action, c.Name)}
}

// A purged entry is hidden and its contents are deleted: it has a stub without mentions,
// and no row in SpaceHidden. The node erases the bytes later; see erase.go and package
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
