package state

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
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

// JobStatuses are the names of the states. The interface takes all but hidden as a filter.
var JobStatuses = command.Names{
	0: "job status", JobOpen: "open", JobClaimed: "claimed", JobDone: "done", JobClosed: "closed", JobHidden: "hidden",
}

// String returns the status's name in the interface.
func (s JobStatus) String() string { return JobStatuses.Name(uint8(s)) }

// Over reports whether the job needs no more work.
func (s JobStatus) Over() bool { return s == JobDone || s == JobClosed || s == JobHidden }

// The titles of the entries that a claim and a result leave, before the job's own. No
// title that a client sends ends with a blank: these rows are known by them.
const (
	ClaimTitle  = "Claimed: "
	ResultTitle = "Result: "
)

// WatchJobs is the key under which callers wait for any open job. With a folded tag (text.FoldTag)
// after it, they wait for jobs with that tag. No agent has such a key.
const WatchJobs = "\t"

// JobRow is the row of SpaceJob.
type JobRow struct {
	Status JobStatus
	Result uint64    // the entry of the result; 0 unless done
	Steps  []JobStep // the newest changes of the job, oldest first
	// The other fields describe the claim. If it ran out, they stay until the job is claimed again.
	Claimant    string // as spelled in the claim
	ClaimantKey string // folded
	Expires     int64  // end of the claim, milliseconds since the epoch
	Claim       uint64 // the newest entry of the claimant about its claim
	Renewed     uint64 // how often the claim was extended
	Counted     string // the rows of SpaceClaims that count the claim: their keys without the space
}

// Bare returns the row in a status without a claim.
func (j JobRow) Bare(s JobStatus) JobRow {
	return JobRow{Status: s, Result: j.Result, Steps: j.Steps}
}

// JobStep is a change of a job: an event, its entry and its instant in milliseconds since the epoch.
type JobStep struct {
	Kind  EventKind
	Entry uint64
	At    int64
}

// MaxJobSteps bounds the steps that a job keeps: the newest ones.
const MaxJobSteps = 20

// IsStep reports whether an event of this kind changes a job after it was posted.
func (k EventKind) IsStep() bool {
	return k >= EventClaim && k <= EventClose
}

// WithStep adds a step, in place of the oldest one if there are MaxJobSteps.
func (j JobRow) WithStep(s JobStep) JobRow {
	all := append(slices.Clone(j.Steps), s)
	j.Steps = all[max(0, len(all)-MaxJobSteps):]
	return j
}

// At returns the job's state at an instant: a claim that has ended counts as ended.
func (j JobRow) At(now int64) JobRow {
	if j.Status == JobClaimed && j.Expires <= now {
		j.Status, j.Renewed, j.Counted = JobOpen, 0, ""
	}
	return j
}

// isHeldBy reports whether a claim, by the seq of its entry, holds the job.
func (j JobRow) isHeldBy(claim uint64) bool { return j.Status == JobClaimed && j.Claim == claim }

// Fields implements Row.
func (j *JobRow) Fields(c *Codec) {
	c.Fields(
		(*byte)(&j.Status), &j.Result, &j.Claimant, &j.ClaimantKey, &j.Counted, &j.Expires, &j.Claim, &j.Renewed,
	)
	List(c, &j.Steps, func(s *JobStep) { c.Fields((*byte)(&s.Kind), &s.Entry, &s.At) })
	c.Check(j.Status >= JobOpen && j.Status <= JobHidden)
	c.Check(!slices.ContainsFunc(j.Steps, func(s JobStep) bool { return !s.Kind.IsStep() }))
}

// JobOf returns the row of an existing job.
func JobOf(s Reader, seq uint64) JobRow {
	j, ok := Read(s, SeqKey(SpaceJob, seq), Decode[JobRow])
	if !ok {
		s.Must(ErrMissingJob(seq))
	}
	return j
}

// ScanDue calls f with the claimed jobs, in the order in which their claims end, until f
// returns an error.
func ScanDue(r pebble.Reader, f func(at int64, job uint64) error) error {
	return ScanAll(r, SpaceDue, func(key, _ []byte) error {
		at, job, err := ParseDueKey(key)
		if err != nil {
			return err
		}
		return f(at, job)
	})
}

// LoadNextDue returns when the next claim ends, or Never.
func LoadNextDue(r pebble.Reader) (int64, error) {
	next := int64(Never)
	err := ScanDue(r, func(at int64, _ uint64) error {
		next = at
		return ErrEnough
	})
	return next, err
}

// ErrMissingJob returns the error for a job without a row.
func ErrMissingJob(seq uint64) error { return fmt.Errorf("%w: job %d is missing", ErrCorrupt, seq) }

