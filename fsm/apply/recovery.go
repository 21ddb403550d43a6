package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// applyRecover replaces both keys of a name and removes its receiver. The recovery is no revision
// of the profile: the receiver is private.
func (tx *Txn) applyRecover(c *command.Recover) command.Result {
	p, _ := tx.profile(c.AgentKey)
	if problems := state.AgainstRecover(c, &p, tx.now); len(problems) > 0 {
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
