// Package moderate holds the operations of moderators and of the operator: hiding and
// erasing, rules, reports, and their record. They run for clients with a moderator's token,
// and for the operator over the private port. Each write consists of a form, read like
// the parameters of a list, and one command.
//
// # Files
//
// A file with the name of a noun has the operations on that noun: see the grid in
// ARCHITECTURE.md. The others are the mechanics of the package:
//
//   - operations: the tables of operations
//   - order: the form of a moderator's write, and lists for moderators
//   - undo: taking an order back, whatever it was
package moderate
