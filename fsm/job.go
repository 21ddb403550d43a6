package fsm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// jobsChannel is the channel of jobs and of the entries about them.
const jobsChannel = "jobs"

// maxReopened is how many claims end at most in one log entry. The rest ends
// in the next ones, and counts as ended from its own time on.
const maxReopened = 1000

// The titles of the entries that a claim and a result leave, before the job's own. No
// title that a client sends ends with a blank: these rows are known by them.
const (
	claimTitle  = "Claimed: "
	resultTitle = "Result: "
	// claimWithoutNote is the body of a claim that came without a note, and
	// shortNote is put before a note that is too short for a body.
	claimWithoutNote = "I am working on this job."
	shortNote        = "Note: "
)

// JobStatus is the state of a job (interface, 3.1).
type JobStatus uint8

// The states of a job. The numbers are stored.
const (
	JobOpen    JobStatus = 1
	JobClaimed JobStatus = 2
	JobDone    JobStatus = 3
	JobClosed  JobStatus = 4 // withdrawn by its poster
	JobHidden  JobStatus = 5 // by a moderator; it is in no list
)

var jobStatusNames = [...]string{JobOpen: "open", JobClaimed: "claimed", JobDone: "done", JobClosed: "closed", JobHidden: "hidden"}

// String returns the status's name in the interface.
func (s JobStatus) String() string { return jobStatusNames[s] }

// ParseJobStatus returns the status with the given interface name, of those that are
// listed.
func ParseJobStatus(name string) (JobStatus, bool) {
	i := slices.Index(jobStatusNames[:JobHidden], name)
	return JobStatus(max(i, 0)), i > 0
}

func (tx *txn) applyPostJob(c *command.PostJob) command.Result {
	w := tx.writer(c.Signature())
	return tx.once(c, w, noRules, func() uint64 {
		seq := tx.publish(EventJob, entryBy(&c.Author, jobsChannel, c.Title, c.Body, c.Tags...), w, entryRow{})
		tx.putJob(seq, jobRow{}, jobRow{status: JobOpen})
		return seq
	})
}

// applyClaimJob publishes the claim and returns its entry.
func (tx *txn) applyClaimJob(c *command.ClaimJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *writer, job *entryRow, stored jobRow) uint64 {
		seq := tx.replyToJob(EventClaim, &c.JobAction, w, job, claimTitle, claimBody(c.Note))
		tx.putJob(job.Seq, stored, jobRow{
			status: JobClaimed, claimant: c.Agent, claimantKey: c.AgentKey, expires: tx.now + c.TTL, claim: seq,
		})
		return seq
	})
}

func claimBody(note string) string {
	switch {
	case note == "":
		return claimWithoutNote
	case utf8.RuneCountInString(note) < command.MinBody:
		return shortNote + note
	}
	return note
}

// applyFinishJob publishes the job's result and returns its entry.
func (tx *txn) applyFinishJob(c *command.FinishJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(w *writer, job *entryRow, stored jobRow) uint64 {
		seq := tx.replyToJob(EventResult, &c.JobAction, w, job, resultTitle, c.Result)
		tx.putJob(job.Seq, stored, jobRow{status: JobDone, result: seq})
		return seq
	})
}

// applyReleaseJob reopens the job and returns it.
func (tx *txn) applyReleaseJob(c *command.ReleaseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *writer, job *entryRow, stored jobRow) uint64 {
		tx.happen(EventRelease, stored.claim)
		tx.putJob(job.Seq, stored, jobRow{status: JobOpen})
		return job.Seq
	})
}

// applyCloseJob closes the job and returns it.
func (tx *txn) applyCloseJob(c *command.CloseJob) command.Result {
	return tx.actOnJob(c, &c.JobAction, func(_ *writer, job *entryRow, stored jobRow) uint64 {
		tx.happen(EventClose, job.Seq)
		tx.putJob(job.Seq, stored, jobRow{status: JobClosed})
		return job.Seq
	})
}

