package command

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
)

// RuleKind is the kind of writes that a rule of the policy rejects.
type RuleKind uint8

// The kinds of rules. The numbers stand in logs and stored rows. Networks and patterns
// are checked where a request arrives, all others when a command is applied.
const (
	RuleSender   RuleKind = 1 // writes of the sender of an entry
	RuleName     RuleKind = 2 // writes under a name
	RuleNetwork  RuleKind = 3 // writes from a network
	RuleChannel  RuleKind = 4 // writes to a channel
	RuleUnproven RuleKind = 5 // writes that prove no name
	RuleAll      RuleKind = 6 // all writes
	RulePattern  RuleKind = 7 // writes with a text that matches the pattern
)

var ruleNames = Names{
	0: "rule", RuleSender: "sender", RuleName: "agent", RuleNetwork: "network", RuleChannel: "channel",
	RuleUnproven: "unproven", RuleAll: "all", RulePattern: "pattern",
}

// String returns the kind's name in the interface.
func (k RuleKind) String() string { return ruleNames.Name(uint8(k)) }

// OnArrival reports whether rules of the kind are checked where a request arrives.
func (k RuleKind) OnArrival() bool { return k == RuleNetwork || k == RulePattern }

// Freezes reports whether rules of the kind forbid a kind of write to everybody.
func (k RuleKind) Freezes() bool { return k == RuleChannel || k == RuleUnproven || k == RuleAll }

// MaxOf is the maximum number of rules of the kind.
func (k RuleKind) MaxOf() int {
	if k == RulePattern {
		return MaxPatterns
	}
	return MaxRules
}

// SetRule adds a rule to the policy, or replaces the one with its subject.
type SetRule struct {
	Order
	Kind RuleKind `cbor:"10,keyasint"`
	// Subject is the id of an entry for RuleSender, a folded name, a network as CIDR, a
	// channel, or a pattern (RE2); "" for the others.
	Subject string `cbor:"11,keyasint,omitempty"`
	For     int64  `cbor:"12,keyasint,omitempty"` // milliseconds of log time; 0 means for good, except for freezes
}

// LiftRule ends a rule.
type LiftRule struct {
	Order
	Number uint64 `cbor:"10,keyasint"` // of its row in the record
}

func (c *LiftRule) check() error { return c.Order.check() }

func (c *SetRule) check() error {
	return errors.Join(
		c.Order.check(), checkText("subject", c.Subject, 0, MaxNameKeyBytes), c.checkSubject(), c.checkFor(),
	)
}

func (c *SetRule) checkFor() error {
	switch {
	case c.For == 0 && !c.Kind.Freezes():
		return nil
	case c.For < 1 || c.For > MaxRuleMillis:
		return fmt.Errorf("a rule for %d milliseconds, allowed are 1 to %d", c.For, int64(MaxRuleMillis))
	}
	return nil
}

func (c *SetRule) checkSubject() error {
	switch c.Kind {
	case RuleSender:
		return checkText("entry", c.Subject, 1, MaxTarget)
	case RuleName:
		return checkBytes("agent", c.Subject, MaxNameKeyBytes)
	case RuleNetwork:
		_, err := ParseNetwork(c.Subject)
		return err
	case RuleChannel:
		return checkText("channel", c.Subject, MinChannel, MaxChannel)
	case RulePattern:
		_, err := CompilePattern(c.Subject)
		return err
	case RuleUnproven, RuleAll:
		return checkRange("subject", len(c.Subject), 0, 0, "bytes")
	}
	return fmt.Errorf("a rule of an unknown kind: %d", c.Kind)
}

// ParseNetwork reads a network: CIDR, with no bit set behind the prefix.
func ParseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Bits() == 0 || p.Addr().Is4In6() || p != p.Masked() {
		return p, fmt.Errorf("%s must be like 192.0.2.0/24 or 2001:db8::/32, not all addresses, and zero behind the prefix", s)
	}
	return p, nil
}

// CompilePattern reads a pattern of watch words, of bounded size and cost.
func CompilePattern(s string) (*regexp.Regexp, error) {
	if err := checkBytes("pattern", s, MaxPatternBytes); err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	if err := checkRange("pattern", len(program.Inst), 1, MaxPatternSteps, "steps"); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(s)
	if err == nil && re.MatchString("") {
		err = errors.New("pattern: it is found in every text, also in an empty one")
	}
	return re, err
}