// JobsKey is the key of a job among those of a status.
func JobsKey(status JobStatus, seq uint64) []byte {
	key := append(make([]byte, 0, 2+8), SpaceJobs, byte(status))
	return binary.BigEndian.AppendUint64(key, seq)
}

// DueKey is the key of a claimed job, by the end of its claim in milliseconds since the epoch.
func DueKey(at int64, job uint64) []byte {
	key := append(make([]byte, 0, dueKeyBytes), SpaceDue)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, uint64(at)), job)
}

const dueKeyBytes = 1 + 8 + 8

// ParseDueKey reads a DueKey.
func ParseDueKey(key []byte) (at int64, job uint64, err error) {
	if len(key) != dueKeyBytes {
		return 0, 0, fmt.Errorf("%w: key of a due job", ErrCorrupt)
	}
	return int64(binary.BigEndian.Uint64(key[1:])), binary.BigEndian.Uint64(key[1+8:]), nil
}

// jobRules are the problems of an action by the status of the job. In a claimed job,
// every other action but the poster's is the claimant's alone.
var jobRules = map[command.Op][JobHidden + 1]command.Problem{
	command.OpClaimJob:   {JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpFinishJob:  {JobOpen: command.ProblemJobNotClaimed, JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpReleaseJob: {JobOpen: command.ProblemJobNotClaimed, JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
	command.OpCloseJob:   {JobDone: command.ProblemJobDone, JobClosed: command.ProblemJobClosed},
}

// JobProblems returns every problem of an action on the job with a public id, and the job's
// entry and stored row.
func JobProblems(s Reader, op command.Op, id string, w *Writer) (job EntryRow, stored JobRow, problems []command.Problem) {
	job, ok := Resolve(s, id)
	if !ok || job.Type != TypeJob {
		return job, stored, []command.Problem{command.ProblemUnknownJob}
	}
	stored = JobOf(s, job.Seq)
	j := stored.At(s.Instant())
	if j.Status == JobHidden {
		return job, stored, []command.Problem{command.ProblemHidden}
	}
	switch own := job.AgentKey == w.AgentKey; {
	case own && (op == command.OpClaimJob || op == command.OpFinishJob):
		problems = append(problems, command.ProblemOwnJob)
	case op == command.OpCloseJob && !w.Owns(s, &job):
		problems = append(problems, command.ProblemNotPoster)
	case op == command.OpCloseJob && !w.mayUndo(&job):
		problems = append(problems, command.ProblemProofRequired)
	}
	if p := jobRules[op][j.Status]; p != 0 {
		return job, stored, append(problems, p)
	}
	switch {
	case op == command.OpCloseJob:
		if j.Status == JobClaimed && w.Strength != command.ByKey {
			problems = append(problems, command.ProblemJobClaimed)
		}
	case j.Status == JobClaimed:
		switch claim, _ := s.Entry(j.Claim); {
		case !w.Owns(s, &claim):
			problems = append(problems, command.ProblemJobClaimed)
		case !w.mayUndo(&claim):
			problems = append(problems, command.ProblemProofRequired)
		case op == command.OpClaimJob && j.Renewed >= command.MaxRenewals:
			problems = append(problems, command.ProblemTooManyRenewals)
		}
	case op == command.OpClaimJob:
		full := func(sh Share) bool { return sh.counted(s, ClaimsKey) >= sh.times }
		if !unlimited(s, w.Proof) && slices.ContainsFunc(Claimants(w), full) {
			problems = append(problems, command.ProblemTooManyClaims)
		}
	}
	return job, stored, problems
}

// An unfinished claim keeps others from a job, so the claims of a name, a sender and a
// network are bounded. The job's row has the keys of the rows that count its claim, because
// the age of the key may change before the claim ends.

// ClaimsKeyBytes is the length of a ClaimsKey without its space.
const ClaimsKeyBytes = 8

// ClaimsKey is the key of the count of the claims of a name, sender or network.
func ClaimsKey(of string) []byte {
	return binary.BigEndian.AppendUint64([]byte{SpaceClaims}, uint64(hashSender(of)))
}

// Claimants returns the shares of a writer's claims, with the maximum of each as its times.
func Claimants(w *Writer) (shares []Share) {
	if w.Strength == command.ByKey {
		shares = []Share{{Of: "key " + w.AgentKey, times: command.MaxKeyClaims}}
	}
	if w.Proof.Sender == "" || w.Established {
		return shares
	}
	if w.Strength < command.ByKey {
		shares = SharesOf(w.Proof, "name "+w.AgentKey+" ", command.MaxNameClaims)[:1] // not of its network
	}
	return append(shares, SharesOf(w.Proof, "", command.MaxSenderClaims)...)
}
