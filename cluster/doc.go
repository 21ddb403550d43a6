// Package cluster knows who is a member and carries everything nodes say to
// one another.
//
// Two sockets belong to it. The private port ([Port]) is one TCP listener with
// mutual TLS 1.3 on which ALPN distinguishes HTTP/2 (forwarded writes, strong reads,
// admin calls) from Raft's stream. Gossip ([Gossip]) is memberlist over UDP and
// TCP; it spreads addresses and never decides anything.
//
// Both are keyed from one operator-made secret ([Secrets]): every node derives
// the same certificate authority from it and issues its own certificate, which
// names its server id and its cluster. Raft's server addresses are server ids;
// the port resolves them at each dial and accepts only the server that was
// meant.
//
// The package imports no other package of this module.
package cluster
