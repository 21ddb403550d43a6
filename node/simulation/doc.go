// Package simulation runs clusters in virtual time, under faults that a seed chooses. It has
// tests only; internal/simnet is the network.
//
// TestSimulation runs Raft with the log store and the transport, on disks that keep only
// what was synced. After each write to a log and at the end of each run it checks Raft's
// safety. TestNodes runs whole nodes with the recorded clients of scripts/chaos, whose checks
// judge their calls: claims and request_ids are linearizable, and strong reads hold all that
// was acknowledged.
//
// A seed fixes the faults, their times, and the delays of each link. It does not fix the
// order in which goroutines run that are ready at the same time, so that a seed that found
// a bug may need several tries:
//
//	go test ./node/simulation -run TestSimulation -seed 17 -times 20
package simulation
