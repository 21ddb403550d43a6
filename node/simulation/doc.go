// Package simulation runs clusters of Raft in virtual time, under faults that a seed
// chooses, and checks Raft's safety after each write and at the end of each run. It has
// tests only; internal/simnet is the network, and nodetest.Virtual runs whole nodes.
//
// A seed fixes the faults, their times, and the delays of each link. It does not fix the
// order in which goroutines run that are ready at the same time, so that a seed that found
// a bug may need several tries:
//
//	go test ./node/simulation -seed 17 -times 20
package simulation
