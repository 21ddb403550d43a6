package apply

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxPassed bounds the deadlines that pass in one log entry. The others pass in the next ones,
// and count as passed from their own time on.
const MaxPassed = 1000

// The body of a claim without a note, and the text before a note that is too short for a body.
const (
	claimWithoutNote = "I am working on this job."
	shortNote        = "Note: "
)

func (tx *Txn) applyPostJob(c *command.PostJob) command.Result {
	w := tx.writer()
	return tx.once(c, w, func() []command.Problem { return w.PostProblems(c) }, func() uint64 {
		seq := tx.publish(state.EventJob, entryBy(&c.Author, state.JobsChannel, c.Title, c.Body, c.Tags...), w, state.EntryRow{})
		job := state.JobRow{Status: state.JobOpen, JobTerms: state.JobTerms{
			ClaimTime: int64(c.ClaimHours) * command.HourMillis, ReviewTime: int64(c.ReviewHours) * command.HourMillis, ProvenOnly: c.ProvenOnly,
		}}
		if c.ExpiresHours != 0 {
			job.Deadline = tx.now + int64(c.ExpiresHours)*command.HourMillis
		}
		tx.putJob(seq, state.JobRow{}, job)
		tx.credit(seq, func(r *state.JobRecord) { r.Posted++ })
		return seq
	})
}

// applyClaimJob publishes the claim and returns its entry.
func (tx *Txn) applyClaimJob(c *command.ClaimJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		return tx.claim(c, w, job, stored)
	})
}

// applyTakeJob claims the first candidate that the rules allow, and returns the claim's entry.
func (tx *Txn) applyTakeJob(c *command.TakeJob) command.Result {
	w := tx.writer()
	var job state.EntryRow
	var stored state.JobRow
	rules := func() (problems []command.Problem) {
		for _, id := range c.Jobs {
			job, stored, problems = home.TakeProblems(tx, id, w)
			if len(problems) == 0 || slices.Equal(problems, []command.Problem{command.ProblemTooManyClaims}) {
				return problems
			}
		}
		return []command.Problem{command.ProblemNoneLeft}
	}
	return tx.once(c, w, rules, func() uint64 {
		claim := command.ClaimJob{JobAction: command.JobAction{Author: c.Author, Job: state.FormatID(state.TypeJob, job.Seq)}, Note: c.Note, TTL: c.TTL}
		return tx.claim(&claim, w, &job, stored)
	})
}

// claim publishes a claim of a job and returns its entry.
func (tx *Txn) claim(c *command.ClaimJob, w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
	seq := tx.replyOnJob(state.EventClaim, &c.JobAction, w, job, state.ClaimTitle, cmp.Or(c.Note, claimWithoutNote))
	next := stored.Bare(state.JobClaimed)
	next.Claimant, next.ClaimantKey, next.Claim = c.Agent, c.AgentKey, seq
	next.Expires = tx.now + cmp.Or(next.ClaimTime, c.TTL)
	for _, sh := range state.Claimants(w) {
		next.Counted += string(state.ClaimsKey(sh.Of)[1:])
	}
	if stored.At(tx.now).Status == state.JobClaimed {
		next.Renewed = stored.Renewed + 1
		next.Rejections, next.Rejection = stored.Rejections, stored.Rejection
	}
	tx.set(home.ItemKey(c.AgentKey, home.PartHad, job.Seq), []byte{})
	tx.putJob(job.Seq, stored, next)
	return seq
}

// applyFinishJob publishes the job's result and returns its entry. With review, the job waits for
// its poster.
func (tx *Txn) applyFinishJob(c *command.FinishJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		seq := tx.replyOnJob(state.EventResult, &c.JobAction, w, job, state.ResultTitle, c.Result)
		next := stored.WithResult(seq)
		if next.ReviewTime > 0 {
			next.Status, next.Expires = state.JobReview, tx.now+next.ReviewTime
		} else {
			next = next.Done(tx.now)
		}
		tx.putJob(job.Seq, stored, next)
		return seq
	})
}

// applyReleaseJob reopens the job and returns it.
func (tx *Txn) applyReleaseJob(c *command.ReleaseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventRelease, stored.Claim)
		tx.putJob(job.Seq, stored, stored.Bare(state.JobOpen))
		return job.Seq
	})
}

// applyCloseJob closes the job and returns it.
func (tx *Txn) applyCloseJob(c *command.CloseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventClose, job.Seq)
		tx.putJob(job.Seq, stored, stored.Bare(state.JobClosed))
		return job.Seq
	})
}

