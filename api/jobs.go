package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// jobRefusals say what the rules of the job board come to: the code, the field
// that is at fault, and a sentence about it.
var jobRefusals = map[command.Problem]struct {
	code           command.Code
	field, message string
}{
	command.ProblemUnknownJob:    {wire.CodeUnknownJob, "job_id", "names no job that exists"},
	command.ProblemOwnJob:        {wire.CodeOwnJob, "agent", "posted this job, and nobody may claim or finish a job of their own"},
	command.ProblemNotPoster:     {wire.CodeNotPoster, "agent", "did not post this job, and only its poster may close it"},
	command.ProblemJobClaimed:    {wire.CodeJobClaimed, "job_id", "names a job that is claimed"},
	command.ProblemJobNotClaimed: {wire.CodeJobNotClaimed, "job_id", "names a job that nobody has claimed"},
	command.ProblemJobDone:       {wire.CodeJobDone, "job_id", "names a job that is done"},
	command.ProblemJobClosed:     {wire.CodeJobClosed, "job_id", "names a job that its poster has withdrawn"},
}

// postJob serves POST /api/jobs: every action on the job board.
func postJob(c *call) error {
	doc, query, err := c.bodyAndQuery()
	if err != nil {
		return err
	}
	j := readJobForm(&doc)
	c.action = jobCalls[j.op]
	fresh := c.readFreshness(&query, &j.problems)
	from := c.identify(&j.newEntry)
	if j.problems.Any() {
		return c.refuseJob(j)
	}
	if err := c.await(fresh); err != nil {
		return c.explainJob(j, err)
	}
	result, err := c.propose(from, j.command(c.srv))
	if err != nil {
		return c.explainJob(j, err)
	}
	switch result.Outcome {
	case command.OutcomeRejected:
		return c.rejectJob(j, result.Problems)
	case command.OutcomeDuplicate:
		return c.answerJobAgain(j, result.Entry, result.Differs)
	default:
		if err := c.noteKey(&j.newEntry); err != nil {
			return err
		}
		return c.answerJob(j, http.StatusCreated, result.Entry)
	}
}

// refuseJob answers an action whose shape is wrong. A request_id that was used
// before still gets the first write; else everything wrong that this node can see
// is listed, and nobody else is asked.
func (c *call) refuseJob(j *jobForm) error {
	view := c.read()
	if j.cmd.Request.ID != "" && !j.problems.Has("agent") && !j.problems.Has("action") {
		if seq, known := view.Request(j.op, j.cmd.Request); known {
			return c.answerJobAgain(j, seq, true)
		}
	}
	if j.op != command.OpPostJob && !j.problems.Has("job_id") {
		found, err := view.JobProblems(j.op, j.jobID.value, j.cmd.AgentKey)
		if err != nil {
			return fmt.Errorf("look at the job: %w", err)
		}
		if j.problems.Has("agent") {
			found = slices.DeleteFunc(found, hangsOnCaller)
		}
		if _, err := j.reject(view, found); err != nil {
			return err
		}
	}
	example, err := j.example(view, c.srv.now())
	if err != nil {
		return fmt.Errorf("make an example: %w", err)
	}
	return wire.Invalid(j.problems.List, example)
}

// hangsOnCaller reports a problem that another caller might not have.
func hangsOnCaller(p command.Problem) bool {
	return p == command.ProblemOwnJob || p == command.ProblemNotPoster || p == command.ProblemJobClaimed
}

// reject adds what the state has against the action, and returns the code of the
// first of it.
func (j *jobForm) reject(view *fsm.View, found []command.Problem) (command.Code, error) {
	code := wire.CodeInvalid
	for i, problem := range found {
		refusal, known := jobRefusals[problem]
		if !known {
			j.problems.Add("action", "was refused by a rule of a newer version (%d)", problem)
			continue
		}
		if i == 0 {
			code = refusal.code
		}
		message := refusal.message
		if problem == command.ProblemJobClaimed {
			var err error
			if message, err = j.claimed(view, message); err != nil {
				return code, err
			}
		}
		j.problems.Add(refusal.field, "%s", message)
	}
	return code, nil
}

// claimed says who has claimed the job and until when, as far as the view knows it.
func (j *jobForm) claimed(view *fsm.View, instead string) (string, error) {
	seq, known := view.Resolve(j.jobID.value)
	if !known {
		return instead, nil
	}
	job, _, err := view.Job(seq)
	if err != nil {
		return "", fmt.Errorf("look at the claim: %w", err)
	}
	if job.Status != fsm.JobClaimed {
		return instead, nil
	}
	return fmt.Sprintf("names a job that %s has claimed until %s (claimExpiresAt %d)", job.ClaimedBy, at(job.ClaimExpiresAt), job.ClaimExpiresAt), nil
}

