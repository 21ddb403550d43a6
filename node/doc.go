// Package node is one process: its configuration, and the start and the stop of its parts
// in order. The parts are packages of their own below this one, and each is handed what it
// needs: what belongs to the cluster is decided in membership, what operators ask is
// answered in operator, and so on; see their doc.go.
//
// A Node owns all it starts; the package keeps no state of its own.
package node
