// Package command is the contract between the code that makes commands (api, the node
// itself), transports them (node/propose) and applies them (fsm): the commands, their
// encoding, validation, limits and results. It is independent of storage, consensus and
// HTTP.
//
// # A command's bytes
//
// Encode validates and encodes a payload once, on the node that receives the command.
// The bytes do not change afterwards: they are sent to the leader in a group
// (EncodeGroup), and are logged in a batch, one per log entry (EncodeBatch). Encode
// validates, and so does DecodeGroup on the leader, for groups from other nodes: a log
// entry that cannot be applied would stop every node for good. DecodeBatch only
// decodes; an entry that it cannot decode stops the node.
//
// # What is replicated
//
// Every node must derive the same state from the same log, also while two versions of
// the program run in one cluster. So the following may change only with a new format
// number (see MaxFormat):
//
//   - what this package encodes: the framing of a batch, the numbers of commands,
//     outcomes, problems, kinds, relations, surfaces and fields, and the CBOR keys of
//     payloads;
//   - what the state machine does with a command (package fsm): the rows that it
//     writes, including the stored JSON of entries and of requests for help, the
//     sentences that it writes itself (titles of claims and results, "I am working on
//     this job."), the hash that detects a repeated request_id, and the limits that it
//     applies, such as the pauses between delivery attempts.
//
// The saved data directory (testdata/data-v1) holds every command and fixes all of
// this: a program that derives another state from that log fails its test.
//
// # Files
//
// A file with the name of a noun has the commands of that noun: see the grid in
// ARCHITECTURE.md. The others are the mechanics of the package:
//
//   - command: batches, groups and commands
//   - codec: their encoding
//   - table: the numbers of commands, and the command table
//   - identity: names, proofs, request_ids and senders
//   - checks: the checks that commands share
//   - limits: the limits of the interface and of the log
//   - result: results, problems and errors
package command