// rejectJob answers an action that the state machine refused: 404 or 409.
func (c *call) rejectJob(j *jobForm, found []command.Problem) error {
	view := c.reread()
	code, err := j.reject(view, found)
	if err != nil {
		return err
	}
	example, err := j.example(view, c.srv.now())
	if err != nil {
		return fmt.Errorf("make an example: %w", err)
	}
	refusal := wire.Invalid(j.problems.List, example)
	if code != wire.CodeInvalid {
		first := refusal.Issues[0]
		refusal.Code = code
		refusal.Message = fmt.Sprintf("The action %s was refused: %s %s.", j.action.value, first.Field, first.Message)
	}
	return refusal
}

// explainJob adds to an error of the cluster the request itself. Whether its job is
// fit for it, this node may not know.
func (c *call) explainJob(j *jobForm, err error) error {
	return explained(err, j.exampleOn(j.jobID.value, c.srv.now()), j.cmd.Request.ID != "")
}

// answerJobAgain answers with what the request_id did before.
func (c *call) answerJobAgain(j *jobForm, seq uint64, differs bool) error {
	note := "This request_id was used before: this is what came of it."
	if differs {
		note = "This request_id was used before with other content: this is what came of it then, and nothing new was written."
	}
	j.notes = append(j.notes, note)
	return c.answerJob(j, http.StatusOK, seq)
}

// answerJob answers an action: with the job, and before it the entry that a claim
// or a result has left.
func (c *call) answerJob(j *jobForm, status int, seq uint64) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	entryName := map[command.Op]string{command.OpClaimJob: "claim", command.OpFinishJob: "result"}[j.op]
	job, location := seq, "/api/jobs/"+fsm.FormatID(fsm.StyleJob, seq)
	if entryName != "" {
		meta, found, err := view.Meta(seq)
		if err != nil || !found {
			return fmt.Errorf("look at entry %d: %w", seq, err)
		}
		job, location = meta.Parent, "/api/entries/"+fsm.EntryID(seq)
	}
	c.out.Header.Set(fiber.HeaderLocation, location)
	return c.answer(status, func(dst []byte) ([]byte, error) {
		dst = append(dst, '{')
		if entryName != "" {
			dst = append(append(append(dst, '"'), entryName...), `":`...)
			if dst, err = view.AppendEntry(dst, seq); err != nil {
				return nil, fmt.Errorf("show entry %d: %w", seq, err)
			}
			dst = append(dst, ',')
		}
		dst, err := view.AppendJob(append(dst, `"job":`...), job)
		if err != nil {
			return nil, fmt.Errorf("show job %d: %w", job, err)
		}
		return appendOutcome(dst, status, j.notes), nil
	})
}

// jobParams are the parameters of a list of jobs.
var jobParams = []string{"status", "q", "limit", "cursor", "consistency", "min_index"}

// listJobs serves GET /api/jobs.
func listJobs(c *call) error {
	l, err := c.listing(jobParams, "jobs", func(l *listing, doc *wire.Document) {
		l.status = fsm.JobOpen
		switch s := l.text(doc, "status", command.MaxName); s {
		case "":
		case "all":
			l.status = 0
		default:
			status, known := fsm.ParseJobStatus(s)
			if !known {
				l.problems.Add("status", "must be open, claimed, done, closed or all")
			}
			l.status = status
		}
		l.query.Q = l.text(doc, "q", command.MaxSearch)
	})
	if err != nil {
		return err
	}
	view := c.read()
	seqs, next, err := view.ListJobs(fsm.JobQuery{
		Status: l.status, Q: l.query.Q, Limit: l.query.Limit, Before: l.query.Before,
	})
	if err != nil {
		return err
	}
	return c.answerPage("jobs", seqs, l.nextCursor(next), view.AppendJobs)
}

// listing reads the parameters of a list that is not that of entries, and waits
// until the local state is as fresh as asked.
func (c *call) listing(params []string, scope string, filters func(l *listing, doc *wire.Document)) (*listing, error) {
	pairs, err := c.query()
	if err != nil {
		return nil, err
	}
	doc, twice := wire.FoldPairs(pairs)
	c.noteUnknown(&doc, params)
	l := newListing(params, twice)
	l.scope = scope
	filters(l, &doc)
	l.readPage(&doc)
	fresh := c.readFreshness(&doc, &l.problems)
	if l.problems.Any() {
		return nil, wire.Invalid(l.problems.List, l.repair(&doc, c.srv.now()))
	}
	return l, c.await(fresh)
}

// getJob serves GET /api/jobs/{id}.
func getJob(c *call) error {
	var seq uint64
	find := func(view *fsm.View) (isJob bool, err error) {
		var known bool
		if seq, known = view.Resolve(c.param("id")); known {
			_, isJob, err = view.Job(seq)
		}
		return isJob, err
	}
	if err := c.awaitQueryOf("job", find); err != nil {
		return err
	}
	view := c.read()
	if isJob, err := find(view); err != nil || !isJob {
		if err == nil {
			err = wire.Missing("job")
		}
		return err
	}
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst, err := view.AppendJob(append(dst, `{"job":`...), seq)
		return append(dst, '}'), err
	})
}
