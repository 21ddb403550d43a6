package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/text"
)

// The classes of index terms. A term is its class followed by a value.
const (
	termChannel = "channel:"
	termAgent   = "agent:"
	termKind    = "kind:"
	termTag     = "tag:"
	termParent  = "parent:"    // id of the entry that this one replies to
	termThread  = "thread:"    // id of the first entry of the conversation, not on that one itself
	termInbox   = "inbox:"     // agent key of an agent that the entry concerns
	termType    = "entryType:" // the letter of the id, on what is no plain entry
	termWord    = "w:"
)

// lastingTerm reports whether a term says where an entry was: its stub keeps such terms.
func lastingTerm(term []byte) bool {
	for _, class := range [...]string{termChannel, termParent, termThread} {
		if bytes.HasPrefix(term, []byte(class)) {
			return true
		}
	}
	return false
}

// termBuilder makes terms. Its memory is used again for each entry.
type termBuilder struct {
	words []string
	buf   []byte
	ends  []int
	out   []string
}

// terms returns everything that an entry can be found by, the words without their
// class; a word may be there more than once. The slices are valid until the next call.
func (b *termBuilder) terms(e *entryRow, t entryTexts) (terms, words []string) {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	b.add(termChannel, e.Channel)
	b.add(termAgent, e.AgentKey)
	b.add(termKind, e.Kind.String())
	if e.Relation == command.RelationReply {
		b.add(termParent, EntryID(e.Parent))
	}
	if e.Thread != e.Seq {
		b.add(termThread, EntryID(e.Thread))
	}
	if e.Type != TypeEntry {
		b.add(termType, string(rune(e.Type)))
	}
	for _, key := range e.inbox {
		b.add(termInbox, key)
	}
	clear(b.words) // or texts that were long stay in memory behind shorter ones
	b.words = text.Words(b.words[:0], t.Title)
	b.words = text.Words(b.words, t.Body)
	for _, tag := range t.Tags {
		b.add(termTag, text.FoldTag(tag))
		b.words = text.Words(b.words, tag)
	}
	return b.cut(), b.words
}

func (b *termBuilder) add(class, value string) {
	b.buf = append(append(b.buf, class...), value...)
	b.ends = append(b.ends, len(b.buf))
}

// cut splits the buffer into terms, with one allocation for all of them.
func (b *termBuilder) cut() []string {
	all := string(b.buf)
	b.out = b.out[:0]
	start := 0
	for _, end := range b.ends {
		b.out = append(b.out, all[start:end])
		start = end
	}
	return b.out
}

// indexVersion numbers how entries become terms. It must change with them; the
// index is then built anew.
const indexVersion = 5<<16 | text.Version

// openIndex opens the store's index and adds the entries that were not sealed.
// That also warms the memory of recent rows.
func (s *store) openIndex(lastSeq uint64) error {
	x, err := index.Open(s.db, index.Options{
		Prefix: []byte{spaceIndex}, Version: indexVersion, First: 1,
		Logger: s.m.opts.Logger, OnSealed: func(uint64) { s.m.republish(s) }, Erased: func(block uint64) (index.Bitmap, error) { return goneIn(s.db, block) }, Lasting: lastingTerm,
	})
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	s.index = x
	if x.Sealed() > lastSeq+1 {
		return fmt.Errorf("%w: the index is sealed up to %d, there are %d entries", ErrCorrupt, x.Sealed(), lastSeq)
	}
	next := x.Sealed()
	var tb termBuilder
	_, upper := spaceBounds(spaceEntry)
	err = scanSpace(s.db, seqKey(spaceEntry, next), upper, func(key, value []byte) error {
		seq := seqOfKey(key)
		e, err := decodeEntryRow(seq, value)
		if err != nil {
			return err
		}
		if seq != next {
			return fmt.Errorf("%w: entry %d is missing", ErrCorrupt, next)
		}
		original, err := s.unhidden(&e)
		if err != nil {
			return err
		}
		t, err := original.texts()
		if err != nil {
			return err
		}
		terms, words := tb.terms(&e, t)
		x.Add(seq, terms, words...)
		s.recent.put(seq, append([]byte(nil), value...))
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index: %w", err)
	}
	if next != lastSeq+1 {
		return fmt.Errorf("%w: entry %d is missing", ErrCorrupt, next)
	}
	return nil
}

// republish replaces the newest view after a seal, so that the sealed block can
// leave memory even when nothing is applied. While something is applied or
// swapped that happens anyway.
func (m *Machine) republish(s *store) {
	if !m.applyMu.TryLock() {
		return
	}
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}

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
	err = scanBack(r, lower, upper, func(key, _ []byte) error {
		revision = seqOfKey(key)
		return errEnough
	})
	return revision, err
}

// openProfileIndex opens the store's index of profiles and adds the revisions
// that were not sealed. Those that were replaced since have no words any more.
func (s *store) openProfileIndex(last uint64) error {
	x, err := index.Open(s.db, index.Options{
		Prefix: []byte{spaceProfileIndex}, Version: profileIndexVersion, First: 1,
		Logger: s.m.opts.Logger, OnSealed: func(uint64) { s.m.republish(s) }, Erased: s.replacedIn,
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
	_, upper := spaceBounds(spaceRevision)
	err = scanSpace(s.db, seqKey(spaceRevision, next), upper, func(key, agentKey []byte) error {
		revision := seqOfKey(key)
		p, ok, err := load(s.db, profileKey(strings.TrimPrefix(string(agentKey), hiddenRevision)), decodeProfileRow)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: profile %d is missing", ErrCorrupt, revision)
		}
		for ; next < revision; next++ {
			x.Add(next, nil)
		}
		x.Add(revision, nil, tb.textWords(p.texts())...)
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index of profiles: %w", err)
	}
	return nil
}

// replacedIn returns which revisions of a block are no profile's newest any more: the
// index need not know by which words they were found.
func (s *store) replacedIn(block uint64) (index.Bitmap, error) {
	first := block * index.BlockEntries
	replaced := index.Bitmap(slices.Repeat([]byte{0xff}, index.BlockEntries/8))
	err := scanSpace(s.db, seqKey(spaceRevision, first), seqKey(spaceRevision, first+index.BlockEntries), func(key, _ []byte) error {
		at := seqOfKey(key) - first
		replaced[at/8] &^= 1 << (at % 8)
		return nil
	})
	return replaced, err
}

// textWords returns the words of texts. The slice is valid until the next call of the
// builder.
func (b *termBuilder) textWords(texts []string) []string {
	clear(b.words)
	b.words = b.words[:0]
	for _, s := range texts {
		b.words = text.Words(b.words, s)
	}
	return b.words
}
