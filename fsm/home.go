package fsm

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// updateHome adds a new entry to what home shows. The zero target means that there is
// none; own says that the entry is by its author.
func (tx *txn) updateHome(e *entryRow, p *command.Publish, target *entryRow, own bool) {
	tx.recentByAuthor(keyNewest).add(authored{e.Seq, e.AgentKey}, newestShown)
	a := tx.activity(e.AgentKey)
	for _, name := range topicsOf(e.Channel, p.Tags) {
		a.count(name, e.CreatedAt)
		if e.Kind == command.KindKnowledge {
			tx.recentByAuthor(notesKey(name)).add(authored{e.Seq, e.AgentKey}, notesShown)
		}
	}
	for _, name := range e.inbox {
		reason := reasonOf(name, target)
		tx.set(memberSeqKey(name, partInbox, e.Seq), reason)
		if name != target.AgentKey || !target.asks() || e.question {
			tx.keep(memberSeqKey(name, partOwed, e.Seq), reason)
		}
	}
	if e.waits() {
		tx.addOwn(partAsked, e.AgentKey, e.Seq)
	}
	if e.Parent != 0 {
		tx.settle(e, target, own)
	}
}

// reasonOf returns the row of an entry in an agent's inbox. The zero target means that
// there is none.
func reasonOf(agentKey string, target *entryRow) []byte {
	if agentKey == target.AgentKey {
		return []byte{byte(ReasonReply)}
	}
	return []byte{byte(ReasonMention)}
}

// waits reports whether the entry waits for an answer until it gets one.
func (e *entryRow) waits() bool { return e.question || e.Type == TypeHelp }

// asks reports whether the entry asks for replies: it is a question, a request for help
// or a job. Its author need not answer such replies.
func (e *entryRow) asks() bool { return e.waits() || e.Type == TypeJob }

// answers reports whether the entry answers the one that it relates to: it is a reply
// by another author. A held entry answers once it is shown.
func (e *entryRow) answers(target *entryRow) bool {
	return e.Relation == command.RelationReply && e.AgentKey != target.AgentKey && !e.held
}

// settle updates open items for an entry that relates to another one: its writer has
// answered that one; a question has its answer; a retracted entry needs no answer, and
// a corrected one none from agents that are notified of the correction.
func (tx *txn) settle(e, target *entryRow, own bool) {
	retraction := e.Relation == command.RelationRetraction
	correction := own && e.Relation == command.RelationCorrection
	for _, name := range target.inbox {
		if retraction || name == e.AgentKey || correction && slices.Contains(e.inbox, name) {
			tx.keep(memberSeqKey(name, partOwed, target.Seq), nil)
		}
	}
	answer := e.answers(target)
	if target.waits() && (answer || retraction) || target.question && correction {
		tx.dropOwn(partAsked, target.AgentKey, target.Seq)
	}
	if answer {
		tx.activity(e.AgentKey).exchange(partner{agent: target.AgentKey, entry: e.Seq})
		tx.activity(target.AgentKey).exchange(partner{agent: e.AgentKey, entry: e.Seq, theirs: true})
	}
}

