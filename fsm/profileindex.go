package fsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/text"
)

// profileIndexVersion numbers how profiles become terms; see indexVersion.
const profileIndexVersion = 1<<16 | text.Version

// revised is a revision of a profile on its way into the index.
type revised struct {
	revision uint64
	texts    []string
}

// loadRevision returns the number of the newest revision of any profile; 0
// without one. The newest is never replaced by an older one, so its row is there.
func loadRevision(r pebble.Reader) (revision uint64, err error) {
	lower, upper := spaceBounds(spaceRevision)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, fmt.Errorf("find the newest profile: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if iter.Last() {
		revision = seqOfKey(iter.Key())
	}
	return revision, iter.Error()
}

// openProfileIndex opens the store's index of profiles and adds the revisions
// that were not sealed. Those that were replaced since have no words any more.
func (s *store) openProfileIndex(last uint64) error {
	x, err := index.Open(s.db, index.Options{
		Prefix: []byte{spaceProfileIndex}, Version: profileIndexVersion, First: 1,
		Logger: s.m.opts.Logger, OnSealed: func(uint64) { s.m.republish(s) },
	})
	if err != nil {
		return fmt.Errorf("open index of profiles: %w", err)
	}
	s.profiles = x
	next := x.Sealed()
	if next > last+1 {
		return fmt.Errorf("%w: the index of profiles is sealed up to %d, there are %d", ErrCorrupt, next, last)
	}
	var tb termBuilder
	lower := makeSeqKey(spaceRevision, next)
	_, upper := spaceBounds(spaceRevision)
	err = scanSpace(s.db, lower[:], upper, func(key, agentKey []byte) error {
		revision := seqOfKey(key)
		row, ok, err := getRow(s.db, profileKey(string(agentKey)))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: profile %d is missing", ErrCorrupt, revision)
		}
		p, err := decodeProfileRow(row)
		if err != nil {
			return err
		}
		for ; next < revision; next++ {
			x.Add(next, nil)
		}
		x.Add(revision, tb.textTerms(p.texts()))
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index of profiles: %w", err)
	}
	return nil
}

// textTerms returns the words of texts as terms. The slice is valid until the next
// call of the builder.
func (b *termBuilder) textTerms(texts []string) []string {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	for _, s := range texts {
		b.words = text.Words(b.words[:0], s)
		for _, word := range b.words {
			b.add(termWord, word)
		}
	}
	clear(b.words)
	return b.cut()
}
