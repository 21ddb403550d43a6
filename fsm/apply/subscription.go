package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// applySubscribe adds a subscription. Its Entry is the number.
func (tx *Txn) applySubscribe(c *command.Subscribe) command.Result {
	filter, earlier, problems := tx.judged.AgainstSubscribe(tx, c)
	switch {
	case len(problems) > 0:
		return rejected(problems...)
	case earlier != 0:
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
	}
	subs := state.SubscriptionsOf(tx, c.AgentKey)
	subs.Last++
	one := state.Subscription{Number: subs.Last, Way: c.Way, Filter: filter, After: tx.Head.LastSeq, CreatedAt: tx.now}
	if c.Way != command.WayMute {
		one.Counted = tx.judged.Counting()
		tx.countSubscription(&one, 1)
	}
	switch {
	case c.Way == command.WayPush:
		key := state.SubscribersKey(filter)
		others, _ := state.Read(tx, key, state.DecodeSubscribers)
		tx.set(key, append(others, c.AgentKey).Encode())
	case c.Way == command.WayDigest && subs.Of(command.WayDigest) == 0:
		tx.set(state.DigestKey(c.AgentKey), state.DigestRow{Read: tx.Head.LastSeq}.Encode())
	}
	subs.List = append(subs.List, one)
	tx.set(state.SubscriptionsKey(c.AgentKey), subs.Encode())
	return command.Result{Outcome: command.OutcomeDone, Entry: one.Number}
}

// countSubscription adds a subscription to the rows that count it, or subtracts it.
func (tx *Txn) countSubscription(one *state.Subscription, by int) {
	tx.countClaim(one.Counted, by)
	tx.setNumber(state.KeySubscriptions, tx.number(state.KeySubscriptions)+uint64(by)) //nolint:gosec // wraps around where it is negative
}

func (tx *Txn) applyUnsubscribe(c *command.Unsubscribe) command.Result {
	if problems := tx.judged.AgainstUnsubscribe(tx, c); len(problems) > 0 {
		return rejected(problems...)
	}
	tx.unsubscribe(c.AgentKey, func(one *state.Subscription) bool { return one.Number == c.Number })
	return command.Result{Outcome: command.OutcomeDone, Entry: c.Number}
}

// unsubscribe removes those subscriptions of an agent that meant selects.
func (tx *Txn) unsubscribe(agentKey string, meant func(*state.Subscription) bool) {
	subs := state.SubscriptionsOf(tx, agentKey)
	if subs.Last == 0 {
		return
	}
	subs.List = slices.DeleteFunc(subs.List, func(one state.Subscription) bool {
		if !meant(&one) {
			return false
		}
		if one.Way != command.WayMute {
			tx.countSubscription(&one, -1)
		}
		if one.Way == command.WayPush {
			tx.dropSubscriber(state.SubscribersKey(one.Filter), agentKey)
		}
		return true
	})
	if subs.Of(command.WayDigest) == 0 {
		tx.del(state.DigestKey(agentKey))
	}
	tx.set(state.SubscriptionsKey(agentKey), subs.Encode())
}

func (tx *Txn) dropSubscriber(key []byte, agentKey string) {
	others, _ := state.Read(tx, key, state.DecodeSubscribers)
	others = slices.DeleteFunc(others, func(name string) bool { return name == agentKey })
	if len(others) == 0 {
		tx.del(key)
		return
	}
	tx.set(key, others.Encode())
}

// subscribersOf returns the agents that get an entry at once because of its author or thread,
// and that it is not addressed to, each once. A new thread has no subscribers.
func (tx *Txn) subscribersOf(e *state.EntryRow) []string {
	names, _ := state.Read(tx, state.SubscribersKey(command.Filter{AgentKey: e.AgentKey}), state.DecodeSubscribers)
	if e.Parent != 0 {
		thread, _ := state.Read(tx, state.SubscribersKey(command.Filter{Thread: e.Thread}), state.DecodeSubscribers)
		names = append(names, thread...)
	}
	if len(names) == 0 {
		return nil
	}
	seen := map[string]bool{e.AgentKey: true}
	for _, name := range e.Inbox {
		seen[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// mutes reports whether an agent has muted the author or the thread of an entry.
func (tx *Txn) mutes(agentKey string, e *state.EntryRow) bool {
	subs := state.SubscriptionsOf(tx, agentKey)
	return subs.Mutes(&e.Meta)
}
