// Package command is the contract between those who make commands (api, the node
// itself), those who move them (node/propose), and the state machine that applies
// them (fsm): the commands, how they are encoded and checked, their limits, and what
// comes back. It knows no storage, no consensus and no HTTP.
//
// # A command's bytes
//
// Encode checks a payload and makes its bytes, once, where the command comes in. They
// travel as they are: in a group to the leader (EncodeGroup), and in the batch that is
// a log entry (EncodeBatch). Two places check: Encode, and DecodeGroup at the leader
// for what other nodes send, because a log entry that cannot be applied would stop
// every node for good. DecodeBatch only decodes; what it cannot decode stops the node.
//
// # What is replicated
//
// Every node must make the same of the same log, also while two versions of the
// program run in one cluster. Replicated are, and so may be changed only with a new
// format number (see MaxFormat):
//
//   - what this package encodes: the frame of a batch, the numbers of commands,
//     outcomes, problems, kinds, relations, surfaces and fields, and the CBOR keys of
//     payloads;
//   - what the state machine makes of a command (package fsm): the rows that it
//     writes, with the ready JSON of an entry and of a request for help in them, the
//     sentences that it writes itself (titles of claims and results, "I am working on
//     this job."), the hash by which a repeated request_id is compared, and the
//     limits that it applies, such as the pauses between attempts to deliver.
//
// The saved data directory (testdata/data-v1) holds every command and pins all of it:
// a program that makes something else of that log fails its test.
package command
