// Package text holds the pure functions that decide when two names are the
// same name and which words a text can be found by.
//
// Everything here depends on Unicode tables. The state machine therefore never
// calls it while it applies a command whose outcome must be equal on all nodes:
// folded names travel in the command. Words feed the index, which each node
// keeps for itself and rebuilds when Version changes.
package text

// Version numbers folding and tokenising together. It must change whenever any
// function here, or the Unicode tables beneath it, may give another result for
// the same input: an index built under another version is rebuilt.
const Version = 1
