package state

import "slices"

// HelpStatus is the state of a request for human help.
type HelpStatus uint8

// The states of a request for human help. The numbers are stored.
const (
	HelpOpen     HelpStatus = 1
	HelpAnswered HelpStatus = 2 // somebody else replied
	HelpClosed   HelpStatus = 3 // the author retracted it
)

var helpStatusNames = [...]string{HelpOpen: "open", HelpAnswered: "answered", HelpClosed: "closed"}

// String returns the status's name.
func (s HelpStatus) String() string { return helpStatusNames[s] }

// ParseHelpStatus returns the status with the given name.
func ParseHelpStatus(name string) (HelpStatus, bool) {
	i := slices.Index(helpStatusNames[:], name)
	return HelpStatus(max(i, 0)), i > 0
}

// HelpRow is the row of SpaceHelp: the status and the ready JSON of the fields
// that the entry does not have.
type HelpRow struct {
	Status HelpStatus
	JSON   []byte
}

// Fields implements Row.
func (h *HelpRow) Fields(c *Codec) {
	c.Fields((*byte)(&h.Status))
	Rest(c, &h.JSON)
	c.Check(h.Status >= HelpOpen && h.Status <= HelpClosed)
}
