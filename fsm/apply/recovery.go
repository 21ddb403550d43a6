package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// applyRecover queues a recovery code if the name's profile allows it. Its result depends on
// the sender alone.
func (tx *Txn) applyRecover(c *command.Recover) command.Result {
	if !state.MayAskCode(tx, &c.Proof) {
		return rejected(command.ProblemRecoveries)
	}
	tx.setNumber(state.RecoveryKey(tx.now+command.HourMillis, c.Proof.Sender), uint64(tx.now))
	p, _ := tx.profile(c.AgentKey)
	to, codes := p.RecoveredBy(tx.now), p.CodesAt(tx.now)
	if to == "" || len(codes) >= command.MaxDailyCodes {
		return done
	}
	number := tx.alert(c.AgentKey, outbox.DeliveryRow{Kind: outbox.DeliveryCode, To: to})
	codes = append(codes, state.Code{Number: number, At: tx.now, To: to})
	p.Codes = codes
	tx.putProfile(c.AgentKey, &p)
	return done
}

// applyRedeem issues a key for a recovery code. The receiver that got the code is the profile's
// again: a thief of the former key may have set another one.
func (tx *Txn) applyRedeem(c *command.Redeem) command.Result {
	p, _ := tx.profile(c.AgentKey)
	code := p.Redeemable(c, tx.now)
	if code == nil {
		return rejected(command.ProblemWrongCode)
	}
	if code.Issued != 0 {
		tx.setKey(c.AgentKey, &p, c.NewKey)
		tx.putProfile(c.AgentKey, &p)
		return command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true}
	}
	tx.issueKey(c.AgentKey, c.NewKey, &c.Proof, &p)
	code.Issued, code.Request = p.Issued, state.RedeemContent(c)
	old, to := p.ProfileFields, code.To
	p.NotifyURL, p.NotifyVerified, p.RecoverBy = to, true, true
	tx.followHook(c.AgentKey, &old, &p.ProfileFields)
	// The former key and the codes of another receiver are of no use any more.
	p.Former, p.Earlier = [command.KeyHashBytes]byte{}, state.EarlierReceiver{}
	p.Codes = slices.DeleteFunc(p.Codes, func(other state.Code) bool { return other.To != to })
	p.UpdatedAt = tx.now
	tx.revise(c.AgentKey, &p)
	tx.alert(c.AgentKey, outbox.DeliveryRow{Kind: outbox.DeliveryChange, To: to, Changed: outbox.ChangeOf(&old, &p.ProfileFields, true)})
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
}

// alertChange tells the receiver that a profile had of a change that a thief of the key may have
// made. For a while that receiver alone can recover the name; further changes extend the time,
// so that a thief cannot become the earlier receiver.
func (tx *Txn) alertChange(agentKey string, p *state.ProfileRow, old *state.ProfileFields, newKey bool) {
	changed := outbox.ChangeOf(old, &p.ProfileFields, newKey)
	if changed == 0 || !old.Hooked() {
		return
	}
	tx.alert(agentKey, outbox.DeliveryRow{Kind: outbox.DeliveryChange, To: old.NotifyURL, Changed: changed})
	if tx.now >= p.Earlier.Until {
		p.Earlier = state.EarlierReceiver{URL: old.NotifyURL, RecoverBy: old.RecoverBy}
	}
	p.Earlier.Until = tx.now + command.EarlierMillis
}

// alert queues an alert of an agent. Codes and changes count apart in their receiver's hour.
func (tx *Txn) alert(agentKey string, d outbox.DeliveryRow) uint64 {
	queue := outbox.AlertsOf(agentKey)
	tx.outbox(queue).Hook = 1
	return tx.enqueue(queue, d, state.ProvenSender(queue+d.Kind.String()))
}

// dropAlerts forgets the receivers of a profile: its alerts, its codes and the earlier receiver.
func (tx *Txn) dropAlerts(agentKey string, p *state.ProfileRow) {
	p.Earlier, p.Codes = state.EarlierReceiver{}, nil
	if queue := outbox.AlertsOf(agentKey); tx.outbox(queue).Hook != 0 {
		tx.unhook(queue, tx.outbox(queue), outbox.ReasonHookOff)
	}
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
