package apply

import (
	"bytes"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

const (
	// writersKept bounds the senders under a name: its owner is up to two of them, by the
	// registration and by this request.
	writersKept = 3

	// writersStep is how old a sender's stored time gets before it is updated.
	writersStep = command.HourMillis
)

// noteWriter remembers the sender of a write for which others cannot protect the name.
// Unproven writes under a registered name are not noted: they would keep the holder of its
// key from protecting it.
func (tx *Txn) noteWriter(agentKey string, proof *command.Proof) {
	ws := state.WritersOf(tx, agentKey)
	from, was := state.UnprovenSender(proof.Sender), state.UnprovenSender(proof.Former)
	if len(ws) > 0 && ws[0].From == from && tx.now < ws[0].At+writersStep {
		return
	}
	ws = slices.DeleteFunc(ws, func(w state.NameWriter) bool { return w.From == from || proof.Former != "" && w.From == was })
	ws = slices.Insert(ws, 0, state.NameWriter{At: tx.now, From: from})
	tx.set(state.WritersKey(agentKey), ws[:min(len(ws), writersKept)].Append(nil))
}

// moveName counts a name for another pseudonym than before; "" means no pseudonym.
func (tx *Txn) moveName(from, to string) {
	if from == to {
		return
	}
	if n := state.Named(tx, from); n > 1 {
		tx.setNumber(state.NamedKey(from), n-1)
	} else if n == 1 {
		tx.del(state.NamedKey(from))
	}
	if to != "" {
		tx.setNumber(state.NamedKey(to), state.Named(tx, to)+1)
	}
}

// writer returns the signer of the command. Its key counts as used from then on.
func (tx *Txn) writer() *state.Writer {
	j := &tx.judged
	if j.Registered {
		if j.Strength == command.ByKey {
			tx.useKey(j.AgentKey, &j.Profile)
		}
		tx.followSender(j.AgentKey, &j.Profile, j.Proof)
	}
	return &j.Writer
}

// useKey notes that the agent has its key, which is not renewed any more.
func (tx *Txn) useKey(agentKey string, p *state.ProfileRow) {
	if !p.Used {
		p.Used = true
		tx.putProfile(agentKey, p)
	}
}

// profile returns an agent's profile as the call has left it, and false without one.
func (tx *Txn) profile(agentKey string) (state.ProfileRow, bool) {
	return state.Read(tx, state.ProfileKey(agentKey), state.DecodeProfileRow)
}

// putProfile stores a profile.
func (tx *Txn) putProfile(agentKey string, p *state.ProfileRow) {
	tx.set(state.ProfileKey(agentKey), p.Append(nil))
}

// An address proves the names that were registered from it, because it is usually that of
// one client. An address from which more than command.MaxAddressNames names were registered
// is shared, as behind a proxy: it proves no name, and owns no anonymous entry. Each profile
// counts for the pseudonym in its row: it moves with its sender from epoch to epoch, and
// counts for no address if the registration had no proof, or an operator reset the key.

// provingSender returns the sender if its address may prove the name, or "".
func provingSender(p *command.Proof) string {
	if !p.Address || p.Shared {
		return ""
	}
	return p.Sender
}

// applyNextEpoch begins an epoch. Each node erases the key before the last like purged
// texts.
func (tx *Txn) applyNextEpoch(c *command.NextEpoch) command.Result {
	e := state.EpochOf(tx)
	if c.Number != e.Number+1 {
		return unchanged
	}
	tx.followRules()
	tx.set(state.KeyEpoch, state.SenderEpoch{Number: c.Number, Since: tx.now, Key: c.SealedKey, Last: e.Key}.Append(nil))
	tx.dropRange(state.SpaceBounds(state.SpaceFormerly))
	if e.Number > 1 {
		// The pseudonyms of the epoch before the ended one are unused from now on.
		over := state.NamedKey(command.PseudonymOf(e.Number-1, ""))
		tx.dropRange(over, append(bytes.Clone(over), 0xff))
	}
	if len(e.Last) > 0 {
		tx.listPurge(&state.Purge{Cluster: tx.Cluster.ID, Servers: c.Servers})
	}
	return done
}

// keepFormerly links the sender's pseudonyms of both epochs, until the older key is
// destroyed.
func (tx *Txn) keepFormerly(proof *command.Proof) {
	if proof.Former == "" {
		return
	}
	key := state.FormerlyKey(proof.Sender)
	if _, known := tx.Get(key); !known {
		tx.set(key, []byte(proof.Former))
	}
}

// followSender replaces a name's pseudonyms of the last epoch by those of this epoch.
func (tx *Txn) followSender(agentKey string, p *state.ProfileRow, proof *command.Proof) {
	registeredBy := p.Sender
	if p.Follow(proof) {
		tx.moveName(registeredBy, p.Sender)
		tx.putProfile(agentKey, p)
	}
}

// followRule moves a rule to a sender's present pseudonym, unless one there lasts longer.
func (tx *Txn) followRule(sender, former string) {
	rule := tx.Policy.OfSender(former)
	if rule == nil {
		return
	}
	tx.changePolicy(rule.LookupKey(), nil, 0)
	if later := tx.Policy.OfSender(sender); later == nil || rule.Outlasts(later) {
		next := *rule
		next.Sender = sender
		tx.changePolicy(next.LookupKey(), &next, 0)
	}
}

// followRules is followRule for all senders that wrote in the ending epoch: a rule may
// have been set after a sender's last write, because of an entry in the epoch before.
func (tx *Txn) followRules() {
	if tx.Policy.Count(command.RuleSender) == 0 {
		return
	}
	keys := tx.keysOf(state.SpaceFormerly)
	slices.SortFunc(keys, bytes.Compare)
	for _, key := range keys {
		if former, known := tx.Get(key); known {
			tx.followRule(string(key[1:]), string(former))
		}
	}
}

func (tx *Txn) applyForgetSenders() command.Result {
	from, to := state.Forgettable(tx, tx.now)
	if from == to {
		return unchanged
	}
	tx.dropRange(state.SeqKey(state.SpaceSender, from+1), state.SeqKey(state.SpaceSender, to+1))
	tx.set(state.KeyForgotten, state.AppendUints(nil, to))
	return done
}
