package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// The policy says which writes are not taken: rules that moderators set, each for a
// while. Rules of senders, names and channels, and those of all writes, are checked when
// a command is applied. What a network or a pattern is against is found out where the
// request arrives, because addresses never enter the log and patterns cost too much for
// apply: the command carries the revision of the policy that it was checked against, and one of
// another revision is sent back to be checked again. All rules that a policy holds are in
// force: those that have ended are removed before anything else of a log entry is applied.

// Rule is one rule of the policy.
type Rule struct {
	Number  uint64 // of the row of the record about it
	Kind    command.RuleKind
	Subject string // as in command.SetRule
	At      int64  // when it was set, milliseconds since the epoch
	Until   int64  // when it ends; 0: never
	Hold    bool   // what it is against is held, and not rejected
	By      string
	Reason  string

	sender string // RuleSender: from where the entry came
}

// subject is the lookup key of the rule.
func (r *Rule) subject() ruleSubject {
	if r.Kind == command.RuleSender {
		return ruleSubject{r.Kind, r.sender}
	}
	return ruleSubject{r.Kind, r.Subject}
}

// ruleSubject is what a rule is about. There is one rule for each.
type ruleSubject struct {
	kind command.RuleKind
	text string
}

func (s ruleSubject) key() []byte { return ruleKey(s.kind, s.text) }

func (r *Rule) append(dst []byte) []byte {
	dst = append(appendUints(dst, r.Number, uint64(r.At), uint64(r.Until)), bit(r.Hold, 1))
	for _, s := range [...]string{r.Subject, r.By, r.Reason} {
		dst = appendBlob(dst, s)
	}
	return dst
}

func decodeRule(key, row []byte) (*Rule, error) {
	if len(key) < 2 {
		return nil, fmt.Errorf("%w: rule key", ErrCorrupt)
	}
	r := rowReader{rest: row}
	rule := &Rule{
		Kind: command.RuleKind(key[1]), Number: r.uint(), At: int64(r.uint()), Until: int64(r.uint()), Hold: r.byte() != 0,
		Subject: r.text(), By: r.text(), Reason: r.text(),
	}
	if rule.Kind == command.RuleSender {
		rule.sender = string(key[2:])
	}
	return rule, r.done("rule row")
}

// Policy are the rules at one applied log entry. It never changes.
type Policy struct {
	rules map[ruleSubject]*Rule
	// revision changes with every rule that is checked where a request arrives.
	revision uint64
	nextEnd  int64 // when the next rule ends; noEnd: none does
	channels bool  // there are rules of channels
	networks []arrivalRule[netip.Prefix]
	patterns func() []arrivalRule[*regexp.Regexp]
}

// arrivalRule is a rule that is checked where a request arrives, in parsed form.
type arrivalRule[T any] struct {
	*Rule
	is T
}

// noEnd is the nextEnd of a policy without rules that end.
const noEnd = math.MaxInt64

func newPolicy(rules map[ruleSubject]*Rule, revision uint64) *Policy {
	p := &Policy{rules: rules, revision: revision, nextEnd: noEnd}
	var patterns []*Rule
	for _, r := range rules {
		if r.Until > 0 {
			p.nextEnd = min(p.nextEnd, r.Until)
		}
		switch r.Kind {
		case command.RuleChannel:
			p.channels = true
		case command.RuleNetwork:
			if network, err := command.ParseNetwork(r.Subject); err == nil {
				p.networks = append(p.networks, arrivalRule[netip.Prefix]{r, network})
			}
		case command.RulePattern:
			patterns = append(patterns, r)
		}
	}
	p.patterns = sync.OnceValue(func() (list []arrivalRule[*regexp.Regexp]) {
		for _, r := range patterns {
			if re, err := command.CompilePattern(r.Subject); err == nil {
				list = append(list, arrivalRule[*regexp.Regexp]{r, re})
			}
		}
		return list
	})
	return p
}

// loadPolicy reads the policy of a state.
func loadPolicy(r pebble.Reader) (*Policy, error) {
	rules := map[ruleSubject]*Rule{}
	lower, upper := spaceBounds(spaceRule)
	err := scanSpace(r, lower, upper, func(key, row []byte) error {
		rule, err := decodeRule(key, row)
		if err == nil {
			rules[rule.subject()] = rule
		}
		return err
	})
	revision, _, err2 := load(r, keyPolicy, decodeNumber)
	return newPolicy(rules, revision), errors.Join(err, err2)
}

