package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// maxHeld is how many of an agent's claims are looked at for a list: those that end
// first.
const maxHeld = 4096

// JobQuery selects jobs. Zero values select everything.
type JobQuery struct {
	Status      JobStatus // at the instant of the view
	AgentKey    string    // by this agent (text.Fold)
	ClaimantKey string    // claimed by this agent: Status is JobClaimed
	Q           string    // holding all of these words, the last one as a prefix
	Limit       int       // at most this many; 0: DefaultList; at most MaxList
	Before      uint64    // seq < Before; 0: from the newest
	Work        *int      // grows by the steps that the search takes; nil: nobody counts
}

// ListJobs returns the seqs of the jobs that match q, newest first, and the
// Before of the next page; 0 on the last page. A page of jobs of one status that are
// searched by author or words may be short, or even empty, and yet not the last one.
func (v *View) ListJobs(q JobQuery) (seqs []uint64, next uint64, err error) {
	q.Limit = pageLimit(q.Limit)
	if q.ClaimantKey != "" {
		q.Status = JobClaimed
	}
	switch {
	case q.Status == 0 || q.Q != "" || q.AgentKey != "":
		seqs, next, err = v.searchJobs(q)
	case q.ClaimantKey != "":
		seqs, next, err = v.jobsHeld(q)
	default:
		seqs, next, err = v.jobsOf(q)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list jobs: %w", err)
	}
	return seqs, next, nil
}

// searchJobs finds jobs by author and by words, those of every status that is listed
// or of one. Of one, each look begins at a job of it, so that a rare one is as cheap as
// a common one.
func (v *View) searchJobs(q JobQuery) (seqs []uint64, next uint64, err error) {
	search, some := searchOf(TypeJob, q.AgentKey, q.Q)
	if !some {
		return nil, 0, nil
	}
	search.Before, search.Limit, search.Work = q.Before, q.Limit, q.Work
	if q.Status == 0 {
		return v.search(search)
	}
	return v.filter(search, spaceJob, func(before uint64) (uint64, error) {
		first, _, err := v.jobsOf(JobQuery{Status: q.Status, Limit: 1, Before: before})
		if err != nil || len(first) == 0 {
			return 0, err
		}
		return first[0] + 1, nil
	}, func(row []byte) (bool, error) {
		job, err := v.job(row)
		return job.Status == q.Status && (q.ClaimantKey == "" || job.ClaimantKey == q.ClaimantKey), err
	})
}

// jobsHeld lists the jobs that an agent has claimed: the newest jobs of the maxHeld
// claims that end first.
func (v *View) jobsHeld(q JobQuery) (seqs []uint64, next uint64, err error) {
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

// cutPage takes one seq more than a page holds as the sign that there is another.
func cutPage(seqs []uint64, limit int) (page []uint64, next uint64) {
	if len(seqs) <= limit {
		return seqs, 0
	}
	return seqs[:limit], seqs[limit-1]
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

// overdue returns the jobs whose claim has run out in the view but was not
// reopened yet, in no order. There are hardly ever any.
func (v *View) overdue() (jobs []uint64, err error) {
	err = scanClaims(v.snap, func(c dueClaim) error {
		if c.expires > v.head.now {
			return errEnough
		}
		jobs = append(jobs, c.job)
		return nil
	})
	return jobs, err
}
