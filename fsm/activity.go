package fsm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// maxTopics is how many topics are counted for an agent, and maxPartners how
	// many others are remembered.
	maxTopics   = 32
	maxPartners = command.MaxPartners
	// activitiesKept bounds the activities that are kept in caches: about 2 KiB each.
	activitiesKept = 4096
)

// activity is where an agent writes and who it talks with: its rows of partActivity and
// partTopic.
type activity struct {
	topics   []topic
	partners []partner // the most recent first
	// waiting are the agent's seqs in each waiting list, lowest first.
	waiting [waitingLists][]uint64

	// Changes of the call: whether the row of partActivity changed, and the topics that
	// were dropped. Counted topics have a flag of their own.
	changed bool
	dropped []string
}

// topic is a channel or a tag that an agent writes to, in lower case as far as
// ASCII goes: apply must not depend on Unicode tables.
type topic struct {
	name    string
	entries uint64
	lastAt  int64
	changed bool // in the call
}

// partner is another agent that has exchanged replies with this one.
type partner struct {
	agent  string // folded
	entry  uint64 // the newest of these replies
	theirs bool   // they wrote it
}

// count counts an entry in a topic. If there are too many topics, the one with the
// fewest entries is dropped; of several, the least recently written one.
func (a *activity) count(name string, at int64) {
	for i := range a.topics {
		if a.topics[i].name == name {
			a.topics[i].entries++
			a.topics[i].lastAt = max(a.topics[i].lastAt, at)
			a.topics[i].changed = true
			return
		}
	}
	next := topic{name: name, entries: 1, lastAt: at, changed: true}
	if len(a.topics) < maxTopics {
		a.topics = append(a.topics, next)
		return
	}
	least := 0
	for i := range a.topics {
		if a.topics[i].compare(&a.topics[least]) > 0 {
			least = i
		}
	}
	a.dropped = append(a.dropped, a.topics[least].name)
	a.topics[least] = next
}

// uncount removes an entry from a topic's count; false if the topic is not counted. A
// topic without entries keeps its place, and is not shown.
func (a *activity) uncount(name string) bool {
	i := slices.IndexFunc(a.topics, func(t topic) bool { return t.name == name })
	if i < 0 || a.topics[i].entries == 0 { // it was dropped since, and came anew
		return false
	}
	a.topics[i].entries--
	a.topics[i].changed = true
	return true
}

// compare orders topics: those with the most entries come first.
func (t *topic) compare(u *topic) int {
	return cmp.Or(cmp.Compare(u.entries, t.entries), cmp.Compare(u.lastAt, t.lastAt), cmp.Compare(t.name, u.name))
}

// exchange records a reply between the agent and another one.
func (a *activity) exchange(p partner) {
	i := slices.IndexFunc(a.partners, func(o partner) bool { return o.agent == p.agent })
	if i < 0 && len(a.partners) < maxPartners {
		a.partners = append(a.partners, partner{})
	}
	if i < 0 {
		i = len(a.partners) - 1
	}
	copy(a.partners[1:i+1], a.partners)
	a.partners[0] = p
	a.changed = true
}

// append encodes the row of partTopic.
func (t *topic) append(dst []byte) []byte {
	return appendUints(dst, t.entries, uint64(t.lastAt))
}

func decodeTopic(name, row []byte) (topic, error) {
	r := rowReader{rest: row}
	t := topic{name: string(name), entries: r.uint(), lastAt: int64(r.uint())}
	return t, r.done("topic row")
}

// append encodes the row of partActivity.
func (a *activity) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(a.partners)))
	for _, p := range a.partners {
		dst = appendBlob(dst, p.agent)
		dst = append(binary.AppendUvarint(dst, p.entry), bit(p.theirs, 1))
	}
	for _, seqs := range a.waiting {
		dst = appendUints(binary.AppendUvarint(dst, uint64(len(seqs))), seqs...)
	}
	return dst
}

func (a *activity) decode(row []byte) error {
	r := rowReader{rest: row}
	for n := r.uint(); n > 0 && !r.bad; n-- {
		a.partners = append(a.partners, partner{agent: r.text(), entry: r.uint(), theirs: r.byte() != 0})
	}
	for i := range a.waiting {
		for n := r.uint(); n > 0 && !r.bad; n-- {
			a.waiting[i] = append(a.waiting[i], r.uint())
		}
	}
	return r.done("activity row")
}

// loadActivity reads an agent's activity.
func loadActivity(r pebble.Reader, agent string) (*activity, error) {
	rows, err := member(r, agent)
	if err != nil {
		return nil, err
	}
	a, err := rows.activity()
	return a, errors.Join(err, rows.close())
}

// activity reads the agent's activity.
func (r *memberRows) activity() (*activity, error) {
	a := new(activity)
	err := r.from(partActivity, nil, func(_, value []byte) (bool, error) { return false, a.decode(value) })
	if err != nil {
		return nil, err
	}
	err = r.from(partTopic, nil, func(key, value []byte) (bool, error) {
		t, err := decodeTopic(key, value)
		a.topics = append(a.topics, t)
		return true, err
	})
	return a, err
}

// write writes what the call has changed.
func (a *activity) write(tx *txn, agent string) {
	for _, name := range a.dropped {
		tx.del(append(memberKey(agent, partTopic), name...))
	}
	for i := range a.topics {
		if t := &a.topics[i]; t.changed {
			tx.set(append(memberKey(agent, partTopic), t.name...), t.append(nil))
			t.changed = false
		}
	}
	if a.changed {
		tx.set(memberKey(agent, partActivity), a.append(nil))
	}
	a.dropped, a.changed = nil, false
}

// activity returns an agent's activity, to be changed: it is written at the end
// of the call.
func (tx *txn) activity(agent string) *activity {
	return use(tx, &tx.caches.activities, tx.activities, agent, func() (*activity, error) { return loadActivity(tx.db, agent) })
}
