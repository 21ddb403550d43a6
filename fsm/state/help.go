package state

import (
	"fmt"
	"slices"
)

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

// Encode returns the row of spaceHelp.
func (h HelpRow) Encode() []byte { return append([]byte{byte(h.Status)}, h.JSON...) }

// DecodeHelpRow decodes a row of spaceHelp.
func DecodeHelpRow(row []byte) (HelpRow, error) {
	if len(row) < 1 || row[0] < byte(HelpOpen) || row[0] > byte(HelpClosed) {
		return HelpRow{}, fmt.Errorf("%w: help row", ErrCorrupt)
	}
	return HelpRow{Status: HelpStatus(row[0]), JSON: row[1:]}, nil
}
