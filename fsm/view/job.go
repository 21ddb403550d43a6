package view

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

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
	for i, step := range job.Steps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = state.AppendInt(append(append(append(dst, `{"event":"`...), step.Kind.String()...), `","at":`...), step.At)
		err := v.outline(step.Entry, func(o *state.Outline) error {
			dst = state.AppendID(append(dst, `,"entryId":"`...), o.Type, step.Entry)
			dst = append(append(append(dst, `","agent":`...), o.Part(state.PartAgent)...), '}')
			return nil
		})
		if err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// AppendJobs appends the JSON of jobs, with commas between them.
func (v *View) AppendJobs(dst []byte, seqs []uint64) ([]byte, error) {
	return v.appendStates(dst, seqs, state.SpaceJob, func(dst, stored []byte, _ state.LaterCounts) ([]byte, error) {
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
func (v *View) appendStates(dst []byte, seqs []uint64, space byte, show func(dst, stored []byte, counts state.LaterCounts) ([]byte, error)) ([]byte, error) {
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
		dst, counts, err := v.appendOpenEntry(dst, seqs[i], entries[i])
		if err == nil {
			dst, err = show(dst, states[i], counts)
		}
		return append(dst, '}'), err
	})
}

// maxHeld bounds the claims of an agent that a list reads: those that end first.
const maxHeld = 4096

// ListJobs returns the seqs of the jobs that q selects by JobStatus, ClaimantKey, AgentKey, TagKey and Q,
// newest first, and the Before of the next page, which is 0 on the last one. A page of a search in one
// status may be short without being the last.
func (v *View) ListJobs(q Query) (seqs []uint64, next uint64, err error) {
	q.Limit = state.PageLimit(q.Limit)
	if q.ClaimantKey != "" {
		q.JobStatus = state.JobClaimed
	}
	switch {
	case q.JobStatus == 0 || q.Q != "" || q.AgentKey != "" || q.TagKey != "":
		return v.searchJobs(q)
	case q.ClaimantKey != "":
		return v.jobsHeld(q)
	}
	return v.jobsOf(q)
}

// searchJobs finds jobs by author, tag and words, of one status or all. Of one, each look
// begins at a job of it, so that a rare one is as cheap as a common one.
func (v *View) searchJobs(q Query) (seqs []uint64, next uint64, err error) {
	search, phrases, some := searchOf(state.TypeJob, q)
	if !some {
		return nil, 0, nil
	}
	addTerm(&search, state.TermTag, q.TagKey)
	if q.JobStatus == 0 {
		return v.filter(search, phrases, nil, nil)
	}
	return v.filter(search, phrases, func(before uint64) (uint64, error) {
		first, _, err := v.jobsOf(Query{JobStatus: q.JobStatus, Limit: 1, Before: before})
		if err != nil || len(first) == 0 {
			return 0, err
		}
		return first[0] + 1, nil
	}, v.rowCheck(state.SpaceJob, func(row []byte) (bool, error) {
		job, err := v.job(row)
		return job.Status == q.JobStatus && (q.ClaimantKey == "" || job.ClaimantKey == q.ClaimantKey), err
	}))
}

// jobsHeld lists the newest jobs of an agent's maxHeld claims that end first.
func (v *View) jobsHeld(q Query) (seqs []uint64, next uint64, err error) {
	if seqs, err = v.Held(q.ClaimantKey, maxHeld); err != nil {
		return nil, 0, err
	}
	if q.Work != nil {
		*q.Work += len(seqs)
	}
	seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return q.Before != 0 && seq >= q.Before })
	seqs, next = cutPage(newestOf(seqs, q.Limit+1), q.Limit)
	return seqs, next, nil
}

// MaxNextLooked bounds the open jobs that NextJobs looks at: the oldest ones.
const MaxNextLooked = 4096

// nextStep is how many open jobs are looked at together.
const nextStep = 64

