package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The operations of moderators on the policy: rules that keep writes out, and what a rule
// holds for a look.

var (
	blockParams  = []string{"sender_of", "agent", "network", "for", "reason"}
	freezeParams = []string{"channel", "unproven", "all", "for", "reason"}
	watchParams  = []string{"pattern", "hold", "for", "reason"}
	liftParams   = []string{"number", "reason"}
)

// ruleProblems say what the state has against a change of the policy.
var ruleProblems = map[command.Problem]wire.Issue{
	command.ProblemUnknownSender: {"sender_of", "must be the id of an entry with a known sender"},
	command.ProblemUnknownRule:   {"number", "is that of no rule that holds: GET /api/moderation/rules lists them"},
	command.ProblemTooManyRules: {"reason", fmt.Sprintf("cannot be kept: there are %d rules of this kind, or %d patterns; lift one first",
		command.MaxRules, command.MaxPatterns)},
}

// ruling is the handler of an operation that sets a rule. subject reads what it is about.
func ruling(params []string, subject func(c *call, f *orderForm, cmd *command.SetRule)) handler {
	return ordering(params, func(c *call, f *orderForm) func() error {
		cmd := &command.SetRule{Order: f.Order}
		subject(c, f, cmd)
		cmd.For = f.duration("for", cmd.Kind != command.RulePattern)
		if !f.problems.Any() {
			if err := command.Check(cmd); err != nil {
				f.problems.Add(cmd.Kind.String(), "cannot be taken: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}
		return func() error {
			result, err := c.order(cmd)
			if err != nil {
				return err
			}
			return c.answerRule(&result, func(view *fsm.View) (wire.Object, error) {
				rule, known := view.Policy().Rule(result.Entry)
				if !known {
					return nil, fsm.ErrNotFound
				}
				return ruleObject(rule), nil
			})
		}
	})
}

// answerRule answers with what a change of the policy has left, or with why there was none.
func (c *call) answerRule(r *command.Result, show func(view *fsm.View) (wire.Object, error)) error {
	for _, p := range r.Problems {
		if issue, known := ruleProblems[p]; known {
			return wire.Invalid([]wire.Issue{issue}, wire.Object{})
		}
	}
	view, err := c.readBack()
	if err != nil {
		return err
	}
	answer, err := show(view)
	if err != nil {
		return err
	}
	return c.answerObject(http.StatusOK, c.withNotes(answer))
}

// only returns which of some fields was sent; several or none are a problem.
func (f *orderForm) only(fields ...string) string {
	only := ""
	for _, name := range fields {
		if f.doc.Get(name) == nil {
			continue
		}
		if only != "" {
			f.problems.Add(name, "goes not with %s: give one of %s", only, strings.Join(fields, ", "))
			return ""
		}
		only = name
	}
	if only == "" {
		f.problems.Add(fields[0], "is required, or one of %s", strings.Join(fields[1:], ", "))
	}
	return only
}

// duration reads for how long something holds, in milliseconds.
func (f *orderForm) duration(field string, required bool) int64 {
	s := f.word(field, command.MaxName)
	var d time.Duration
	var err error
	switch days, inDays := strings.CutSuffix(s, "d"); {
	case s == "" && !required || f.problems.Has(field):
		return 0
	case inDays:
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		const day = 24 * time.Hour
		d = time.Duration(n) * day //nolint:gosec // of 16 bits
	default:
		d, err = time.ParseDuration(s)
	}
	if err != nil || d < time.Second || d.Milliseconds() > command.MaxRuleMillis {
		f.problems.Add(field, "must be a time from 1s to 366d, such as 90m, 12h or 7d")
		return 0
	}
	return d.Milliseconds()
}

// blockRule reads whose writes are blocked.
func blockRule(_ *call, f *orderForm, cmd *command.SetRule) {
	switch f.only("agent", "sender_of", "network") {
	case "agent":
		cmd.Kind, cmd.Subject = command.RuleName, text.Fold(f.agent("agent"))
	case "sender_of":
		cmd.Kind, cmd.Subject = command.RuleSender, f.word("sender_of", command.MaxTarget)
	case "network":
		cmd.Kind, cmd.Subject = command.RuleNetwork, f.word("network", command.MaxName)
		if !strings.Contains(cmd.Subject, "/") {
			f.problems.Add("network", "must be like 192.0.2.0/24 or 2001:db8::/32; /32 or /128 is one address")
		}
	}
}

// freezeRule reads which writes are frozen.
func freezeRule(_ *call, f *orderForm, cmd *command.SetRule) {
	field := f.only("channel", "unproven", "all")
	switch field {
	case "channel":
		cmd.Kind, cmd.Subject = command.RuleChannel, f.name("channel", text.ChannelName(f.text("channel", maxRawName)), command.MaxChannel)
		return
	case "unproven":
		cmd.Kind = command.RuleUnproven
	case "all":
		cmd.Kind = command.RuleAll
	default:
		return
	}
	if !f.flag(field) && !f.problems.Has(field) {
		f.problems.Add(field, "must be true, or be left out")
	}
}

// watchRule reads which texts are watched.
func watchRule(_ *call, f *orderForm, cmd *command.SetRule) {
	cmd.Kind, cmd.Subject, cmd.Hold = command.RulePattern, f.word("pattern", command.MaxPatternBytes), f.flag("hold")
	if cmd.Subject == "" && !f.problems.Has("pattern") {
		f.problems.Add("pattern", "is required: a regular expression (RE2) of up to %d bytes, such as (?i)cheap pills", command.MaxPatternBytes)
	}
}

// liftRule serves POST /api/moderation/lift.
var liftRule = ordering(liftParams, func(c *call, f *orderForm) func() error {
	number, err := strconv.ParseUint(f.word("number", command.MaxName), 10, 64)
	if err != nil && !f.problems.Has("number") {
		f.problems.Add("number", "is required: that of a rule, as GET /api/moderation/rules gives it")
	}
	return func() error {
		result, err := c.order(&command.LiftRule{Order: f.Order, Number: number})
		if err != nil {
			return err
		}
		return c.answerRule(&result, func(*fsm.View) (wire.Object, error) {
			return wire.Object{{"number", number}, {"record", result.Entry}}, nil
		})
	}
})

func ruleObject(r *fsm.Rule) wire.Object {
	until := any(nil)
	if r.Until > 0 {
		until = r.Until
	}
	return wire.Object{
		{"number", r.Number},
		{"kind", r.Kind.String()},
		{"subject", r.Subject},
		{"hold", r.Hold},
		{"at", r.At},
		{"until", until},
		{"by", r.By},
		{"reason", r.Reason},
	}
}

// forModerators is the handler of a list that moderators alone are shown.
func forModerators(scope string, params []string, filters func(l *listing), run func(c *call, l *listing) (rows []wire.Object, next uint64, err error)) handler {
	return private(func(c *call) (task, error) {
		if _, err := c.onlyModerator(); err != nil {
			return task{}, err
		}
		return reading(params, func(l *listing) {
			l.scope = scope
			if filters != nil {
				filters(l)
			}
			l.readPage()
		}, func(c *call, l *listing) error {
			rows, next, err := run(c, l)
			if err != nil {
				return fmt.Errorf("list %s: %w", scope, err)
			}
			cursor := any(nil)
			if next > 0 {
				cursor = l.nextCursor(next)
			}
			return c.answerObject(http.StatusOK, c.withNotes(wire.Object{{scope, append([]wire.Object{}, rows...)}, {"nextCursor", cursor}}))
		})(c)
	})
}

// listRules serves GET /api/moderation/rules.
var listRules = forModerators("rules", recordParams, nil, func(c *call, l *listing) (rows []wire.Object, next uint64, err error) {
	rules, next := c.read().Policy().Rules(l.query.Before, l.query.Limit)
	for _, r := range rules {
		rows = append(rows, ruleObject(r))
	}
	return rows, next, nil
})

// listHeld serves GET /api/moderation/held.
var listHeld = forModerators("held", recordParams, nil, func(c *call, l *listing) (rows []wire.Object, next uint64, err error) {
	held, next, err := c.read().HeldBack(l.query.Before, l.query.Limit)
	for _, h := range held {
		rows = append(rows, wire.Object{{"id", h.ID}, {"agent", h.Agent}, {"at", h.At}, {"rule", h.Rule}, {"texts", h.Texts}})
	}
	return rows, next, err
})