// changePolicy replaces the policy by one with rule as the only one of its subject, or
// without any where rule is nil.
func (tx *txn) changePolicy(subject ruleSubject, rule *Rule, number uint64) {
	rules, revision := maps.Clone(tx.policy.rules), tx.policy.revision
	if delete(rules, subject); rule != nil {
		rules[subject] = rule
		tx.keep(subject.key(), rule.append(nil))
	} else {
		tx.keep(subject.key(), nil)
	}
	if subject.kind.OnArrival() {
		revision = number
		tx.keep(keyPolicy, binary.AppendUvarint(nil, revision))
	}
	tx.policy = newPolicy(rules, revision)
}

// endRules removes the rules that have ended at the instant of the log entry that is
// being applied. Nobody is checked anew because of that: what they were against may
// be checked against them a moment longer.
func (tx *txn) endRules() {
	if tx.now < tx.policy.nextEnd {
		return
	}
	rules := maps.Clone(tx.policy.rules)
	maps.DeleteFunc(rules, func(subject ruleSubject, r *Rule) bool {
		ended := r.Until > 0 && r.Until <= tx.now
		if ended {
			tx.keep(subject.key(), nil)
		}
		return ended
	})
	tx.policy = newPolicy(rules, tx.policy.revision)
}

func rejected(p command.Problem) command.Result {
	return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{p}}
}

func blocked(r *Rule) command.Result {
	return command.Result{Outcome: command.OutcomeRejected, Entry: r.Number, Problems: []command.Problem{command.ProblemBlocked}}
}

func (tx *txn) applySetRule(c *command.SetRule) command.Result {
	if !mayOrder(tx, &c.Order) {
		return rejected(command.ProblemNotModerator)
	}
	rule := &Rule{Kind: c.Kind, Subject: c.Subject, At: tx.now, Hold: c.Hold, By: c.By, Reason: c.Reason}
	if c.For > 0 {
		rule.Until = tx.now + c.For
	}
	if c.Kind == command.RuleSender {
		if e, known := resolve(tx, c.Subject); known {
			rule.sender = senderOf(tx, e.Seq).fingerprint
		}
		if rule.sender == "" {
			return rejected(command.ProblemUnknownSender)
		}
	}
	if _, known := tx.policy.rules[rule.subject()]; !known && tx.policy.count(c.Kind) >= c.Kind.MaxOf() {
		return rejected(command.ProblemTooManyRules)
	}
	action := ruleActions[c.Kind].set
	if c.Hold {
		action = ActionHold
	}
	rule.Number = tx.recordRule(&c.Order, rule, action)
	tx.changePolicy(rule.subject(), rule, rule.Number)
	return command.Result{Outcome: command.OutcomeDone, Entry: rule.Number}
}

func (tx *txn) applyLiftRule(c *command.LiftRule) command.Result {
	rule, known := tx.policy.Rule(c.Number)
	switch {
	case !mayOrder(tx, &c.Order):
		return rejected(command.ProblemNotModerator)
	case !known:
		return rejected(command.ProblemUnknownRule)
	}
	number := tx.recordRule(&c.Order, rule, ruleActions[rule.Kind].lift)
	tx.changePolicy(rule.subject(), nil, number)
	return command.Result{Outcome: command.OutcomeDone, Entry: number}
}

// ruleActions are what the record calls it to set and to lift a rule.
var ruleActions = [...]struct{ set, lift string }{
	command.RuleSender:   {"block", "unblock"},
	command.RuleName:     {"block", "unblock"},
	command.RuleNetwork:  {"block", "unblock"},
	command.RuleChannel:  {"freeze", "unfreeze"},
	command.RuleUnproven: {"freeze", "unfreeze"},
	command.RuleAll:      {"freeze", "unfreeze"},
	command.RulePattern:  {"watch", "unwatch"},
}

