package fsm

import (
	"encoding/binary"
	"slices"
)

// The sizes of spreads: twice what a reader is shown, because up to half of it
// can be the reader's own.
const (
	newestShown = MaxNew
	notesShown  = MaxTopicNotes
	// notesKept bounds the spreads of topics that are kept in memory.
	notesKept = 1024
)

// spread is a list of the newest entries that holds, for every reader, the newest
// n that are not the reader's own: 2n entries, at most n of one author.
type spread []authored

// authored is an entry and who wrote it.
type authored struct {
	seq    uint64
	author string // folded
}

// add adds an entry that is newer than all others.
func (s *spread) add(e authored, n int) {
	same, oldest := 0, 0
	for i, old := range slices.Backward(*s) {
		if old.author == e.author {
			same++
			oldest = i
		}
	}
	switch {
	case same == n:
		*s = slices.Delete(*s, oldest, oldest+1)
	case len(*s) == 2*n:
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, e)
}

// others returns the newest n entries that a reader has not written and that are
// not older than least, newest first.
func (s spread) others(reader string, least uint64, n int) []uint64 {
	var seqs []uint64
	for _, e := range slices.Backward(s) {
		if len(seqs) == n || e.seq < least {
			break
		}
		if e.author != reader {
			seqs = append(seqs, e.seq)
		}
	}
	return seqs
}

func (s spread) append(dst []byte) []byte {
	for _, e := range s {
		dst = binary.AppendUvarint(dst, e.seq)
		dst = appendBlob(dst, e.author)
	}
	return dst
}

func decodeSpread(row []byte) (spread, error) {
	r := rowReader{rest: row}
	var s spread
	for len(r.rest) > 0 && !r.bad {
		s = append(s, authored{seq: r.uint(), author: r.text()})
	}
	return s, r.done("spread row")
}

// spread returns the spread of a row, to be changed: it is written at the end of
// the call.
func (tx *txn) spread(key []byte) *spread {
	if s := tx.spreads[string(key)]; s != nil {
		return s
	}
	s := tx.memory.spreads.get(string(key))
	if s == nil {
		s = new(spread)
		row, ok, err := getRow(tx.db, key)
		tx.must(err)
		if ok {
			*s, err = decodeSpread(row)
			tx.must(err)
		}
		tx.memory.spreads.put(string(key), s)
	}
	tx.spreads[string(key)] = s
	return s
}
