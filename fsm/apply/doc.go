// Package apply has the effect of every command: a Txn applies log entries to the rows of a
// state and writes them in one batch. It is deterministic: the effects depend on the state and
// the log only, and Txn panics where a node could not continue like the others.
//
// Only fsm imports it. It does not reach view.
//
// # Files
//
// A file with the name of a noun has the effects on that noun: see the grid in
// ARCHITECTURE.md. The others are the mechanics of the package:
//
//   - effects: log entries, and the table of effects
//   - hooks: the effects that cross nouns, in their order
//   - admission: the checks, limits and repeats that commands share
//   - session: the results of recent commands
//   - identity: senders, and the names that they use
//   - load: loading a state, and caches
//   - txn: the transaction
package apply
