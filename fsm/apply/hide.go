package apply

import (
	"cmp"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// applyHide hides or shows entries and profiles. Its Entry is its number in the record.
func (tx *Txn) applyHide(c *command.Hide) command.Result {
	action := state.ActionHide
	if c.Unhide {
		action = state.ActionUnhide
	}
	order := cmp.Or(c.Of, tx.number(state.KeyRecorded)+1)
	return tx.recordChanged(&c.Order, c.Of, action, tx.changeHidden(c, order))
}

// changeHidden hides entries and profiles by an order, or shows them, and returns those that it
// changed.
func (tx *Txn) changeHidden(c *command.Hide, order uint64) (changed []string) {
	for _, id := range c.IDs {
		e, known := state.Resolve(tx, id)
		if !known || tx.gone(e.Seq) || e.Hidden != c.Unhide {
			continue
		}
		if !c.Unhide {
			tx.hide(&e, c.Reason, order)
		} else if !tx.unhide(&e, c.Of) {
			continue
		}
		changed = append(changed, id)
	}
	for _, name := range c.Agents {
		p, known := tx.profile(name)
		if !known || p.Hidden() != c.Unhide || c.Unhide && c.Of != 0 && p.HiddenBy != c.Of {
			continue
		}
		if c.Unhide {
			p.HiddenAt, p.HiddenFor, p.HiddenBy = 0, "", 0
			tx.putHidden(name, &p, state.EventUnhideProfile)
		} else {
			p.HiddenAt, p.HiddenFor, p.HiddenBy = tx.now, c.Reason, order
			tx.putHidden(name, &p, state.EventHideProfile)
		}
		changed = append(changed, command.ProfileMark+p.ID)
	}
	return changed
}

// recordChanged records the ids that an order has changed, and returns its result. of is the order
// that it is about, as in command.Hide.
func (tx *Txn) recordChanged(o *command.Order, of uint64, action string, ids []string) command.Result {
	if len(ids) == 0 {
		return unchanged
	}
	row := state.Record{By: o.By, Action: action, What: strings.Join(ids, " "), Reason: o.Reason, Order: of}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.journal(state.ModerationRecord, row)}
}

// putHidden stores a profile that was hidden or shown, with an event.
func (tx *Txn) putHidden(agentKey string, p *state.ProfileRow, event state.EventKind) {
	tx.happened = append(tx.happened, state.Happening{Kind: event, Profile: p.ID})
	tx.putProfile(agentKey, p)
	tx.set(state.SeqKey(state.SpaceRevision, p.Revision), p.RevisionRow(agentKey))
}

// hide makes a stub of an entry, with an event. order is 0 if the entry is to be erased.
func (tx *Txn) hide(e *state.EntryRow, reason string, order uint64) {
	tx.hideQuietly(e, reason, order)
	tx.happen(state.EventHide, e.Seq)
}

// hideQuietly makes a stub of an entry.
func (tx *Txn) hideQuietly(e *state.EntryRow, reason string, order uint64) {
	h := state.HiddenEntry{Row: tx.entryRow(e.Seq), Order: order}
	if e.Parent != 0 {
		tx.hideFromParent(e, &h)
	}
	tx.hideFromThread(e)
	tx.hideFromHome(e, tx.texts(e).Tags, &h)
	switch e.Type {
	case state.TypeJob:
		stored := state.JobOf(tx, e.Seq)
		shown := stored
		if !stored.Status.Over() { // its claim ends
			shown = stored.Bare(state.JobOpen)
		}
		h.State = state.Encode(&shown)
		tx.putJob(e.Seq, stored, state.JobRow{Status: state.JobHidden})
	case state.TypeHelp:
		help := tx.help(e.Seq)
		h.State = state.Encode(&help)
		tx.putHelp(e.Seq, state.HelpRow{Status: help.Status, JSON: appendHelpJSON(&command.AskHuman{}, nil)})
	}
	tx.recountChannel(e, -1)
	tx.dropDeliveriesOf(e)
	tx.mark(state.SpaceHiddenBits, e.Seq, true)
	tx.Hidden++
	tx.setNumber(state.KeyHidden, tx.Hidden)
	tx.set(state.SeqKey(state.SpaceHidden, e.Seq), state.Encode(&h))
	tx.recastEntry(e.Seq, e.Stub(tx.now, reason, false))
}

