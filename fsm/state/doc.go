// Package state has the contents of the replicated state: its keyspaces, the rows and their
// codecs, public ids, caches of rows, and the rules that are checked both when a command is
// applied and when a node answers a request. Rules read through a Reader, so that they hold
// alike for a transaction and for a view.
//
// It is imported by apply, view, outbox and fsm, and by the packages that name kinds, ids and
// statuses of the state. It imports command, index and text only: no Raft, no snapshot.
//
// # Files
//
// A file with the name of a noun has the rows and rules of that noun: see the grid in
// ARCHITECTURE.md. The others are the mechanics of the package:
//
//   - keys: the keyspaces, and keys that several nouns use
//   - codec: the encoding of rows, JSON and hashes
//   - rows: reading and caching rows
//   - id: public ids
//   - terms: by what the index finds entries and profiles
//   - head: the progress of a state, and its part in memory
//   - session: the results of recent commands, by the node that proposed them
//   - reader: the state as rules read it
//   - identity: senders, names and the strength of proofs
//   - admission: the judgement of a command before it has an effect
package state
