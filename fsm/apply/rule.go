package apply

import (
	"maps"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// changePolicy replaces the rule of a subject; nil means no rule.
func (tx *Txn) changePolicy(subject state.RuleSubject, rule *state.Rule, number uint64) {
	rules, revision := maps.Clone(tx.Policy.All), tx.Policy.Revision
	if delete(rules, subject); rule != nil {
		rules[subject] = rule
		tx.set(subject.Key(), state.Encode(rule))
	} else {
		tx.del(subject.Key())
	}
	if subject.Kind.OnArrival() {
		revision = number
		tx.setNumber(state.KeyPolicy, revision)
	}
	tx.Policy = state.NewPolicy(rules, revision)
}

// endRules removes the rules that have ended. The policy keeps its revision: a node may
// check commands against an ended rule a moment longer.
func (tx *Txn) endRules() {
	if tx.now < tx.Policy.NextEnd {
		return
	}
	rules := maps.Clone(tx.Policy.All)
	for subject, r := range tx.Policy.All {
		if r.Until > 0 && r.Until <= tx.now {
			delete(rules, subject)
			tx.del(subject.Key())
		}
	}
	tx.Policy = state.NewPolicy(rules, tx.Policy.Revision)
}

func (tx *Txn) applySetRule(c *command.SetRule) command.Result {
	rule := &state.Rule{Kind: c.Kind, Subject: c.Subject, At: tx.now, By: c.By, Reason: c.Reason}
	if c.For > 0 {
		rule.Until = tx.now + c.For
	}
	if c.Kind == command.RuleSender {
		if e, known := state.Resolve(tx, c.Subject); known {
			rule.Sender = state.SenderOf(tx, &e).Fingerprint
		}
		if rule.Sender == "" {
			return rejected(command.ProblemUnknownSender)
		}
	}
	if _, known := tx.Policy.All[rule.LookupKey()]; !known && tx.Policy.Count(c.Kind) >= c.Kind.MaxOf() {
		return rejected(command.ProblemTooManyRules)
	}
	rule.Number = tx.recordRule(&c.Order, rule, ruleActions[c.Kind].set)
	tx.changePolicy(rule.LookupKey(), rule, rule.Number)
	return command.Result{Outcome: command.OutcomeDone, Entry: rule.Number}
}

func (tx *Txn) applyLiftRule(c *command.LiftRule) command.Result {
	rule, known := tx.Policy.Rule(c.Number)
	if !known {
		return rejected(command.ProblemUnknownRule)
	}
	number := tx.recordRule(&c.Order, rule, ruleActions[rule.Kind].lift)
	tx.changePolicy(rule.LookupKey(), nil, number)
	return command.Result{Outcome: command.OutcomeDone, Entry: number}
}

// ruleActions are the actions of setting and of lifting a rule in the record.
var ruleActions = [...]struct{ set, lift string }{
	command.RuleSender:   {"block", "unblock"},
	command.RuleName:     {"block", "unblock"},
	command.RuleNetwork:  {"block", "unblock"},
	command.RuleChannel:  {"freeze", "unfreeze"},
	command.RuleUnproven: {"freeze", "unfreeze"},
	command.RuleAll:      {"freeze", "unfreeze"},
	command.RulePattern:  {"watch", "unwatch"},
}

// recordRule adds a row about a rule to the record, which never has a network.
func (tx *Txn) recordRule(o *command.Order, r *state.Rule, action string) uint64 {
	what := r.Kind.String()
	switch r.Kind {
	case command.RuleSender:
		what = "sender of " + r.Subject
	case command.RuleName, command.RulePattern, command.RuleChannel:
		what += " " + r.Subject
	}
	if r.Until > 0 {
		what += " until " + time.UnixMilli(r.Until).UTC().Format(time.RFC3339)
	}
	return tx.record(o, action, what)
}
