// Package membership decides who belongs to the cluster: it forms a cluster or waits to
// be added to one, and, while this node leads, adapts Raft's configuration to the nodes
// that are present.
//
// It receives Raft, gossip, the address book, a client for the other nodes' private
// ports, and the state, which holds the configuration. It answers other nodes'
// questions about this one. Only this package changes Raft's configuration, one change
// at a time; a change is carried out only if the configuration is still the one that
// the decision was based on. It knows nothing of entries, agents or HTTP clients.
package membership
