// Package command is the contract between those who make commands, those who move
// them, and the state machine that applies them: the commands, how they are encoded
// and checked, their limits, and what comes back. It knows no storage, no consensus
// and no HTTP.
package command
