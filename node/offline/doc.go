// Package offline is what is done with a data directory while no node runs on it:
// restoring a backup, recovering a lost cluster, saying how far a node got. It also
// opens the log for a node that starts, which checks that the log and the state in the
// directory belong together.
//
// It is given a directory and secret files. It never opens a connection, and it
// changes nothing in a directory that it has not locked. What it began and could not
// finish is marked, so that no node starts on it.
package offline
