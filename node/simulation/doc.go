// Package simulation runs clusters in virtual time, under faults that a seed chooses. It has
// tests only; internal/simnet is the network, and internal/simdisk the disk of a state.
//
// TestSimulation runs Raft with the log store and the transport, on disks that keep only
// what was synced. After each write to a log and at the end of each run it checks Raft's
// safety. TestNodes runs whole nodes with the recorded clients of scripts/chaos, whose checks
// judge their calls: claims and request_ids are linearizable, and strong reads hold all that
// was acknowledged. Both end all faults, those that are to come included, and then require one
// more write to be acknowledged, and to be at every node.
//
// A loss of power keeps all ended transactions of the Raft log. A transaction in progress keeps
// all, some or no new pages. At the same moment the directory of the state (Pebble's
// files, received states and the metadata of snapshots) loses its unsynced blocks and names; in
// half of the crashes it keeps a seeded share of them. The power goes off at any time, or before
// a change of these files. These parts differ from a real disk:
//
//   - bbolt's file keeps every transaction, so that a log without syncs looks like one with
//     them; and files besides log and state, such as the identity, the address book and
//     markers of commands, keep every write.
//   - A directory that was removed comes back whole or not at all.
//   - Changes of the state take no virtual time. On a full disk no new table can be made; all
//     other changes of the state succeed.
//
// A paused process stands still from its next write to the log on: it is cut off from all others,
// its log and its state are not written, and Raft's main goroutine waits in that write. So a
// leader takes itself for the leader until it goes on. Its other goroutines and their timers
// run on, which those of a stopped process do not.
//
// A seed fixes the faults, their times, and the delays of each link. It does not fix the
// order in which goroutines run that are ready at the same time, so that a seed that found
// a bug may need several tries:
//
//	go test ./node/simulation -run TestSimulation -seed 17 -times 20
package simulation
