package command

import "errors"

// PostJob files a job. The node that takes the request computes everything that depends on
// Unicode tables or settings, as with Publish.
type PostJob struct {
	Author
	Title string   `cbor:"10,keyasint"`
	Body  string   `cbor:"11,keyasint"`
	Tags  []string `cbor:"12,keyasint,omitempty"`
}

// JobAction has the fields of every command on a job.
type JobAction struct {
	Author
	Job string `cbor:"10,keyasint"` // public id of the job
}

// ClaimJob takes an open job, or extends the caller's own claim. It files a reply
// to the job by the claimant.
type ClaimJob struct {
	JobAction
	Note string `cbor:"11,keyasint,omitempty"`
	// TTL is how long the claim lasts from the command's instant on, in milliseconds.
	TTL int64 `cbor:"12,keyasint"`
}

// TakeJob claims the first of several jobs that its agent may claim and has not held before. It
// files a reply to the job.
type TakeJob struct {
	Author
	Note string   `cbor:"10,keyasint,omitempty"`
	TTL  int64    `cbor:"11,keyasint"` // see ClaimJob
	Jobs []string `cbor:"12,keyasint"` // public ids of the candidates, in order
	Next string   `cbor:"13,keyasint"` // the client's selection, by which repeated requests are compared
}

// FinishJob hands in the result of a job that the caller has claimed. It files a reply to
// the job.
type FinishJob struct {
	JobAction
	Result string `cbor:"11,keyasint"`
}

// ReleaseJob gives the caller's claim back.
type ReleaseJob struct{ JobAction }

// CloseJob withdraws the caller's own job. A claimed job needs the key of its poster.
type CloseJob struct{ JobAction }

// Tick has no effect of its own. A leader proposes it so that log time goes on and due
// claims end while there are no writes.
type Tick struct{}

func (c *PostJob) check() error {
	return errors.Join(
		c.Author.check(),
		checkText("title", c.Title, MinTitle, MaxTitle),
		checkText("body", c.Body, MinBody, MaxBody),
		checkAll("tags", c.Tags, MaxTags, checkTag),
	)
}

func (a *JobAction) check() error {
	return errors.Join(a.Author.check(), checkText("job", a.Job, 1, MaxTarget))
}

func (c *ClaimJob) check() error {
	return errors.Join(
		c.JobAction.check(),
		checkText("note", c.Note, 0, MaxJobNote),
		refuse(c.TTL < 1 || c.TTL > MaxClaim, "a claim of a time out of its range"),
	)
}

func (c *TakeJob) check() error {
	return errors.Join(
		c.Author.check(),
		checkText("note", c.Note, 0, MaxJobNote),
		refuse(c.TTL < 1 || c.TTL > MaxClaim, "a claim of a time out of its range"),
		refuse(len(c.Jobs) == 0, "no candidates"),
		checkAll("jobs", c.Jobs, MaxCandidates, bytesOf("job", MaxTarget)),
		checkBytes("next", c.Next, MaxNextBytes),
	)
}

func (c *FinishJob) check() error {
	return errors.Join(c.JobAction.check(), checkText("result", c.Result, MinJobResult, MaxJobResult))
}

func (*Tick) check() error { return nil }

func (c *PostJob) texts() []string { return append([]string{c.Agent, c.Title, c.Body}, c.Tags...) }

func (c *ClaimJob) texts() []string { return []string{c.Agent, c.Note} }

func (c *TakeJob) texts() []string { return []string{c.Agent, c.Note} }

func (c *FinishJob) texts() []string { return []string{c.Agent, c.Result} }

func (a *JobAction) texts() []string { return nil }

func (c *PostJob) content() [][]string {
	return [][]string{{c.Agent, c.Title, c.Body}, c.Tags}
}
func (a *JobAction) content() [][]string { return [][]string{{a.Agent, a.Job, ""}} }
func (c *ClaimJob) content() [][]string  { return [][]string{{c.Agent, c.Job, c.Note}} }
func (c *TakeJob) content() [][]string   { return [][]string{{c.Agent, c.Note, c.Next}} }
func (c *FinishJob) content() [][]string { return [][]string{{c.Agent, c.Job, c.Result}} }
