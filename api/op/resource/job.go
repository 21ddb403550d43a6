package resource

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of jobs (interface, 2.5 and 4.5).
var (
	fieldJobTitle = write.Field{Name: "title", Least: command.MinTitle, Most: command.MaxTitle, Required: true}
	fieldJobBody  = write.Field{Name: "body", Least: command.MinBody, Most: command.MaxBody, Required: true, Noun: "text"}
	fieldAction   = write.Field{Name: "action", Most: command.MaxName, Like: defaultAction}
	fieldJobID    = write.Field{Name: "job_id", Most: command.MaxTarget, Refers: state.TypeJob}
	fieldJobNote  = write.Field{Name: "note", Most: command.MaxJobNote}
	fieldNext     = write.Field{Name: "next", Like: wire.Object{}}
	fieldWait     = write.Field{Name: "wait", Most: read.MaxWait, Like: read.MaxWait}
	fieldResult   = write.Field{Name: "result", Least: command.MinJobResult, Most: command.MaxJobResult, Required: true}

	jobFields = []write.Field{
		write.FieldAgent, fieldAction, fieldJobTitle, fieldJobBody, fieldJobID, fieldJobNote, fieldResult, fieldNext, fieldWait,
		write.FieldTags, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun,
	}
)

const (
	// defaultAction is the action of a body without one.
	defaultAction = "post"
	actionClaim   = "claim"
	actionResult  = "result"
)

// jobAction is an action on the job board.
type jobAction struct {
	name    string
	op      command.Op // the command that it makes
	Counted string     // the name under which it is counted
	body    write.Body
	// after is the status of the job after it.
	after state.JobStatus
	// entry is the member of the answer with the entry that the action makes, empty without one.
	entry string
}

// JobActions are the actions. The first is the default.
var JobActions = []jobAction{
	{defaultAction, command.OpPostJob, "postJob", jobBody(command.OpPostJob, "title body tags"), state.JobOpen, ""},
	{actionClaim, command.OpClaimJob, "claimJob", jobBody(command.OpClaimJob, "job_id note next wait"), state.JobClaimed, "claim"},
	{actionResult, command.OpFinishJob, "finishJob", jobBody(command.OpFinishJob, "job_id result"), state.JobDone, "result"},
	{"release", command.OpReleaseJob, "releaseJob", jobBody(command.OpReleaseJob, "job_id"), state.JobOpen, ""},
	{"close", command.OpCloseJob, "closeJob", jobBody(command.OpCloseJob, "job_id"), state.JobClosed, ""},
}

var (
	// claimNext is a claim of the next job that fits.
	claimNext = jobAction{actionClaim, command.OpClaimJob, "claimJob", jobBody(command.OpTakeJob, "note next wait", fieldJobID.Name), state.JobClaimed, "claim"}
	// unknownAction stands for the default action. Which fields the body has is unknown, too.
	unknownAction = jobAction{defaultAction, command.OpPostJob, "postJob", jobBody(0, "title body tags job_id note result next wait"), state.JobOpen, ""}
)

// jobBody is the body of an action with these fields beside those of all actions, and names that it rejects.
func jobBody(repeats command.Op, takes string, rejects ...string) write.Body {
	names := append(strings.Fields(takes), write.FieldAgent.Name, fieldAction.Name, write.FieldRequestID.Name, write.FieldEditKey.Name, write.FieldDryRun.Name)
	return write.Body{
		Fields: slices.DeleteFunc(slices.Clone(jobFields), func(field write.Field) bool { return !slices.Contains(names, field.Name) }),
		Signed: write.FieldAgent.Name, Control: rejects, Repeats: repeats, Subjects: []string{fieldJobID.Name}, Blank: wire.Object{{fieldAction.Name, defaultAction}},
	}
}

// actionNamed finds an action by its name.
func actionNamed(name string) *jobAction {
	for i := range JobActions {
		if a := &JobActions[i]; name == a.name {
			return a
		}
	}
	return nil
}

