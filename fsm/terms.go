package fsm

import (
	"github.com/commons-cluster/commons/fsm/text"
)

// The classes of index terms. A term is its class followed by a value.
const (
	termChannel = "channel:"
	termAgent   = "agent:"
	termKind    = "kind:"
	termTag     = "tag:"
	termParent  = "parent:" // id of the entry that this one replies to
	termThread  = "thread:" // id of the first entry of the conversation, not on that one itself
	termInbox   = "inbox:"  // agent key of whoever the entry concerns
	termStyle   = "style:"  // the letter of the id, on what is no plain entry
	termWord    = "w:"
)

// termBuilder makes terms. Its memory is used again for each entry.
type termBuilder struct {
	words []string
	buf   []byte
	ends  []int
	out   []string
}

// terms returns everything that an entry can be found by; a word may be there
// more than once. The slice is valid until the next call.
func (b *termBuilder) terms(e *entryRow, t entryTexts) []string {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	b.add(termChannel, e.Channel)
	b.add(termAgent, e.AgentKey)
	b.add(termKind, e.Kind.String())
	if e.Relation == RelationReply {
		b.add(termParent, EntryID(e.Parent))
	}
	if e.Thread != e.Seq {
		b.add(termThread, EntryID(e.Thread))
	}
	if e.Style != StyleEntry {
		b.add(termStyle, string(rune(e.Style)))
	}
	for _, key := range e.inbox {
		b.add(termInbox, key)
	}
	b.words = text.Words(b.words[:0], t.Title)
	b.words = text.Words(b.words, t.Body)
	for _, tag := range t.Tags {
		b.add(termTag, text.FoldTag(tag))
		b.words = text.Words(b.words, tag)
	}
	for _, word := range b.words {
		b.add(termWord, word)
	}
	clear(b.words)
	return b.cut()
}

func (b *termBuilder) add(class, value string) {
	b.buf = append(append(b.buf, class...), value...)
	b.ends = append(b.ends, len(b.buf))
}

// cut takes the buffer apart into terms, with one allocation for all of them.
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
