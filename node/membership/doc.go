// Package membership decides who belongs to the cluster: it forms one, waits to be
// taken into one, and, while this node leads, brings Raft's configuration in line with
// who is there.
//
// It is given Raft, gossip, the address book, a client for the other nodes' private
// ports, and the state to read the configuration from. It answers other nodes' questions
// about this one. It is the only place that changes Raft's configuration, one change at
// a time and only on the configuration that it was decided on. It knows nothing of entries,
// agents or HTTP clients, and it never ends the node by itself.
package membership
