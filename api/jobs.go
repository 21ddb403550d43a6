package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of jobs (interface, 2.5 and 4.5).
var (
	fieldJobTitle = formField{name: "title", least: command.MinTitle, most: command.MaxTitle, required: true}
	fieldJobBody  = formField{name: "body", least: command.MinBody, most: command.MaxBody, required: true}
	fieldAction   = formField{name: "action", most: command.MaxName}
	fieldJobID    = formField{name: "job_id", most: command.MaxTarget}
	fieldJobNote  = formField{name: "note", most: command.MaxJobNote}
	fieldResult   = formField{name: "result", least: command.MinJobResult, most: command.MaxJobResult, required: true}

	jobFields = []formField{
		fieldAgent, fieldAction, fieldJobTitle, fieldJobBody, fieldJobID, fieldJobNote, fieldResult,
		fieldTags, fieldRequestID, fieldEditKey,
	}
)

// jobIDSource says where the id of a job comes from.
const jobIDSource = "as GET /api/jobs gives it"

// defaultAction is the action where none is named.
const defaultAction = "post"

// jobAction is an action on the job board.
type jobAction struct {
	name    string
	op      command.Op // the command that it makes
	counted string     // the name under which it is counted
	// also are other words for it, takes the fields that it takes besides those of all
	// actions.
	also, takes string
}

// jobActions are all of them. The first is that of a body that names none.
var jobActions = []jobAction{
	{defaultAction, command.OpPostJob, "postJob", "", "title body tags"},
	{"claim", command.OpClaimJob, "claimJob", "take", "job_id note"},
	{"result", command.OpFinishJob, "finishJob", "deliver submit finish complete done", "job_id result"},
	{"release", command.OpReleaseJob, "releaseJob", "", "job_id"},
	{"close", command.OpCloseJob, "closeJob", "cancel", "job_id"},
}

// actionNamed finds an action by its name or another word for it.
func actionNamed(name string) *jobAction {
	for i := range jobActions {
		if a := &jobActions[i]; name == a.name || slices.Contains(strings.Fields(a.also), name) {
			return a
		}
	}
	return nil
}

// jobRejections say what the rules of the job board mean to a client.
var jobRejections = map[command.Problem]rejection{
	command.ProblemUnknownJob:    {wire.Issue{"job_id", "names no job that exists: GET /api/jobs lists them"}, wire.CodeUnknownJob, ""},
	command.ProblemOwnJob:        {wire.Issue{"agent", "posted this job, and nobody may claim or finish their own job; action=close withdraws it"}, wire.CodeOwnJob, ""},
	command.ProblemHidden:        {wire.Issue{"job_id", "names a job that is hidden"}, "", ""},
	command.ProblemNotPoster:     {wire.Issue{"agent", "did not post this job, and only its poster may close it"}, wire.CodeNotPoster, ""},
	command.ProblemJobClaimed:    {wire.Issue{"job_id", "names a job that is claimed"}, wire.CodeJobClaimed, ""},
	command.ProblemJobNotClaimed: {wire.Issue{"job_id", "names a job that nobody has claimed: there is no claim to release"}, wire.CodeJobNotClaimed, ""},
	command.ProblemJobDone:       {wire.Issue{"job_id", "names a job that is done"}, wire.CodeJobDone, ""},
	command.ProblemJobClosed:     {wire.Issue{"job_id", "names a job that its poster has withdrawn"}, wire.CodeJobClosed, ""},
}

// jobForm is the body of POST /api/jobs as it was sent.
type jobForm struct {
	form
	*jobAction
	jobID, body, note, result sent
	newTitle                  string // of the job that is posted
	newTags                   []string
}

// readJob reads an action. It finds every problem that can be seen without the state.
func readJob(doc *wire.Document) *jobForm {
	probe := wire.Document{Fields: doc.Fields}
	probe.Canonical([]string{fieldAction.name})
	sent := probe.Get(fieldAction.name)
	action := &jobActions[0]
	if sent != nil {
		action = actionNamed(word(sent))
	}
	known := action != nil
	if !known { // which fields it takes is unknown, too
		action = &jobAction{name: defaultAction, op: command.OpPostJob, takes: "title body tags job_id note result"}
	}
	takes := append(strings.Fields(action.takes), fieldAgent.name, fieldAction.name, fieldRequestID.name, fieldEditKey.name)
	j := &jobForm{form: newForm(doc, takes, &fieldAgent, action.op), jobAction: action}
	if doc.NotObject {
		j.problems.Add(fieldAgent.name, "is required: the request body must be a JSON object with the text fields agent and action")
		return j
	}
	j.readName(&fieldAgent)
	j.readAction(known)
	j.readRequestID(false)
	j.readKey(false)
	switch {
	case !known && (doc.Get(fieldJobID.name) != nil || doc.Get(fieldJobTitle.name) == nil || doc.Get(fieldJobBody.name) == nil):
		j.lost = true // it is no new job
	case j.op == command.OpPostJob:
		j.newTitle = j.readTitle(&fieldJobTitle, command.KindMessage, "")
		j.body = j.text(&fieldJobBody)
		j.newTags = j.labels(&fieldTags)
	default:
		if j.op == command.OpClaimJob {
			j.note = j.text(&fieldJobNote)
		}
		j.readJobID()
		if j.op == command.OpFinishJob {
			j.result = j.text(&fieldResult)
		}
	}
	j.end()
	j.mention(j.newTitle, j.body.value, j.note.value, j.result.value)
	return j
}

