// Package operator answers operators on the private port: reports, digests, backups,
// and the changes that only an operator asks for. It serves Go's profiles, and it seals
// the cluster's data key under a new secret when an operator has changed that.
//
// It is given the parts of the node to report on and to act through. Whoever calls has
// the cluster's secret and may do everything. It never takes a caller's word for what it can
// see itself: a removal is decided on the configuration that it changes. What goes over
// the wire is package admin's.
package operator
