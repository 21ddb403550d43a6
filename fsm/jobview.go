package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

const (
	// maxJobScan is how many hits of a search for jobs are looked at for one page
	// of those in one status.
	maxJobScan = 4096
	// jobScanStep is how many of them are looked up at once.
	jobScanStep = 32
)

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
	j := stored.at(v.head.now)
	return Job{
		Status: j.status, ClaimedBy: j.claimant, ClaimantKey: j.claimantKey,
		ClaimExpiresAt: j.expires, Result: j.result,
	}, nil
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
	dst = append(dst, `,"status":"`...)
	dst = append(dst, job.Status.String()...)
	if job.Status == JobClaimed {
		dst = appendString(append(dst, `","claimedBy":`...), job.ClaimedBy)
		dst = appendInt(append(dst, `,"claimExpiresAt":`...), job.ClaimExpiresAt)
	} else {
		dst = append(dst, `","claimedBy":null,"claimExpiresAt":null`...)
	}
	dst = append(dst, `,"results":[`...)
	if job.Result != 0 {
		dst = appendID(append(dst, '"'), TypeEntry, job.Result)
		dst = append(dst, '"')
	}
	return append(dst, "]}"...), nil
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

// JobQuery selects jobs. Zero values select everything.
type JobQuery struct {
	Status JobStatus // at the instant of the view
	Q      string    // holding all of these words, the last one as a prefix
	Limit  int       // at most this many; 0: DefaultList; at most MaxList
	Before uint64    // seq < Before; 0: from the newest
	Work   *int      // grows by the steps that the search takes; nil: nobody counts
}

// ListJobs returns the seqs of the jobs that match q, newest first, and the
// Before of the next page; 0 on the last page. A page of a search for jobs of one
// status may be short, or even empty, and yet not the last one.
func (v *View) ListJobs(q JobQuery) (seqs []uint64, next uint64, err error) {
	q.Limit = pageLimit(q.Limit)
	switch {
	case q.Q != "" && q.Status != 0:
		seqs, next, err = v.searchJobsOf(q)
	case q.Q != "":
		seqs, next, err = v.searchJobs(q)
	case q.Status != 0:
		seqs, next, err = v.jobsOf(q)
	default:
		seqs, err = v.seqsBefore([]byte{spaceJob}, q.Before, q.Limit+1)
		seqs, next = cutPage(seqs, q.Limit)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list jobs: %w", err)
	}
	return seqs, next, nil
}

// cutPage takes one seq more than a page holds as the sign that there is another.
func cutPage(seqs []uint64, limit int) (page []uint64, next uint64) {
	if len(seqs) <= limit {
		return seqs, 0
	}
	return seqs[:limit], seqs[limit-1]
}

// searchJobs finds jobs by words.
func (v *View) searchJobs(q JobQuery) (seqs []uint64, next uint64, err error) {
	search := index.Query{All: []string{termType + string(rune(TypeJob))}, Min: 1, Before: q.Before, Limit: q.Limit, Work: q.Work}
	if !addWords(q.Q, &search) {
		return nil, 0, nil
	}
	return v.search(search)
}

// searchJobsOf finds jobs by words and leaves out those of another status. It
// looks at a bounded number of them, and begins each look at a job of the status,
// so that a rare one is as cheap as a common one.
func (v *View) searchJobsOf(q JobQuery) (found []uint64, next uint64, err error) {
	search := JobQuery{Q: q.Q, Limit: jobScanStep, Before: q.Before}
	for scanned := 0; ; {
		first, _, err := v.jobsOf(JobQuery{Status: q.Status, Limit: 1, Before: search.Before})
		if err != nil || len(first) == 0 {
			return found, 0, err
		}
		search.Before = first[0] + 1
		hits, more, err := v.searchJobs(search)
		if err != nil {
			return nil, 0, err
		}
		states, err := v.readRows(spaceJob, hits, nil)
		if err != nil {
			return nil, 0, err
		}
		for i, seq := range hits {
			if states[i] == nil {
				return nil, 0, errMissingJob(seq)
			}
			job, err := v.job(states[i])
			if err != nil {
				return nil, 0, err
			}
			if job.Status != q.Status {
				continue
			}
			if len(found) == q.Limit {
				return found, found[len(found)-1], nil
			}
			found = append(found, seq)
		}
		scanned += len(hits)
		if more == 0 || scanned >= maxJobScan {
			return found, more, nil
		}
		search.Before = more
	}
}

// jobsOf lists the jobs of a status. Claims that have run out but were not
// reopened yet are still in the rows of claimed jobs.
func (v *View) jobsOf(q JobQuery) (seqs []uint64, next uint64, err error) {
	overdue, err := v.overdue()
	if err != nil {
		return nil, 0, err
	}
	spare := 0
	if q.Status == JobClaimed {
		spare = len(overdue)
	}
	prefix := []byte{spaceJobs, byte(q.Status)}
	if seqs, err = v.seqsBefore(prefix, q.Before, q.Limit+1+spare); err != nil {
		return nil, 0, err
	}
	switch q.Status {
	case JobOpen:
		for _, seq := range overdue {
			if q.Before == 0 || seq < q.Before {
				seqs = append(seqs, seq)
			}
		}
		slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	case JobClaimed:
		seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return slices.Contains(overdue, seq) })
	}
	seqs, next = cutPage(seqs, q.Limit)
	return seqs, next, nil
}

// seqsBefore returns the seqs behind a prefix of keys, highest first: those below
// before unless that is 0, and at most limit.
func (v *View) seqsBefore(prefix []byte, before uint64, limit int) (seqs []uint64, err error) {
	upper := slices.Clone(prefix)
	if before > 0 {
		upper = binary.BigEndian.AppendUint64(upper, before)
	} else {
		upper[len(upper)-1]++
	}
	err = scanBack(v.snap, prefix, upper, func(key, _ []byte) error {
		if len(seqs) == limit {
			return errEnough
		}
		seqs = append(seqs, binary.BigEndian.Uint64(key[len(prefix):]))
		return nil
	})
	return seqs, err
}
