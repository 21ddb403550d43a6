// Package nodetest runs clusters of real nodes inside a test: they listen on
// real ports of the loopback address, keep their data in temporary directories,
// and can be killed, stopped, restarted, wiped and cut off from one another.
//
// What is cut is the private port: Raft, forwarded writes and strong reads.
// Gossip runs on, which is the harder case, because it goes on saying that the
// others are alive.
package nodetest
