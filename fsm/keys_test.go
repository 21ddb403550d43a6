package fsm

import (
	"github.com/commons-cluster/commons/fsm/state"
)

// logicalSpaces returns the letters of the logical keyspaces.
func logicalSpaces() (letters []byte) {
	for _, k := range state.Keyspaces {
		if k.Logical {
			letters = append(letters, k.Letter)
		}
	}
	return letters
}
