// Package node is the process: it wires the private port, gossip, the state
// machine, Raft and the HTTP service together, forms and joins clusters, leads
// when elected, and takes everything down again in the reverse order.
//
// A Node owns all it starts; the package keeps no state of its own.
package node
