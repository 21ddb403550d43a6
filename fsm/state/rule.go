package state

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The policy rejects writes by rules that moderators set for a while. Rules of
// networks and patterns are checked where the request arrives, because addresses never enter
// the log and patterns cost too much for apply. The command carries the revision of the policy
// that it was checked against; one of another revision is sent back to be checked again. All
// other rules are checked when a command is applied. All rules that a policy holds are in
// force: apply first removes those that have ended.

// Rule is one rule of the policy.
type Rule struct {
	Number  uint64 // of the row of the record about it
	Kind    command.RuleKind
	Subject string // as in command.SetRule
	At      int64  // when it was set, milliseconds since the epoch
	Until   int64  // when it ends, or 0
	By      string
	Reason  string

	Sender string // RuleSender: from where the entry came
}

// LookupKey is the lookup key of the rule.
func (r *Rule) LookupKey() RuleSubject {
	if r.Kind == command.RuleSender {
		return RuleSubject{r.Kind, r.Sender}
	}
	return RuleSubject{r.Kind, r.Subject}
}

// RuleSubject is the subject of a rule. No two rules have the same one.
type RuleSubject struct {
	Kind command.RuleKind
	text string
}

// Key returns the key of the rule's row.
func (s RuleSubject) Key() []byte { return append([]byte{SpaceRule, byte(s.Kind)}, s.text...) }

// Fields implements Row. The kind of the rule and its sender stand in the key.
func (r *Rule) Fields(c *Codec) {
	c.Fields(&r.Number, &r.At, &r.Until, &r.Subject, &r.By, &r.Reason)
}

// Policy are the rules at one applied log entry. It never changes.
type Policy struct {
	All map[RuleSubject]*Rule
	// Revision changes with every rule that is checked where a request arrives.
	Revision uint64
	NextEnd  int64 // when the next rule ends, or Never
	channels bool  // there are rules of channels
	Networks []ArrivalRule[netip.Prefix]
	Patterns func() []ArrivalRule[WatchedPattern]
}

// ArrivalRule is a rule that is checked where a request arrives, in parsed form.
type ArrivalRule[T any] struct {
	*Rule
	is T
}

// WatchedPattern is a pattern, for texts as they were written and for text.Plain.
type WatchedPattern struct{ raw, plain *regexp.Regexp }

// NewWatchedPattern reads a pattern.
func NewWatchedPattern(s string) (w WatchedPattern, err error) {
	if w.raw, err = command.CompilePattern(s); err == nil {
		w.plain, err = regexp.Compile("(?i)" + s)
	}
	return w, err
}

// Finds reports whether the pattern is found in one of some texts, or in their plain form.
func (w WatchedPattern) Finds(texts []string, plain string) bool {
	return w.plain.MatchString(plain) || slices.ContainsFunc(texts, w.raw.MatchString)
}

// Count returns how many rules of a kind there are.
func (p *Policy) Count(kind command.RuleKind) (n int) {
	for subject := range p.All {
		if subject.Kind == kind {
			n++
		}
	}
	return n
}

// Rule returns the rule with a number.
func (p *Policy) Rule(number uint64) (*Rule, bool) {
	for _, r := range p.All {
		if r.Number == number {
			return r, true
		}
	}
	return nil, false
}

// Rules returns at most limit rules below before, newest first. before 0 is the first page,
// next 0 the end.
func (p *Policy) Rules(before uint64, limit int) (rules []*Rule, next uint64) {
	for _, r := range p.All {
		if before == 0 || r.Number < before {
			rules = append(rules, r)
		}
	}
	slices.SortFunc(rules, func(a, b *Rule) int { return int(b.Number) - int(a.Number) }) //nolint:gosec // counted one by one
	if limit = PageLimit(limit); len(rules) > limit {
		return rules[:limit], rules[limit-1].Number
	}
	return rules, 0
}

// ofNetwork returns the oldest rule against an address, or nil.
func (p *Policy) ofNetwork(from netip.Addr) (rejects *Rule) {
	from = from.Unmap().WithZone("")
	for _, n := range p.Networks {
		if n.is.Contains(from) {
			rejects = older(rejects, n.Rule)
		}
	}
	return rejects
}