// jobRejections explain the problems of the job board to a client.
var jobRejections = map[command.Problem]write.Rejection{
	command.ProblemUnknownJob:    {wire.Issue{"job_id", "names no job that exists: GET /api/jobs lists them"}, wire.CodeUnknownJob, ""},
	command.ProblemOwnJob:        {wire.Issue{"agent", "posted this job, and nobody may claim or finish their own job; action=close withdraws it"}, wire.CodeOwnJob, ""},
	command.ProblemHidden:        {wire.Issue{"job_id", "names a job that is hidden"}, "", ""},
	command.ProblemNotPoster:     {wire.Issue{"agent", "did not post this job, and only its poster may do this"}, wire.CodeNotPoster, ""},
	command.ProblemJobClaimed:    {wire.Issue{"job_id", "names a job that is claimed"}, wire.CodeJobClaimed, ""},
	command.ProblemJobNotClaimed: {wire.Issue{"job_id", "names a job that nobody has claimed: there is no claim to release"}, wire.CodeNotClaimed, ""},
	command.ProblemJobDone:       {wire.Issue{"job_id", "names a job that is done"}, wire.CodeJobDone, ""},
	command.ProblemJobClosed:     {wire.Issue{"job_id", "names a job that its poster has withdrawn"}, wire.CodeJobClosed, ""},
	command.ProblemTooManyClaims: {
		wire.Issue{"agent", fmt.Sprintf("has too many unfinished claims, or its address has: at most %d for a name with its key, %d for a name without it, %d for an address. "+
			"Hand in a result or release a claim first: GET /api/jobs?claimed_by= lists them", command.MaxKeyClaims, command.MaxNameClaims, command.MaxSenderClaims)},
		wire.CodeTooManyClaims, "",
	},
	command.ProblemTooManyRenewals: {
		wire.Issue{"job_id", fmt.Sprintf("names a job whose claim you have extended %d times, the most that is allowed: hand in the result or release the job", command.MaxRenewals)},
		wire.CodeTooManyRenewals, "",
	},
}

// jobForm is the body of POST /api/jobs.
type jobForm struct {
	write.Form
	*jobAction
	jobID, body, note, result write.Sent
	newTitle                  string // of the job that is posted
	newTags                   []string
	next                      *nextJob // for a claim of the next job
	claimFirst                bool     // the example is the claim that the result needs
	ttl                       int64    // of a claim, in milliseconds
}

// readJob reads an action, and finds the problems that do not depend on the state.
func readJob(c *op.Call, doc *wire.Document) *jobForm {
	probe := wire.Document{Fields: doc.Fields}
	probe.Canonical([]string{fieldAction.Name, fieldNext.Name})
	action := &JobActions[0]
	if sent := probe.Get(fieldAction.Name); sent != nil {
		action = actionNamed(wire.Word(sent))
	}
	known, takesNext := action != nil, false
	if !known {
		action = &unknownAction
	} else if takesNext = action.op == command.OpClaimJob && probe.Get(fieldNext.Name) != nil; takesNext {
		action = &claimNext
	}
	j := &jobForm{jobAction: action, ttl: c.Env.ClaimTTL.Milliseconds()}
	j.Form = write.NewForm(doc, &action.body, func(doc *wire.Document) write.Draft { return readJob(c, doc) })
	if doc.NotObject {
		j.Problems.Add(write.FieldAgent.Name, "is required: the request body must be a JSON object with the text fields agent and action")
		return j
	}
	j.ReadName(&write.FieldAgent)
	j.readAction(known)
	j.ReadRequestID()
	j.ReadKey()
	said := "" // of the title
	switch {
	case !known && (doc.Get(fieldJobID.Name) != nil || doc.Get(fieldJobTitle.Name) == nil || doc.Get(fieldJobBody.Name) == nil):
		j.guessAction()
	case takesNext:
		j.readNext()
	case j.op == command.OpPostJob:
		j.newTitle, said = j.ReadTitle(&fieldJobTitle, command.KindMessage, "")
		j.body = j.Text(&fieldJobBody)
		j.newTags = j.Labels(&write.FieldTags)
	default:
		if j.op == command.OpClaimJob {
			j.note = j.Text(&fieldJobNote)
		}
		j.jobID = j.ReadID(&fieldJobID, state.TypeJob)
		if j.jobID.Length == 0 && !j.Problems.Has(fieldJobID.Name) {
			j.Problems.Add(fieldJobID.Name, "is required: the id of a job, as GET /api/jobs gives it")
			j.Set(&fieldJobID, "") // a job that the caller has claimed may be meant
		}
		if j.op == command.OpFinishJob {
			j.result = j.Text(&fieldResult)
		}
	}
	j.End()
	j.Mention(said, j.body.Value, j.note.Value, j.result.Value)
	return j
}