// actOnJob carries out an action if the rules allow it. do changes the job, given its
// entry and its row as it is stored, and returns the command's entry.
func (tx *txn) actOnJob(c command.Payload, a *command.JobAction, do func(w *writer, job *entryRow, stored jobRow) uint64) command.Result {
	w := tx.writer(a.Signature())
	var job entryRow
	var stored jobRow
	rules := func() (problems []command.Problem) {
		job, stored, problems = jobProblems(tx, command.OpOf(c), a.Job, w)
		return problems
	}
	return tx.once(c, w, rules, func() uint64 { return do(w, &job, stored) })
}

// replyToJob publishes the text of an action as a reply to the job. Its mentions are
// those of the body: agents that the job's title mentions were notified of the job
// itself.
func (tx *txn) replyToJob(as EventKind, a *command.JobAction, w *writer, job *entryRow, title, body string) uint64 {
	p := entryBy(&a.Author, jobsChannel, title, body)
	p.Relation = command.RelationReply
	return tx.publish(as, p, w, *job)
}

// jobProblems are the rules of the job board: everything against an action on the job
// with a public id. It returns the job's entry and its row as it is stored, too.
func jobProblems(s facts, op command.Op, id string, w *writer) (job entryRow, stored jobRow, problems []command.Problem) {
	job, ok := resolve(s, id)
	if !ok || job.Type != TypeJob {
		return job, stored, []command.Problem{command.ProblemUnknownJob}
	}
	stored = jobOf(s, job.Seq)
	j := stored.at(s.instant())
	switch own := job.AgentKey == w.AgentKey; {
	case own && (op == command.OpClaimJob || op == command.OpFinishJob):
		problems = append(problems, command.ProblemOwnJob)
	case op == command.OpCloseJob && !w.owns(s, &job):
		problems = append(problems, command.ProblemNotPoster)
	case op == command.OpCloseJob && !w.mayUndo(&job):
		problems = append(problems, command.ProblemProofRequired)
	}
	switch {
	case j.status == JobHidden:
		problems = []command.Problem{command.ProblemHidden}
	case j.status == JobDone:
		problems = append(problems, command.ProblemJobDone)
	case j.status == JobClosed:
		problems = append(problems, command.ProblemJobClosed)
	case j.status == JobClaimed:
		claim, _ := s.entry(j.claim)
		if op == command.OpCloseJob || !w.owns(s, &claim) {
			problems = append(problems, command.ProblemJobClaimed)
		} else if !w.mayUndo(&claim) {
			problems = append(problems, command.ProblemProofRequired)
		}
	case j.status == JobOpen && op == command.OpReleaseJob:
		problems = append(problems, command.ProblemJobNotClaimed)
	}
	return job, stored, problems
}

// updateJob closes an open job that is retracted.
func (tx *txn) updateJob(e *entryRow) {
	if e.Relation != command.RelationRetraction {
		return
	}
	stored := tx.job(e.Parent)
	if stored.at(tx.now).status == JobOpen {
		tx.happen(EventClose, e.Parent)
		tx.putJob(e.Parent, stored, jobRow{status: JobClosed})
	}
}

// jobRow is the row of spaceJob.
type jobRow struct {
	status JobStatus
	// What follows is that of the claim; where one ran out and nobody else has taken
	// the job yet, of that one.
	claimant    string // as spelled in the claim
	claimantKey string // folded
	expires     int64  // end of the claim, milliseconds since the epoch
	claim       uint64 // the newest entry of the claimant about its claim
	result      uint64 // the entry of the result; 0 unless done
}

// at returns the job's state at an instant: an expired claim does not count, whether or
// not the job was reopened yet.
func (j jobRow) at(now int64) jobRow {
	if j.status == JobClaimed && j.expires <= now {
		j.status = JobOpen
	}
	return j
}

// withoutClaim returns the job as it is when its claim is given back.
func (j jobRow) withoutClaim() jobRow {
	if j.status == JobClaimed {
		return jobRow{status: JobOpen}
	}
	return j
}

