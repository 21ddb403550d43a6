package apply

import (
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// maxThreadWalk bounds the entries of a conversation that are read when one of them is hidden: more
// than command.MaxHidden, which one command may have hidden.
const maxThreadWalk = 128

// thread is a conversation as it is stored.
type thread struct {
	state.ThreadRow
	last   uint64 // its newest shown entry
	hidden bool   // its first entry is hidden
}

// thread returns the conversation of a first entry.
func (tx *Txn) thread(first uint64) (t thread) {
	var err error
	t.ThreadRow, t.last, t.hidden, err = state.LoadThread(func(key []byte) ([]byte, bool, error) {
		row, ok := tx.Get(key)
		return row, ok, nil
	}, first)
	if err != nil {
		tx.Must(fmt.Errorf("%w: conversation %d: %w", state.ErrCorrupt, first, err))
	}
	return t
}

// putThread moves a conversation from its place to that of its newest shown entry.
func (tx *Txn) putThread(before, t *thread) {
	tx.del(state.ActiveKey(before.last, before.hidden))
	tx.set(state.ActiveKey(t.last, t.hidden), state.Encode(t))
	if t.last != before.last {
		tx.setNumber(state.ThreadKey(t.First), t.last)
	}
}

// joinThread adds an entry that is being published to its conversation.
func (tx *Txn) joinThread(e *state.EntryRow, agent string) {
	if e.Parent == 0 {
		t := thread{ThreadRow: state.ThreadRow{First: e.Seq, Newest: e.Seq, Channel: e.Channel, LastAt: e.CreatedAt, LastAgent: agent}, last: e.Seq}
		t.AddAgent(state.ThreadAgent{Seq: e.Seq, Key: e.AgentKey, Name: agent})
		tx.set(state.ActiveKey(t.last, false), state.Encode(&t))
		return
	}
	before := tx.thread(e.Thread)
	e.Previous = before.Newest
	t := before
	t.Newest = e.Seq
	t.show(e, agent)
	tx.putThread(&before, &t)
}

// show adds a shown entry to a conversation. The former list of authors stays as it is.
func (t *thread) show(e *state.EntryRow, agent string) {
	if e.Relation == command.RelationReply {
		t.Replies++
	}
	if e.Seq >= t.last {
		t.last, t.LastAt, t.LastAgent = e.Seq, e.CreatedAt, agent
	}
	t.Agents = slices.Clone(t.Agents)
	t.AddAgent(state.ThreadAgent{Seq: e.Seq, Key: e.AgentKey, Name: agent})
}

// hideFromThread removes an entry that becomes hidden from its conversation.
func (tx *Txn) hideFromThread(e *state.EntryRow) {
	before := tx.thread(e.Thread)
	t := before
	switch {
	case e.Parent == 0:
		t.hidden = true
	case e.Relation == command.RelationReply:
		t.Replies--
	}
	if e.Seq == t.last && e.Parent != 0 {
		last := tx.shownBefore(e)
		t.last, t.LastAt, t.LastAgent = last.Seq, last.CreatedAt, tx.authorOf(&last)
	}
	if t.Lists(e.Seq) {
		t.Agents = tx.agentsWithout(&t, e)
	}
	tx.putThread(&before, &t)
}

// unhideInThread adds an entry that is shown again to its conversation.
func (tx *Txn) unhideInThread(e *state.EntryRow) {
	before := tx.thread(e.Thread)
	t := before
	if e.Parent == 0 {
		t.hidden = false
	}
	t.show(e, tx.authorOf(e))
	tx.putThread(&before, &t)
}

// shownBefore returns the newest shown entry of a conversation before an entry, or the first
// entry if there is no other among maxThreadWalk entries.
func (tx *Txn) shownBefore(e *state.EntryRow) state.EntryRow {
	previous := e.Previous
	for range maxThreadWalk {
		before, _ := tx.Entry(previous)
		if !before.Hidden || before.Parent == 0 {
			return before
		}
		previous = before.Previous
	}
	first, _ := tx.Entry(e.Thread)
	return first
}

// agentsWithout returns the authors of a conversation when the first entry of one of them
// becomes hidden. Beside the listed authors it considers those of the newest maxThreadWalk
// entries.
func (tx *Txn) agentsWithout(t *thread, e *state.EntryRow) []state.ThreadAgent {
	left := state.ThreadRow{Agents: slices.DeleteFunc(slices.Clone(t.Agents), func(a state.ThreadAgent) bool { return a.Seq == e.Seq })}
	seq := t.Newest
	for range maxThreadWalk {
		one, some := tx.Entry(seq)
		if !some {
			break
		}
		if seq != e.Seq && !one.Hidden {
			left.AddAgent(state.ThreadAgent{Seq: seq, Key: one.AgentKey, Name: tx.authorOf(&one)})
		}
		seq = one.Previous
	}
	return left.Agents
}

// authorOf returns the name of an entry's author as the entry spells it, and the agent key
// of a hidden entry.
func (tx *Txn) authorOf(e *state.EntryRow) string {
	if e.Hidden {
		return e.AgentKey
	}
	return tx.texts(e).Agent
}
