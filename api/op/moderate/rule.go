package moderate

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

var (
	blockParams  = []string{"sender_of", "agent", "network", "for", "reason", "dry_run"}
	freezeParams = []string{"channel", "unproven", "all", "for", "reason", "dry_run"}
	watchParams  = []string{"pattern", "for", "reason", "dry_run", "last"}

	// Valid calls.
	sampleBlock  = wire.Object{{"agent", write.ExampleName}, {"for", "7d"}, {"reason", "Advertisement"}}
	sampleFreeze = wire.Object{{"channel", "general"}, {"for", "1h"}, {"reason", "Flood"}}
	sampleWatch  = wire.Object{{"pattern", "(?i)cheap pills"}, {"for", "7d"}, {"reason", "Advertisement"}}
)

// A dry run of a watch looks for the pattern in usualTested of the newest entries, or in up to
// maxTested, and shows up to maxMatches of those that it is found in.
const (
	usualTested = 1000
	maxTested   = 10_000
	maxMatches  = 100
)

// forever is the time of a rule without an end; a missing time means the same.
const forever = "forever"

// ruling returns the handler of an operation that sets a rule. subject reads its kind and subject.
func ruling(params []string, sample wire.Object, subject func(c *op.Call, f *orderForm, cmd *command.SetRule)) op.Handler {
	return ordering(params, sample, func(c *op.Call, f *orderForm) func() error {
		cmd := &command.SetRule{Order: f.Order}
		subject(c, f, cmd)
		if wire.Word(f.word("for", command.MaxName)) != forever || cmd.Kind.Freezes() {
			cmd.For = f.duration("for", cmd.Kind.Freezes())
		}
		if !f.Problems.Any() {
			if err := command.Check(cmd); err != nil {
				f.Problems.Add(cmd.Kind.String(), "cannot be taken: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}
		dry, last := f.flag("dry_run"), f.Number("last", maxTested, usualTested)
		if f.Doc.Get("last") != nil && !dry {
			f.Problems.Add("last", "goes with dry_run alone: it says how many of the newest entries are tested")
		}
		return func() error {
			if dry {
				found, err := testPattern(c, cmd, last)
				if err != nil {
					return err
				}
				would := wire.Object{{"kind", cmd.Kind.String()}, {"subject", cmd.Subject}, {"for", wire.OrNull(f.word("for", command.MaxName))}, {"reason", cmd.Reason}}
				c.Notes = append([]string{write.DryRunNote}, c.Notes...)
				return c.AnswerObject(http.StatusOK, c.WithNotes(append(wire.Object{{"dry_run", true}, {"would", would}}, found...)))
			}
			result, err := f.propose(c, cmd)
			if err != nil {
				return err
			}
			view, err := write.ReadBack(c)
			if err != nil {
				return err
			}
			rule, known := view.Policy().Rule(result.Entry)
			if !known {
				return state.ErrNotFound
			}
			return c.AnswerObject(http.StatusOK, c.WithNotes(ruleObject(rule)))
		}
	})
}

// testPattern returns the members of an answer with the newest entries that match a pattern. Other
// rules have no such members.
func testPattern(c *op.Call, cmd *command.SetRule, last int) (wire.Object, error) {
	if cmd.Kind != command.RulePattern {
		return nil, nil
	}
	w, err := state.NewWatchedPattern(cmd.Subject)
	if err != nil {
		return nil, fmt.Errorf("compile a pattern: %w", err)
	}
	view := c.View()
	tested, found, err := view.Watched(w, last)
	if err != nil {
		return nil, fmt.Errorf("test a pattern: %w", err)
	}
	rows := make([]wire.Object, min(len(found), maxMatches))
	for i := range rows {
		if rows[i], err = entryRow(view, found[i], maxSampleBody); err != nil {
			return nil, err
		}
	}
	return wire.Object{{"tested", tested}, {"matched", len(found)}, {"entries", rows}}, nil
}

// blockRule reads the subject of a block.
func blockRule(c *op.Call, f *orderForm, cmd *command.SetRule) {
	switch f.only("agent", "sender_of", "network") {
	case "agent":
		cmd.Kind, cmd.Subject = command.RuleName, text.Fold(f.Agent("agent"))
	case "sender_of":
		cmd.Kind, cmd.Subject = command.RuleSender, op.CleanID(f.word("sender_of", command.MaxTarget))
		if _, known := c.View().Resolve(cmd.Subject); !known && !f.Problems.Has("sender_of") {
			f.Problems.Add("sender_of", "%s", problemIssues[command.ProblemUnknownSender].Message)
		}
	case "network":
		cmd.Kind, cmd.Subject = command.RuleNetwork, f.word("network", command.MaxName)
		if !strings.Contains(cmd.Subject, "/") {
			f.Problems.Add("network", "must be like 192.0.2.0/24 or 2001:db8::/32; /32 or /128 is one address")
		}
	}
}

// freezeRule reads the subject of a freeze.
func freezeRule(_ *op.Call, f *orderForm, cmd *command.SetRule) {
	field := f.only("channel", "unproven", "all")
	switch field {
	case "channel":
		cmd.Kind, cmd.Subject = command.RuleChannel, f.Name("channel", text.ChannelName(f.Text("channel", wire.MaxRawName)), command.MaxChannel)
		return
	case "unproven":
		cmd.Kind = command.RuleUnproven
	case "all":
		cmd.Kind = command.RuleAll
	default:
		return
	}
	if !f.flag(field) && !f.Problems.Has(field) {
		f.Problems.Add(field, "must be true, or be left out")
	}
}

// watchRule reads the pattern of a watch.
func watchRule(_ *op.Call, f *orderForm, cmd *command.SetRule) {
	cmd.Kind = command.RulePattern
	cmd.Subject = f.word("pattern", command.MaxPatternBytes)
	if cmd.Subject == "" && !f.Problems.Has("pattern") {
		f.Problems.Add("pattern", "is required: a regular expression (RE2) of up to %d bytes, such as (?i)cheap pills", command.MaxPatternBytes)
	}
}

func ruleObject(r *state.Rule) wire.Object {
	return wire.Object{
		{"number", r.Number},
		{"kind", r.Kind.String()},
		{"subject", r.Subject},
		{"at", r.At},
		{"until", wire.OrNull(r.Until)},
		{"by", r.By},
		{"reason", r.Reason},
	}
}

// listRules serves GET /api/moderation/rules.
var listRules = forModerators("rules", recordParams, nil, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	rules, next := c.View().Policy().Rules(l.Query.Before, l.Query.Limit)
	for _, r := range rules {
		rows = append(rows, ruleObject(r))
	}
	return rows, next, nil
})