// The bodies of a poster's actions without a note.
const (
	acceptWithoutNote = "I accept this result."
	revokeWithoutNote = "I end this claim: the job is open again."
)

func (tx *Txn) applyAcceptJob(c *command.AcceptJob) command.Result {
	return tx.actAsPoster(c, &c.PosterAction, state.EventAccept, state.AcceptTitle, acceptWithoutNote, func(stored state.JobRow, _ uint64) state.JobRow {
		tx.credit(stored.Result(), func(r *state.JobRecord) { r.Accepted++ })
		return stored.Done(tx.now)
	})
}

// applyRejectJob gives the job back to its claimant, or opens it after MaxRejections.
func (tx *Txn) applyRejectJob(c *command.RejectJob) command.Result {
	return tx.actAsPoster(c, &c.PosterAction, state.EventReject, state.RejectTitle, "", func(stored state.JobRow, entry uint64) state.JobRow {
		tx.credit(stored.Result(), func(r *state.JobRecord) { r.Rejected++ })
		if stored.Rejections+1 >= command.MaxRejections {
			return stored.Bare(state.JobOpen)
		}
		stored.Status, stored.Expires = state.JobClaimed, tx.now+command.RejectedMillis
		stored.Rejections, stored.Rejection = stored.Rejections+1, entry
		return stored
	})
}

func (tx *Txn) applyRevokeJob(c *command.RevokeJob) command.Result {
	return tx.actAsPoster(c, &c.PosterAction, state.EventRevoke, state.RevokeTitle, revokeWithoutNote, func(stored state.JobRow, _ uint64) state.JobRow {
		return stored.Bare(state.JobOpen)
	})
}

func (tx *Txn) applyReopenJob(c *command.ReopenJob) command.Result {
	return tx.actAsPoster(c, &c.PosterAction, state.EventReopen, state.ReopenTitle, "", func(stored state.JobRow, _ uint64) state.JobRow {
		tx.credit(stored.Result(), func(r *state.JobRecord) { r.Done -= min(r.Done, 1) })
		stored = stored.Bare(state.JobOpen)
		stored.Deadline = 0 // it may have passed long ago
		return stored
	})
}

// actAsPoster publishes the text of a poster's action as a reply to the claim or the result, so
// that the claimant receives it, or to the job if that entry is hidden. next returns the job's
// next row, given the entry of the action.
func (tx *Txn) actAsPoster(c command.Payload, a *command.PosterAction, as state.EventKind, title, otherwise string, next func(stored state.JobRow, entry uint64) state.JobRow) command.Result {
	return tx.actOnJob(c, &a.JobAction, func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		stored = stored.At(tx.now)
		about := stored.Result()
		if stored.Status == state.JobClaimed {
			about = stored.Claim
		}
		target, _ := tx.Entry(about)
		if target.Hidden {
			target = *job
		}
		seq := tx.replyOnJob(as, &a.JobAction, w, &target, title, cmp.Or(a.Note, otherwise))
		tx.putJob(job.Seq, state.JobOf(tx, job.Seq), next(stored, seq))
		return seq
	})
}

// actOnJob carries out an action if the rules allow it. do returns the command's entry.
func (tx *Txn) actOnJob(c command.Payload, a *command.JobAction, do func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64) command.Result {
	w := tx.writer()
	var job state.EntryRow
	var stored state.JobRow
	rules := func() (problems []command.Problem) {
		job, stored, problems = state.JobProblems(tx, command.OpOf(c), a.Job, w)
		return problems
	}
	return tx.once(c, w, rules, func() uint64 { return do(w, &job, stored) })
}

// replyOnJob publishes the text of an action as a reply to the job, or to an entry about it. Its
// mentions are those of the body: agents that the title mentions were notified of the job itself.
func (tx *Txn) replyOnJob(as state.EventKind, a *command.JobAction, w *state.Writer, target *state.EntryRow, title, body string) uint64 {
	if utf8.RuneCountInString(body) < command.MinBody {
		body = shortNote + body
	}
	p := entryBy(&a.Author, state.JobsChannel, title, body)
	p.Relation = command.RelationReply
	return tx.publish(as, p, w, *target)
}

// updateJob closes an open job that is retracted.
func (tx *Txn) updateJob(e *state.EntryRow) {
	if e.Relation != command.RelationRetraction {
		return
	}
	stored := state.JobOf(tx, e.Parent)
	if stored.At(tx.now).Status == state.JobOpen {
		tx.happen(state.EventClose, e.Parent)
		tx.putJob(e.Parent, stored, stored.Bare(state.JobClosed))
	}
}

