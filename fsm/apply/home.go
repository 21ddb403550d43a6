package apply

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

// updateHome adds a new entry to the rows of home. The zero target means no target; own is
// set if the entry is by the target's author.
func (tx *Txn) updateHome(e *state.EntryRow, p *command.Publish, target *state.EntryRow, own bool) {
	tx.recentByAuthor(home.KeyNewest).Add(home.Authored{Seq: e.Seq, Author: e.AgentKey}, newestShown)
	a := tx.activity(e.AgentKey)
	for _, name := range topicsOf(e.Channel, p.Tags) {
		a.Count(name, e.CreatedAt)
		if e.Kind == command.KindKnowledge {
			tx.recentByAuthor(home.NotesKey(name)).Add(home.Authored{Seq: e.Seq, Author: e.AgentKey}, notesShown)
		}
	}
	for _, name := range e.Inbox {
		reason := reasonOf(name, target)
		tx.set(home.ItemKey(name, home.PartInbox, e.Seq), reason)
		if name != target.AgentKey || !target.Asks() || e.Question {
			tx.set(home.ItemKey(name, home.PartOwed, e.Seq), reason)
		}
	}
	if e.Waits() {
		tx.addOwn(home.PartAsked, e.AgentKey, e.Seq)
	}
	if e.Parent != 0 {
		tx.updateOpenItems(e, target, own)
	}
}

// reasonOf returns the row of an entry in an agent's inbox. The zero target means no target.
func reasonOf(agentKey string, target *state.EntryRow) []byte {
	if agentKey == target.AgentKey {
		return []byte{byte(home.ReasonReply)}
	}
	return []byte{byte(home.ReasonMention)}
}

// updateOpenItems updates open items for an entry that relates to another one. The writer no longer
// owes that one an answer, and a question has its answer. A retracted entry needs no
// answer, and a corrected one needs no answer from agents that are notified of the
// correction.
func (tx *Txn) updateOpenItems(e, target *state.EntryRow, own bool) {
	retraction := e.Relation == command.RelationRetraction
	correction := own && e.Relation == command.RelationCorrection
	for _, name := range target.Inbox {
		if retraction || name == e.AgentKey || correction && slices.Contains(e.Inbox, name) {
			tx.del(home.ItemKey(name, home.PartOwed, target.Seq))
		}
	}
	answer := e.Answers(target)
	if target.Waits() && (answer || retraction) || target.Question && correction {
		tx.dropOwn(home.PartAsked, target.AgentKey, target.Seq)
	}
	if answer {
		tx.activity(e.AgentKey).Exchange(home.Partner{Agent: target.AgentKey, Entry: e.Seq})
		tx.activity(target.AgentKey).Exchange(home.Partner{Agent: e.AgentKey, Entry: e.Seq, Theirs: true})
	}
}

// updateHomeOfJob updates the lists of a job's poster and claimants after a change of the job.
func (tx *Txn) updateHomeOfJob(seq uint64, old, next state.JobRow) {
	if old.ClaimantKey != "" {
		tx.del(home.HeldKey(old.ClaimantKey, old.Expires, seq))
		if instead, some := tx.Entry(next.Claim); some && instead.AgentKey != old.ClaimantKey {
			tx.set(home.ItemKey(old.ClaimantKey, home.PartInbox, instead.Seq), []byte{byte(home.ReasonClaimLost)})
			tx.Notified = append(tx.Notified, old.ClaimantKey)
		}
	}
	if next.ClaimantKey != "" {
		tx.set(home.HeldKey(next.ClaimantKey, next.Expires, seq), []byte{})
	}
	if old.Status == next.Status {
		return
	}
	job, _ := tx.Entry(seq)
	if p, listed := ownParts[old.Status]; listed {
		tx.dropOwn(p, job.AgentKey, seq)
	}
	if p, listed := ownParts[next.Status]; listed {
		tx.addOwn(p, job.AgentKey, seq)
	}
}

// forgetTopics removes the topics of an entry from its author's list if no other entry has them.
func (tx *Txn) forgetTopics(e *state.EntryRow, tags []string) {
	a := tx.activity(e.AgentKey)
	for _, name := range topicsOf(e.Channel, tags) {
		a.Forget(name)
	}
}

// finishHome writes the rows that were changed in memory.
func (tx *Txn) finishHome() {
	for agent, a := range tx.activities {
		a.Write(agent, tx.set)
	}
	for key, s := range tx.recents {
		if len(*s) == 0 { // the key names a topic
			tx.del([]byte(key))
			continue
		}
		tx.set([]byte(key), state.Encode(s))
	}
}

// recentByAuthor returns the list of a row, to be changed: it is written at the end of the call.
func (tx *Txn) recentByAuthor(key []byte) *home.RecentByAuthor {
	return use(tx, &tx.caches.recents, tx.recents, string(key), func() (*home.RecentByAuthor, error) {
		s, _, err := state.Load(tx.stored.DB, key, state.Decode[home.RecentByAuthor])
		return &s, err
	})
}

