package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// maxPolicyChecks is how often a write is checked anew because the policy changed while it
// was on its way.
const maxPolicyChecks = 5

// proposeUnderPolicy proposes a command, checked against the policy that the state has when it is applied.
func (c *call) proposeUnderPolicy(cmd command.Payload, propose func() (command.Result, error)) (result command.Result, err error) {
	by, signed := command.SignatureOf(cmd)
	if !signed {
		return propose()
	}
	for range maxPolicyChecks {
		c.pseudonymise(by.Proof) // an epoch may have begun since it was read
		if earlier, repeats, err := c.repeated(cmd); err != nil || repeats {
			return earlier, err
		}
		if err := c.checkPolicy(cmd, by); err != nil {
			return result, err
		}
		result, err = propose()
		if err != nil || result.Outcome != command.OutcomeRejected {
			return result, err
		}
		switch {
		case slices.Contains(result.Problems, command.ProblemOldPolicy):
			c.release() // the newest view has the policy that it was against
			continue
		case slices.Contains(result.Problems, command.ProblemBlocked):
			rule, _ := c.reread().Policy().Rule(result.Entry)
			err = c.blocked(rule)
		case slices.Contains(result.Problems, command.ProblemProvenOnly):
			err = provenOnly()
		case slices.Contains(result.Problems, command.ProblemFlood):
			err = c.flooded()
		case slices.Contains(result.Problems, command.ProblemReportsFull), slices.Contains(result.Problems, command.ProblemTooManyReports):
			err = tooManyReports(slices.Contains(result.Problems, command.ProblemReportsFull))
		case slices.Contains(result.Problems, command.ProblemNewChannels):
			err = command.TooManyChannels(time.UnixMilli(c.reread().Time()))
		}
		return result, err
	}
	return result, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "what may be written is being changed; nothing was written"}
}

// repeated returns the result of a command that writes nothing new, and need not enter the
// log. What may be over on another node is looked up in the newest state. Where there is
// none, proposing says so.
func (c *call) repeated(cmd command.Payload) (result command.Result, repeats bool, err error) {
	result, repeats, err = c.read().Repeat(cmd)
	if repeats && mayBeOver(cmd) {
		if repeats = c.await(freshness{strong: true}) == nil; repeats {
			result, repeats, err = c.reread().Repeat(cmd)
		}
	}
	if err != nil {
		return result, false, fmt.Errorf("look for what was written before: %w", err)
	}
	c.index = c.read().Index()
	return result, repeats, nil
}

// mayBeOver reports whether what a command repeats may end, so that it is none any more:
// profiles change, and reports are dropped.
func mayBeOver(cmd command.Payload) bool {
	switch cmd.(type) {
	case *command.Register, *command.Report:
		return true
	}
	return false
}

// checkPolicy returns what the policy has against a write, as far as this node knows, and notes
// in the command against which policy it was checked.
func (c *call) checkPolicy(cmd command.Payload, by command.Signature) error {
	set, err := c.read().Settings()
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if by.Proof.Sketch = nil; set.AlikeHourly > 0 {
		by.Proof.Sketch = text.Sketch(command.TextsOf(cmd))
	}
	j, err := c.read().CheckPolicy(cmd, by, c.sender())
	if err != nil {
		return fmt.Errorf("check the policy: %w", err)
	}
	by.Proof.Policy, by.Proof.Held = j.Revision, j.Held
	c.held = j.Held != 0
	switch {
	case j.Rule != nil:
		return c.blocked(j.Rule)
	case j.ProvenOnly:
		return provenOnly()
	}
	return nil
}

// flooded is the error of a write that is one too many of its likes.
func (c *call) flooded() error {
	set, err := c.read().Settings()
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	return set.Flooded(c.read().Time())
}

// tooManyReports is the error of a report that there is no room for.
func tooManyReports(full bool) error {
	const lookAgain = time.Hour
	limit := &command.RateLimit{
		Name: "reports", Quota: command.MaxSenderReports, Window: lookAgain, Field: fieldEntryID.name,
		Message: fmt.Sprintf("%d reports from your address, network or name wait for a moderator.", command.MaxSenderReports),
	}
	if full {
		limit.Message = "Too many reports wait for a moderator, and nobody has sent more of them than you. If it is urgent, write to the operator, whom /llms.txt names where there is one to write to."
	}
	return &command.RateLimited{RetryAfter: lookAgain, Limit: limit}
}

// heldNote is for who wrote something that is held.
const heldNote = "A moderator has to look at this first: until then it is hidden. Do not send it again; GET it by its id to see whether it is shown."

// ruleMessages say what the rules of a kind do: the code, the field, and the beginning of
// a sentence.
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

// blocked is the error of a write that a rule is against; nil: it was lifted since.
func (c *call) blocked(rule *fsm.Rule) error {
	if rule == nil {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "a moderator's rule was against this until now; nothing was written"}
	}
	m := ruleMessages[rule.Kind]
	e := &wire.Error{Code: m.code, Message: m.begins, Issues: []wire.Issue{{m.field, "is against a rule of the moderators"}}}
	if rule.Until > 0 {
		e.Message += " until " + wire.Instant(rule.Until)
		e.RetryAfter = time.Duration(rule.Until-c.read().Time()) * time.Millisecond
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
		Issues: []wire.Issue{{fieldEditKey.name, "is required, " + keyInHeader + " or in the body: POST /api/agents gives one to a new name"}},
	}
}
