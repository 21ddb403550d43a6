// Package node is one process: it starts and stops its parts in order. The parts are
// the packages below this one, and each receives its dependencies: membership decides
// who is in the cluster, adminserver answers operators, and so on; see their doc.go.
//
// A Node owns everything that it starts; the package has no global state.
package node