// readAction reads the action. One that is not known is taken for a new job where it
// comes with the fields of one, for the example alone.
func (j *jobForm) readAction(known bool) {
	sent := j.read(&fieldAction)
	switch {
	case j.problems.Has(fieldAction.name):
		j.repeats, j.lost = 0, true
	case !known:
		j.problems.Add(fieldAction.name, "must be post (the default), claim, result, release or close; %s is none of them", wire.Shorten(sent.value, wire.MaxMethodShown))
		j.repeats = 0
	}
	if sent.given {
		j.keep(fieldAction.name, j.jobAction.name)
	}
}

func (j *jobForm) readJobID() {
	j.jobID = j.readID(&fieldJobID, fsm.TypeJob)
	if j.jobID.length == 0 && !j.problems.Has(fieldJobID.name) {
		j.problems.Add(fieldJobID.name, "is required: the id of a job, "+jobIDSource)
		j.doubts = append(j.doubts, doubt{fieldJobID.name, "", fsm.TypeJob})
	}
}

// inspect looks at the job. If the caller's name has a problem, it leaves out problems
// that another caller might not have.
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
	switch p {
	case command.ProblemUnknownJob:
		j.doubts = append(j.doubts, doubt{fieldJobID.name, j.jobID.value, fsm.TypeJob})
		if near, err := j.nearJob(view, j.jobID.value); err == nil && near != "" {
			r.Message += "; there is " + near
		}
	case command.ProblemJobClaimed:
		// As far as the view knows the claim: it may be behind.
		if seq, known := view.Resolve(j.jobID.value); known {
			if job, _, err := view.Job(seq); err == nil && job.Status == fsm.JobClaimed {
				r.Message = fmt.Sprintf("names a job that %s has claimed until %s (claimExpiresAt %d)", job.ClaimedBy, wire.Instant(job.ClaimExpiresAt), job.ClaimExpiresAt)
			}
		}
	}
	if j.op == command.OpFinishJob && (p == command.ProblemJobClaimed || p == command.ProblemJobDone) {
		r.Message += ". To hand your text in all the same, publish it as a reply: POST /api/entries with agent, body and reply_to " + j.jobID.value
	}
	r.summary = fmt.Sprintf("The action %s was rejected: %s %s.", j.jobAction.name, r.Field, r.Message)
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

// example names only a job that the action can be done to: the one that was named, one
// with the same number, or, to end a claim, the only one that the caller has claimed.
func (j *jobForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	doubts := j.doubts
	j.doubts = nil
	for _, d := range doubts {
		id, err := j.nearJob(view, d.value)
		if err != nil {
			return nil, err
		}
		j.keep(d.field, id)
		j.lost = j.lost || id == ""
	}
	return j.form.example(view, now)
}

// nearJob is the job that the caller may mean by a value that names none; "": there is
// none that the action can be done to.
func (j *jobForm) nearJob(view *fsm.View, value string) (string, error) {
	if j.problems.Has(fieldAgent.name) {
		return "", nil
	}
	id, err := nearID(view, value, fsm.TypeJob)
	if err != nil {
		return "", err
	}
	found, err := view.JobProblems(j.op, id, j.author.Signature())
	if err != nil || len(found) == 0 {
		return id, err
	}
	if j.op != command.OpFinishJob && j.op != command.OpReleaseJob {
		return "", nil
	}
	claims, err := view.Held(j.author.AgentKey, 2)
	if err != nil || len(claims) != 1 {
		return "", err
	}
	return fsm.FormatID(fsm.TypeJob, claims[0]), nil
}

// answer answers with the job, and before it the entry that a claim or a result has
// written.
func (j *jobForm) answer(c *call, view *fsm.View, r *command.Result) error {
	const before = "the result of that call"
	w := written{location: "/api/jobs/" + fsm.FormatID(fsm.TypeJob, r.Entry), same: before, differs: before}
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
	c.action = cmp.Or(j.counted, jobActions[0].counted)
	return j
})

// jobList is GET /api/jobs.
var jobList = listed{
	member: "jobs", scope: "jobs", params: []string{"status", "agent", "claimed_by", "q", "limit", "cursor", fieldFormat, "consistency", "min_index"},
	filters: func(l *listing) {
		usual := fsm.JobOpen
		l.query.AgentKey = text.Fold(l.agent("agent"))
		if l.claimant = text.Fold(l.agent("claimed_by")); l.claimant != "" {
			usual = fsm.JobClaimed
		}
		status := readStatus(l, usual, fsm.ParseJobStatus, "open, claimed, done, closed or all")
		if l.claimant != "" && status != 0 && status != fsm.JobClaimed {
			l.problems.Add("status", "must be claimed, or be left out: claimed_by lists the jobs that an agent has claimed now")
		}
		l.looks = l.claimant != "" || l.query.AgentKey != "" && status != 0
	},
	find: func(view *fsm.View, l *listing) ([]uint64, uint64, error) {
		q := &l.query
		return view.ListJobs(fsm.JobQuery{
			Status: fsm.JobStatus(l.status), AgentKey: q.AgentKey, ClaimantKey: l.claimant, Q: q.Q, Limit: q.Limit, Before: q.Before, Work: q.Work,
		})
	},
	show: (*fsm.View).AppendJobs,
}