// readAction reads the action. In the example, an unknown one is replaced by j.name.
func (j *jobForm) readAction(known bool) {
	sent := j.Read(&fieldAction)
	if !known && !j.Problems.Has(fieldAction.Name) {
		j.Problems.Add(fieldAction.Name, "must be post (the default), claim, result, release or close; %s is none of them", wire.Shorten(sent.Value, wire.MaxMethodShown))
	}
	if sent.Given {
		j.Set(&fieldAction, j.name)
	}
}

// guessAction puts into the example the action that the fields fit, for the client to confirm.
func (j *jobForm) guessAction() {
	action := defaultAction
	id, isText := j.Doc.Get(fieldJobID.Name).(string)
	if j.Doc.Get(fieldJobID.Name) != nil {
		if action = actionClaim; j.Doc.Get(fieldResult.Name) != nil {
			action = actionResult
		}
	}
	j.Set(&fieldAction, action)
	if _, _, isID := state.ParseID(op.CleanID(id)); isText && isID {
		j.Set(&fieldJobID, op.CleanID(id))
	}
	j.Unsure(fieldAction.Name)
}

func (j *jobForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	r, known := jobRejections[p]
	if !known {
		return write.NewerRule(fieldAction.Name, p)
	}
	switch p {
	case command.ProblemUnknownJob:
		if near, err := j.near(view, j.jobID.Value); err == nil && near != "" {
			r.Message += "; there is " + near
		}
	case command.ProblemJobNotClaimed:
		if j.claimFirst = j.op == command.OpFinishJob && !j.Problems.Has(write.FieldAgent.Name); j.claimFirst {
			r.Message = "names a job that nobody has claimed: claim it first, then hand in the result"
		}
	case command.ProblemJobClaimed:
		// The view may be behind, and not know the claim.
		if seq, known := view.Resolve(j.jobID.Value); known {
			if job, _, err := view.Job(seq); err == nil && job.Status == state.JobClaimed {
				r.Message = fmt.Sprintf("names a job that %s has claimed until %s (claimExpiresAt %d)", job.ClaimedBy, wire.Instant(job.ClaimExpiresAt), job.ClaimExpiresAt)
			}
		}
	}
	if j.op == command.OpCloseJob && p == command.ProblemJobClaimed {
		r.Message += "; close it with the edit_key of its poster, which ends the claim"
	}
	if j.op == command.OpFinishJob && (p == command.ProblemJobClaimed || p == command.ProblemJobDone) {
		r.Message += ". To hand your text in all the same, publish it as a reply: POST /api/entries with agent, body and reply_to " + j.jobID.Value
	}
	r.Summary = fmt.Sprintf("The action %s was rejected: %s %s.", j.name, r.Field, r.Message)
	return r
}

func (j *jobForm) Command() command.Payload {
	if j.next != nil {
		return j.take()
	}
	return j.action(j.op, j.jobID.Value)
}

// action returns the command of an action on a job.
func (j *jobForm) action(op command.Op, id string) command.Payload {
	on := command.JobAction{Author: j.Author, Job: id}
	switch op {
	case command.OpPostJob:
		return &command.PostJob{Author: j.Author, Title: j.newTitle, Body: j.body.Value, Tags: j.newTags}
	case command.OpClaimJob:
		return &command.ClaimJob{JobAction: on, Note: j.note.Value, TTL: j.ttl}
	case command.OpFinishJob:
		return &command.FinishJob{JobAction: on, Result: j.result.Value}
	case command.OpReleaseJob:
		return &command.ReleaseJob{JobAction: on}
	default:
		return &command.CloseJob{JobAction: on}
	}
}

func claimOf(agent, id string) wire.Object {
	return wire.Object{{write.FieldAgent.Name, agent}, {fieldAction.Name, actionClaim}, {fieldJobID.Name, id}}
}

