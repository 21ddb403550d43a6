package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
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

// NoClaims is the nextDue of a state without claims.
const NoClaims = math.MaxInt64

// The titles of the entries that a claim and a result leave, before the job's own. No
// title that a client sends ends with a blank: these rows are known by them.
const (
	ClaimTitle  = "Claimed: "
	ResultTitle = "Result: "
)

// ParseJobStatus returns the status with the given interface name, except JobHidden.
func ParseJobStatus(name string) (JobStatus, bool) {
	i := slices.Index(jobStatusNames[:JobHidden], name)
	return JobStatus(max(i, 0)), i > 0
}

// JobRow is the row of SpaceJob.
type JobRow struct {
	Status JobStatus
	// The other fields are those of the claim, or of the last one, which ran out, until
	// the job is claimed again.
	Claimant    string // as spelled in the claim
	ClaimantKey string // folded
	Expires     int64  // end of the claim, milliseconds since the epoch
	Claim       uint64 // the newest entry of the claimant about its claim
	Result      uint64 // the entry of the result; 0 unless done
	Renewed     uint64 // how often the claim was extended
	Counted     string // the rows of SpaceClaims that count the claim: their keys without the space
}

// At returns the job's state at an instant, at which an expired claim does not count.
func (j JobRow) At(now int64) JobRow {
	if j.Status == JobClaimed && j.Expires <= now {
		j.Status, j.Renewed, j.Counted = JobOpen, 0, ""
	}
	return j
}

// Encode returns the row of SpaceJob.
func (j JobRow) Encode() []byte {
	dst := []byte{byte(j.Status)}
	dst = AppendBlob(dst, j.Claimant)
	dst = AppendBlob(dst, j.ClaimantKey)
	return AppendBlob(AppendUints(dst, uint64(j.Expires), j.Claim, j.Result, j.Renewed), j.Counted)
}

// DecodeJobRow decodes a row of spaceJob.
func DecodeJobRow(row []byte) (JobRow, error) {
	r := RowReader{Rest: row}
	j := JobRow{
		Status: JobStatus(r.Byte()), Claimant: r.Text(), ClaimantKey: r.Text(),
		Expires: int64(r.Uint()), Claim: r.Uint(), Result: r.Uint(), Renewed: r.Uint(), Counted: r.Text(),
	}
	if j.Status < JobOpen || j.Status > JobHidden {
		r.Bad = true
	}
	return j, r.Done("job row")
}

// JobOf returns the row of a job that there is.
func JobOf(s Facts, seq uint64) JobRow {
	j, ok := Read(s, SeqKey(SpaceJob, seq), DecodeJobRow)
	if !ok {
		s.Must(ErrMissingJob(seq))
	}
	return j
}

// DueClaim is a claim in the order in which claims end.
type DueClaim struct {
	Expires int64 // milliseconds since the epoch
	Job     uint64
}

// ScanClaims calls f with the stored claims by their ends, until f returns an error.
func ScanClaims(r pebble.Reader, f func(DueClaim) error) error {
	lower, upper := SpaceBounds(SpaceDue)
	return ScanSpace(r, lower, upper, func(key, _ []byte) error {
		c, err := ParseDueKey(key)
		if err != nil {
			return err
		}
		return f(c)
	})
}

// LoadNextDue returns when the first claim ends; NoClaims without one.
func LoadNextDue(r pebble.Reader) (int64, error) {
	next := int64(NoClaims)
	err := ScanClaims(r, func(c DueClaim) error {
		next = c.Expires
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

// DueKey is the key of a claim among all by their end.
func DueKey(c DueClaim) []byte {
	key := append(make([]byte, 0, dueKeyBytes), SpaceDue)
	key = binary.BigEndian.AppendUint64(key, uint64(c.Expires))
	return binary.BigEndian.AppendUint64(key, c.Job)
}

const dueKeyBytes = 1 + 8 + 8

// ParseDueKey reads a DueKey.
func ParseDueKey(key []byte) (DueClaim, error) {
	if len(key) != dueKeyBytes {
		return DueClaim{}, fmt.Errorf("%w: claim key", ErrCorrupt)
	}
	return DueClaim{
		Expires: int64(binary.BigEndian.Uint64(key[1:])),
		Job:     binary.BigEndian.Uint64(key[1+8:]),
	}, nil
}
