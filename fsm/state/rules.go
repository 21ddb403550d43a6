package state

import "github.com/commons-cluster/commons/fsm/command"

// AgainstTest returns every rule against the command, given the profile.
func AgainstTest(c *command.TestDelivery, p *ProfileRow, known bool) []command.Problem {
	switch {
	case !known:
		return []command.Problem{command.ProblemUnknownAgent}
	case len(c.Proof.Key) == 0:
		return []command.Problem{command.ProblemNoKey}
	case !p.Opens(c.Proof.Key):
		return []command.Problem{command.ProblemWrongKey}
	case !p.Hooked(), p.Paused():
		return []command.Problem{command.ProblemNoHook}
	}
	return nil
}

// MarkSeenProblems returns everything against marking home as seen.
func (w *Writer) MarkSeenProblems() []command.Problem {
	if problems := w.Problems(); len(problems) > 0 || w.Strength == command.ByKey {
		return problems
	}
	return []command.Problem{command.ProblemNoKey}
}

// jobRules are the problems of an action by the status of the job. In a claimed job,
// every other action but the poster's is the claimant's alone.
var jobRules = map[command.Op][JobHidden + 1]command.Problem{
	command.OpClaimJob:   {JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpFinishJob:  {JobOpen: command.ProblemJobNotClaimed, JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpReleaseJob: {JobOpen: command.ProblemJobNotClaimed, JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpCloseJob:   {JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
}

// JobProblems returns everything against an action on the job with a public id, and the
// job's entry and stored row.
func JobProblems(s Facts, op command.Op, id string, w *Writer) (job EntryRow, stored JobRow, problems []command.Problem) {
	job, ok := Resolve(s, id)
	if !ok || job.Type != TypeJob {
		return job, stored, []command.Problem{command.ProblemUnknownJob}
	}
	stored = JobOf(s, job.Seq)
	j := stored.At(s.Instant())
	if j.Status == JobHidden {
		return job, stored, []command.Problem{command.ProblemHidden}
	}
	switch own := job.AgentKey == w.AgentKey; {
	case own && (op == command.OpClaimJob || op == command.OpFinishJob):
		problems = append(problems, command.ProblemOwnJob)
	case op == command.OpCloseJob && !w.Owns(s, &job):
		problems = append(problems, command.ProblemNotPoster)
	case op == command.OpCloseJob && !w.mayUndo(&job):
		problems = append(problems, command.ProblemProofRequired)
	}
	if p := jobRules[op][j.Status]; p != 0 {
		return job, stored, append(problems, p)
	}
	switch {
	case op == command.OpCloseJob:
		if j.Status == JobClaimed && w.Strength != command.ByKey {
			problems = append(problems, command.ProblemJobClaimed)
		}
	case j.Status == JobClaimed:
		switch claim, _ := s.Entry(j.Claim); {
		case !w.Owns(s, &claim):
			problems = append(problems, command.ProblemJobClaimed)
		case !w.mayUndo(&claim):
			problems = append(problems, command.ProblemProofRequired)
		case op == command.OpClaimJob && j.Renewed >= command.MaxRenewals:
			problems = append(problems, command.ProblemTooManyRenewals)
		}
	case op == command.OpClaimJob:
		if !HaveRoom(s, Claimants(w), w.Proof) {
			problems = append(problems, command.ProblemTooManyClaims)
		}
	}
	return job, stored, problems
}

// AgainstRegister returns every rule that rejects the command; p is nil without a profile.
func AgainstRegister(c *command.Register, s Facts, p *ProfileRow) (problems []command.Problem) {
	old := ProfileFields{}
	if p != nil {
		old = p.ProfileFields
	}
	proven := p == nil || p.Opens(c.Proof.Key)
	next := MergeProfile(c, old, proven)
	changes := !next.Equal(old) || c.RotateKey
	if p == nil && c.Delete {
		return []command.Problem{command.ProblemUnknownAgent}
	}
	switch {
	case !proven && len(c.Proof.Key) > 0:
		return []command.Problem{command.ProblemWrongKey}
	case !proven && (changes || p.Hidden() && c.Given != 0): // a comparison would tell hidden texts
		return []command.Problem{command.ProblemNoKey}
	}
	if (p == nil || old.Deleted && !next.Deleted) && c.Description == "" && c.Note == "" {
		problems = append(problems, command.ProblemNoDescription)
	}
	if p == nil && LookAlike(s, c.AgentKey, c.Proof.Looks) != "" {
		problems = append(problems, command.ProblemLookAlike)
	}
	if changes && c.NotifyURL != "" && !next.NotifyVerified && len(problems) == 0 {
		problems = append(problems, command.ProblemUnchecked)
	}
	owner := c.Proof.Sender
	if p != nil {
		owner = p.Sender
	}
	if next.Protected && !old.Protected && WritersOf(s, c.AgentKey).others(s.Instant(), owner, c.Proof.Sender) {
		problems = append(problems, command.ProblemOthersWrote)
	}
	return problems
}

// MergeProfile returns the fields with those that the command gives. Without proof of the key the
// receiver, which is private, stays as it is: an unchanged profile needs no key, so a comparison
// would tell strangers the receiver. A receiver that is given again gets another secret.
func MergeProfile(c *command.Register, f ProfileFields, proven bool) ProfileFields {
	if c.Delete {
		return ProfileFields{Protected: f.Protected, Deleted: true}
	}
	f.Deleted = f.Deleted && c.Given == 0
	if c.Given&command.FieldDescription != 0 {
		f.Description = c.Description
	}
	if c.Given&command.FieldCapabilities != 0 {
		f.Capabilities = c.Capabilities
	}
	if c.Given&command.FieldEndpoint != 0 {
		f.Endpoint = c.Endpoint
	}
	if c.Given&command.FieldNote != 0 {
		f.Note = c.Note
	}
	if c.Given&command.FieldNotifyURL != 0 && proven {
		f.NotifyVerified = c.NotifyVerified || f.NotifyVerified && f.NotifyURL == c.NotifyURL
		f.NotifyURL, f.NotifySalt = c.NotifyURL, string(c.NotifySalt)
	}
	if c.Given&command.FieldProtected != 0 {
		f.Protected = c.Protected
	}
	return f
}

// TargetOf looks up the target and reports every rule that forbids relating to it. The
// zero row means that there is no target.
func TargetOf(p *command.Publish, s Facts, w *Writer) (EntryRow, []command.Problem) {
	if p.Relation == command.RelationNone {
		return EntryRow{}, nil
	}
	target, ok := Resolve(s, p.Target)
	if !ok {
		return EntryRow{}, []command.Problem{command.ProblemUnknownTarget}
	}
	if target.Hidden {
		return target, []command.Problem{command.ProblemHidden}
	}
	own := w.Owns(s, &target)
	var problems []command.Problem
	switch retraction := p.Relation == command.RelationRetraction; {
	case own && (retraction || p.Relation == command.RelationCorrection) && !w.mayUndo(&target):
		problems = append(problems, command.ProblemProofRequired)
	case !own && retraction && target.AgentKey == w.AgentKey:
		problems = append(problems, command.ProblemRetractionAnonymous)
	case !own && retraction:
		problems = append(problems, command.ProblemRetractionOther)
	}
	if p.Relation == command.RelationRetraction && target.Type == TypeJob {
		if JobOf(s, target.Seq).At(s.Instant()).Status == JobClaimed {
			problems = append(problems, command.ProblemJobClaimed)
		}
	}
	if p.Erase && own {
		problems = append(problems, w.eraseProblems(s, &target)...)
	}
	return target, problems
}

// eraseProblems returns every rule that forbids a writer to erase an entry of its own.
func (w *Writer) eraseProblems(s Facts, e *EntryRow) (problems []command.Problem) {
	switch {
	case !w.mayUndo(e): // the retraction is rejected already
		return nil
	case w.Strength < command.ByKey:
		return []command.Problem{command.ProblemEraseNoKey}
	case e.Strength < command.ByKey:
		problems = append(problems, command.ProblemEraseUnproven)
	}
	if s.ReportQueue().Open.About(ReportSubject{Entry: e.Seq}) >= 0 {
		problems = append(problems, command.ProblemEraseReported)
	}
	if e.ParentType == TypeJob && e.Relation == command.RelationReply {
		if job := JobOf(s, e.Parent).At(s.Instant()); job.isHeldBy(e.Seq) {
			problems = append(problems, command.ProblemJobClaimed)
		}
	}
	return problems
}
