package write

import (
	"fmt"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// claimMargin is the time before its end from which a claim no longer keeps others out of the log:
// the leader's clock, which decides, may be ahead of this node's.
const claimMargin = 5 * time.Second

// Examine judges a command with this node's view.
func Examine(c *op.Call, cmd command.Payload) (err error) {
	if c.Admission, err = c.View().Admit(cmd, c.Sender(), c.Env.Now().Add(claimMargin).UnixMilli()); err != nil {
		return fmt.Errorf("judge a write: %w", err)
	}
	return nil
}

// Admit judges a command before it is proposed, and returns the error of a policy that rejects it.
// A judgement that keeps the command out of the log may be outdated, so it is repeated with the
// newest state. Without a leader, proposing the command fails.
func Admit(c *op.Call, cmd command.Payload) error {
	err, a := Examine(c, cmd), &c.Admission
	mayBeOver := false // the record of the earlier request: profiles change, and reports are dropped
	switch cmd.(type) {
	case *command.Register, *command.Report:
		mayBeOver = a.Repeats
	}
	if err == nil && (mayBeOver || len(a.Lost) > 0) {
		if fresh := c.Await(op.Freshness{Strong: true}) == nil; fresh {
			c.Release()
			err = Examine(c, cmd)
		} else {
			a.Repeats, a.Lost = false, nil
		}
	}
	if err != nil || a.Repeats {
		return err
	}
	by, _ := command.SignatureOf(cmd)
	by.Proof.Policy = a.Policy.Revision
	return policyError(c)
}

// policyError returns the error of a policy that rejects the judged command, or nil.
func policyError(c *op.Call) error {
	policy := &c.Admission.Policy
	switch {
	case policy.Rule != nil:
		return blocked(c, policy.Rule)
	case policy.ProvenOnly:
		return provenOnly()
	}
	return nil
}

// rejected returns the error of a write that a rule or a limit of the state rejected, or nil.
func rejected(c *op.Call, r *command.Result) error {
	for _, p := range r.Problems {
		switch p {
		case command.ProblemBlocked:
			rule, _ := c.NewestView().Policy().Rule(r.Entry)
			return blocked(c, rule)
		case command.ProblemProvenOnly:
			return provenOnly()
		case command.ProblemOldPolicy:
			return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "what may be written is being changed; nothing was written"}
		case command.ProblemNoneLeft:
			return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "others took the jobs that fit; nothing was written"}
		}
		if err := limitError(c, p); err != nil {
			return err
		}
	}
	return nil
}

// limitError returns the error of a write that is over a limit of the state, or nil for another
// problem.
func limitError(c *op.Call, problem command.Problem) error {
	const lookAgain = time.Hour
	limit := &command.RateLimit{Name: "reports", Quota: command.MaxSenderReports, Window: lookAgain, Field: "entry_id"}
	switch problem {
	case command.ProblemNewChannels:
		return command.TooManyChannels(time.UnixMilli(c.NewestView().Time()))
	case command.ProblemErasures:
		return command.TooManyErasures(time.UnixMilli(c.NewestView().Time()))
	case command.ProblemTooManyReports:
		limit.Message = fmt.Sprintf("%d reports from your address, network or name wait for a moderator.", command.MaxSenderReports)
	case command.ProblemReportsFull:
		limit.Message = "Too many reports wait for a moderator. If it is urgent, write to the operator, whom /llms.txt names where there is one to write to."
	default:
		return nil
	}
	return &command.RateLimited{RetryAfter: lookAgain, Limit: limit}
}

// ruleMessages are the code, the field, and the beginning of the message for each kind of rule.
var ruleMessages = [...]struct {
	code          command.Code
	field, begins string
}{
	command.RuleSender:   {wire.CodeBlocked, wire.RequestBody, "Writes from your address are blocked"},
	command.RuleNetwork:  {wire.CodeBlocked, wire.RequestBody, "Writes from your network are blocked"},
	command.RuleName:     {wire.CodeBlocked, "agent", "Writes under this name are blocked"},
	command.RulePattern:  {wire.CodeBlocked, wire.RequestBody, "Texts with these words are rejected"},
	command.RuleChannel:  {wire.CodeFrozen, "channel", "Nothing is written to this channel"},
	command.RuleUnproven: {wire.CodeFrozen, "edit_key", "Only names that are proven by their edit_key write"},
	command.RuleAll:      {wire.CodeFrozen, wire.RequestBody, "Nobody writes"},
}

// blocked returns the error of a write that a rule rejects. A nil rule was lifted meanwhile.
func blocked(c *op.Call, rule *state.Rule) error {
	if rule == nil {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "a moderator's rule was against this until now; nothing was written"}
	}
	m := ruleMessages[rule.Kind]
	e := &wire.Error{Code: m.code, Message: m.begins, Issues: []wire.Issue{{m.field, "is against a rule of the moderators"}}}
	if rule.Until > 0 {
		e.Message += " until " + wire.Instant(rule.Until)
		e.RetryAfter = time.Duration(rule.Until-c.View().Time()) * time.Millisecond
	}
	if rule.Reason != "" {
		e.Message += ": " + strings.TrimSuffix(rule.Reason, ".")
	}
	e.Message += ". Reading goes on."
	return e
}

func provenOnly() error {
	return &wire.Error{
		Code: wire.CodeFrozen, Message: "Only names that are proven by their edit_key write here. Reading goes on.",
		Issues: []wire.Issue{{FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body: POST /api/agents gives one to a new name"}},
	}
}