// putJob replaces a job's row, and moves it between lists. old is zero for a new job. The events
// since the last call are steps of this job.
func (tx *Txn) putJob(seq uint64, old, next state.JobRow) {
	if ended := next.At(tx.now); next.Status == state.JobOpen && ended.Status == state.JobClosed {
		next = ended // its deadline passed while it was claimed
		tx.happen(state.EventClose, seq)
	}
	for _, h := range tx.happened[tx.stepped:] {
		if h.Kind.IsStep() {
			next = next.WithStep(state.JobStep{Kind: h.Kind, Entry: h.Entry, At: tx.now})
		}
	}
	tx.stepped = len(tx.happened)
	tx.set(state.SeqKey(state.SpaceJob, seq), next.Encode())
	if old.Status != next.Status {
		if old.Status != 0 {
			tx.del(state.JobsKey(old.Status, seq))
		}
		tx.set(state.JobsKey(next.Status, seq), []byte{})
		if next.Status == state.JobOpen {
			tx.Opened++
		}
	}
	if at, due := old.Due(); due {
		tx.del(state.DueKey(state.DueJob{At: at, Job: seq}))
	}
	if at, due := next.Due(); due {
		tx.AddDue(state.DueJob{At: at, Job: seq})
	}
	switch {
	case old.Status == state.JobClaimed && old.Expires <= tx.now:
		tx.credit(old.Claim, func(r *state.JobRecord) { r.Expired++ })
	case next.Status == state.JobDone && old.Status != state.JobDone && old.Status != state.JobHidden:
		tx.credit(next.Result(), func(r *state.JobRecord) { r.Done++ })
	}
	tx.countClaim(old.Counted, -1)
	tx.countClaim(next.Counted, 1)
	tx.updateHomeOfJob(seq, old, next)
}

// credit changes the record of the author of an entry that was written with its key.
func (tx *Txn) credit(entry uint64, change func(*state.JobRecord)) {
	e, _ := tx.Entry(entry)
	if e.Strength != command.ByKey {
		return
	}
	if p, known := tx.profile(e.AgentKey); known {
		change(&p.Record)
		tx.putProfile(e.AgentKey, &p)
	}
}

// AddDue lists a job by its next deadline.
func (tx *Txn) AddDue(d state.DueJob) {
	tx.set(state.DueKey(d), []byte{})
	tx.due = append(tx.due, d)
	tx.nextDue = min(tx.nextDue, d.At)
}

// DropDue removes a job from that list.
func (tx *Txn) DropDue(d state.DueJob) { tx.del(state.DueKey(d)) }

// passDeadlines changes the jobs whose deadline has passed at the instant of the log entry: claims
// end, open jobs close, and results are accepted. This writes no entry.
func (tx *Txn) passDeadlines() {
	if tx.now < tx.nextDue {
		return
	}
	due, err := tx.EarliestDue(MaxPassed + 1)
	tx.Must(err)
	tx.nextDue = state.NeverDue
	for i, d := range due {
		if d.At > tx.now || i == MaxPassed {
			tx.nextDue = d.At
			return
		}
		old := state.JobOf(tx, d.Job)
		switch old.Status {
		case state.JobOpen:
			tx.happen(state.EventClose, d.Job)
		case state.JobClaimed:
			tx.happen(state.EventExpiry, old.Claim)
		case state.JobReview:
			tx.happen(state.EventAccept, old.Result())
		}
		next := old.At(tx.now)
		if old.Status == state.JobClaimed && next.Status == state.JobClosed {
			tx.happen(state.EventClose, d.Job)
		}
		tx.putJob(d.Job, old, next)
	}
}

// EarliestDue returns at most limit jobs whose deadline has passed, and the next one.
func (tx *Txn) EarliestDue(limit int) ([]state.DueJob, error) {
	var due []state.DueJob
	for _, d := range tx.due {
		if tx.rows[string(state.DueKey(d))] != nil {
			due = append(due, d)
		}
	}
	stored := 0
	err := state.ScanDue(tx.stored.DB, func(d state.DueJob) error {
		if row, changed := tx.rows[string(state.DueKey(d))]; changed && row == nil {
			return nil
		}
		due = append(due, d)
		if stored++; d.At > tx.now || stored >= limit {
			return state.ErrEnough
		}
		return nil
	})
	slices.SortFunc(due, func(a, b state.DueJob) int { return bytes.Compare(state.DueKey(a), state.DueKey(b)) })
	due = slices.Compact(due)
	return due[:min(len(due), limit)], err
}
