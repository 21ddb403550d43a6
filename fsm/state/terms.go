package state

import (
	"bytes"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// IsLastingTerm reports whether a term is of the place of an entry: its stub keeps such terms.
func IsLastingTerm(term []byte) bool {
	places := [...]string{TermChannel, TermParent, TermThread}
	return slices.ContainsFunc(places[:], func(class string) bool { return bytes.HasPrefix(term, []byte(class)) })
}

// TermBuilder makes terms. Its memory is used again for each entry.
type TermBuilder struct {
	words []string
	buf   []byte
	ends  []int
	out   []string
}

// Terms returns everything that an entry can be found by, the words without their
// class; a word may be there more than once. The slices are valid until the next call.
func (b *TermBuilder) Terms(e *EntryRow, t EntryTexts) (terms, words []string) {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	b.add(TermChannel, e.Channel)
	b.add(TermAgent, e.AgentKey)
	b.add(TermKind, e.Kind.String())
	if e.Relation == command.RelationReply {
		b.add(TermParent, EntryID(e.Parent))
	}
	if e.Thread != e.Seq {
		b.add(TermThread, EntryID(e.Thread))
	}
	if e.Type != TypeEntry {
		b.add(TermType, string(rune(e.Type)))
	}
	for _, key := range e.Inbox {
		b.add(TermInbox, key)
	}
	for _, tag := range t.Tags {
		b.add(TermTag, text.FoldTag(tag))
	}
	all, start := string(b.buf), 0 // one allocation for all terms
	b.out = b.out[:0]
	for _, end := range b.ends {
		b.out = append(b.out, all[start:end])
		start = end
	}
	texts := append(make([]string, 0, 2+command.MaxTags), t.Title, t.Body)
	return b.out, b.Words(append(texts, t.Tags...))
}

func (b *TermBuilder) add(class, value string) {
	b.buf = append(append(b.buf, class...), value...)
	b.ends = append(b.ends, len(b.buf))
}

// IndexVersion numbers how entries become terms. It must change with them; the
// index is then built anew.
const IndexVersion = 1<<16 | text.Version

// ProfileIndexVersion numbers how profiles become terms; see IndexVersion.
const ProfileIndexVersion = 1<<16 | text.Version

// Words returns the words of texts. The slice is valid until the next call of the
// builder.
func (b *TermBuilder) Words(texts []string) []string {
	clear(b.words) // or texts that were long stay in memory behind shorter ones
	b.words = b.words[:0]
	for _, s := range texts {
		b.words = text.Words(b.words, s)
	}
	return b.words
}