// near suggests a job that the action is possible for: the one with the same number, or, to end
// a claim, the only one that the caller has claimed.
func (j *jobForm) near(view *view.View, sent string) (string, error) {
	if j.Problems.Has(write.FieldAgent.Name) {
		return "", nil
	}
	id, err := op.NearID(view, sent, state.TypeJob)
	if err != nil {
		return "", err
	}
	found, err := view.Problems(j.action(j.op, id))
	if err != nil || len(found) == 0 {
		return id, err
	}
	if j.op != command.OpFinishJob && j.op != command.OpReleaseJob {
		return "", nil
	}
	claims, err := view.Held(j.Author.AgentKey, 2)
	if err != nil || len(claims) != 1 {
		return "", err
	}
	return state.FormatID(state.TypeJob, claims[0]), nil
}

// maxJobsTried is the number of jobs that are checked for an example.
const maxJobsTried = 20

// Suggest returns the job that may be meant, or the newest that the action is possible for. If only a
// claim is missing, the example is the claim.
func (j *jobForm) Suggest(view *view.View, field *write.Field, sent string) (o wire.Object, sure bool, err error) {
	if field == nil {
		if !j.claimFirst {
			return nil, false, nil
		}
		found, err := view.Problems(j.action(command.OpClaimJob, j.jobID.Value))
		if err != nil || len(found) > 0 {
			return nil, false, err
		}
		return claimOf(j.Author.Agent, j.jobID.Value), true, nil
	}
	id, err := j.near(view, sent)
	if sure = id != ""; err == nil && !sure {
		id, err = j.newestJob(view, j.op)
	}
	if id == "" && err == nil && (j.op == command.OpFinishJob || j.op == command.OpReleaseJob) {
		if id, err = j.newestJob(view, command.OpClaimJob); id != "" {
			return claimOf(j.Author.Agent, id), false, err
		}
	}
	if id == "" {
		return nil, false, err
	}
	return wire.Object{{field.Name, id}}, sure, err
}

// newestJob returns the id of the newest job that an action of the caller is possible for, or "".
func (j *jobForm) newestJob(v *view.View, op command.Op) (string, error) {
	query := view.Query{JobStatus: state.JobOpen, Limit: maxJobsTried}
	switch op {
	case command.OpCloseJob:
		query.AgentKey = j.Author.AgentKey
	case command.OpFinishJob, command.OpReleaseJob:
		query.ClaimantKey = j.Author.AgentKey
	}
	jobs, _, err := v.ListJobs(query)
	for _, seq := range jobs {
		id := state.FormatID(state.TypeJob, seq)
		if found, err := v.Problems(j.action(op, id)); err != nil || len(found) == 0 {
			return id, err
		}
	}
	return "", err
}

func (j *jobForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	const before = "the result of that call"
	w := write.Written{Location: "/api/jobs/" + state.FormatID(state.TypeJob, r.Entry), Before: before}
	if r.Outcome == command.OutcomeUnchanged {
		notes := append([]string{"No open job fits, or you have held all that do: nothing was written, and the request_id is free."}, j.Notes...)
		return c.AnswerObject(http.StatusOK, wire.Object{{"job", nil}, {"duplicate", false}, {"notes", notes}})
	}
	if j.next != nil {
		j.next.pass = nil
	}
	job := r.Entry
	if j.entry != "" {
		meta, found, err := view.Meta(r.Entry)
		if err != nil || !found {
			return fmt.Errorf("look at entry %d: %w", r.Entry, err)
		}
		job, w.Location = meta.Thread, "/api/entries/"+state.EntryID(r.Entry)
		entry, err := view.AppendEntry(nil, r.Entry)
		if err != nil {
			return fmt.Errorf("show entry %d: %w", r.Entry, err)
		}
		w.Shown = wire.Object{{j.entry, json.RawMessage(entry)}}
	}
	shown, err := view.AppendJob(nil, job)
	if err != nil {
		return fmt.Errorf("show job %d: %w", job, err)
	}
	w.Shown = w.Shown.With("job", json.RawMessage(shown))
	return write.Answer(c, &j.Form, view, r, &w)
}

// postJob serves POST /api/jobs: every action on the job board.
func postJob(c *op.Call) (op.Task, error) {
	var j *jobForm
	task, err := write.Handler(func(c *op.Call, doc *wire.Document) write.Draft {
		j = readJob(c, doc)
		c.Action = j.Counted
		return j
	})(c)
	if err != nil || j.next == nil {
		return task, err
	}
	j.next.call = c
	run := task.Run
	task.Run = func() error {
		defer j.next.end()
		return run()
	}
	return task, nil
}