// recordRule adds a row about a rule to the record. No network stands in it, because the
// record outlives the rule.
func (tx *txn) recordRule(o *command.Order, r *Rule, action string) uint64 {
	what, private := r.Kind.String(), true
	switch r.Kind {
	case command.RuleSender:
		what = "sender of " + r.Subject
	case command.RuleName, command.RulePattern:
		what += " " + r.Subject
	case command.RuleChannel:
		what, private = what+" "+r.Subject, false
	default:
		private = false
	}
	if r.Until > 0 {
		what += " until " + time.UnixMilli(r.Until).UTC().Format(time.RFC3339)
	}
	return tx.record(o, action, what, private)
}

func (p *Policy) count(kind command.RuleKind) (n int) {
	for subject := range p.rules {
		if subject.kind == kind {
			n++
		}
	}
	return n
}

// Rule returns the rule with a number.
func (p *Policy) Rule(number uint64) (*Rule, bool) {
	for _, r := range p.rules {
		if r.Number == number {
			return r, true
		}
	}
	return nil, false
}

// Rules returns rules, newest first: those with a number below before unless that is 0,
// and at most limit. next is the before of the next page; 0 on the last page.
func (p *Policy) Rules(before uint64, limit int) (rules []*Rule, next uint64) {
	for _, r := range p.rules {
		if before == 0 || r.Number < before {
			rules = append(rules, r)
		}
	}
	slices.SortFunc(rules, func(a, b *Rule) int { return int(b.Number) - int(a.Number) }) //nolint:gosec // counted one by one
	if limit = pageLimit(limit); len(rules) > limit {
		return rules[:limit], rules[limit-1].Number
	}
	return rules, 0
}

// ofNetwork returns the oldest rule against an address; nil if there is none.
func (p *Policy) ofNetwork(from netip.Addr) (rejects *Rule) {
	from = from.Unmap().WithZone("")
	for _, n := range p.networks {
		if n.is.Contains(from) {
			rejects = older(rejects, n.Rule)
		}
	}
	return rejects
}

// inTexts returns the oldest rule that rejects a command for its texts, and the oldest one
// that holds it; nil: there is none.
func (p *Policy) inTexts(c command.Payload) (rejects, holds *Rule) {
	patterns := p.patterns()
	if len(patterns) == 0 {
		return nil, nil
	}
	texts := command.TextsOf(c)
	for _, w := range patterns {
		if !slices.ContainsFunc(texts, w.is.MatchString) {
			continue
		}
		if w.Hold {
			holds = older(holds, w.Rule)
		} else {
			rejects = older(rejects, w.Rule)
		}
	}
	return rejects, holds
}

func older(a, b *Rule) *Rule {
	if a == nil || b.Number < a.Number {
		return b
	}
	return a
}

// ofSender returns the rule against a pseudonym; nil: there is none.
func (p *Policy) ofSender(pseudonym string) *Rule {
	return p.rules[ruleSubject{command.RuleSender, pseudonym}]
}

// outlasts reports whether a rule ends later than another one.
func (r *Rule) outlasts(other *Rule) bool {
	return other.Until > 0 && (r.Until == 0 || r.Until > other.Until)
}

// against returns the rule against a command, of those that are checked when it is
// applied, except the rule against its sender; nil if there is none.
func (p *Policy) against(s facts, c command.Payload, by command.Signature, standing command.Standing) *Rule {
	if len(p.rules) == 0 {
		return nil
	}
	subjects := []ruleSubject{{kind: command.RuleAll}, {command.RuleName, by.AgentKey}}
	if p.channels {
		subjects = append(subjects, ruleSubject{command.RuleChannel, channelOfCommand(s, c)})
	}
	if standing.Strength == command.Unproven {
		subjects = append(subjects, ruleSubject{kind: command.RuleUnproven})
	}
	_, reports := c.(*command.Report) // which are taken whatever is frozen
	for _, subject := range subjects {
		if r, is := p.rules[subject]; is && (!reports || !subject.kind.Freezes()) {
			return r
		}
	}
	return nil
}

// channelOfCommand returns to which channel a command writes; "": to none.
func channelOfCommand(s facts, p command.Payload) string {
	switch c := p.(type) {
	case *command.Publish:
		target, _ := resolve(s, c.Target)
		return channelOf(c, &target)
	case *command.PostJob, *command.ClaimJob, *command.FinishJob, *command.ReleaseJob, *command.CloseJob:
		return jobsChannel
	case *command.AskHuman:
		return helpChannel
	}
	return ""
}

