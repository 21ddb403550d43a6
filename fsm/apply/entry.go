package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

func (tx *Txn) applyPublish(p *command.Publish) command.Result {
	var target state.EntryRow
	rules := func() (problems []command.Problem) {
		target, problems = state.TargetOf(p, tx, &tx.judged.Writer)
		return problems
	}
	return tx.idempotent(p, rules, func() uint64 {
		seq := tx.publish(state.EventEntry, p, target)
		if p.Erase {
			day := command.DayOf(tx.now)
			tx.count(state.ErasuresKey(day, p.AgentKey))
			tx.count(state.ErasuresKey(day, ""))
			tx.purge(&target, p.Target, erasedReason)
		}
		return seq
	})
}

// publish adds an entry that passed all rules, and returns its seq. A zero target is no
// target.
func (tx *Txn) publish(as state.EventKind, p *command.Publish, target state.EntryRow) uint64 {
	w := &tx.judged.Writer
	tx.Head.LastSeq++
	tx.happen(as, tx.Head.LastSeq)
	entryType := as.EntryType()
	e := state.EntryRow{ParentType: target.Type, Meta: state.Meta{
		Seq: tx.Head.LastSeq, CreatedAt: tx.now, AgentKey: p.AgentKey, Channel: state.ChannelOf(p, &target), Type: entryType,
		Kind: p.Kind, Relation: p.Relation, House: p.House && w.Strength > command.Unproven, Parent: target.Seq, Thread: target.Thread,
	}}
	if e.Parent == 0 {
		e.Thread = e.Seq
	}
	e.Inbox = inboxKeys(p, target.AgentKey)
	e.Question = p.Question && p.Kind == command.KindMessage && entryType == state.TypeEntry
	e.Strength = w.Strength
	if w.AgentKey != command.AnonymousName { // a registered name may be spelled to look like another one
		if key := state.LookAlike(tx, w.AgentKey, w.Proof.Looks); key != "" {
			other, _ := tx.profile(key)
			e.LooksLike = other.ID
		}
	}

	tx.joinThread(&e, p.Agent)
	// Room for the row, which is guessed, so that it is allocated once.
	room := 320 + 4*len(p.Agent) + len(p.Title) + len(p.Body) + len(p.Body)/16 + 48*(len(p.Tags)+len(p.Mentions))
	row := e.Append(make([]byte, 0, room), p)
	tx.set(state.SeqKey(state.SpaceEntry, e.Seq), row)
	tx.fresh = append(tx.fresh, row)
	tx.Added = append(tx.Added, Indexed{Entry: e, Texts: state.EntryTexts{Title: p.Title, Body: p.Body, Tags: p.Tags}})
	if !tx.timed {
		tx.timed = true
		tx.setNumber(state.SeqKey(state.SpaceInstant, uint64(tx.now)), e.Seq)
	}
	tx.published(&e, p, &target)
	return e.Seq
}

// inboxKeys returns the target's author and all mentioned agents, except the writer, each
// once.
func inboxKeys(p *command.Publish, author string) []string {
	var keys []string
	if author != "" && author != p.AgentKey {
		keys = append(keys, author)
	}
	for _, name := range p.Mentions {
		if name != p.AgentKey && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	return keys
}

// supersede adds the entry to its parent's successors. An author's own retraction and
// newest correction always stay in the list.
func (tx *Txn) supersede(e, target *state.EntryRow, agent string, own bool) {
	counts, list := tx.successors(e.Parent)
	stays := false
	switch {
	case own && e.Relation == command.RelationRetraction && counts.Retracted == 0:
		counts.Retracted, stays = e.Seq, true
	case own && e.Relation == command.RelationCorrection:
		counts.Corrected, stays = e.Seq, true
	}
	counts.Total++
	if e.Relation == command.RelationReply {
		counts.Replies++
	}
	if e.Answers(target) {
		counts.Answers++
	}
	if stays && len(list) >= command.MaxSuccessors {
		list = list.WithoutLast(counts.Retracted, counts.Corrected)
	}
	if len(list) < command.MaxSuccessors {
		tx.putSuccessors(e.Parent, counts, append(list, state.SuccessorOf(e, agent)))
	} else { // the list is full
		tx.set(state.SeqKey(state.SpaceCounts, e.Parent), state.Encode(&counts))
	}
	tx.superseded = append(tx.superseded, e.Parent)
}

// entryBy returns the message that an author publishes with a job or a request for help.
func entryBy(a *command.Author, channel, title, body string, tags ...string) *command.Publish {
	return &command.Publish{
		Agent: a.Agent, AgentKey: a.AgentKey, Kind: command.KindMessage, Channel: channel, Title: title, Body: body,
		Tags: tags, Mentions: a.Mentions, House: a.House, Proof: a.Proof, Question: a.Question,
	}
}

// countAnswer changes the number of answers of the entry that e answers, if it answers one: e is shown
// again, or hidden. An entry without answers waits again.
func (tx *Txn) countAnswer(e *state.EntryRow, shown bool) {
	target, _ := tx.Entry(e.Parent)
	if !e.Answers(&target) {
		return
	}
	counts, list := tx.successors(e.Parent)
	if shown {
		counts.Answers++
	} else {
		counts.Answers--
	}
	tx.putSuccessors(e.Parent, counts, list)
	switch {
	case target.Hidden: // its own lists are made when it is shown again
	case shown:
		tx.dropOwn(home.PartAsked, target.AgentKey, target.Seq)
	case counts.StillWaits(&target):
		tx.addOwn(home.PartAsked, target.AgentKey, target.Seq)
	}
}

// hideFromParent removes an entry from the entry that it relates to, except its status.
func (tx *Txn) hideFromParent(e *state.EntryRow, h *state.HiddenEntry) {
	counts, list := tx.successors(e.Parent)
	counts.Total--
	if e.Relation == command.RelationReply {
		counts.Replies--
	}
	var i int
	if i, h.Listed = list.Find(e.Seq); h.Listed {
		list = slices.Delete(list, i, i+1)
	}
	tx.putSuccessors(e.Parent, counts, list)
}

func (tx *Txn) unhideFromParent(e *state.EntryRow, agent string, h *state.HiddenEntry) {
	counts, list := tx.successors(e.Parent)
	counts.Total++
	if e.Relation == command.RelationReply {
		counts.Replies++
	}
	if h.Listed {
		i, _ := list.Find(e.Seq)
		list = slices.Insert(list, i, state.SuccessorOf(e, agent))
		if len(list) > command.MaxSuccessors {
			list = list.WithoutLast(counts.Retracted, counts.Corrected)
		}
	}
	tx.putSuccessors(e.Parent, counts, list)
}

func (tx *Txn) successors(seq uint64) (state.LaterCounts, state.Successors) {
	counts, _ := state.Read(tx, state.SeqKey(state.SpaceCounts, seq), state.Decode[state.LaterCounts])
	list, _ := state.Read(tx, state.SeqKey(state.SpaceLater, seq), state.Decode[state.Successors])
	return counts, list
}

func (tx *Txn) putSuccessors(seq uint64, counts state.LaterCounts, list state.Successors) {
	counts.Listed = uint64(len(list))
	tx.set(state.SeqKey(state.SpaceCounts, seq), state.Encode(&counts))
	if len(list) == 0 {
		tx.del(state.SeqKey(state.SpaceLater, seq))
		return
	}
	tx.set(state.SeqKey(state.SpaceLater, seq), state.Encode(&list))
}
