package apply

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxReopened bounds the claims that end in one log entry. The rest ends in the next ones,
// and counts as ended from its own time on.
const MaxReopened = 1000

// The body of a claim without a note, and the text before a note that is too short for a body.
const (
	claimWithoutNote = "I am working on this job."
	shortNote        = "Note: "
)

func (tx *Txn) applyPostJob(c *command.PostJob) command.Result {
	w := tx.writer()
	return tx.once(c, w, nil, func() uint64 {
		seq := tx.publish(state.EventJob, entryBy(&c.Author, state.JobsChannel, c.Title, c.Body, c.Tags...), w, state.EntryRow{})
		tx.putJob(seq, state.JobRow{}, state.JobRow{Status: state.JobOpen})
		return seq
	})
}

// applyClaimJob publishes the claim and returns its entry.
func (tx *Txn) applyClaimJob(c *command.ClaimJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		body := c.Note
		switch {
		case body == "":
			body = claimWithoutNote
		case utf8.RuneCountInString(body) < command.MinBody:
			body = shortNote + body
		}
		seq := tx.replyToJob(state.EventClaim, &c.JobAction, w, job, state.ClaimTitle, body)
		next := state.JobRow{Status: state.JobClaimed, Claimant: c.Agent, ClaimantKey: c.AgentKey, Expires: tx.now + c.TTL, Claim: seq}
		for _, sh := range state.Claimants(w) {
			next.Counted += string(state.ClaimsKey(sh.Of)[1:])
		}
		if stored.At(tx.now).Status == state.JobClaimed {
			next.Renewed = stored.Renewed + 1
		}
		tx.putJob(job.Seq, stored, next)
		return seq
	})
}

// applyFinishJob publishes the job's result and returns its entry.
func (tx *Txn) applyFinishJob(c *command.FinishJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		seq := tx.replyToJob(state.EventResult, &c.JobAction, w, job, state.ResultTitle, c.Result)
		tx.putJob(job.Seq, stored, state.JobRow{Status: state.JobDone, Result: seq})
		return seq
	})
}

// applyReleaseJob reopens the job and returns it.
func (tx *Txn) applyReleaseJob(c *command.ReleaseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventRelease, stored.Claim)
		tx.putJob(job.Seq, stored, state.JobRow{Status: state.JobOpen})
		return job.Seq
	})
}

// applyCloseJob closes the job and returns it.
func (tx *Txn) applyCloseJob(c *command.CloseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *state.Writer, job *state.EntryRow, stored state.JobRow) uint64 {
		tx.happen(state.EventClose, job.Seq)
		tx.putJob(job.Seq, stored, state.JobRow{Status: state.JobClosed})
		return job.Seq
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

// replyToJob publishes the text of an action as a reply to the job. Its mentions are those of
// the body: agents that the title mentions were notified of the job itself.
func (tx *Txn) replyToJob(as state.EventKind, a *command.JobAction, w *state.Writer, job *state.EntryRow, title, body string) uint64 {
	p := entryBy(&a.Author, state.JobsChannel, title, body)
	p.Relation = command.RelationReply
	return tx.publish(as, p, w, *job)
}

// updateJob closes an open job that is retracted.
func (tx *Txn) updateJob(e *state.EntryRow) {
	if e.Relation != command.RelationRetraction {
		return
	}
	stored := state.JobOf(tx, e.Parent)
	if stored.At(tx.now).Status == state.JobOpen {
		tx.happen(state.EventClose, e.Parent)
		tx.putJob(e.Parent, stored, state.JobRow{Status: state.JobClosed})
	}
}

// putJob replaces a job's row, and moves it between lists. old is zero for a new job.
func (tx *Txn) putJob(seq uint64, old, next state.JobRow) {
	tx.set(state.SeqKey(state.SpaceJob, seq), next.Encode())
	if old.Status != next.Status {
		if old.Status != 0 {
			tx.del(state.JobsKey(old.Status, seq))
		}
		tx.set(state.JobsKey(next.Status, seq), []byte{})
	}
	if old.Status == state.JobClaimed {
		tx.DropClaim(state.DueClaim{Expires: old.Expires, Job: seq})
	}
	if next.Status == state.JobClaimed {
		tx.AddClaim(state.DueClaim{Expires: next.Expires, Job: seq})
	}
	tx.countClaim(old.Counted, -1)
	tx.countClaim(next.Counted, 1)
	tx.updateHomeOfJob(seq, old, next)
}

// AddClaim lists a claim by its end.
func (tx *Txn) AddClaim(c state.DueClaim) {
	tx.set(state.DueKey(c), []byte{})
	tx.claimed = append(tx.claimed, c)
	tx.nextDue = min(tx.nextDue, c.Expires)
}

// DropClaim removes a claim from that list.
func (tx *Txn) DropClaim(c state.DueClaim) { tx.del(state.DueKey(c)) }

// reopenClaims ends the claims that have run out at the instant of the log entry.
func (tx *Txn) reopenClaims() {
	if tx.now < tx.nextDue {
		return
	}
	claims, err := tx.EarliestClaims(MaxReopened + 1)
	tx.Must(err)
	tx.nextDue = state.NoClaims
	for i, c := range claims {
		if c.Expires > tx.now || i == MaxReopened {
			tx.nextDue = c.Expires
			return
		}
		claimed := state.JobOf(tx, c.Job)
		tx.happen(state.EventExpiry, claimed.Claim)
		tx.putJob(c.Job, claimed, claimed.At(tx.now))
	}
}

// EarliestClaims returns at most limit claims: those that have run out, and the next one.
func (tx *Txn) EarliestClaims(limit int) ([]state.DueClaim, error) {
	var claims []state.DueClaim
	for _, c := range tx.claimed {
		if tx.rows[string(state.DueKey(c))] != nil {
			claims = append(claims, c)
		}
	}
	stored := 0
	err := state.ScanClaims(tx.stored.DB, func(c state.DueClaim) error {
		if row, changed := tx.rows[string(state.DueKey(c))]; changed && row == nil {
			return nil
		}
		claims = append(claims, c)
		if stored++; c.Expires > tx.now || stored >= limit {
			return state.ErrEnough
		}
		return nil
	})
	slices.SortFunc(claims, func(a, b state.DueClaim) int { return bytes.Compare(state.DueKey(a), state.DueKey(b)) })
	claims = slices.Compact(claims)
	return claims[:min(len(claims), limit)], err
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