// provenOnly reports whether the settings are against a command because it proves no
// name. A name that is new has to be registered first. Reports need no name.
func provenOnly(s facts, p command.Payload, standing command.Standing) bool {
	if standing.Strength > command.Unproven || !settings(s).ProvenOnly {
		return false
	}
	switch p.(type) {
	case *command.Report:
		return false
	case *command.Register:
		return standing.Registered
	}
	return true
}

// checkAndCarryOut applies a command, unless the policy forbids it, or the day's bytes
// are used up. A repeated request_id is accepted and costs nothing.
func (tx *txn) checkAndCarryOut(c command.Command) command.Result {
	standing, repeated := assess(tx, c.Payload)
	if repeated {
		return tx.carryOut(c.Payload)
	}
	by, signed := command.SignatureOf(c.Payload)
	if signed {
		if oldPseudonym(tx, by.Proof) {
			return rejected(command.ProblemOldPolicy)
		}
		// This comes first, even if the command is rejected: a rule has to follow its sender.
		tx.followRule(by.Proof.Sender, by.Proof.Former)
		if rule := tx.policy.ofSender(by.Proof.Sender); rule != nil {
			return blocked(rule)
		}
		if by.Proof.Policy != tx.policy.revision {
			return rejected(command.ProblemOldPolicy)
		}
		if rule := tx.policy.against(tx, c.Payload, by, standing); rule != nil {
			return blocked(rule)
		}
		if provenOnly(tx, c.Payload, standing) {
			return rejected(command.ProblemProvenOnly)
		}
		if floods(tx, by, standing) {
			return rejected(command.ProblemFlood)
		}
	}
	opens := signed && tx.opensChannel(c.Payload, by.Proof, standing)
	if opens && !tx.mayOpenChannel(by.Proof) {
		return rejected(command.ProblemNewChannels)
	}
	if !tx.takeBudget(c, standing) {
		return rejected(command.ProblemOverBudget)
	}
	r := tx.carryOut(c.Payload)
	if !signed || r.Outcome != command.OutcomeDone {
		return r
	}
	if opens {
		tx.countNewChannel(by.Proof)
	}
	tx.countAlike(by, standing)
	if by.Proof.Held != 0 {
		tx.holdBack(c.Payload, r.Entry, by.Proof.Held)
	}
	return r
}

// Policy returns the rules.
func (v *View) Policy() *Policy { return v.policy }

// NextRuleEnd returns when the next rule ends, in milliseconds since the epoch; false
// when none does.
func (v *View) NextRuleEnd() (at int64, ok bool) { return v.policy.nextEnd, v.policy.nextEnd != noEnd }

// PolicyCheck is the result of a policy for a write.
type PolicyCheck struct {
	Revision   uint64 // for Proof.Policy; 0: the write was not checked against it, or there is none yet
	Held       uint64 // for Proof.Held
	Rule       *Rule  // that rejects it; nil: none does
	ProvenOnly bool   // the settings are against it: see command.Settings
}

// CheckPolicy checks a write that came from an address, as far as the view knows. One whose
// request_id was used before is not checked: it writes nothing. Nor is one of a sender that
// was blocked in the last epoch: apply rejects it, and the rule follows its sender into this
// one. Floods are found out by apply alone, which knows the hour.
func (v *View) CheckPolicy(p command.Payload, by command.Signature, from netip.Addr) (j PolicyCheck, err error) {
	s := &viewState{v: v}
	standing, repeated := assess(s, p)
	if repeated {
		return j, s.err
	}
	if v.policy.ofSender(by.Proof.Former) != nil {
		return j, s.err
	}
	j.Revision = v.policy.revision
	if j.Rule = v.policy.ofSender(by.Proof.Sender); j.Rule == nil {
		j.Rule = v.policy.ofNetwork(from)
	}
	if j.Rule == nil {
		j.Rule = v.policy.against(s, p, by, standing)
	}
	j.ProvenOnly = j.Rule == nil && provenOnly(s, p, standing)
	if j.Rule != nil || j.ProvenOnly {
		return j, s.err
	}
	// Patterns cost the most: they are not matched for blocked senders.
	rejects, holds := v.policy.inTexts(p)
	if j.Rule = rejects; holds != nil {
		j.Held = holds.Number
	}
	return j, s.err
}