// jobList is GET /api/jobs.
var jobList = read.List{
	Member: "jobs", Scope: read.ScopeJobs, Params: []string{"status", "agent", "claimed_by", "tag", "q", "limit", "cursor", "brief", read.ParamFormat, "consistency", "min_index"},
	Filters: func(l *read.Params) {
		q, usual := &l.Query, state.JobOpen
		l.ReadAgents()
		l.ReadTags()
		if q.ClaimantKey = text.Fold(l.Agent("claimed_by")); q.ClaimantKey != "" {
			usual = state.JobClaimed
		}
		q.JobStatus = read.Status(l, usual, state.JobStatuses[:state.JobHidden])
		if q.ClaimantKey != "" && q.JobStatus != 0 && q.JobStatus != state.JobClaimed {
			l.Problems.Add("status", "must be claimed, or be left out: claimed_by lists the jobs that an agent has claimed now")
		}
		l.Looks = l.Looks || q.ClaimantKey != "" || q.AgentKey+q.TagKey != "" && q.JobStatus != 0
	},
	Find: func(v *view.View, l *read.Params) ([]uint64, uint64, error) { return v.ListJobs(l.Query) },
	Show: (*view.View).AppendJobs,
}

func (j *jobForm) Preview(_ *view.View, _ command.Payload) (wire.Object, error) {
	j.Drop(fieldNext.Name) // the job stands for the selection
	j.Drop(fieldWait.Name)
	o := j.Form.Preview().Replace(fieldAction.Name, j.name)
	if j.next != nil && !j.next.repeats {
		o = o.With(fieldJobID.Name, j.next.candidates[0])
	}
	if j.op == command.OpPostJob {
		o = o.Replace(write.FieldTags.Name, wire.NonNil(j.newTags))
	}
	return o.With("status", j.after.String()), nil
}

// getJob serves GET /api/jobs/{id}. The history is another member of the answer, after the job.
var getJob = read.OneEntry("job", state.TypeJob, func(v *view.View, dst []byte, seq uint64) ([]byte, error) {
	dst, err := v.AppendJob(dst, seq)
	if err != nil {
		return dst, err
	}
	return v.AppendHistory(append(dst, `,"history":`...), seq)
})

// nextJob is a claim of the oldest open job that fits. The node looks for candidates, and apply
// takes the first that is still open.
type nextJob struct {
	call       *op.Call
	query      view.Query
	selection  string // as the client sent it
	wait       time.Duration
	until      time.Time // end of the wait; zero before it
	candidates []string
	repeats    bool   // the request_id was used before
	pass       func() // wakes another waiter instead of this one; nil unless this one was woken
}

// end wakes another waiter if this one was woken and has taken no job.
func (n *nextJob) end() {
	if n.pass != nil {
		n.pass()
		n.pass = nil
	}
}

// maxAgeHours bounds max_age_hours.
const maxAgeHours = 90 * 24

// The members of next.
var nextFields = []write.Field{
	write.FieldTags,
	{Name: "channel", Most: command.MaxChannel},
	{Name: "q", Most: command.MaxSearch},
	{Name: "poster", Most: wire.MaxRawName},
	{Name: "max_age_hours", Least: 1, Most: maxAgeHours, Like: maxAgeHours},
}

var nextBody = write.Body{Fields: nextFields}

