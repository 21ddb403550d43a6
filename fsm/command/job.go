package command

import (
	"errors"
	"fmt"
)

// PostJob files a job. What depends on Unicode tables or settings is worked out
// by the node that takes the request, as with Publish.
type PostJob struct {
	Author
	Title string   `cbor:"10,keyasint"`
	Body  string   `cbor:"11,keyasint"`
	Tags  []string `cbor:"12,keyasint,omitempty"`
}

// JobAction is what every command on a job says.
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

// FinishJob hands in the result of a job that the caller has claimed, or that
// nobody has and that is not the caller's own. It files a reply to the job.
type FinishJob struct {
	JobAction
	Result string `cbor:"11,keyasint"`
}

// ReleaseJob gives the caller's claim back.
type ReleaseJob struct{ JobAction }

// CloseJob withdraws the caller's own open job.
type CloseJob struct{ JobAction }

// Tick does nothing. A leader proposes it so that log time goes on and due claims
// end while nobody writes.
type Tick struct{}

func (*PostJob) op() Op { return OpPostJob }

func (*ClaimJob) op() Op { return OpClaimJob }

func (*FinishJob) op() Op { return OpFinishJob }

func (*ReleaseJob) op() Op { return OpReleaseJob }

func (*CloseJob) op() Op { return OpCloseJob }

func (*Tick) op() Op { return OpTick }

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
		c.checkTTL(),
	)
}

func (c *ClaimJob) checkTTL() error {
	if c.TTL < 1 || c.TTL > MaxClaim {
		return fmt.Errorf("claim of %d milliseconds, allowed are 1 to %d", c.TTL, int64(MaxClaim))
	}
	return nil
}

func (c *FinishJob) check() error {
	return errors.Join(c.JobAction.check(), checkText("result", c.Result, MinJobResult, MaxJobResult))
}

func (*Tick) check() error { return nil }
