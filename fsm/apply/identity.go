package apply

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// writersKept bounds the senders under a name: its owner is up to two of them, by the
	// registration and by this request.
	writersKept = 3

	// writersStep and namesStep are how old the stored times of a sender get before they are
	// updated.
	writersStep = command.HourMillis
	namesStep   = command.HourMillis
)

// noteSender remembers the sender of a new entry.
func (tx *Txn) noteSender(e *state.EntryRow) {
	w := &tx.judged.Writer
	if w.Proof.Sender != "" {
		from := state.EntrySenders{{Seq: e.Seq, Fingerprint: w.Proof.Sender, Address: w.Proof.Address}}
		tx.extend(state.SendersKey(tx.now), state.Encode(&from))
		tx.useNames(w.Proof.Sender)
	}
	if w.AgentKey != command.AnonymousName && (!w.Registered || w.Strength == command.ByAddress) {
		tx.noteWriter(w.AgentKey, w.Proof)
	}
}

// noteWriter remembers the sender of a write for which others cannot protect the name.
// Unproven writes under a registered name are not noted: they would keep the holder of its
// key from protecting it.
func (tx *Txn) noteWriter(agentKey string, proof *command.Proof) {
	key, before := state.WritersKey(agentKey), state.WritersOf(tx, agentKey)
	from := state.UnprovenSender(proof.Sender)
	if len(before) > 0 && before[0].From == from && tx.now < before[0].At+writersStep {
		return
	}
	ws := slices.DeleteFunc(slices.Clone(before), func(w state.NameWriter) bool { return w.From == from })
	ws = slices.Insert(ws, 0, state.NameWriter{At: tx.now, From: from})
	ws = ws[:min(len(ws), writersKept)]
	for _, w := range before {
		tx.del(state.ForgetKey(w.At, key))
	}
	for _, w := range ws {
		tx.set(state.ForgetKey(w.At, key), []byte{})
	}
	tx.set(key, state.Encode(&ws))
}

// An address proves the names that were registered from it, because it is usually that of
// one client. An address from which more than command.MaxAddressNames names were registered
// is shared, as behind a proxy: it proves no name, and owns no anonymous entry. A profile counts
// for the pseudonym in its row, and for no address if the registration had no proof, or an
// operator reset the key.

// putNames stores the names of an address, as used now.
func (tx *Txn) putNames(sender string, n state.Names) {
	key := state.NamedKey(sender)
	tx.del(state.ForgetKey(n.Used, key))
	if n.Count == 0 {
		tx.del(key)
		return
	}
	n.Used = tx.now
	tx.set(key, state.Encode(&n))
	tx.set(state.ForgetKey(n.Used, key), []byte{})
}

// countName counts a name that is registered from an address, unless that is "".
func (tx *Txn) countName(sender string) {
	if sender == "" {
		return
	}
	n := state.NamesOf(tx, sender)
	if n.Count == 0 {
		n.Since = tx.now
	}
	n.Count++
	tx.putNames(sender, n)
}

// dropName ends the proof of a name by its address.
func (tx *Txn) dropName(p *state.ProfileRow) {
	if n := state.NamesOf(tx, p.Sender); n.Has(p) {
		n.Count--
		tx.putNames(p.Sender, n)
	}
}

// useNames notes that an address from which names were registered has written.
func (tx *Txn) useNames(sender string) {
	if n := state.NamesOf(tx, sender); n.Count > 0 && tx.now >= n.Used+namesStep {
		tx.putNames(sender, n)
	}
}

// provingSender returns the sender if its address may prove the name, or "".
func provingSender(p *command.Proof) string {
	if !p.Address || p.Shared {
		return ""
	}
	return p.Sender
}

func (tx *Txn) applyForgetSenders() command.Result {
	before := state.ForgetsBefore(tx, tx.now)
	oldest, young := state.SendersKey(0), state.SendersKey(before+1)
	keys := tx.scan(state.ForgetKey(0, nil), state.ForgetKey(before+1, nil), state.ForgetBatch)
	if len(keys) == 0 && len(tx.scan(oldest, young, 1)) == 0 {
		return unchanged
	}
	tx.dropRange(oldest, young)
	for _, key := range keys {
		tx.del(key)
		tx.forget(state.ForgottenRow(key), before)
	}
	return done
}

// forget deletes the senders up to an instant from a row.
func (tx *Txn) forget(key []byte, before int64) {
	switch key[0] {
	case state.SpaceBudget: // all rows of a day
		day := command.Day(binary.BigEndian.Uint32(key[1:]))
		tx.dropRange(key, state.DayKey(state.SpaceBudget, day+1))
	case state.SpaceWriters:
		if later := state.WritersOf(tx, string(key[1:])).After(before); len(later) > 0 {
			tx.set(key, state.Encode(&later))
			return
		}
		tx.del(key)
	case state.SpaceReport:
		tx.forgetReporters(key)
	default:
		tx.del(key)
	}
}
