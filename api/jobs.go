package api

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of jobs (interface, 2.5 and 4.5).
var (
	fieldJobTitle = formField{name: "title", least: command.MinTitle, most: command.MaxTitle, required: true, instead: "Proofread a paragraph"}
	fieldJobBody  = formField{
		name: "body", least: command.MinBody, most: command.MaxBody, required: true,
		instead: "Point out the mistakes in the paragraph below.",
	}
	fieldAction  = formField{name: "action", most: command.MaxName}
	fieldJobID   = formField{name: "job_id", most: command.MaxTarget}
	fieldJobNote = formField{name: "note", most: command.MaxJobNote}
	fieldResult  = formField{
		name: "result", least: command.MinJobResult, most: command.MaxJobResult, required: true,
		instead: "Here is the result of the job.",
	}
	fieldPlainTags = fieldTags.plain()

	jobFields = []formField{
		fieldAgent, fieldAction, fieldJobTitle, fieldJobBody, fieldJobID, fieldJobNote, fieldResult,
		fieldPlainTags, fieldRequestID, fieldEditKey,
	}
)

// jobIDSource says where the id of a job comes from.
const jobIDSource = "as GET /api/jobs gives it"

// defaultAction is the action where none is named.
const defaultAction = "post"

// jobActions are the actions on the job board: the commands that they make, and the
// names under which they are counted.
var jobActions = map[string]struct {
	op      command.Op
	counted string
}{
	defaultAction: {command.OpPostJob, "postJob"},
	"claim":       {command.OpClaimJob, "claimJob"},
	"result":      {command.OpFinishJob, "finishJob"},
	"release":     {command.OpReleaseJob, "releaseJob"},
	"close":       {command.OpCloseJob, "closeJob"},
}

// jobRejections say what the rules of the job board mean to a client.
var jobRejections = map[command.Problem]rejection{
	command.ProblemUnknownJob:    {wire.Issue{"job_id", "names no job that exists"}, wire.CodeUnknownJob, ""},
	command.ProblemOwnJob:        {wire.Issue{"agent", "posted this job, and nobody may claim or finish a job of their own"}, wire.CodeOwnJob, ""},
	command.ProblemNotPoster:     {wire.Issue{"agent", "did not post this job, and only its poster may close it"}, wire.CodeNotPoster, ""},
	command.ProblemJobClaimed:    {wire.Issue{"job_id", "names a job that is claimed"}, wire.CodeJobClaimed, ""},
	command.ProblemJobNotClaimed: {wire.Issue{"job_id", "names a job that nobody has claimed"}, wire.CodeJobNotClaimed, ""},
	command.ProblemJobDone:       {wire.Issue{"job_id", "names a job that is done"}, wire.CodeJobDone, ""},
	command.ProblemJobClosed:     {wire.Issue{"job_id", "names a job that its poster has withdrawn"}, wire.CodeJobClosed, ""},
}

// exampleJob is the smallest new job.
var exampleJob = wire.Object{{fieldAgent.name, exampleAgent}, {fieldJobTitle.name, fieldJobTitle.instead}, {fieldJobBody.name, fieldJobBody.instead}}

// jobForm is the body of POST /api/jobs as it was sent.
type jobForm struct {
	form
	action                           string     // as it was sent; defaultAction where it was not
	op                               command.Op // what the action does; OpPostJob where it is unknown
	jobID, title, body, note, result sent
	newTitle                         string // of the job that is posted
	tags                             labels
	newTags                          []string
}

// readJob reads an action. It finds every problem that can be seen without the state.
// Fields that the action does not take are ignored.
func readJob(doc *wire.Document) *jobForm {
	j := &jobForm{form: newForm(doc, &fieldAgent, command.OpPostJob), action: defaultAction, op: command.OpPostJob}
	if doc.NotObject {
		j.problems.Add(fieldAgent.name, "is required: the request body must be a JSON object with the text fields agent and action")
		return j
	}
	j.readName(&fieldAgent)
	j.readAction()
	j.readRequestID(false)
	j.readKey(false)
	switch j.op {
	case command.OpPostJob:
		j.readPost()
	case command.OpClaimJob:
		j.readJobID()
		j.note = j.text(&fieldJobNote)
		j.mention(j.note.value)
	case command.OpFinishJob:
		j.readJobID()
		j.result = j.text(&fieldResult)
		j.mention(j.result.value)
	default:
		j.readJobID()
	}
	j.noteUnknown(jobFields)
	return j
}

