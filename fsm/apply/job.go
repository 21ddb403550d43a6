package apply

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxEnded bounds the claims that end in one log entry. The others end in the next ones,
// and count as ended from their own time on.
const MaxEnded = 1000

// Texts of the entries of claims and results. A note or a result that is too short for a body has a
// text before it.
const (
	claimWithoutNote = "I am working on this job."
	shortNote        = "Note: "
	shortResult      = "Result: "
)

func (tx *Txn) applyPostJob(c *command.PostJob) command.Result {
	return tx.idempotent(c, nil, func() uint64 {
		seq := tx.publish(state.EventJob, entryBy(&c.Author, state.JobsChannel, c.Title, c.Body, c.Tags...), state.EntryRow{})
		tx.putJob(seq, state.JobRow{}, state.JobRow{Status: state.JobOpen})
		return seq
	})
}

// applyClaimJob publishes the claim and returns its entry.
func (tx *Txn) applyClaimJob(c *command.ClaimJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(job *state.EntryRow, stored state.JobRow) uint64 {
		return tx.claim(c, job, stored)
	})
}

// applyTakeJob claims the first candidate that the rules allow, and returns the claim's entry.
func (tx *Txn) applyTakeJob(c *command.TakeJob) command.Result {
	var job state.EntryRow
	var stored state.JobRow
	rules := func() (problems []command.Problem) {
		for _, id := range c.Jobs {
			job, stored, problems = home.TakeProblems(tx, id, &tx.judged.Writer)
			if len(problems) == 0 || slices.Equal(problems, []command.Problem{command.ProblemTooManyClaims}) {
				return problems
			}
		}
		return []command.Problem{command.ProblemNoneLeft}
	}
	return tx.idempotent(c, rules, func() uint64 {
		claim := command.ClaimJob{JobAction: command.JobAction{Author: c.Author, Job: state.FormatID(state.TypeJob, job.Seq)}, Note: c.Note, TTL: c.TTL}
		return tx.claim(&claim, &job, stored)
	})
}

// claim publishes a claim of a job and returns its entry.
func (tx *Txn) claim(c *command.ClaimJob, job *state.EntryRow, stored state.JobRow) uint64 {
	seq := tx.replyOnJob(state.EventClaim, &c.JobAction, job, state.ClaimTitle, cmp.Or(c.Note, claimWithoutNote))
	next := stored.Bare(state.JobClaimed)
	next.Claimant, next.ClaimantKey, next.Claim = c.Agent, c.AgentKey, seq
	next.Expires = tx.now + c.TTL
	for _, sh := range state.Claimants(&tx.judged.Writer) {
		next.Counted += string(state.ClaimsKey(sh.Of)[1:])
	}
	if stored.At(tx.now).Status == state.JobClaimed {
		next.Renewed = stored.Renewed + 1
	}
	tx.set(home.ItemKey(c.AgentKey, home.PartHad, job.Seq), []byte{})
	tx.putJob(job.Seq, stored, next)
	return seq
}

// applyFinishJob publishes the job's result and returns its entry.
func (tx *Txn) applyFinishJob(c *command.FinishJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(job *state.EntryRow, stored state.JobRow) uint64 {
		seq := tx.replyOnJob(state.EventResult, &c.JobAction, job, state.ResultTitle, c.Result)
		next := stored.Bare(state.JobDone)
		next.Result = seq
		tx.putJob(job.Seq, stored, next)
		return seq
	})
}

// applyReleaseJob reopens the job and returns it.
func (tx *Txn) applyReleaseJob(c *command.ReleaseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventRelease, stored.Claim)
		tx.putJob(job.Seq, stored, stored.Bare(state.JobOpen))
		return job.Seq
	})
}

// applyCloseJob closes the job and returns it.
func (tx *Txn) applyCloseJob(c *command.CloseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventClose, job.Seq)
		tx.putJob(job.Seq, stored, stored.Bare(state.JobClosed))
		return job.Seq
	})
}

// actOnJob carries out an action if the rules allow it. do returns the command's entry.
func (tx *Txn) actOnJob(c command.Payload, a *command.JobAction, do func(job *state.EntryRow, stored state.JobRow) uint64) command.Result {
	var job state.EntryRow
	var stored state.JobRow
	rules := func() (problems []command.Problem) {
		job, stored, problems = state.JobProblems(tx, command.OpOf(c), a.Job, &tx.judged.Writer)
		return problems
	}
	return tx.idempotent(c, rules, func() uint64 { return do(&job, stored) })
}

