package view

import (
	"net/netip"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Admission is a view's judgement of a command under a name.
type Admission struct {
	command.Standing
	// Known reports whether the request_id was used before.
	Known bool
	// Repeats is set for a command without a new effect; Earlier is its result. It need not
	// enter the log, which would store its text again although it may have been purged. Earlier is
	// OutcomeDuplicate without Repeats for a repeated registration that renews or first uses a key.
	Repeats bool
	Earlier command.Result
	Policy  state.PolicyCheck
	// Lost are the problems of a claim whose job is taken, and of a report or an entry that its
	// target forbids. They need not enter the log, where the text would stay. It is empty for a
	// repeat, and for a writer with Problems, because only the leader charges a wrong key.
	Lost []command.Problem
	// Limit is the limit of the state that the command is over, or 0. Only apply rejects by it:
	// the view may be of the day before.
	Limit command.Problem
}

// Admit judges a command that came from an address, by the state of the view. Claims that end until
// the instant ends count as ended, because apply may be as late.
func (v *View) Admit(p command.Payload, from netip.Addr, ends int64) (a Admission, err error) {
	s := &viewState{v: v}
	j := state.Admit(s, p)
	a.Standing, a.Known = j.Standing, j.Repeated()
	a.Earlier, a.Repeats = j.Repeat(s, p)
	a.Policy = j.CheckPolicy(s, v.at.Policy, p, from)
	if a.Repeats || a.Known {
		return a, s.err
	}
	if a.Policy.Rule == nil && !a.Policy.ProvenOnly && len(j.Problems()) == 0 {
		a.Lost = lost(s, &j, p, ends)
	}
	a.Limit, _ = j.OverLimit(s, p)
	if report, reports := p.(*command.Report); reports {
		subject, _, _ := state.SubjectOf(s, report.Target)
		_, a.Limit = v.at.Reports.Room(subject, j.Reporter())
	}
	return a, s.err
}

// lost returns the problems of Admission.Lost.
func lost(s *viewState, j *state.Admission, p command.Payload, ends int64) (found []command.Problem) {
	switch c := p.(type) {
	case *command.Publish:
		_, found = state.TargetOf(c, s, &j.Writer)
	case *command.Report:
		_, _, found = j.Reported(s, c.Target)
	case *command.ClaimJob:
		_, _, found = state.JobProblems(readerAt{s, max(ends, s.Instant())}, command.OpClaimJob, c.Job, &j.Writer)
		if !slices.ContainsFunc(found, func(p command.Problem) bool { return slices.Contains(taken, p) }) {
			return nil
		}
	}
	return found
}

// taken are the problems of a claim of a job that another agent has claimed, or that has ended.
var taken = []command.Problem{command.ProblemJobClaimed, command.ProblemJobDone, command.ProblemJobClosed}

// ChannelOf returns the channel that a command would write to; empty if it writes no entry.
func (v *View) ChannelOf(p command.Payload) (string, error) {
	s := &viewState{v: v}
	name := state.ChannelOfCommand(s, p)
	return name, s.err
}

// Assess returns the standing of a command, whether its request_id was used before, and
// whether its bytes fit into the budget at an instant. A command without a signature fits.
func (v *View) Assess(p command.Payload, bytes int, now int64) (standing command.Standing, repeated, fits bool, err error) {
	s := &viewState{v: v}
	j := state.Admit(s, p)
	_, fits = state.BudgetOf(s, command.DayOf(max(now, s.Instant()))).Fits(s, &j, bytes)
	return j.Standing, j.Repeated(), fits, s.err
}

// Standing returns the standing of a signature in the view.
func (v *View) Standing(by command.Signature) (command.Standing, error) {
	w, s := v.writer(by)
	return w.Standing, s.err
}

// Earlier returns the entry that a command of this kind wrote with the signature's
// request_id.
func (v *View) Earlier(op command.Op, by command.Signature) (entry uint64, known bool, err error) {
	s := &viewState{v: v}
	j := state.WriterOf(s, by)
	request := j.LookUp(s, op)
	first, known := request.First(s)
	return first.Entry, known && s.err == nil, s.err
}

// Budget returns the used budget of the day of an instant, or of the newest log entry if that is
// later.
func (v *View) Budget(now int64) (state.Budget, error) {
	s := &viewState{v: v}
	b := state.BudgetOf(s, command.DayOf(max(now, s.Instant())))
	return b, s.err
}

// LookAlike returns the registered name that another name looks like, as spelled there, or
// "".
func (v *View) LookAlike(by command.Signature) (string, error) {
	s := &viewState{v: v}
	key := state.LookAlike(s, by.AgentKey, by.Proof.Looks)
	if key == "" || s.err != nil {
		return "", s.err
	}
	p, _, err := v.profile(key)
	return p.ID, err
}

// Problems returns every problem of a command under a name in the view: those of the name and of the
// objects that the command names. It checks neither limits nor the policy.
func (v *View) Problems(p command.Payload) (found []command.Problem, err error) {
	by, _ := command.SignatureOf(p)
	w, s := v.writer(by)
	job := func(id string) {
		op := command.OpOf(p)
		if op == command.OpTakeJob {
			op = command.OpClaimJob
		}
		_, _, found = state.JobProblems(s, op, id, w)
	}
	profile, known, err := v.profile(by.AgentKey)
	if err != nil {
		return nil, err
	}
	switch c := p.(type) {
	case *command.Register:
		old := &profile
		if !known {
			old = nil
		}
		return state.RegisterProblems(c, s, old), s.err
	case *command.Recover:
		return state.RecoverProblems(c, &profile, v.at.Head.Now), nil
	case *command.TestDelivery:
		return state.TestProblems(c, &profile, known), nil
	case *command.MarkSeen:
		return w.MarkSeenProblems(), s.err
	case *command.Report:
		_, _, found = w.Reported(s, c.Target)
		return found, s.err
	case *command.Publish:
		_, found = state.TargetOf(c, s, w)
	case *command.ClaimJob:
		job(c.Job)
	case *command.FinishJob:
		job(c.Job)
	case *command.ReleaseJob:
		job(c.Job)
	case *command.CloseJob:
		job(c.Job)
	case *command.TakeJob: // of the first candidate, if there are some
		if len(c.Jobs) > 0 {
			job(c.Jobs[0])
		}
	}
	return append(w.Problems(), found...), s.err
}
