package state

import "github.com/commons-cluster/commons/fsm/command"

// HelpStatus is the state of a request for human help.
type HelpStatus uint8

// The states of a request for human help.
const (
	HelpOpen     HelpStatus = 1
	HelpAnswered HelpStatus = 2 // somebody else replied
	HelpClosed   HelpStatus = 3 // the author retracted it
)

// HelpStatuses are the names of the states in the interface.
var HelpStatuses = command.Names{0: "help status", HelpOpen: "open", HelpAnswered: "answered", HelpClosed: "closed"}

// String returns the status's name.
func (s HelpStatus) String() string { return HelpStatuses.Name(uint8(s)) }

// Help returns the state of a request for human help, given the counts of the entries that relate to it.
func (c LaterCounts) Help() HelpStatus {
	switch {
	case c.Retracted != 0:
		return HelpClosed
	case c.Answers > 0:
		return HelpAnswered
	}
	return HelpOpen
}

// StillWaits reports whether an entry with these counts still waits for an answer.
func (c LaterCounts) StillWaits(e *EntryRow) bool {
	return e.Waits() && c.Help() == HelpOpen && (c.Corrected == 0 || !e.Question)
}
