package fsm

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func noteOn(agent, sender, text string) *command.SetNote {
	return &command.SetNote{Order: command.Order{By: "mia"}, Agent: agent, Sender: sender, Text: text}
}

// notes returns the texts of the notes on a name and on the sender of an entry.
func (r *rig) notes(agent string, entry uint64) (texts []string) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	for _, n := range must.Get(v.ModNotes(agent, entry))(r.t) {
		texts = append(texts, fmt.Sprint(n.By, ": ", n.Text))
	}
	return texts
}

// TestNotes: notes are about a name or a sender, have no row in the record, are bounded, can be
// removed, and go with the profile of their name.
func TestNotes(t *testing.T) {
	r := newRig(t)
	r.run(register("eve", "k1", nil))
	r.publish(from("s1"))
	r.publish(from("s1"))
	r.publish(from("s2"))
	r.grant("mia", command.RoleReport, command.TokenMillis)
	recorded := r.rows('A')
	first := r.wantDone(noteOn("eve", "", "Says sorry"))
	r.wantDone(noteOn("", "e1", "Writes at night"))
	r.restart()
	check.Diff(t, r.notes("eve", 0), []string{"mia: Says sorry"}, "notes on the name")
	check.Diff(t, r.notes("", 2), []string{"mia: Writes at night"}, "notes on the sender, by another entry")
	check.Diff(t, r.notes("", 3), []string(nil), "notes on another sender")
	check.Diff(t, r.notes("", 0), []string{"mia: Writes at night", "mia: Says sorry"}, "all notes")
	check.Equal(t, r.rows('A'), recorded, "rows of the record")
	r.wantProblem(noteOn("", "e9", "Unknown"), command.ProblemUnknownSender)
	r.wantProblem(&command.SetNote{Order: command.Order{By: "mia"}, Remove: 99}, command.ProblemUnknownNote)
	for n := 1; n < command.MaxNotesOf; n++ {
		r.wantDone(noteOn("eve", "", fmt.Sprint("Note ", n)))
	}
	r.wantProblem(noteOn("eve", "", "One too many"), command.ProblemTooManyNotes)
	r.wantDone(&command.SetNote{Order: command.Order{By: "mia"}, Remove: first})
	r.wantDone(noteOn("eve", "", "It fits again"))
	r.run(&command.Purge{Order: byOperator, Agents: []string{"eve"}})
	check.Diff(t, r.notes("", 0), []string{"mia: Writes at night"}, "notes after the purge of the profile")
}

// TestNotesFollowSenders: a note stays with a sender that writes in each epoch, and is deleted with the
// pseudonym of one that does not.
func TestNotesFollowSenders(t *testing.T) {
	r := newRig(t)
	r.grant("mia", command.RoleReport, command.TokenMillis)
	r.epoch(1)
	r.wantDone(inEpoch(1, "night", "eve", nil))
	r.wantDone(inEpoch(1, "once", "bob", nil))
	r.wantDone(noteOn("", "e1", "Writes at night"))
	r.wantDone(noteOn("", "e2", "Wrote once"))
	var newest uint64
	for epoch := uint64(2); epoch < 5; epoch++ {
		r.epoch(epoch)
		newest = r.wantDone(inEpoch(epoch, "night", "eve", nil))
		check.Diff(t, r.notes("", newest), []string{"mia: Writes at night"}, "notes on the sender in epoch %d", epoch)
	}
	check.Diff(t, r.notes("", 0), []string{"mia: Writes at night"}, "all notes")
	check.Diff(t, r.notes("", 2), []string(nil), "notes on a sender that wrote no more")
}
