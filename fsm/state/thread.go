package state

import (
	"cmp"
	"slices"
)

// MaxThreadAgents is how many authors a conversation lists.
const MaxThreadAgents = 5

// ThreadRow is a conversation: an entry that relates to no other, and all that relate to it,
// directly or through others. Its key in spaceActive has its newest shown entry.
type ThreadRow struct {
	First   uint64 // the first entry
	Newest  uint64 // the newest entry, hidden or not
	Channel string // of the first entry
	Replies uint64 // entries with relation reply that are not hidden
	LastAt  int64  // the time of the newest entry that is not hidden
	// LastAgent wrote that entry.
	LastAgent string
	// Agents are the first MaxThreadAgents authors of entries that are not hidden, by their
	// first entry.
	Agents []ThreadAgent
}

// ThreadAgent is an author in a conversation.
type ThreadAgent struct {
	Seq       uint64 // of the first entry by the author
	Key, Name string
}

// Fields implements Row.
func (t *ThreadRow) Fields(c *Codec) {
	c.Fields(&t.First, &t.Newest, &t.Replies, &t.LastAt, &t.Channel, &t.LastAgent)
	List(c, &t.Agents, func(a *ThreadAgent) {
		name := a.Name
		if name == a.Key { // as most names are spelled
			name = ""
		}
		c.Fields(&a.Seq, &a.Key, &name)
		a.Name = cmp.Or(name, a.Key)
	})
}

// AddAgent adds the author of an entry. An author who is listed keeps the earlier entry.
func (t *ThreadRow) AddAgent(a ThreadAgent) {
	if i := slices.IndexFunc(t.Agents, func(b ThreadAgent) bool { return b.Key == a.Key }); i >= 0 {
		if t.Agents[i].Seq <= a.Seq {
			return
		}
		t.Agents = slices.Delete(t.Agents, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(t.Agents, a.Seq, func(b ThreadAgent, seq uint64) int { return cmp.Compare(b.Seq, seq) })
	if t.Agents = slices.Insert(t.Agents, i, a); len(t.Agents) > MaxThreadAgents {
		t.Agents = t.Agents[:MaxThreadAgents]
	}
}

// Lists reports whether an entry is the first one of a listed author.
func (t *ThreadRow) Lists(seq uint64) bool {
	return slices.ContainsFunc(t.Agents, func(a ThreadAgent) bool { return a.Seq == seq })
}

// ThreadKey is the key of the newest shown entry of a conversation.
func ThreadKey(first uint64) []byte { return SeqKey(spaceThread, first) }

// ActiveKey is the key of a conversation with a newest shown entry. Conversations with a
// hidden first entry are apart, and in no list.
func ActiveKey(last uint64, hidden bool) []byte {
	return append([]byte{spaceActive, Bit(hidden, 1)}, SeqKey(0, last)[1:]...)
}

// LastOfActiveKey returns the newest shown entry in an ActiveKey.
func LastOfActiveKey(key []byte) uint64 { return SeqOfKey(key[1:]) }

// LoadThread returns the conversation of a first entry, its newest shown entry, and whether the
// first one is hidden. get loads a row.
func LoadThread(get func(key []byte) (row []byte, ok bool, err error), first uint64) (t ThreadRow, last uint64, hidden bool, err error) {
	last = first
	row, ok, err := get(ThreadKey(first))
	if err == nil && ok {
		last, err = DecodeNumber(row)
	}
	if err != nil {
		return t, 0, false, err
	}
	for _, hidden = range [...]bool{false, true} {
		if row, ok, err = get(ActiveKey(last, hidden)); err != nil {
			return t, 0, false, err
		}
		if ok {
			t, err = Decode[ThreadRow](row)
			return t, last, hidden, err
		}
	}
	return t, 0, false, ErrNotFound
}