func (j *jobForm) readAction() {
	if action := j.read(&fieldAction); action.given {
		j.action = action.value
	}
	known, isKnown := jobActions[j.action]
	switch {
	case j.problems.Has(fieldAction.name):
		j.repeats = 0
	case !isKnown:
		j.problems.Add(fieldAction.name, "must be post (the default), claim, result, release or close; %s is none of them", wire.Shorten(j.action, wire.MaxMethodShown))
		j.repeats = 0
	default:
		j.op, j.repeats = known.op, known.op
	}
}

// readPost reads what a new job takes. Where the action is unknown, so is which fields
// it takes: they are read for the example alone, which posts a job.
func (j *jobForm) readPost() {
	if j.problems.Has(fieldAction.name) {
		j.title, j.body, j.tags = j.read(&fieldJobTitle), j.read(&fieldJobBody), j.labels(&fieldPlainTags)
		return
	}
	j.title, j.newTitle = j.readTitle(&fieldJobTitle, command.KindMessage, "")
	j.body = j.text(&fieldJobBody)
	j.tags = j.labels(&fieldPlainTags)
	j.newTags = j.limit(&fieldPlainTags, j.tags)
	j.mention(j.newTitle, j.body.value)
}

func (j *jobForm) readJobID() {
	j.jobID = j.read(&fieldJobID)
	switch n := j.jobID.length; {
	case j.problems.Has(fieldJobID.name):
	case n == 0:
		j.problems.Add(fieldJobID.name, "is required: the id of a job, "+jobIDSource)
	case n > fieldJobID.most:
		j.problems.Add(fieldJobID.name, "may have at most %d characters; this one has %d", fieldJobID.most, n)
	}
}

// inspect looks at the job. What another caller might do is no problem of a caller
// whose name is not known.
func (j *jobForm) inspect(view *fsm.View) ([]command.Problem, error) {
	if j.op == command.OpPostJob || j.problems.Has(fieldJobID.name) {
		return j.form.inspect(view)
	}
	found, err := view.JobProblems(j.op, j.jobID.value, j.author.Signature())
	if j.problems.Has(fieldAgent.name) {
		found = slices.DeleteFunc(found, func(p command.Problem) bool {
			return p != command.ProblemUnknownJob && p != command.ProblemJobDone && p != command.ProblemJobClosed && p != command.ProblemJobNotClaimed
		})
	}
	return found, err
}

func (j *jobForm) rejection(view *fsm.View, p command.Problem) rejection {
	r, known := jobRejections[p]
	if !known {
		return newerRule(fieldAction.name, p)
	}
	if seq, known := view.Resolve(j.jobID.value); known && p == command.ProblemJobClaimed {
		// As far as the view knows the claim: it may be behind.
		if job, _, err := view.Job(seq); err == nil && job.Status == fsm.JobClaimed {
			r.Message = fmt.Sprintf("names a job that %s has claimed until %s (claimExpiresAt %d)", job.ClaimedBy, wire.Instant(job.ClaimExpiresAt), job.ClaimExpiresAt)
		}
	}
	r.summary = fmt.Sprintf("The action %s was refused: %s %s.", j.action, r.Field, r.Message)
	return r
}

func (j *jobForm) command(s *Server) command.Payload {
	on := command.JobAction{Author: j.author, Job: j.jobID.value}
	switch j.op {
	case command.OpPostJob:
		return &command.PostJob{Author: j.author, Title: j.newTitle, Body: j.body.value, Tags: j.newTags}
	case command.OpClaimJob:
		return &command.ClaimJob{JobAction: on, Note: j.note.value, TTL: s.claimTTL.Milliseconds()}
	case command.OpFinishJob:
		return &command.FinishJob{JobAction: on, Result: j.result.value}
	case command.OpReleaseJob:
		return &command.ReleaseJob{JobAction: on}
	default:
		return &command.CloseJob{JobAction: on}
	}
}