// readNext reads the selection of a claim of the next job.
func (j *jobForm) readNext() {
	j.next = &nextJob{query: view.Query{Since: -1}}
	if j.Doc.Get(fieldJobID.Name) != nil {
		j.Problems.Add(fieldJobID.Name, "must be left out with next, which selects the job")
	}
	j.note = j.Text(&fieldJobNote)
	j.next.wait = time.Duration(j.Number(&fieldWait)) * time.Second //nolint:gosec // at most MaxWait
	value := j.Doc.Get(fieldNext.Name)
	members, isObject := wire.Members(value)
	if isEmpty := func(m wire.Field) bool { return m.Value == "" }; slices.ContainsFunc(members, isEmpty) {
		members = slices.DeleteFunc(slices.Clone(members), isEmpty) // models fill in every member
		j.Notes = append(j.Notes, "Empty members of next count as left out.")
	}
	// The members are the body of a form of their own, whose problems are those of next.
	f := write.NewForm(&wire.Document{Fields: members}, &nextBody, nil)
	f.DryRun = true // an example may hold placeholders
	q := &j.next.query
	tags := f.Labels(&nextFields[0])
	for i := range tags {
		tags[i] = text.FoldTag(tags[i])
	}
	q.TagKey = strings.Join(tags, view.Or)
	q.Channel = f.Converted(&nextFields[1], f.Read(&nextFields[1]), "channel", text.ChannelName, command.MaxChannel)
	q.Q = f.Text(&nextFields[2]).Value
	q.AgentKey = text.Fold(f.Converted(&nextFields[3], f.Read(&nextFields[3]), "poster", text.AgentName, command.MaxName))
	if hours := f.Number(&nextFields[4]); hours > 0 {
		q.Since = -int64(hours) * command.HourMillis //nolint:gosec // bounded by its field
	}
	for _, m := range members {
		if known, _ := wire.Means(m.Name, nextBody.Names()); known == "" {
			f.Problems.Add(m.Name, "is not known")
		}
	}
	switch {
	case !isObject:
		j.Problems.Add(fieldNext.Name, `must be an object, such as {"tags":["french"],"max_age_hours":48}, or {} for any job`)
	case f.Problems.Any():
		first := f.Problems.List[0]
		j.Problems.Add(fieldNext.Name, "may hold tags, channel, q, poster and max_age_hours; %s %s", wire.Shown(first.Field, wire.MaxUnknownName), first.Message)
	default:
		j.next.selection = string(wire.AppendJSON(nil, value))
		if len(j.next.selection) > command.MaxNextBytes {
			j.Problems.Add(fieldNext.Name, "may have at most %d bytes", command.MaxNextBytes)
		}
	}
	j.SetValid(&fieldNext, true, value)
}

// find looks for candidates in the newest view.
func (j *jobForm) find() (err error) {
	v, by := j.next.call.NewestView(), j.Author.Signature()
	j.next.query.Work = &j.next.call.Work
	if _, j.next.repeats, err = v.Earlier(command.OpTakeJob, by); err != nil || j.next.repeats {
		return err
	}
	j.next.candidates, err = v.NextJobs(j.next.query, by)
	if err != nil {
		return fmt.Errorf("look for the next job: %w", err)
	}
	return nil
}

// Challenge finds the candidates before each attempt to take one, and waits for some.
func (j *jobForm) Challenge(c *op.Call, _ command.Sender) error {
	if j.next == nil {
		return nil
	}
	if j.next.until.IsZero() {
		if err := j.mayLook(c); err != nil {
			return err
		}
		j.next.until = c.Env.Now().Add(j.next.wait)
	}
	left := j.next.until.Sub(c.Env.Now())
	if left <= 0 {
		return j.find()
	}
	wake, pass, stop := c.Env.Backend.WatchJobs()
	defer stop()
	woken := false // not at the first look
	return c.AwaitNews(left, func() <-chan struct{} { return wake }, func() (bool, error) {
		if woken {
			j.next.pass = pass
		}
		woken = true
		err := j.find()
		if err != nil || j.next.repeats || len(j.next.candidates) > 0 {
			return true, err
		}
		j.next.end()
		return false, nil
	})
}

// mayLook rejects a claim that may not look for a job, by the newest state. A repeat needs not look.
func (j *jobForm) mayLook(c *op.Call) error {
	if _, repeats, err := c.View().Earlier(command.OpTakeJob, j.Author.Signature()); err != nil || repeats {
		return err
	}
	if err := c.WithinReads(); err != nil {
		return err
	}
	return write.JudgeNewest(c, j)
}

// take returns the command that takes the first candidate, or nil without one. An earlier request
// is found by its request_id.
func (j *jobForm) take() command.Payload {
	if j.DryRun && j.next.call != nil && j.next.candidates == nil && !j.Problems.Any() {
		_ = j.find()
	}
	if len(j.next.candidates) == 0 && !j.next.repeats {
		return nil
	}
	return &command.TakeJob{Author: j.Author, Note: j.note.Value, TTL: j.ttl, Jobs: j.next.candidates, Next: j.next.selection}
}
