package view

import (
	"strconv"

	"github.com/commons-cluster/commons/fsm/state"
)

// NextDueJob returns when the next claim of a job ends, in milliseconds since the epoch.
func (v *View) NextDueJob() (at int64, ok bool) {
	at, err := state.LoadNextDue(v.snap)
	v.must(err)
	return at, at != state.NeverDue && err == nil
}

// Job is the state of a job at the instant of a view.
type Job struct {
	Status         state.JobStatus
	ClaimedBy      string // as spelled in the claim; "" unless claimed
	ClaimantKey    string // folded
	ClaimExpiresAt int64  // milliseconds since the epoch; 0 unless claimed
	Claim          uint64 // seq of the claim's entry; 0 unless claimed
	Result         uint64 // seq of the result's entry; 0 unless done
}

// Job returns the state of the job with the given seq; false if the entry is no job.
func (v *View) Job(seq uint64) (Job, bool, error) {
	return state.Load(v.snap, state.SeqKey(state.SpaceJob, seq), v.job)
}

// job is the state of a job with a row.
func (v *View) job(row []byte) (Job, error) {
	stored, err := state.Decode[state.JobRow](row)
	if err != nil {
		return Job{}, err
	}
	now := stored.At(v.at.Head.Now)
	j := Job{Status: now.Status, Result: now.Result}
	if j.Status == state.JobClaimed {
		j.ClaimedBy, j.ClaimantKey, j.ClaimExpiresAt, j.Claim = now.Claimant, now.ClaimantKey, now.Expires, now.Claim
	}
	return j, nil
}

// Tags returns the tags of an entry.
func (v *View) Tags(seq uint64) (tags []string, err error) {
	err = v.row(seq, func(row []byte) error {
		o, err := state.OutlineOf(row)
		if err == nil {
			tags, err = o.Tags()
		}
		return err
	})
	return tags, err
}

// append appends the members of the job's state.
func (j *Job) append(dst []byte) []byte {
	dst = append(append(dst, `,"status":"`...), j.Status.String()...)
	if j.Status == state.JobClaimed {
		dst = state.AppendString(append(dst, `","claimedBy":`...), j.ClaimedBy)
		dst = state.AppendInt(append(dst, `,"claimExpiresAt":`...), j.ClaimExpiresAt)
	} else {
		dst = append(dst, `","claimedBy":null,"claimExpiresAt":null`...)
	}
	dst = append(dst, `,"results":[`...)
	if j.Result != 0 {
		dst = append(state.AppendID(append(dst, '"'), state.TypeEntry, j.Result), '"')
	}
	return append(dst, ']')
}

// AppendJob appends the job's JSON to dst, or returns ErrNotFound for another entry.
func (v *View) AppendJob(dst []byte, seq uint64) ([]byte, error) {
	return v.AppendJobs(dst, []uint64{seq})
}

// AppendHistory appends the JSON of the newest changes of a job, oldest first, as an array.
func (v *View) AppendHistory(dst []byte, seq uint64) ([]byte, error) {
	job, _, err := state.Load(v.snap, state.SeqKey(state.SpaceJob, seq), state.Decode[state.JobRow])
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for i, step := range state.StepsOf(job.Steps) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = state.AppendInt(append(append(append(dst, `{"event":"`...), step.Kind.String()...), `","at":`...), step.At)
		err := v.row(step.Entry, func(row []byte) error {
			o, err := state.OutlineOf(row)
			if err == nil {
				dst = state.AppendID(append(dst, `,"entryId":"`...), o.Type, step.Entry)
				dst = append(append(append(dst, `","agent":`...), o.Part(state.PartAgent)...), '}')
			}
			return err
		})
		if err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// AppendJobs appends the JSON of jobs, with commas between them.
func (v *View) AppendJobs(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, state.SpaceJob, func(dst, stored []byte) ([]byte, error) {
		job, err := v.job(stored)
		if dst = job.append(dst); err != nil || job.Claim == 0 {
			return dst, err
		}
		proven, err := v.Proven(job.Claim)
		return strconv.AppendBool(append(dst, `,"claimVerified":`...), proven), err
	})
}

// appendStates appends entries that have a second row in a space of their own, of which show
// appends the fields. It returns ErrNotFound for an entry without one.
func (v *View) appendStates(dst []byte, seqs []uint64, space byte, show func(dst, stored []byte) ([]byte, error)) ([]byte, error) {
	entries, err := v.entryRows(seqs)
	if err != nil {
		return dst, err
	}
	states, err := v.readRows(space, seqs, nil)
	if err != nil {
		return dst, err
	}
	return appendEach(dst, seqs, func(dst []byte, i int) ([]byte, error) {
		if states[i] == nil {
			return dst, state.ErrNotFound
		}
		dst, _, err := v.appendOpenEntry(dst, seqs[i], entries[i])
		if err == nil {
			dst, err = show(dst, states[i])
		}
		return append(dst, '}'), err
	})
}
