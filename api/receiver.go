package api

import (
	"errors"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// maxProfileWrites is how often a profile is proposed while others change its
	// receiver.
	maxProfileWrites = 3

	verifiedNote = "The receiver at notify_url answered the challenge: replies and mentions are pushed to it from now on."

	// howToPass ends the sentence that says why a receiver did not pass.
	howToPass = `It has to answer a POST of {"type":"common.verify", …} with a 2xx status and its reply_with as the body.`
)

// writeProfile has the receiver asked, where that is due, and proposes the profile.
// A receiver that passed before needs no check; where that was taken back before
// the profile came to be written, the state refuses it, and it is asked after all.
func (c *call) writeProfile(f *agentForm, from command.Sender) (result command.Result, err error) {
	for range maxProfileWrites {
		if err := c.verifyReceiver(f, from); err != nil {
			return command.Result{}, err
		}
		result, err = c.propose(from, &f.change)
		if err != nil {
			return command.Result{}, c.explainAgent(f, err)
		}
		if !slices.Contains(result.Problems, command.ProblemUnchecked) {
			break
		}
	}
	return result, nil
}

// verifyReceiver has a new receiver asked whether it wants what is pushed to the
// agent. Nobody is asked for whom the rules refuse the change anyway, nor again
// for what was written before. That is looked up in the newest state: a node that
// is behind would let an address in without a check, and nothing would ever be
// pushed to it. Errors: an *Error; what the backend returns.
func (c *call) verifyReceiver(f *agentForm, from command.Sender) error {
	if f.change.NotifyURL == "" {
		return nil
	}
	if err := c.await(freshness{strong: true}); err != nil {
		return c.explainAgent(f, err)
	}
	c.release()
	due, err := f.receiverDue(c.read())
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if !due {
		return nil
	}
	c.release() // the receiver may take its time
	ctx, done := c.wait(verifyTimeout)
	defer done()
	err = c.srv.backend.VerifyReceiver(ctx, from, f.change.Agent, f.change.NotifyURL)
	if failed, ok := errors.AsType[*ReceiverFailed](err); ok {
		f.problems.Add(fieldNotifyURL.name, "did not pass the check: the receiver %s. %s", failed.Reason, howToPass)
		return c.agentRefusal(f, c.read(), wire.CodeInvalid)
	}
	if err != nil {
		return c.explainAgent(f, orUnavailable(err, command.CodeNotEnqueued, "the receiver at notify_url could not be asked in time"))
	}
	f.change.NotifyVerified = true
	f.notes = append(f.notes, verifiedNote)
	return nil
}

// receiverDue reports whether the receiver has to be asked before the profile is
// written.
func (f *agentForm) receiverDue(view *fsm.View) (bool, error) {
	if _, known := view.Request(command.OpRegister, f.cmd.Request); known && f.cmd.Request.ID != "" {
		return false, nil
	}
	hooked, err := view.Hooked(f.change.AgentKey, f.change.NotifyURL)
	if err != nil || hooked {
		return false, err
	}
	verified := f.change
	verified.NotifyVerified = true
	problems, err := view.RegisterProblems(&verified)
	return len(problems) == 0, err
}
