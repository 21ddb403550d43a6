package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
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
		p.NotifyURL, p.NotifyVerified = "", false
		tx.followHook(c.AgentKey, &old, &p.ProfileFields)
	}
	copy(p.Recovery[:], c.NewRecovery)
	tx.putProfile(c.AgentKey, &p)
	return command.Result{Outcome: outcome, KeyIssued: true, RecoveryIssued: true}
}

// pushNews has the receiver of moderators told that there is work, once for all news of
// NewsMillis. The event counts the work when it is sent, so that one that waits covers later news.
func (tx *Txn) pushNews() {
	url, set := tx.Get(state.KeyWebhook)
	o := tx.outbox(outbox.Moderators)
	if !set || slices.ContainsFunc(o.Queue, func(q outbox.Queued) bool { return q.Number != o.Sending }) {
		return
	}
	o.Hook = max(o.Hook, 1)
	number := tx.enqueue(outbox.Moderators, outbox.DeliveryRow{Kind: outbox.DeliveryNews, To: string(url)}, state.ProvenSender(outbox.Moderators))
	i, _ := o.Find(number)
	o.Queue[i].Ready = tx.now + command.NewsMillis
}

// applySetWebhook sets the receiver of news for moderators. It drops the deliveries that wait for
// the former one.
func (tx *Txn) applySetWebhook(c *command.SetWebhook) command.Result {
	if o := tx.outbox(outbox.Moderators); o.Hook != 0 {
		tx.unhook(outbox.Moderators, o, outbox.ReasonHookOff)
	}
	action := state.ActionSetWebhook
	if tx.set(state.KeyWebhook, []byte(c.URL)); c.URL == "" {
		tx.del(state.KeyWebhook)
		action = state.ActionRemoveWebhook
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, action, "")}
}