// replyOnJob publishes the text of an action as a reply to the job. Its mentions are those of the
// body: agents that the title mentions were notified of the job itself.
func (tx *Txn) replyOnJob(as state.EventKind, a *command.JobAction, job *state.EntryRow, title, body string) uint64 {
	if utf8.RuneCountInString(body) < command.MinBody {
		prefix := shortNote
		if as == state.EventResult {
			prefix = shortResult
		}
		body = prefix + body
	}
	p := entryBy(&a.Author, state.JobsChannel, title, body)
	p.Relation = command.RelationReply
	return tx.publish(as, p, *job)
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

// hideJob hides a job and returns the row with which it is shown again: without a claim, which ends.
func (tx *Txn) hideJob(seq uint64) []byte {
	stored := state.JobOf(tx, seq)
	shown := stored
	if !stored.Status.Over() {
		shown = stored.Bare(state.JobOpen)
	}
	tx.putJob(seq, stored, state.JobRow{Status: state.JobHidden})
	return state.Encode(&shown)
}

// unhideJob shows a hidden job again, with the row that hideJob returned.
func (tx *Txn) unhideJob(seq uint64, row []byte) {
	shown, err := state.Decode[state.JobRow](row)
	tx.Must(err)
	tx.putJob(seq, state.JobOf(tx, seq), shown)
}

// putJob replaces a job's row, and moves it between lists. old is zero for a new job. The events
// since the last call are steps of this job.
func (tx *Txn) putJob(seq uint64, old, next state.JobRow) {
	for _, h := range tx.happened[tx.stepped:] {
		if h.Kind.IsStep() {
			next = next.WithStep(state.JobStep{Kind: h.Kind, Entry: h.Entry, At: tx.now})
		}
	}
	tx.stepped = len(tx.happened)
	tx.set(state.SeqKey(state.SpaceJob, seq), state.Encode(&next))
	if old.Status != next.Status {
		if old.Status != 0 {
			tx.del(state.JobsKey(old.Status, seq))
		}
		tx.set(state.JobsKey(next.Status, seq), []byte{})
		if next.Status == state.JobOpen {
			tx.Opened = append(tx.Opened, seq)
		}
	}
	if old.Status == state.JobClaimed {
		tx.del(state.DueKey(old.Expires, seq))
	}
	if next.Status == state.JobClaimed {
		tx.set(state.DueKey(next.Expires, seq), []byte{})
		tx.nextDue = min(tx.nextDue, next.Expires)
	}
	tx.countClaim(old.Counted, -1)
	tx.countClaim(next.Counted, 1)
	tx.updateHomeOfJob(seq, old, next)
}

// endClaims opens the jobs whose claims have ended at the instant of the log entry. This writes
// no entry.
func (tx *Txn) endClaims() {
	if tx.now < tx.nextDue {
		return
	}
	lower, upper := state.SpaceBounds(state.SpaceDue)
	for _, key := range tx.scan(lower, state.DueKey(tx.now+1, 0), MaxEnded) {
		_, seq, err := state.ParseDueKey(key)
		tx.Must(err)
		old := state.JobOf(tx, seq)
		tx.happen(state.EventExpiry, old.Claim)
		tx.putJob(seq, old, old.At(tx.now))
	}
	tx.nextDue = state.Never
	for _, key := range tx.scan(lower, upper, 1) {
		var err error
		tx.nextDue, _, err = state.ParseDueKey(key)
		tx.Must(err)
	}
}

// countClaim adds a claim to the rows that count it, or subtracts it.
func (tx *Txn) countClaim(counted string, by int) {
	for key := range slices.Chunk([]byte(counted), state.ClaimsKeyBytes) {
		key = append([]byte{state.SpaceClaims}, key...)
		var row []byte
		if n := int(tx.number(key)) + by; n > 0 { //nolint:gosec // bounded by the number of jobs
			row = binary.AppendUvarint(nil, uint64(n))
		}
		tx.set(key, row)
	}
}
