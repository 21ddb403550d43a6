package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// applyRegister registers the agent or changes its profile. Its result has no Entry.
func (tx *Txn) applyRegister(c *command.Register) command.Result {
	w := &tx.judged.Writer
	p, known := tx.profile(c.AgentKey)
	if !known {
		return tx.createProfile(c)
	}
	sum := state.RegisterContent(c)
	repeat, repeated := state.RepeatOf(tx, c, &p, w.Standing, sum)
	if repeat.KeyIssued { // by the first request, whose answer may have been lost
		tx.setKey(c.AgentKey, &p, c.NewKey)
		if repeat.RecoveryIssued {
			copy(p.Recovery[:], c.NewRecovery)
		}
		tx.putProfile(c.AgentKey, &p)
	}
	if repeated {
		return repeat
	}
	return tx.changeProfile(c, p, sum)
}

// createProfile registers an agent.
func (tx *Txn) createProfile(c *command.Register) command.Result {
	if problems := state.RegisterProblems(c, tx, nil); len(problems) > 0 {
		return rejected(problems...)
	}
	p := state.ProfileRow{
		ID: c.Agent, ProfileFields: state.MergeProfile(c, state.ProfileFields{}, true), First: tx.Revision + 1,
		CreatedAt: tx.now, Sender: provingSender(&c.Proof),
	}
	copy(p.Recovery[:], c.NewRecovery)
	tx.countName(p.Sender)
	tx.issueKey(c.AgentKey, c.NewKey, &c.Proof, &p)
	tx.putRevision(c, &p, command.Standing{}, state.RegisterContent(c))
	for look := range slices.Chunk(c.Proof.Looks, command.LookBytes) {
		tx.set(state.LookKey(look), []byte(c.AgentKey))
	}
	tx.followHook(c.AgentKey, &state.ProfileFields{}, &p.ProfileFields)
	if !c.House {
		tx.count(state.KeyRegistered)
	}
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}
}

// changeProfile carries a change of a profile out, if it is one and the rules allow it.
func (tx *Txn) changeProfile(c *command.Register, p state.ProfileRow, sum state.ContentSum) command.Result {
	if problems := state.RegisterProblems(c, tx, &p); len(problems) > 0 {
		return rejected(problems...)
	}
	next := state.MergeProfile(c, p.ProfileFields, tx.judged.Strength == command.ByKey)
	if next.Equal(p.ProfileFields) && !c.RotateKey {
		return unchanged
	}
	old := p.ProfileFields
	p.ProfileFields, p.Purged = next, false
	if c.RotateKey {
		tx.issueKey(c.AgentKey, c.NewKey, &c.Proof, &p)
	}
	tx.putRevision(c, &p, command.Standing{Strength: command.ByKey}, sum) // no other write changes a profile
	tx.followHook(c.AgentKey, &old, &next)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: c.RotateKey}
}

// issueKey gives a profile a new key, as of the profile's next revision.
func (tx *Txn) issueKey(agentKey string, hash []byte, proof *command.Proof, p *state.ProfileRow) {
	p.Former, p.FormerRecovery, p.RecoveryRequest = p.Key, state.NoKey, state.ContentSum{}
	tx.setKey(agentKey, p, hash)
	p.Used, p.Issued, p.IssuedAt, p.Issuer = false, tx.Revision+1, tx.now, provingSender(proof)
}

// setKey replaces the profile's edit_key by the one with a hash. The caller stores the
// profile.
func (tx *Txn) setKey(agentKey string, p *state.ProfileRow, hash []byte) {
	tx.del(state.OwnerKey(p.Key[:]))
	copy(p.Key[:], hash)
	tx.set(state.OwnerKey(hash), []byte(agentKey))
}

// putRevision stores the next revision of a profile, and the request_id in its standing's
// scope.
func (tx *Txn) putRevision(c *command.Register, p *state.ProfileRow, s command.Standing, sum state.ContentSum) {
	p.UpdatedAt = tx.now
	tx.revise(c.AgentKey, p)
	if c.Request != (command.RequestKey{}) {
		tx.putRequest(state.RequestKey(command.OpRegister, s, c.Request, c.Proof.Sender), c.Request, state.RequestRow{Entry: p.Revision, Content: sum})
	}
}

// revise stores a profile as its next revision.
func (tx *Txn) revise(agentKey string, p *state.ProfileRow) {
	if p.Revision != 0 {
		tx.del(state.SeqKey(state.SpaceRevision, p.Revision))
	}
	tx.Revision++
	p.Revision = tx.Revision
	tx.putProfile(agentKey, p)
	tx.set(state.SeqKey(state.SpaceRevision, p.Revision), p.RevisionRow(agentKey))
	tx.Revised = append(tx.Revised, Revised{p.Revision, p.Texts()})
}

// applyRecover replaces both keys of a name and removes its receiver. The recovery is no revision
// of the profile: the receiver is private.
func (tx *Txn) applyRecover(c *command.Recover) command.Result {
	p, _ := tx.profile(c.AgentKey)
	if problems := state.RecoverProblems(c, &p, tx.now); len(problems) > 0 {
		return rejected(problems...)
	}
	outcome := command.OutcomeDone
	if _, again := p.Recovers(c, tx.now); again {
		outcome = command.OutcomeDuplicate
		tx.setKey(c.AgentKey, &p, c.NewKey)
	} else {
		tx.issueKey(c.AgentKey, c.NewKey, &c.Proof, &p)
		p.Former, p.Issued = state.NoKey, 0 // neither the ended key nor a registration renews the new one
		p.FormerRecovery, p.RecoveryRequest = p.Recovery, state.RecoveryRequest(c)
		old := p.ProfileFields
		p.NotifyURL, p.NotifySalt, p.NotifyVerified = "", "", false
		tx.followHook(c.AgentKey, &old, &p.ProfileFields)
	}
	copy(p.Recovery[:], c.NewRecovery)
	tx.putProfile(c.AgentKey, &p)
	return command.Result{Outcome: outcome, KeyIssued: true, RecoveryIssued: true}
}

func (tx *Txn) applyResetKey(c *command.ResetKey) command.Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return rejected(command.ProblemUnknownAgent)
	}
	tx.setKey(c.AgentKey, &p, c.NewKey)
	tx.dropName(&p)
	p.Former, p.FormerRecovery, p.Sender, p.Issuer = state.NoKey, state.NoKey, "", ""
	p.Used = true // only an operator renews it
	copy(p.Recovery[:], c.NewRecovery)
	tx.putProfile(c.AgentKey, &p)
	tx.note(command.Operator, state.ActionResetKey, c.AgentKey, "")
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}
}

func (tx *Txn) applyProtectName(c *command.ProtectName) command.Result {
	p, known := tx.profile(c.AgentKey)
	switch {
	case !known:
		return rejected(command.ProblemUnknownAgent)
	case p.Protected == c.Protected:
		return unchanged
	}
	p.Protected = c.Protected
	tx.putProfile(c.AgentKey, &p)
	action := state.ActionUnprotectName
	if c.Protected {
		action = state.ActionProtectName
	}
	tx.note(command.Operator, action, c.AgentKey, "")
	return done
}

// profile returns an agent's profile as the call has left it, and false without one.
func (tx *Txn) profile(agentKey string) (state.ProfileRow, bool) {
	return state.Read(tx, state.ProfileKey(agentKey), state.Decode[state.ProfileRow])
}

func (tx *Txn) putProfile(agentKey string, p *state.ProfileRow) {
	tx.set(state.ProfileKey(agentKey), state.Encode(p))
}