// inTexts returns the oldest rule against a command for its texts, or nil.
func (p *Policy) inTexts(c command.Payload) (rejects *Rule) {
	patterns := p.Patterns()
	if len(patterns) == 0 {
		return nil
	}
	texts := command.TextsOf(c)
	plain := text.Plain(texts)
	for _, w := range patterns {
		if w.is.Finds(texts, plain) {
			rejects = older(rejects, w.Rule)
		}
	}
	return rejects
}

func older(a, b *Rule) *Rule {
	if a == nil || b.Number < a.Number {
		return b
	}
	return a
}

// OfSender returns the rule against a pseudonym, or nil.
func (p *Policy) OfSender(pseudonym string) *Rule {
	return p.All[RuleSubject{command.RuleSender, pseudonym}]
}

// Against returns a rule that rejects a command, of those that are checked when it is applied,
// except the rule of its sender; nil if there is no such rule.
func (p *Policy) Against(s Reader, c command.Payload, w *Writer) *Rule {
	if len(p.All) == 0 {
		return nil
	}
	subjects := []RuleSubject{{Kind: command.RuleAll}, {command.RuleName, w.AgentKey}}
	if p.channels {
		subjects = append(subjects, RuleSubject{command.RuleChannel, ChannelOfCommand(s, c)})
		if p, publishes := c.(*command.Publish); publishes && p.Relation != command.RelationNone {
			target, _ := Resolve(s, p.Target) // which may be in another channel
			subjects = append(subjects, RuleSubject{command.RuleChannel, target.Channel})
		}
	}
	if w.Strength == command.Unproven {
		subjects = append(subjects, RuleSubject{Kind: command.RuleUnproven})
	}
	_, reports := c.(*command.Report) // which are taken whatever is frozen
	for _, subject := range subjects {
		if r, is := p.All[subject]; is && (!reports || !subject.Kind.Freezes()) {
			return r
		}
	}
	return nil
}

func decodeRule(key, row []byte) (*Rule, error) {
	if len(key) < 2 {
		return nil, fmt.Errorf("%w: rule key", ErrCorrupt)
	}
	rule, err := Decode[Rule](row)
	if rule.Kind = command.RuleKind(key[1]); rule.Kind == command.RuleSender {
		rule.Sender = string(key[2:])
	}
	return &rule, err
}

// NewPolicy returns a policy of these rules.
func NewPolicy(rules map[RuleSubject]*Rule, revision uint64) *Policy {
	p := &Policy{All: rules, Revision: revision, NextEnd: Never}
	var patterns []*Rule
	for _, r := range rules {
		if r.Until > 0 {
			p.NextEnd = min(p.NextEnd, r.Until)
		}
		switch r.Kind {
		case command.RuleChannel:
			p.channels = true
		case command.RuleNetwork:
			if network, err := command.ParseNetwork(r.Subject); err == nil {
				p.Networks = append(p.Networks, ArrivalRule[netip.Prefix]{r, network})
			}
		case command.RulePattern:
			patterns = append(patterns, r)
		}
	}
	p.Patterns = sync.OnceValue(func() (list []ArrivalRule[WatchedPattern]) {
		for _, r := range patterns {
			if w, err := NewWatchedPattern(r.Subject); err == nil {
				list = append(list, ArrivalRule[WatchedPattern]{r, w})
			}
		}
		return list
	})
	return p
}

// LoadPolicy reads the policy of a state.
func LoadPolicy(r pebble.Reader) (*Policy, error) {
	rules := map[RuleSubject]*Rule{}
	err := ScanAll(r, SpaceRule, func(key, row []byte) error {
		rule, err := decodeRule(key, row)
		if err == nil {
			rules[rule.LookupKey()] = rule
		}
		return err
	})
	revision, _, err2 := Load(r, KeyPolicy, DecodeNumber)
	return NewPolicy(rules, revision), errors.Join(err, err2)
}