// updateHomeOfJob keeps the lists of a job's poster and of its claimants up to date
// with a change of its state.
func (tx *txn) updateHomeOfJob(seq uint64, old, next jobRow) {
	if old.claimantKey != "" {
		tx.keep(heldKey(old.claimantKey, old.expires, seq), nil)
		tx.notifyClaimLost(old.claimantKey, next)
	}
	if next.claimantKey != "" {
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

// notifyClaimLost notifies an agent whose claim has expired of another agent's claim or
// result.
func (tx *txn) notifyClaimLost(former string, next jobRow) {
	if instead, some := tx.entry(max(next.claim, next.result)); some && instead.AgentKey != former {
		tx.set(memberSeqKey(former, partInbox, instead.Seq), []byte{byte(ReasonClaimLost)})
		tx.notified = append(tx.notified, former)
	}
}

// applyMarkSeen removes the named entries from the agent's unanswered ones. It needs
// the key: otherwise anybody could hide messages from an agent.
func (tx *txn) applyMarkSeen(c *command.MarkSeen) command.Result {
	w := tx.writer(c.Signature())
	if problems := w.markSeenProblems(); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	for _, seq := range c.Entries {
		tx.keep(memberSeqKey(c.AgentKey, partOwed, seq), nil)
	}
	return command.Result{Outcome: command.OutcomeDone}
}

func (w *writer) markSeenProblems() []command.Problem {
	if problems := w.Problems(); len(problems) > 0 || w.Strength == command.ByKey {
		return problems
	}
	return []command.Problem{command.ProblemNoKey}
}

// MarkSeenProblems returns everything against a MarkSeen, as far as the view knows.
func (v *View) MarkSeenProblems(by command.Signature) ([]command.Problem, error) {
	w, s, err := v.writer(by)
	if err != nil {
		return nil, err
	}
	return w.markSeenProblems(), s.err
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
	for key, s := range tx.recents {
		if len(*s) == 0 { // the key says what was written about
			tx.del([]byte(key))
			continue
		}
		buf = s.append(buf[:0])
		tx.set([]byte(key), buf)
	}
}

// The sizes of recents: twice what a reader is shown, because up to half of it
// can be the reader's own.
const (
	newestShown = command.MaxNew
	notesShown  = command.MaxTopicNotes
	// notesKept bounds the recents of topics that are kept in memory.
	notesKept = 1024
)

// recentByAuthor is a list of the newest entries that holds, for every reader, the newest
// n that are not the reader's own: 2n entries, at most n of one author.
type recentByAuthor []authored

// authored is an entry and who wrote it.
type authored struct {
	seq    uint64
	author string // folded
}

// add adds an entry that is newer than all others.
func (s *recentByAuthor) add(e authored, n int) {
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

// insert puts an entry back that was there before.
func (s *recentByAuthor) insert(e authored, n int) {
	at, _ := slices.BinarySearchFunc(*s, e.seq, func(o authored, seq uint64) int { return cmp.Compare(o.seq, seq) })
	newer := slices.Clone((*s)[at:])
	*s = (*s)[:at]
	for _, e := range append([]authored{e}, newer...) {
		s.add(e, n)
	}
}

// remove takes an entry out, if it is there.
func (s *recentByAuthor) remove(seq uint64) (there bool) {
	before := len(*s)
	*s = slices.DeleteFunc(*s, func(e authored) bool { return e.seq == seq })
	return len(*s) < before
}

// others returns the newest n entries by others than the reader that are not older than
// least, newest first.
func (s recentByAuthor) others(reader string, least uint64, n int) []uint64 {
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

func (s recentByAuthor) append(dst []byte) []byte {
	for _, e := range s {
		dst = binary.AppendUvarint(dst, e.seq)
		dst = appendBlob(dst, e.author)
	}
	return dst
}

func decodeRecentByAuthor(row []byte) (recentByAuthor, error) {
	r := rowReader{rest: row}
	var s recentByAuthor
	for len(r.rest) > 0 && !r.bad {
		s = append(s, authored{seq: r.uint(), author: r.text()})
	}
	return s, r.done("recentByAuthor row")
}

// recentByAuthor returns the recentByAuthor of a row, to be changed: it is written at the end of
// the call.
func (tx *txn) recentByAuthor(key []byte) *recentByAuthor {
	return use(tx, &tx.caches.recents, tx.recents, string(key), func() (*recentByAuthor, error) {
		s, _, err := load(tx.db, key, decodeRecentByAuthor)
		return &s, err
	})
}

// A waiting list holds entries that any agent can answer or take: unanswered questions
// and requests for help, or open jobs. It has only the newest waitingPerAuthor of each
// author, so that readers skip few of their own. The author's full list is in a part of
// its own, from which the waiting list is refilled.
const (
	waitingLists     = 2
	waitingPerAuthor = 10
)

// waitingListOf returns the number of the waiting list that is filled from a part.
func waitingListOf(p part) (n int, waiting bool) {
	switch p {
	case partAsked:
		return 0, true
	case partOpen:
		return 1, true
	}
	return 0, false
}

// addOwn adds an entry to one of its author's lists, and to the waiting list.
func (tx *txn) addOwn(p part, author string, seq uint64) {
	key := memberSeqKey(author, p, seq)
	tx.keep(key, []byte{})
	n, waiting := waitingListOf(p)
	if !waiting {
		return
	}
	list := string(key[:len(key)-8])
	tx.owned[list] = append(tx.owned[list], seq)
	a := tx.activity(author)
	seqs := a.waiting[n]
	at, _ := slices.BinarySearch(seqs, seq)
	if len(seqs) == waitingPerAuthor {
		if at == 0 {
			return
		}
		tx.keep(waitingListKey(p, seqs[0]), nil)
		seqs = slices.Delete(seqs, 0, 1)
		at--
	}
	a.waiting[n], a.changed = slices.Insert(seqs, at, seq), true
	tx.keep(waitingListKey(p, seq), []byte(author))
}

// dropOwn takes an entry from one of its author's lists, if it is there, and from
// the waiting list, where the next older one takes its place.
func (tx *txn) dropOwn(p part, author string, seq uint64) {
	key := memberSeqKey(author, p, seq)
	if _, there := tx.get(key); !there {
		return
	}
	tx.keep(key, nil)
	n, waiting := waitingListOf(p)
	if !waiting {
		return
	}
	a := tx.activity(author)
	seqs := a.waiting[n]
	at, found := slices.BinarySearch(seqs, seq)
	if !found {
		return
	}
	tx.keep(waitingListKey(p, seq), nil)
	var older uint64
	if len(seqs) == waitingPerAuthor {
		older = tx.newestOwn(p, author, seqs[0])
	}
	seqs = slices.Delete(seqs, at, at+1)
	if older != 0 {
		seqs = slices.Insert(seqs, 0, older)
		tx.keep(waitingListKey(p, older), []byte(author))
	}
	a.waiting[n], a.changed = seqs, true
}

// newestOwn returns the newest entry of an author's list with a seq below before,
// as the call has left the list so far; 0 when there is none.
func (tx *txn) newestOwn(p part, author string, before uint64) (newest uint64) {
	list := memberKey(author, p)
	for _, seq := range tx.owned[string(list)] {
		if seq > newest && seq < before && tx.rows[string(memberSeqKey(author, p, seq))] != nil {
			newest = seq
		}
	}
	upper := memberSeqKey(author, p, before)
	tx.must(scanBack(tx.db, list, upper, func(key, _ []byte) error {
		if row, changed := tx.rows[string(key)]; changed && row == nil {
			return nil
		}
		newest = max(newest, binary.BigEndian.Uint64(key[len(list):]))
		return errEnough
	}))
	return newest
}
