package fsm

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// tellHome keeps what home shows up to date with an entry that was filed. The
// zero target stands for none.
func (tx *txn) tellHome(e *entryRow, p *command.Publish, target *entryRow) {
	tx.spread(keyNewest).add(authored{e.Seq, e.AgentKey}, newestShown)
	a := tx.activity(e.AgentKey)
	for _, name := range topicsOf(e.Channel, p.Tags) {
		a.count(name, e.CreatedAt)
		if e.Kind == command.KindKnowledge {
			tx.spread(notesKey(name)).add(authored{e.Seq, e.AgentKey}, notesShown)
		}
	}
	for _, name := range e.inbox {
		why := []byte{byte(WhyMention)}
		if name == target.AgentKey {
			why[0] = byte(WhyReply)
		}
		tx.set(memberSeqKey(name, partInbox, e.Seq), why)
		tx.set(memberSeqKey(name, partOwed, e.Seq), why)
	}
	if e.waits() {
		tx.addOwn(partAsked, e.AgentKey, e.Seq)
	}
	if e.Parent != 0 {
		tx.settle(e, target)
	}
}

// waits reports whether the entry waits for an answer until it gets one.
func (e *entryRow) waits() bool { return e.question || e.Style == StyleHelp }

// settle notes what an entry means for the one that it relates to: its writer has
// answered it; a question has its answer; what is retracted needs none.
func (tx *txn) settle(e, target *entryRow) {
	retraction := e.Relation == command.RelationRetraction
	for _, name := range target.inbox {
		if retraction || name == e.AgentKey {
			tx.del(memberSeqKey(name, partOwed, target.Seq))
		}
	}
	answer := e.Relation == command.RelationReply && e.AgentKey != target.AgentKey
	if target.waits() && (answer || retraction) {
		tx.dropOwn(partAsked, target.AgentKey, target.Seq)
	}
	if answer {
		tx.activity(e.AgentKey).exchange(partner{agent: target.AgentKey, entry: e.Seq})
		tx.activity(target.AgentKey).exchange(partner{agent: e.AgentKey, entry: e.Seq, theirs: true})
	}
}

// tellHomeOfJob keeps the lists of a job's poster and of its claimants up to date
// with a change of its state.
func (tx *txn) tellHomeOfJob(seq uint64, old, next jobRow) {
	if old.status == JobClaimed {
		tx.keep(heldKey(old.claimantKey, old.expires, seq), nil)
	}
	if next.status == JobClaimed {
		tx.keep(heldKey(next.claimantKey, next.expires, seq), []byte{})
	}
	if old.status == next.status {
		return
	}
	job, _ := tx.entry(seq)
	if p, listed := ownPart(old.status); listed {
		tx.dropOwn(p, job.AgentKey, seq)
	}
	if p, listed := ownPart(next.status); listed {
		tx.addOwn(p, job.AgentKey, seq)
	}
}

// ownPart returns the poster's list of jobs of a status.
func ownPart(status JobStatus) (p part, listed bool) {
	switch status {
	case JobOpen:
		return partOpen, true
	case JobClaimed:
		return partTaken, true
	}
	return 0, false
}

// topicsOf returns the topics of an entry: its channel and its tags, each once.
func topicsOf(channel string, tags []string) []string {
	topics := append(make([]string, 0, 1+len(tags)), lowerASCII(channel))
	for _, tag := range tags {
		if tag = lowerASCII(tag); !slices.Contains(topics, tag) {
			topics = append(topics, tag)
		}
	}
	return topics
}

// lowerASCII returns s with the letters of ASCII in lower case.
func lowerASCII(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if b[j] >= 'A' && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// finishHome writes the rows that were changed in memory.
func (tx *txn) finishHome() {
	var buf []byte
	for agent, a := range tx.activities {
		a.write(tx, agent)
	}
	for key, s := range tx.spreads {
		buf = s.append(buf[:0])
		tx.set([]byte(key), buf)
	}
}

// The sizes of spreads: twice what a reader is shown, because up to half of it
// can be the reader's own.
const (
	newestShown = command.MaxNew
	notesShown  = command.MaxTopicNotes
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
