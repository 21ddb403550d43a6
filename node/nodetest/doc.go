// Package nodetest runs clusters of real nodes inside a test: they listen on
// real ports of the loopback address, keep their data in temporary directories,
// and can be killed, stopped, restarted, wiped and cut off from one another.
//
// A cut affects only the private port: Raft, forwarded writes and strong reads. Gossip
// continues, which is the harder case, because it still reports the others as alive.
package nodetest
