// Package view has the state for readers: a View is the state at one applied log entry. It
// answers queries, writes entries, jobs and profiles as JSON, and checks commands by the rules
// of state before they are proposed.
//
// Package fsm makes views; the packages of api and node read them. It does not reach apply.
//
// # Files
//
// A file with the name of a noun has the reads of that noun: see the grid in ARCHITECTURE.md.
// The others are the mechanics of the package:
//
//   - view: views, and those in use
//   - admission: the judgement of a command before it is proposed
//   - query: selecting entries by the index
//   - rows: reading rows of entries
//   - summary: short forms of entries
//   - visibility: hidden, expired and purged texts
package view
