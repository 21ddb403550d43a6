package write

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// maxPolicyChecks is how often a write is checked because the policy changed meanwhile.
const maxPolicyChecks = 5

// proposeUnderPolicy proposes a command, checked against the policy at the time that it is applied.
func proposeUnderPolicy(c *op.Call, cmd command.Payload, propose func() (command.Result, error)) (result command.Result, err error) {
	by, signed := command.SignatureOf(cmd)
	if !signed {
		return propose()
	}
	for range maxPolicyChecks {
		repeats, err := repeats(c, cmd)
		if err != nil {
			return result, err
		}
		if repeats {
			c.Index = c.View().Index()
			return c.Examined.Earlier, nil
		}
		if err := CheckPolicy(c, by.Proof); err != nil {
			return result, err
		}
		lost, err := targetProblems(c, cmd)
		if err != nil {
			return result, err
		}
		if len(lost) > 0 {
			c.Charge()
			return command.Result{Outcome: command.OutcomeRejected, Problems: lost}, nil
		}
		result, err = propose()
		if err != nil || result.Outcome != command.OutcomeRejected {
			return result, err
		}
		switch {
		case slices.Contains(result.Problems, command.ProblemOldPolicy):
			c.Release() // the newest view has the policy that it was against
			continue
		case slices.Contains(result.Problems, command.ProblemBlocked):
			rule, _ := c.NewestView().Policy().Rule(result.Entry)
			err = blocked(c, rule)
		case slices.Contains(result.Problems, command.ProblemProvenOnly):
			err = provenOnly()
		default:
			if problem, is := limitProblem(result.Problems); is {
				err = limitError(c, problem)
			}
		}
		return result, err
	}
	return result, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "what may be written is being changed; nothing was written"}
}

// Examine judges a command with this node's view.
func Examine(c *op.Call, cmd command.Payload) (err error) {
	if c.Examined, err = c.View().Examine(cmd, c.Sender()); err != nil {
		return fmt.Errorf("examine a write: %w", err)
	}
	return nil
}

// repeats reports whether a command repeats an earlier one, and need not enter the log. A repeat
// that may have ended is judged again with the newest state; without a leader, proposing the
// command fails.
func repeats(c *op.Call, cmd command.Payload) (bool, error) {
	if err := Examine(c, cmd); err != nil || !c.Examined.Repeats || !mayBeOver(cmd) {
		return c.Examined.Repeats, err
	}
	if fresh := c.Await(op.Freshness{Strong: true}) == nil; !fresh {
		return false, nil
	}
	c.Release()
	err := Examine(c, cmd)
	return c.Examined.Repeats, err
}

// claimMargin is how long before its end a claim no longer keeps others out of the log: the
// leader, whose clock decides about the end, may be ahead of this node.
const claimMargin = 5 * time.Second

// targetProblems returns the problems of a claim whose job is already taken, and of a report or an entry
// that its target forbids. Such a command need not enter the log, where its text would stay. This
// node may be behind, so the command is judged again with the newest state; without a leader,
// proposing the command fails.
func targetProblems(c *op.Call, cmd command.Payload) ([]command.Problem, error) {
	judge := func() (lost []command.Problem, err error) {
		if claim, isClaim := cmd.(*command.ClaimJob); isClaim {
			lost, err = c.View().LostClaim(claim, c.Env.Now().Add(claimMargin).UnixMilli())
		} else {
			lost, err = c.View().RefusedText(cmd)
		}
		if err != nil {
			return nil, fmt.Errorf("look at the target of a write: %w", err)
		}
		return lost, nil
	}
	if lost, err := judge(); err != nil || len(lost) == 0 {
		return nil, err
	}
	if fresh := c.Await(op.Freshness{Strong: true}) == nil; !fresh {
		return nil, nil
	}
	c.Release()
	return judge()
}

// mayBeOver reports whether the record of an earlier request may expire, so that the command
// would no longer be a repeat: profiles change, and reports are dropped.
func mayBeOver(cmd command.Payload) bool {
	switch cmd.(type) {
	case *command.Register, *command.Report:
		return true
	}
	return false
}

// CheckPolicy returns the error of a policy that rejects the examined command. It adds to the
// command's proof the results that apply needs.
func CheckPolicy(c *op.Call, proof *command.Proof) error {
	policy := &c.Examined.Policy
	proof.Policy = policy.Revision
	switch {
	case policy.Rule != nil:
		return blocked(c, policy.Rule)
	case policy.ProvenOnly:
		return provenOnly()
	}
	return nil
}

// limitProblems are the problems of a write that is over a limit of the state.
var limitProblems = []command.Problem{command.ProblemReportsFull, command.ProblemTooManyReports, command.ProblemNewChannels, command.ProblemErasures}

func limitProblem(problems []command.Problem) (command.Problem, bool) {
	at := slices.IndexFunc(problems, func(p command.Problem) bool { return slices.Contains(limitProblems, p) })
	if at < 0 {
		return 0, false
	}
	return problems[at], true
}

// limitError returns the error of a write that is over a limit of the state.
func limitError(c *op.Call, problem command.Problem) error {
	switch problem {
	case command.ProblemNewChannels:
		return command.TooManyChannels(time.UnixMilli(c.NewestView().Time()))
	case command.ProblemErasures:
		return command.TooManyErasures(time.UnixMilli(c.NewestView().Time()))
	}
	const lookAgain = time.Hour
	limit := &command.RateLimit{
		Name: "reports", Quota: command.MaxSenderReports, Window: lookAgain, Field: "entry_id",
		Message: fmt.Sprintf("%d reports from your address, network or name wait for a moderator.", command.MaxSenderReports),
	}
	if problem == command.ProblemReportsFull {
		limit.Message = "Too many reports wait for a moderator. If it is urgent, write to the operator, whom /llms.txt names where there is one to write to."
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