// addOwn adds an entry to one of its author's lists, and to the waiting list.
func (tx *Txn) addOwn(p home.Part, author string, seq uint64) {
	key := home.ItemKey(author, p, seq)
	tx.set(key, []byte{})
	n, waiting := home.WaitingListOf(p)
	if !waiting {
		return
	}
	list := string(key[:len(key)-8])
	tx.owned[list] = append(tx.owned[list], seq)
	a := tx.activity(author)
	seqs := a.Waiting[n]
	at, _ := slices.BinarySearch(seqs, seq)
	if len(seqs) == home.WaitingPerAuthor {
		if at == 0 {
			return
		}
		tx.del(home.WaitingKey(p, seqs[0]))
		seqs = slices.Delete(seqs, 0, 1)
		at--
	}
	a.Waiting[n], a.Changed = slices.Insert(seqs, at, seq), true
	tx.set(home.WaitingKey(p, seq), []byte(author))
}

// dropOwn takes an entry from one of its author's lists, if it is there. In the waiting
// list, the next older one takes its place.
func (tx *Txn) dropOwn(p home.Part, author string, seq uint64) {
	key := home.ItemKey(author, p, seq)
	if !tx.release(key) {
		return
	}
	n, waiting := home.WaitingListOf(p)
	if !waiting {
		return
	}
	a := tx.activity(author)
	seqs := a.Waiting[n]
	at, found := slices.BinarySearch(seqs, seq)
	if !found {
		return
	}
	tx.del(home.WaitingKey(p, seq))
	var older uint64
	if len(seqs) == home.WaitingPerAuthor {
		older = tx.newestOwn(p, author, seqs[0])
	}
	seqs = slices.Delete(seqs, at, at+1)
	if older != 0 {
		seqs = slices.Insert(seqs, 0, older)
		tx.set(home.WaitingKey(p, older), []byte(author))
	}
	a.Waiting[n], a.Changed = seqs, true
}

// newestOwn returns the newest entry of an author's list below a seq, or 0.
func (tx *Txn) newestOwn(p home.Part, author string, before uint64) (newest uint64) {
	list := home.ListKey(author, p)
	for _, seq := range tx.owned[string(list)] {
		if seq > newest && seq < before && tx.rows[string(home.ItemKey(author, p, seq))] != nil {
			newest = seq
		}
	}
	upper := home.ItemKey(author, p, before)
	tx.Must(state.ScanBack(tx.stored.DB, list, upper, func(key, _ []byte) error {
		if row, changed := tx.rows[string(key)]; changed && row == nil {
			return nil
		}
		newest = max(newest, binary.BigEndian.Uint64(key[len(list):]))
		return state.ErrEnough
	}))
	return newest
}

// ownParts are the poster's lists of jobs, by status.
var ownParts = map[state.JobStatus]home.Part{state.JobOpen: home.PartOpen, state.JobClaimed: home.PartTaken}

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

// lowerASCII returns s, which is UTF-8, with the letters of ASCII in lower case.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// The entries of recents that a reader is shown.
const (
	newestShown = command.MaxNew
	notesShown  = command.MaxTopicNotes
)

// activity returns an agent's activity, to be changed: it is written at the end of the call.
func (tx *Txn) activity(agent string) *home.Activity {
	return use(tx, &tx.caches.activities, tx.activities, agent, func() (*home.Activity, error) {
		rows, err := home.Open(tx.stored.DB, agent)
		if err != nil {
			return nil, err
		}
		a, err := rows.Activity()
		return a, errors.Join(err, rows.Close())
	})
}

// hideFromHome removes an entry from the rows of home.
func (tx *Txn) hideFromHome(e *state.EntryRow, tags []string, h *state.HiddenEntry) {
	if e.Strength == command.ByKey {
		tx.set(home.ItemKey(e.AgentKey, home.PartHidden, e.Seq), []byte{})
	}
	h.Newest = tx.recentByAuthor(home.KeyNewest).Remove(e.Seq)
	for i, name := range topicsOf(e.Channel, tags) {
		if tx.activity(e.AgentKey).Uncount(name) {
			h.Topics |= 1 << i
		}
		if e.Kind == command.KindKnowledge && tx.recentByAuthor(home.NotesKey(name)).Remove(e.Seq) {
			h.Notes |= 1 << i
		}
	}
	for i, name := range e.Inbox {
		tx.del(home.ItemKey(name, home.PartInbox, e.Seq))
		if tx.release(home.ItemKey(name, home.PartOwed, e.Seq)) {
			h.Owed |= 1 << i
		}
	}
	tx.dropOwn(home.PartAsked, e.AgentKey, e.Seq)
}

func (tx *Txn) unhideFromHome(e, target *state.EntryRow, tags []string, h *state.HiddenEntry) {
	tx.release(home.ItemKey(e.AgentKey, home.PartHidden, e.Seq))
	by := home.Authored{Seq: e.Seq, Author: e.AgentKey}
	if h.Newest {
		tx.recentByAuthor(home.KeyNewest).Insert(by, newestShown)
	}
	for i, name := range topicsOf(e.Channel, tags) {
		if h.Topics&(1<<i) != 0 {
			tx.activity(e.AgentKey).Count(name, e.CreatedAt)
		}
		if h.Notes&(1<<i) != 0 {
			tx.recentByAuthor(home.NotesKey(name)).Insert(by, notesShown)
		}
	}
	for i, name := range e.Inbox {
		reason := reasonOf(name, target)
		tx.set(home.ItemKey(name, home.PartInbox, e.Seq), reason)
		if h.Owed&(1<<i) != 0 {
			tx.set(home.ItemKey(name, home.PartOwed, e.Seq), reason)
		}
	}
	if counts, _ := tx.successors(e.Seq); counts.StillWaits(e) {
		tx.addOwn(home.PartAsked, e.AgentKey, e.Seq)
	}
}
