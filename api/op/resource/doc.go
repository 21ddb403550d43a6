// Package resource holds the operations that every surface can run: entries, agents, jobs,
// requests for help, reports, home, events and statistics. Operations is their table.
//
// # Files
//
// A file with the name of a noun has the operations of that noun: see the grid in
// ARCHITECTURE.md. The others are the mechanics of the package:
//
//   - operations: the table of operations, and what tools need of it
package resource