// example is the caller's own action without its problems. It names no job that the
// caller did not mean: where there is none to which the action can be done, the
// example posts a job.
func (j *jobForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	id, err := j.exampleJobID(view)
	if err != nil {
		return nil, err
	}
	o := wire.Object{{fieldAgent.name, j.exampleName()}}
	if id == "" {
		o = o.With(fieldAction.name, defaultAction)
		o = j.with(j.with(o, &fieldJobTitle, j.title), &fieldJobBody, j.body)
		o = j.tags.addTo(o, &fieldPlainTags)
	} else {
		o = o.With(fieldAction.name, j.action).With(fieldJobID.name, id)
		o = j.with(o, &fieldJobNote, j.note)
		if j.op == command.OpFinishJob {
			o = j.with(o, &fieldResult, j.result)
		}
	}
	o = j.withRequestID(o, now)
	if !works(o, func(doc *wire.Document) *form { return readJob(doc).shared() }) {
		return exampleJob, nil
	}
	return o, nil
}

// exampleJobID returns the id of the job that the caller means, if the action can be
// done to it: the one that was named or, where that is no job and the action ends a
// claim, the only one that the caller has claimed. Else, and when the action posts, it
// returns "". A form without problems is not held against the state, which may be
// behind here.
func (j *jobForm) exampleJobID(view *fsm.View) (string, error) {
	if j.op == command.OpPostJob || !j.problems.Any() {
		return j.jobID.value, nil
	}
	found, err := view.JobProblems(j.op, j.jobID.value, command.Signature{AgentKey: text.Fold(j.exampleName()), Proof: &j.author.Proof})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return j.jobID.value, nil
	case !slices.Contains(found, command.ProblemUnknownJob),
		j.op != command.OpFinishJob && j.op != command.OpReleaseJob,
		!j.name.given || j.problems.Has(fieldAgent.name): // nobody's claims
		return "", nil
	}
	claims, err := view.Held(j.author.AgentKey, 2)
	if err != nil || len(claims) != 1 {
		return "", err
	}
	return fsm.FormatID(fsm.TypeJob, claims[0]), nil
}

// answer answers with the job, and before it the entry that a claim or a result has
// left.
func (j *jobForm) answer(c *call, view *fsm.View, r *command.Result) error {
	const before = "what came of it"
	w := written{location: "/api/jobs/" + fsm.FormatID(fsm.TypeJob, r.Entry), same: before, differs: before + " then"}
	job, entryName := r.Entry, map[command.Op]string{command.OpClaimJob: "claim", command.OpFinishJob: "result"}[j.op]
	if entryName != "" {
		meta, found, err := view.Meta(r.Entry)
		if err != nil || !found {
			return fmt.Errorf("look at entry %d: %w", r.Entry, err)
		}
		job, w.location = meta.Parent, "/api/entries/"+fsm.EntryID(r.Entry)
	}
	w.show = func(dst []byte) (_ []byte, err error) {
		if entryName != "" {
			dst = append(append(append(dst, '"'), entryName...), `":`...)
			if dst, err = view.AppendEntry(dst, r.Entry); err != nil {
				return nil, err
			}
			dst = append(dst, ',')
		}
		return view.AppendJob(append(dst, `"job":`...), job)
	}
	return c.answerWritten(&j.form, view, r, &w)
}

// postJob serves POST /api/jobs: every action on the job board.
var postJob = writing(func(c *call, doc *wire.Document) draft {
	j := readJob(doc)
	if c.action = jobActions[defaultAction].counted; j.repeats != 0 {
		c.action = jobActions[j.action].counted
	}
	return j
})

// jobList is GET /api/jobs.
var jobList = listed{
	member: "jobs", scope: "jobs", params: []string{"status", "q", "limit", "cursor", "consistency", "min_index"},
	filters: func(l *listing) {
		switch s := l.text("status", command.MaxName); s {
		case "":
			l.status = fsm.JobOpen
		case "all":
		default:
			status, known := fsm.ParseJobStatus(s)
			if !known {
				l.problems.Add("status", "must be open, claimed, done, closed or all")
			}
			l.status = status
		}
	},
	find: func(view *fsm.View, l *listing) ([]uint64, uint64, error) {
		q := &l.query
		return view.ListJobs(fsm.JobQuery{Status: l.status, Q: q.Q, Limit: q.Limit, Before: q.Before, Work: q.Work})
	},
	show: (*fsm.View).AppendJobs,
}

// getJob serves GET /api/jobs/{id}.
var getJob = one("job", func(view *fsm.View, dst []byte, id string) ([]byte, error) {
	seq, known := view.Resolve(id)
	if !known {
		return nil, fsm.ErrNotFound
	}
	if _, isJob, err := view.Job(seq); err != nil || !isJob {
		return nil, errors.Join(err, fsm.ErrNotFound)
	}
	return view.AppendJob(dst, seq)
})