// encode returns the row of spaceJob.
func (j jobRow) encode() []byte {
	dst := []byte{byte(j.status)}
	dst = appendBlob(dst, j.claimant)
	dst = appendBlob(dst, j.claimantKey)
	return appendUints(dst, uint64(j.expires), j.claim, j.result)
}

func decodeJobRow(row []byte) (jobRow, error) {
	r := rowReader{rest: row}
	j := jobRow{
		status: JobStatus(r.byte()), claimant: r.text(), claimantKey: r.text(),
		expires: int64(r.uint()), claim: r.uint(), result: r.uint(),
	}
	if j.status < JobOpen || j.status > JobHidden {
		r.bad = true
	}
	return j, r.done("job row")
}

// job returns a job's row as it is stored.
func (tx *txn) job(seq uint64) jobRow { return jobOf(tx, seq) }

func jobOf(s facts, seq uint64) jobRow {
	j, ok := read(s, seqKey(spaceJob, seq), decodeJobRow)
	if !ok {
		s.must(errMissingJob(seq))
	}
	return j
}

// putJob replaces a job's row and moves it between the lists that it is in. The
// zero row means that the job is new.
func (tx *txn) putJob(seq uint64, old, next jobRow) {
	tx.keep(seqKey(spaceJob, seq), next.encode())
	if old.status != next.status {
		if old.status != 0 {
			tx.keep(jobsKey(old.status, seq), nil)
		}
		tx.keep(jobsKey(next.status, seq), []byte{})
	}
	if old.status == JobClaimed {
		tx.dropClaim(dueClaim{old.expires, seq})
	}
	if next.status == JobClaimed {
		tx.addClaim(dueClaim{next.expires, seq})
	}
	tx.updateHomeOfJob(seq, old, next)
}

// noClaims is the nextDue of a state without claims.
const noClaims = math.MaxInt64

// dueClaim is a claim in the order in which claims end.
type dueClaim struct {
	expires int64 // milliseconds since the epoch
	job     uint64
}

func (a dueClaim) compare(b dueClaim) int {
	return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.job, b.job))
}

func (tx *txn) addClaim(c dueClaim) {
	tx.keep(dueKey(c), []byte{})
	tx.claimed = append(tx.claimed, c)
	tx.nextDue = min(tx.nextDue, c.expires)
}

func (tx *txn) dropClaim(c dueClaim) { tx.keep(dueKey(c), nil) }

// reopenClaims ends the claims that have run out at the instant of the log entry
// that is being applied: on every node at the same position of the log.
func (tx *txn) reopenClaims() {
	if tx.now < tx.nextDue {
		return
	}
	claims, err := tx.earliestClaims(maxReopened + 1)
	tx.must(err)
	tx.nextDue = noClaims
	for i, c := range claims {
		if c.expires > tx.now || i == maxReopened {
			tx.nextDue = c.expires
			return
		}
		claimed := tx.job(c.job)
		tx.happen(EventExpiry, claimed.claim)
		tx.putJob(c.job, claimed, claimed.at(tx.now))
	}
}

// earliestClaims returns the claims that end first, as the call has left them so
// far: those that have run out, the next one after them, and at most limit.
func (tx *txn) earliestClaims(limit int) ([]dueClaim, error) {
	var claims []dueClaim
	for _, c := range tx.claimed {
		if tx.rows[string(dueKey(c))] != nil {
			claims = append(claims, c)
		}
	}
	stored := 0
	err := scanClaims(tx.db, func(c dueClaim) error {
		if row, changed := tx.rows[string(dueKey(c))]; changed && row == nil {
			return nil
		}
		claims = append(claims, c)
		if stored++; c.expires > tx.now || stored >= limit {
			return errEnough
		}
		return nil
	})
	slices.SortFunc(claims, dueClaim.compare)
	claims = slices.Compact(claims)
	return claims[:min(len(claims), limit)], err
}

