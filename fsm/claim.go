package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

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
		tx.putJob(c.job, tx.job(c.job), jobRow{status: JobOpen})
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
	err := scanClaims(tx.db, func(c dueClaim) (more bool) {
		if row, changed := tx.rows[string(dueKey(c))]; changed && row == nil {
			return true
		}
		claims = append(claims, c)
		stored++
		return c.expires <= tx.now && stored < limit
	})
	slices.SortFunc(claims, dueClaim.compare)
	claims = slices.Compact(claims)
	return claims[:min(len(claims), limit)], err
}

// scanClaims calls f with the stored claims, those that end first first, until it
// says that it has enough.
func scanClaims(r pebble.Reader, f func(dueClaim) (more bool)) (err error) {
	lower, upper := spaceBounds(spaceDue)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		c, err := parseDueKey(iter.Key())
		if err != nil {
			return err
		}
		if !f(c) {
			return nil
		}
	}
	return iter.Error()
}

// loadNextDue returns when the first claim ends; noClaims without one.
func loadNextDue(r pebble.Reader) (int64, error) {
	next := int64(noClaims)
	err := scanClaims(r, func(c dueClaim) bool {
		next = c.expires
		return false
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

// overdue returns the jobs whose claim has run out in the view but was not
// reopened yet, in no order. There are hardly ever any.
func (v *View) overdue() (jobs []uint64, err error) {
	err = scanClaims(v.snap, func(c dueClaim) bool {
		if c.expires > v.head.now {
			return false
		}
		jobs = append(jobs, c.job)
		return true
	})
	return jobs, err
}
