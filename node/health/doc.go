// Package health knows how well one node is: whether it is ready, how far it lags, how
// full its disk is, whether a write hangs, and what it has measured of itself. It says so
// to load balancers, operators and metrics.
//
// It is given the parts of the node to look at. It rejects writes that could not be
// answered, and has the node abandoned when its disk hangs; beyond that it changes
// nothing: it proposes nothing and decides nothing about the cluster.
package health