// scanClaims calls f with the stored claims in the order in which they end, until f
// returns an error.
func scanClaims(r pebble.Reader, f func(dueClaim) error) error {
	lower, upper := spaceBounds(spaceDue)
	return scanSpace(r, lower, upper, func(key, _ []byte) error {
		c, err := parseDueKey(key)
		if err != nil {
			return err
		}
		return f(c)
	})
}

// loadNextDue returns when the first claim ends; noClaims without one.
func loadNextDue(r pebble.Reader) (int64, error) {
	next := int64(noClaims)
	err := scanClaims(r, func(c dueClaim) error {
		next = c.expires
		return errEnough
	})
	return next, err
}

// NextClaimEnd returns when the first claim that is not reopened yet ends, in
// milliseconds since the epoch; false when there is no claim.
func (v *View) NextClaimEnd() (at int64, ok bool) {
	at, err := loadNextDue(v.snap)
	v.must(err)
	return at, at != noClaims && err == nil
}

func errMissingJob(seq uint64) error { return fmt.Errorf("%w: job %d is missing", ErrCorrupt, seq) }

// Job is the state of a job at the instant of a view.
type Job struct {
	Status         JobStatus
	ClaimedBy      string // as spelled in the claim; "" unless claimed
	ClaimantKey    string // folded
	ClaimExpiresAt int64  // milliseconds since the epoch; 0 unless claimed
	Result         uint64 // seq of the result's entry; 0 unless done
}

// Job returns the state of the job with the given seq; false when the entry is
// no job.
func (v *View) Job(seq uint64) (Job, bool, error) {
	return load(v.snap, seqKey(spaceJob, seq), v.job)
}

// job is the state of a job with a row.
func (v *View) job(row []byte) (Job, error) {
	stored, err := decodeJobRow(row)
	if err != nil {
		return Job{}, err
	}
	j := Job{Status: stored.at(v.head.now).status, Result: stored.result}
	if j.Status == JobClaimed {
		j.ClaimedBy, j.ClaimantKey, j.ClaimExpiresAt = stored.claimant, stored.claimantKey, stored.expires
	}
	return j, nil
}

// AppendJob appends the job's JSON to dst: the entry and the job's state. It
// returns ErrNotFound when the entry is no job.
func (v *View) AppendJob(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendJobs(dst, []uint64{seq})
}

func (v *View) appendJob(dst []byte, seq uint64, entry, state []byte) ([]byte, error) {
	if state == nil {
		return dst, ErrNotFound
	}
	job, err := v.job(state)
	if err != nil {
		return dst, err
	}
	dst, _, err = v.appendOpenEntry(dst, seq, entry)
	if err != nil {
		return dst, err
	}
	return append(job.append(dst), '}'), nil
}

// append appends the members of the job's state.
func (j *Job) append(dst []byte) []byte {
	dst = append(dst, `,"status":"`...)
	dst = append(dst, j.Status.String()...)
	if j.Status == JobClaimed {
		dst = appendString(append(dst, `","claimedBy":`...), j.ClaimedBy)
		dst = appendInt(append(dst, `,"claimExpiresAt":`...), j.ClaimExpiresAt)
	} else {
		dst = append(dst, `","claimedBy":null,"claimExpiresAt":null`...)
	}
	dst = append(dst, `,"results":[`...)
	if j.Result != 0 {
		dst = appendID(append(dst, '"'), TypeEntry, j.Result)
		dst = append(dst, '"')
	}
	return append(dst, ']')
}

// JobProblems returns everything against an action on the job with a public id,
// as far as the view knows: OpClaimJob, OpFinishJob, OpReleaseJob or OpCloseJob. Those
// of the proof are among them.
func (v *View) JobProblems(op command.Op, id string, by command.Signature) ([]command.Problem, error) {
	w, s, err := v.writer(by)
	if err != nil {
		return nil, err
	}
	_, _, found := jobProblems(s, op, id, w)
	return append(w.Problems(), found...), s.err
}
