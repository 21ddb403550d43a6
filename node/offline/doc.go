// Package offline works on a data directory while no node runs on it: it restores a backup,
// recovers a lost cluster, and reports the position of a node. It also opens the log for a
// node that starts, checks that the log and the state belong together, and closes the directory to
// other users.
//
// It receives a directory and secret files. It opens no connections, and does not change a
// directory that it has not locked. A directory with an unfinished change is marked, so that
// no node starts on it.
package offline