// NextJobs returns the ids of the oldest open jobs that match a query and that the signer can take
// as the next one, at most command.MaxCandidates. Of the query, Limit and Before are not used.
func (v *View) NextJobs(q Query, by command.Signature) (ids []string, err error) {
	from, some, err := v.FirstAfter(max(-1, v.Instant(q.Since)))
	if err != nil || !some {
		return nil, err
	}
	w, s := v.writer(by)
	for looked := 0; looked < MaxNextLooked && len(ids) < command.MaxCandidates; {
		var seqs []uint64
		lower := state.JobsKey(state.JobOpen, from)
		_, upper := state.SpaceBounds(state.SpaceJobs)
		err := state.ScanSpace(v.snap, lower, upper, func(key, _ []byte) error {
			if key[1] != byte(state.JobOpen) || len(seqs) == nextStep {
				return state.ErrEnough
			}
			seqs = append(seqs, binary.BigEndian.Uint64(key[2:]))
			return nil
		})
		if err != nil || len(seqs) == 0 {
			return ids, err
		}
		from, looked = seqs[len(seqs)-1]+1, looked+len(seqs)
		if q.Work != nil {
			*q.Work += len(seqs)
		}
		listed, err := v.listed(slices.Clone(seqs), q)
		if err != nil {
			return nil, err
		}
		for _, seq := range seqs {
			if !listed[seq] || len(ids) == command.MaxCandidates {
				continue
			}
			if canTake(s, seq, w) {
				ids = append(ids, state.FormatID(state.TypeJob, seq))
			}
		}
		if s.err != nil {
			return nil, s.err
		}
	}
	return ids, nil
}

// canTake reports whether a signer can take a job as the next one, now or with fewer claims.
func canTake(s state.Reader, seq uint64, w *state.Writer) bool {
	_, _, found := home.TakeProblems(s, state.FormatID(state.TypeJob, seq), w)
	return len(found) == 0 || slices.Equal(found, []command.Problem{command.ProblemTooManyClaims})
}

// jobsOf lists the jobs of a status. The rows of overdue jobs have the status before.
func (v *View) jobsOf(q Query) (seqs []uint64, next uint64, err error) {
	overdue, err := v.Overdue()
	if err != nil {
		return nil, 0, err
	}
	seqs, err = v.SeqsBefore([]byte{state.SpaceJobs, byte(q.JobStatus)}, q.Before, q.Limit+1+len(overdue))
	if err != nil {
		return nil, 0, err
	}
	for _, seq := range overdue {
		seqs = slices.DeleteFunc(seqs, func(listed uint64) bool { return listed == seq })
		job, _, err := v.Job(seq)
		if err != nil {
			return nil, 0, err
		}
		if job.Status == q.JobStatus && (q.Before == 0 || seq < q.Before) {
			seqs = append(seqs, seq)
		}
	}
	seqs, next = cutPage(newestOf(seqs, q.Limit+1), q.Limit)
	return seqs, next, nil
}

// Overdue returns the few jobs whose claim has ended and whose rows were not changed yet.
func (v *View) Overdue() (jobs []uint64, err error) {
	err = state.ScanDue(v.snap, func(at int64, job uint64) error {
		if at > v.at.Head.Now {
			return state.ErrEnough
		}
		jobs = append(jobs, job)
		return nil
	})
	return jobs, err
}

// openedAt returns when an open job became open, in milliseconds since the epoch.
func (v *View) openedAt(seq uint64) (int64, error) {
	job, _, err := state.Load(v.snap, state.SeqKey(state.SpaceJob, seq), state.Decode[state.JobRow])
	if n := len(job.Steps); err == nil && n > 0 {
		return job.Steps[n-1].At, nil
	}
	m, _, errMeta := v.Meta(seq)
	return m.CreatedAt, cmp.Or(err, errMeta)
}

// ProvenClaim reports whether whoever claims a job, or did last, has proven the name.
func (v *View) ProvenClaim(job uint64) (bool, error) {
	s := &viewState{v: v}
	e, _ := s.Entry(state.JobOf(s, job).Claim)
	return e.Verified(), s.err
}

// Held returns at most limit jobs that an agent has claimed, the first to expire first.
func (v *View) Held(agentKey string, limit int) (seqs []uint64, err error) {
	rows, err := home.Open(v.snap, agentKey)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return rows.Held(v.at.Head.Now, limit)
}
