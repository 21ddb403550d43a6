// Package membership decides who belongs to the cluster: it forms a cluster or waits to
// be added to one, and, while this node leads, adapts Raft's configuration to the nodes
// that are present.
//
// It receives Raft, gossip, the address book, a client for the other nodes' private
// ports, and the state, which holds the configuration. It answers other nodes'
// questions about this one. Only this package changes Raft's configuration, one change
// at a time; a change is carried out only if the configuration is still the one that
// the decision was based on. It is independent of entries, agents and HTTP clients.
//
// A replaced server is removed only if it answers neither in gossip nor on its private port.
// health.go rates the servers by the rules of raft-autopilot. That library would also promote
// any server that is healthy when a new leader first checks, may remove several servers in one
// round, and cannot replace a server by another with the same name. planner.go decides on one
// change at a time.
package membership