// original returns the hidden entry of a row of SpaceHidden, with its texts.
func (tx *Txn) original(seq uint64, h *state.HiddenEntry) (state.EntryRow, state.EntryTexts) {
	e, err := state.DecodeEntryRow(seq, h.Row)
	tx.Must(err)
	texts := tx.texts(&e)
	return e, texts
}

func (tx *Txn) texts(e *state.EntryRow) state.EntryTexts {
	texts, err := e.Outline.Texts()
	tx.Must(err)
	return texts
}

// unhide puts a hidden entry back, without its deliveries and without the claim of a job. It leaves
// an entry that another order hides than the given one, unless that is 0, and returns false.
func (tx *Txn) unhide(stub *state.EntryRow, order uint64) bool {
	seq := stub.Seq
	h := need(tx, state.SeqKey(state.SpaceHidden, seq), state.Decode[state.HiddenEntry], "hidden entry")
	if order != 0 && h.Order != order {
		return false
	}
	e, texts := tx.original(seq, &h)
	tx.recastEntry(seq, h.Row)
	tx.del(state.SeqKey(state.SpaceHidden, seq))
	tx.mark(state.SpaceHiddenBits, seq, false)
	tx.Hidden--
	tx.setNumber(state.KeyHidden, tx.Hidden)
	tx.recountChannel(&e, 1)
	switch e.Type {
	case state.TypeJob:
		before, err := state.Decode[state.JobRow](h.State)
		tx.Must(err)
		tx.putJob(seq, state.JobOf(tx, seq), before)
	case state.TypeHelp:
		help, err := state.Decode[state.HelpRow](h.State)
		tx.Must(err)
		tx.putHelp(seq, help)
	}
	target, _ := tx.Entry(e.Parent)
	if e.Parent != 0 {
		tx.unhideFromParent(&e, texts.Agent, &h)
	}
	tx.unhideInThread(&e)
	tx.unhideFromHome(&e, &target, texts.Tags, &h)
	tx.happen(state.EventUnhide, seq)
	return true
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
		owed := home.ItemKey(name, home.PartOwed, e.Seq)
		if _, there := tx.Get(owed); there {
			h.Owed |= 1 << i
			tx.del(owed)
		}
	}
	if _, h.Asked = tx.Get(home.ItemKey(e.AgentKey, home.PartAsked, e.Seq)); h.Asked {
		tx.dropOwn(home.PartAsked, e.AgentKey, e.Seq)
	}
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
	if h.Asked {
		tx.addOwn(home.PartAsked, e.AgentKey, e.Seq)
	}
}

// recountChannel changes the number of shown entries of a channel.
func (tx *Txn) recountChannel(e *state.EntryRow, change int64) {
	c, _ := tx.channel(e.Channel)
	c.Entries += uint64(change) //nolint:gosec // wraps around where it is negative
	tx.set(state.ChannelKey(e.Channel), state.Encode(&c))
	switch recent := state.RecentKey(c.LastAt, e.Channel); {
	case c.Entries == 0:
		tx.del(recent)
	case c.Entries == 1 && change > 0:
		tx.set(recent, []byte{})
	}
}

// dropDeliveriesOf drops the waiting deliveries of an entry.
func (tx *Txn) dropDeliveriesOf(e *state.EntryRow) {
	for _, name := range e.Inbox {
		if !tx.caches.hooks[name] {
			continue
		}
		o := tx.outbox(name)
		for i, q := range slices.Backward(o.Queue) {
			if tx.delivery(name, q.Number).Entry == e.Seq {
				tx.dropDelivery(name, o, i, outbox.ReasonHidden)
			}
		}
	}
}

// release removes a row, and reports whether there was one.
func (tx *Txn) release(key []byte) bool {
	_, listed := tx.Get(key)
	if listed {
		tx.del(key)
	}
	return listed
}
