package fsm

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// A pool holds what waits for anybody: unanswered questions and requests for
// help, or open jobs. Of each author only the newest poolPerAuthor are in it, so
// that a reader has few of its own to skip. The author's whole list is in its
// own part; from there the pool is filled up when something leaves it.
const (
	pools         = 2
	poolPerAuthor = 10
)

// poolOf returns the number of the pool that is filled from a part.
func poolOf(p part) (n int, pooled bool) {
	switch p {
	case partAsked:
		return 0, true
	case partOpen:
		return 1, true
	}
	return 0, false
}

// addOwn adds an entry to one of its author's lists, and to the pool.
func (tx *txn) addOwn(p part, author string, seq uint64) {
	key := memberSeqKey(author, p, seq)
	tx.keep(key, []byte{})
	n, pooled := poolOf(p)
	if !pooled {
		return
	}
	list := string(key[:len(key)-8])
	tx.owned[list] = append(tx.owned[list], seq)
	a := tx.activity(author)
	seqs := a.pooled[n]
	at, _ := slices.BinarySearch(seqs, seq)
	if len(seqs) == poolPerAuthor {
		if at == 0 {
			return
		}
		tx.keep(poolKey(p, seqs[0]), nil)
		seqs = slices.Delete(seqs, 0, 1)
		at--
	}
	a.pooled[n], a.changed = slices.Insert(seqs, at, seq), true
	tx.keep(poolKey(p, seq), []byte(author))
}

// dropOwn takes an entry from one of its author's lists, if it is there, and from
// the pool, where the next older one takes its place.
func (tx *txn) dropOwn(p part, author string, seq uint64) {
	key := memberSeqKey(author, p, seq)
	if _, there := tx.get(key); !there {
		return
	}
	tx.keep(key, nil)
	n, pooled := poolOf(p)
	if !pooled {
		return
	}
	a := tx.activity(author)
	seqs := a.pooled[n]
	at, found := slices.BinarySearch(seqs, seq)
	if !found {
		return
	}
	tx.keep(poolKey(p, seq), nil)
	var older uint64
	if len(seqs) == poolPerAuthor {
		var err error
		older, err = tx.newestOwn(p, author, seqs[0])
		tx.must(err)
	}
	seqs = slices.Delete(seqs, at, at+1)
	if older != 0 {
		seqs = slices.Insert(seqs, 0, older)
		tx.keep(poolKey(p, older), []byte(author))
	}
	a.pooled[n], a.changed = seqs, true
}

// newestOwn returns the newest entry of an author's list with a seq below before,
// as the call has left the list so far; 0 when there is none.
func (tx *txn) newestOwn(p part, author string, before uint64) (newest uint64, err error) {
	list := memberKey(author, p)
	for _, seq := range tx.owned[string(list)] {
		if seq > newest && seq < before && tx.rows[string(memberSeqKey(author, p, seq))] != nil {
			newest = seq
		}
	}
	upper := memberSeqKey(author, p, before)
	iter, err := tx.db.NewIter(&pebble.IterOptions{LowerBound: list, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.Last(); ok; ok = iter.Prev() {
		if row, changed := tx.rows[string(iter.Key())]; changed && row == nil {
			continue
		}
		return max(newest, binary.BigEndian.Uint64(iter.Key()[len(list):])), nil
	}
	return newest, iter.Error()
}
