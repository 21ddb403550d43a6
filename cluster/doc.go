// Package cluster knows the members of the cluster and carries all traffic between
// nodes.
//
// It has two sockets. The private port ([Port]) is one TCP listener with mutual TLS 1.3
// on which ALPN distinguishes HTTP/2 (forwarded writes, strong reads, admin calls) from
// Raft's stream. Gossip ([Gossip]) is memberlist over UDP and TCP; it spreads addresses
// and never decides anything.
//
// Both derive their keys from one secret that the operator makes ([Secrets]): every
// node derives the same certificate authority from it and issues its own certificate,
// with its server id and cluster id. Raft's server addresses are server ids; the port
// resolves them at each dial and accepts only the server with that id.
//
// The files, from top to bottom. call.go has the calls between nodes and of operators'
// programs. The port: port.go accepts, dial.go dials, handshake.go verifies, http.go serves,
// rotation.go moves connections to new secrets; conns.go holds the connections. Gossip:
// gossip.go starts it, advertise.go runs memberlist at the node's own address, join.go contacts
// possible members, memberlist.go receives from memberlist and limits it; book.go remembers
// members. Secrets: secretfile.go changes the file, secret.go reads it and seals the data key,
// authority.go issues certificates. member.go, identity.go, addr.go, disk.go and throttle.go are
// used by all.
//
// The package imports no other package of this module.
package cluster
