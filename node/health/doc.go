// Package health reports the health of one node to load balancers, operators and metrics:
// readiness, lag, disk space, hanging writes, and its own measurements.
//
// It receives the parts of the node to look at. It rejects writes that could not be answered,
// and ends the node when its disk hangs. It does not propose commands, and does not decide
// about the cluster.
package health
