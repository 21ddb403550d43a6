package apply

import (
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// outbox returns an agent's outbox, to be changed: it is written at the end of the call.
func (tx *Txn) outbox(agentKey string) *outbox.Outbox {
	return use(tx, &tx.caches.outboxes, tx.outboxes, agentKey, func() (*outbox.Outbox, error) { return outbox.LoadOutbox(tx.stored.DB, agentKey) })
}

// finishOutboxes writes the outboxes of the call.
func (tx *Txn) finishOutboxes() {
	for agentKey, o := range tx.outboxes {
		if o.Hook == 0 {
			continue // the agent never had a receiver
		}
		tx.set(outbox.Key(agentKey), o.Encode())
		due := o.Due()
		if due == o.DueAt {
			continue
		}
		if o.DueAt != 0 {
			tx.del(outbox.DueKey(o.DueAt, agentKey))
		}
		if due != 0 {
			tx.set(outbox.DueKey(due, agentKey), []byte{})
		}
		o.DueAt = due
	}
}

// followHook applies a change of a profile to its outbox: a new receiver, or one with a new secret,
// gets the waiting deliveries; without one they are dropped.
func (tx *Txn) followHook(agentKey string, old, next *state.ProfileFields) {
	if old.Hooked() == next.Hooked() && (!next.Hooked() || old.NotifyURL == next.NotifyURL && old.NotifySalt == next.NotifySalt) {
		return
	}
	o := tx.outbox(agentKey)
	if !next.Hooked() {
		tx.unhook(agentKey, o, outbox.ReasonHookOff)
		return
	}
	o.Active, o.Paused = true, false
	tx.caches.hooks[agentKey] = true
	o.Hook++
	o.Renew(tx.now)
}

// unhook drops the waiting deliveries of an agent that has no receiver any more.
func (tx *Txn) unhook(agentKey string, o *outbox.Outbox, reason string) {
	o.Hook++
	o.Active, o.Paused = false, false
	delete(tx.caches.hooks, agentKey)
	for len(o.Queue) > 0 {
		tx.dropDelivery(agentKey, o, 0, reason)
	}
}
