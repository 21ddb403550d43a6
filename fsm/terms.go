package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

// openIndex opens the store's index and adds the entries that were not sealed.
// That also warms the memory of recent rows.
func (s *store) openIndex(lastSeq uint64) error {
	gone := func(block uint64) (index.Bitmap, error) { return state.GoneIn(s.DB, block) }
	x, err := s.openIndexIn(state.SpaceIndex, lastSeq, index.Options{Version: indexVersion, Erased: gone, Lasting: lastingTerm})
	if s.index = x; err != nil {
		return err
	}
	next := x.Sealed()
	var tb termBuilder
	_, upper := state.SpaceBounds(state.SpaceEntry)
	err = state.ScanSpace(s.DB, state.SeqKey(state.SpaceEntry, next), upper, func(key, value []byte) error {
		seq := state.SeqOfKey(key)
		e, err := state.DecodeEntryRow(seq, value)
		if err != nil {
			return err
		}
		if seq != next {
			return fmt.Errorf("%w: entry %d is missing", state.ErrCorrupt, next)
		}
		original, err := state.Unhidden(s.DB, &e)
		if err != nil {
			return err
		}
		t, err := original.Outline.Texts()
		if err != nil {
			return err
		}
		terms, words := tb.terms(&e, t)
		x.Add(seq, terms, words...)
		s.Recent.Put(seq, append([]byte(nil), value...))
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index: %w", err)
	}
	if next != lastSeq+1 {
		return fmt.Errorf("%w: entry %d is missing", state.ErrCorrupt, next)
	}
	return nil
}

// openIndexIn opens the index in a keyspace, of numbers from 1 to last.
func (s *store) openIndexIn(space byte, last uint64, opts index.Options) (*index.Index, error) {
	opts.Prefix, opts.First, opts.Logger, opts.Pace = []byte{space}, 1, s.m.opts.Logger, s.m.opts.Pace
	opts.OnSealed = func(uint64) { s.m.republish(s) }
	x, err := index.Open(s.DB, opts)
	if err != nil {
		return nil, fmt.Errorf("open index %c: %w", space, err)
	}
	if x.Sealed() > last+1 {
		err = fmt.Errorf("%w: index %c is sealed up to %d, the newest number is %d", state.ErrCorrupt, space, x.Sealed(), last)
	}
	return x, err
}

// republish replaces the newest view after a seal, so that the sealed block can leave
// memory even while no entry is applied. It does not wait: whoever holds applyMu publishes
// a view.
func (m *Machine) republish(s *store) {
	if !m.applyMu.TryLock() {
		return
	}
	defer m.applyMu.Unlock()
	if m.store == s && !m.closed {
		m.publish()
	}
}

// openProfileIndex opens the store's index of profiles and adds the revisions
// that were not sealed. Those that were replaced since have no words any more.
func (s *store) openProfileIndex(last uint64) error {
	x, err := s.openIndexIn(state.SpaceProfileIndex, last, index.Options{Version: profileIndexVersion, Erased: s.replacedIn})
	if s.profiles = x; err != nil {
		return err
	}
	next := x.Sealed()
	var tb termBuilder
	_, upper := state.SpaceBounds(state.SpaceRevision)
	err = state.ScanSpace(s.DB, state.SeqKey(state.SpaceRevision, next), upper, func(key, agentKey []byte) error {
		revision := state.SeqOfKey(key)
		p, ok, err := state.Load(s.DB, state.ProfileKey(strings.TrimPrefix(string(agentKey), state.HiddenRevision)), state.Decode[state.ProfileRow])
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: profile %d is missing", state.ErrCorrupt, revision)
		}
		for ; next < revision; next++ {
			x.Add(next, nil)
		}
		x.Add(revision, nil, tb.textWords(p.Texts())...)
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill index of profiles: %w", err)
	}
	return nil
}

// replacedIn returns the replaced revisions of a block, whose words the index drops.
func (s *store) replacedIn(block uint64) (index.Bitmap, error) {
	first := block * index.BlockEntries
	replaced := index.Bitmap(slices.Repeat([]byte{0xff}, index.BlockEntries/8))
	err := state.ScanSpace(s.DB, state.SeqKey(state.SpaceRevision, first), state.SeqKey(state.SpaceRevision, first+index.BlockEntries), func(key, _ []byte) error {
		at := state.SeqOfKey(key) - first
		replaced[at/8] &^= 1 << (at % 8)
		return nil
	})
	return replaced, err
}

// lastingTerm reports whether a term is of the place of an entry: its stub keeps such terms.
func lastingTerm(term []byte) bool {
	places := [...]string{state.TermChannel, state.TermParent, state.TermThread}
	return slices.ContainsFunc(places[:], func(class string) bool { return bytes.HasPrefix(term, []byte(class)) })
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
func (b *termBuilder) terms(e *state.EntryRow, t state.EntryTexts) (terms, words []string) {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	b.add(state.TermChannel, e.Channel)
	b.add(state.TermAgent, e.AgentKey)
	b.add(state.TermKind, e.Kind.String())
	if e.Relation == command.RelationReply {
		b.add(state.TermParent, state.EntryID(e.Parent))
	}
	if e.Thread != e.Seq {
		b.add(state.TermThread, state.EntryID(e.Thread))
	}
	if e.Type != state.TypeEntry {
		b.add(state.TermType, string(rune(e.Type)))
	}
	for _, key := range e.Inbox {
		b.add(state.TermInbox, key)
	}
	for _, tag := range t.Tags {
		b.add(state.TermTag, text.FoldTag(tag))
	}
	all, start := string(b.buf), 0 // one allocation for all terms
	b.out = b.out[:0]
	for _, end := range b.ends {
		b.out = append(b.out, all[start:end])
		start = end
	}
	texts := append(make([]string, 0, 2+command.MaxTags), t.Title, t.Body)
	return b.out, b.textWords(append(texts, t.Tags...))
}

func (b *termBuilder) add(class, value string) {
	b.buf = append(append(b.buf, class...), value...)
	b.ends = append(b.ends, len(b.buf))
}

// indexVersion numbers how entries become terms. It must change with them; the
// index is then built anew.
const indexVersion = 5<<16 | text.Version

// profileIndexVersion numbers how profiles become terms; see indexVersion.
const profileIndexVersion = 1<<16 | text.Version

// textWords returns the words of texts. The slice is valid until the next call of the
// builder.
func (b *termBuilder) textWords(texts []string) []string {
	clear(b.words) // or texts that were long stay in memory behind shorter ones
	b.words = b.words[:0]
	for _, s := range texts {
		b.words = text.Words(b.words, s)
	}
	return b.words
}
