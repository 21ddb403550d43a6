package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/subscription"
)

// applySubscribe adds a subscription. Its Entry is the number.
func (tx *Txn) applySubscribe(c *command.Subscribe) command.Result {
	filter, earlier, problems := subscription.Against(tx, &tx.judged, c)
	switch {
	case len(problems) > 0:
		return rejected(problems...)
	case earlier != 0:
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
	}
	subs := subscription.Of(tx, c.AgentKey)
	subs.Last++
	one := subscription.Subscription{Number: subs.Last, Way: c.Way, Filter: filter, After: tx.Head.LastSeq, CreatedAt: tx.now}
	if c.Way != command.WayMute {
		one.Counted = subscription.Counting(&tx.judged)
		tx.countSubscription(&one, 1)
	}
	switch {
	case c.Way == command.WayPush:
		key := subscription.SubscribersKey(filter)
		others, _ := state.Read(tx, key, subscription.DecodeSubscribers)
		tx.set(key, append(others, c.AgentKey).Encode())
	case c.Way == command.WayDigest && subs.Of(command.WayDigest) == 0:
		tx.set(subscription.DigestKey(c.AgentKey), subscription.Digest{Read: tx.Head.LastSeq}.Encode())
	}
	subs.All = append(subs.All, one)
	tx.set(subscription.Key(c.AgentKey), subs.Encode())
	return command.Result{Outcome: command.OutcomeDone, Entry: one.Number}
}

// countSubscription adds a subscription to the rows that count it, or subtracts it.
func (tx *Txn) countSubscription(one *subscription.Subscription, by int) {
	tx.countClaim(one.Counted, by)
	tx.setNumber(state.KeySubscriptions, tx.number(state.KeySubscriptions)+uint64(by)) //nolint:gosec // wraps around where it is negative
}

func (tx *Txn) applyUnsubscribe(c *command.Unsubscribe) command.Result {
	if problems := subscription.AgainstEnd(tx, &tx.judged, c); len(problems) > 0 {
		return rejected(problems...)
	}
	tx.unsubscribe(c.AgentKey, func(one *subscription.Subscription) bool { return one.Number == c.Number })
	return command.Result{Outcome: command.OutcomeDone, Entry: c.Number}
}

// unsubscribe removes those subscriptions of an agent that meant selects.
func (tx *Txn) unsubscribe(agentKey string, meant func(*subscription.Subscription) bool) {
	subs := subscription.Of(tx, agentKey)
	if subs.Last == 0 {
		return
	}
	subs.All = slices.DeleteFunc(subs.All, func(one subscription.Subscription) bool {
		if !meant(&one) {
			return false
		}
		if one.Way != command.WayMute {
			tx.countSubscription(&one, -1)
		}
		if one.Way == command.WayPush {
			tx.dropSubscriber(subscription.SubscribersKey(one.Filter), agentKey)
		}
		return true
	})
	if subs.Of(command.WayDigest) == 0 {
		tx.del(subscription.DigestKey(agentKey))
	}
	tx.set(subscription.Key(agentKey), subs.Encode())
}

func (tx *Txn) dropSubscriber(key []byte, agentKey string) {
	others, _ := state.Read(tx, key, subscription.DecodeSubscribers)
	others = slices.DeleteFunc(others, func(name string) bool { return name == agentKey })
	if len(others) == 0 {
		tx.del(key)
		return
	}
	tx.set(key, others.Encode())
}

// subscribersOf returns the agents that subscribe to the author or the thread of an entry, each
// once, without the author. A new thread has no subscribers.
func (tx *Txn) subscribersOf(e *state.EntryRow) []string {
	names, _ := state.Read(tx, subscription.SubscribersKey(command.Filter{AgentKey: e.AgentKey}), subscription.DecodeSubscribers)
	if e.Parent != 0 {
		thread, _ := state.Read(tx, subscription.SubscribersKey(command.Filter{Thread: e.Thread}), subscription.DecodeSubscribers)
		names = append(names, thread...)
	}
	if len(names) == 0 {
		return nil
	}
	seen := map[string]bool{e.AgentKey: true}
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// mutes reports whether an agent has muted the author or the thread of an entry.
func (tx *Txn) mutes(agentKey string, e *state.EntryRow) bool {
	subs := subscription.Of(tx, agentKey)
	return subs.Mutes(&e.Meta)
}
