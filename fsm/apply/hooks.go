package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

// The effects that cross nouns stand here, in their order: those of an entry that is published,
// hidden, shown again or erased, and those of time.

// published has the effects of a new entry on other nouns. The zero target means no target.
func (tx *Txn) published(e *state.EntryRow, p *command.Publish, target *state.EntryRow) {
	tx.noteSender(e)
	tx.countChannel(e)
	if !p.House {
		tx.countPost(e)
	}
	own := e.Parent != 0 && tx.judged.Owns(tx, target)
	if e.Parent != 0 {
		tx.supersede(e, target, p.Agent, own)
	}
	if target.Type == state.TypeJob {
		tx.updateJob(e)
	}
	tx.updateHome(e, p, target, own)
	tx.notifyReceivers(e, p, target)
}

// hidden has the effects of an entry that becomes hidden. It notes in h how to take them back.
func (tx *Txn) hidden(e *state.EntryRow, h *state.HiddenEntry) {
	if e.Parent != 0 {
		tx.hideFromParent(e, h)
	}
	tx.hideFromThread(e)
	tx.hideFromHome(e, tx.texts(e).Tags, h)
	switch e.Type {
	case state.TypeJob:
		h.State = tx.hideJob(e.Seq)
	case state.TypeHelp:
		h.State = tx.hideHelp(e.Seq)
	}
	tx.recountChannel(e, -1)
	tx.dropDeliveriesOf(e)
}

// unhidden takes back the effects of hidden, except for deliveries and claims.
func (tx *Txn) unhidden(e *state.EntryRow, texts *state.EntryTexts, h *state.HiddenEntry) {
	tx.recountChannel(e, 1)
	switch e.Type {
	case state.TypeJob:
		tx.unhideJob(e.Seq, h.State)
	case state.TypeHelp:
		tx.set(state.SeqKey(state.SpaceHelp, e.Seq), h.State)
	}
	target, _ := tx.Entry(e.Parent)
	if e.Parent != 0 {
		tx.unhideFromParent(e, texts.Agent, h)
	}
	tx.unhideInThread(e)
	tx.unhideFromHome(e, &target, texts.Tags, h)
}

// erased has the effects of a hidden entry that is erased. texts is nil if its texts were erased before.
func (tx *Txn) erased(e *state.EntryRow, texts *state.EntryTexts) {
	if texts != nil {
		tx.forgetTopics(e, texts.Tags)
	}
	tx.release(state.KeptKey(e.Seq))
	tx.release(home.ItemKey(e.AgentKey, home.PartHidden, e.Seq))
	tx.eraseReportsOf(state.ReportSubject{Entry: e.Seq})
}

// timePassed ends what ends by the instant of the log entry.
func (tx *Txn) timePassed() {
	tx.endClaims()
	tx.endRules()
	tx.endReports()
}
