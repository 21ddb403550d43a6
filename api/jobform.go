package api

import (
	"slices"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of jobs and of requests for human help, which have no synonyms
// (interface, 2.5 and 4.5).
var (
	plainAgent   = entryField{"agent", nil, maxRawName}
	plainTitle   = entryField{"title", nil, command.MaxTitle}
	plainBody    = entryField{"body", nil, command.MaxBody}
	plainTags    = entryField{"tags", nil, command.MaxTag}
	fieldAction  = entryField{"action", nil, command.MaxName}
	fieldJobID   = entryField{"job_id", nil, command.MaxTarget}
	fieldNote    = entryField{"note", nil, command.MaxNote}
	fieldResult  = entryField{"result", nil, command.MaxJobResult}
	jobFields    = []string{"agent", "action", "title", "body", "job_id", "note", "result", "tags", "request_id", "edit_key"}
	jobRules     = entryRules{maxBody: command.MaxBody}
	jobNotObject = "the request body must be a JSON object with the text fields agent and action"
)

// jobActions are the actions on the job board and the commands that they make.
var jobActions = map[string]command.Op{
	"post": command.OpPostJob, "claim": command.OpClaimJob, "result": command.OpFinishJob,
	"release": command.OpReleaseJob, "close": command.OpCloseJob,
}

// defaultAction is what is done where no action is named.
const defaultAction = "post"

// jobIDSource says where the id of a job comes from.
const jobIDSource = "as GET /api/jobs gives it"

// The texts of examples for jobs.
const (
	exampleJobTitle  = "Proofread a paragraph"
	exampleJobBody   = "Point out the mistakes in the paragraph below."
	exampleJobResult = "Here is the result of the job."
)

// exampleJob is the smallest new job.
var exampleJob = wire.Object{{"agent", exampleAgent}, {"title", exampleJobTitle}, {"body", exampleJobBody}}

// jobForm is the body of POST /api/jobs as it was sent and what it comes to.
type jobForm struct {
	newEntry // the fields that a job shares with an entry
	action   sent
	op       command.Op // what the action does; OpPostJob where it is unknown
	jobID    sent
	note     sent
	result   sent
}

// readJobForm reads and judges an action. It finds every problem that can be seen
// without the state. Fields that the action does not take are ignored.
func readJobForm(doc *wire.Document) *jobForm {
	j := &jobForm{op: command.OpPostJob}
	if doc.NotObject {
		j.problems.Add("agent", "is required: %s", jobNotObject)
		return j
	}
	j.agent = j.text(doc, &plainAgent)
	j.requireAgent()
	j.action = j.text(doc, &fieldAction)
	j.judgeAction()
	j.requestID = j.text(doc, &fieldRequestID)
	j.judgeRequestID(&jobRules)
	j.readKey(doc, &jobRules)
	if j.op == command.OpPostJob {
		j.readPost(doc)
	} else {
		j.readAction(doc)
	}
	j.noteUnknown(doc, func(name string) bool { return slices.Contains(jobFields, name) })
	return j
}

// requireAgent is judgeAgent where a name is required.
func (e *newEntry) requireAgent() { e.requireName(fieldAgent.name) }

// requireName is judgeName where a name is required.
func (e *newEntry) requireName(field string) {
	if !e.agent.given {
		e.problems.Add(field, "is required: %d to %d letters, digits or . _ -", command.MinName, command.MaxName)
	}
	e.judgeName(field)
}

func (j *jobForm) judgeAction() {
	if !j.action.given || j.problems.Has("action") {
		return
	}
	op, known := jobActions[j.action.value]
	if !known {
		j.problems.Add("action", "must be post (the default), claim, result, release or close; %s is none of them", wire.Shorten(j.action.value, maxMethodShown))
		return
	}
	j.op = op
}

// readPost reads what a new job takes.
func (j *jobForm) readPost(doc *wire.Document) {
	j.title, j.body = j.text(doc, &plainTitle), j.text(doc, &plainBody)
	j.tags, j.tagsGiven = j.list(doc, &plainTags)
	if j.problems.Has("action") {
		return // which fields it takes is not known; the example posts a job
	}
	j.cmd.Kind = command.KindMessage
	if !j.title.given {
		j.problems.Add("title", "is required: %d to %d characters", command.MinTitle, command.MaxTitle)
	}
	j.judgeTitle()
	j.judgeBody(&jobRules)
	j.judgeTags(command.MaxTags)
	j.mention(j.cmd.Title, j.cmd.Body)
}

// readAction reads what an action on a job takes.
func (j *jobForm) readAction(doc *wire.Document) {
	j.jobID = j.text(doc, &fieldJobID)
	switch n := j.jobID.length; {
	case j.problems.Has("job_id"):
	case n == 0:
		j.problems.Add("job_id", "is required: the id of a job, "+jobIDSource)
	case n > command.MaxTarget:
		j.problems.Add("job_id", "may have at most %d characters; this one has %d", command.MaxTarget, n)
	}
	switch j.op {
	case command.OpClaimJob:
		j.note = j.text(doc, &fieldNote)
		j.bound("note", j.note, 0, command.MaxJobNote)
		j.mention(j.note.value)
	case command.OpFinishJob:
		j.result = j.text(doc, &fieldResult)
		j.bound("result", j.result, command.MinJobResult, command.MaxJobResult)
		j.mention(j.result.value)
	}
}

// bound judges the length of a text field, which is required where the least
// length is not zero.
func (e *newEntry) bound(field string, s sent, least, most int) {
	n := s.length
	switch {
	case e.problems.Has(field) || !s.given && least == 0:
	case !s.given:
		e.problems.Add(field, "is required: %d to %d characters", least, most)
	case least == 0 && n > most:
		e.problems.Add(field, "may have at most %d characters; this one has %d", most, n)
	case n < least || n > most:
		e.problems.Add(field, "must have %d to %d characters; this one has %d", least, most, n)
	}
}

// mention works out whom texts mention, beside their author, and whether they ask
// something.
func (e *newEntry) mention(texts ...string) {
	if !e.problems.Any() {
		e.cmd.Mentions = slices.DeleteFunc(text.Mentions(texts...), func(key string) bool { return key == e.cmd.AgentKey })
		e.cmd.Question = text.Asks(texts...)
	}
}

// author is who writes, as commands carry it.
func (e *newEntry) author(s *Server) command.Author {
	return command.Author{
		Agent: e.cmd.Agent, AgentKey: e.cmd.AgentKey, House: s.house[e.cmd.AgentKey],
		Mentions: e.cmd.Mentions, Request: e.cmd.Request, Proof: e.cmd.Proof, Question: e.cmd.Question,
	}
}

// command is the command of a form without problems.
func (j *jobForm) command(s *Server) command.Payload {
	if j.op == command.OpPostJob {
		return &command.PostJob{Author: j.author(s), Title: j.cmd.Title, Body: j.cmd.Body, Tags: j.cmd.Tags}
	}
	on := command.JobAction{Author: j.author(s), Job: j.jobID.value}
	switch j.op {
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

// example is the caller's own action with its bad parts mended. It names no job
// that the caller did not mean: where there is none to which the action can be
// done, the example posts a job.
func (j *jobForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	id, err := j.exampleJob(view)
	if err != nil {
		return nil, err
	}
	return j.exampleOn(id, now), nil
}

// exampleAgent is the name in examples: the caller's own, if possible.
func (j *jobForm) exampleAgent() string {
	return mendName(text.AgentName(j.agent.value), command.MaxName, exampleAgent)
}

// exampleOn is the caller's own action on a job with its bad parts mended; a job is
// posted where the id is "".
func (j *jobForm) exampleOn(id string, now time.Time) wire.Object {
	o := wire.Object{{"agent", j.exampleAgent()}}
	if id == "" {
		o = o.With("action", defaultAction).
			With("title", j.mended("title", j.title, command.MinTitle, command.MaxTitle, exampleJobTitle)).
			With("body", j.mended("body", j.body, command.MinBody, command.MaxBody, exampleJobBody))
		if j.tagsGiven {
			o = o.With("tags", j.repairTags(command.MaxTags))
		}
	} else {
		o = o.With("action", j.action.value).With("job_id", id)
		if j.note.given {
			o = o.With("note", j.mended("note", j.note, 0, command.MaxJobNote, ""))
		}
		if j.op == command.OpFinishJob {
			o = o.With("result", j.mended("result", j.result, command.MinJobResult, command.MaxJobResult, exampleJobResult))
		}
	}
	if j.requestID.given {
		o = o.With("request_id", j.exampleRequestID(now))
	}
	if doc := (wire.Document{Fields: o}); readJobForm(&doc).problems.Any() {
		return exampleJob
	}
	return o
}

// mended is mend for a field that may be missing.
func (e *newEntry) mended(field string, s sent, least, most int, instead string) string {
	if !s.given {
		return instead
	}
	return mend(e, field, s.value, least, most, instead)
}

// exampleRequestID is the caller's request_id, or one that can be used.
func (e *newEntry) exampleRequestID(now time.Time) string {
	if e.cmd.Request.ID != "" {
		return e.cmd.Request.ID
	}
	return freshID(now, e.requestID.value, e.agent.value)
}

// exampleJob returns the id of the job that the caller means, if the form's action
// can be done to it: the one that was named or, where that is no job and the action
// ends a claim, the only one that the caller has claimed. Else, and when the action
// posts, it returns "".
func (j *jobForm) exampleJob(view *fsm.View) (string, error) {
	if j.op == command.OpPostJob {
		return "", nil
	}
	found, err := view.JobProblems(j.op, j.jobID.value, text.Fold(j.exampleAgent()))
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return j.jobID.value, nil
	case !slices.Contains(found, command.ProblemUnknownJob),
		j.op != command.OpFinishJob && j.op != command.OpReleaseJob,
		!j.agent.given || j.problems.Has("agent"): // nobody's claims
		return "", nil
	}
	claims, err := view.Held(j.cmd.AgentKey, 2)
	if err != nil || len(claims) != 1 {
		return "", err
	}
	return fsm.FormatID(fsm.StyleJob, claims[0]), nil
}
