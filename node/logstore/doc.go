// Package logstore keeps the Raft log and Raft's few stable values in one bbolt
// file. To raft-boltdb it adds what a long-running node needs: a checksum on
// every entry, verified whenever one is read from disk or received; a cache of
// the newest entries, bounded in bytes; truncation in small transactions, so
// that appends never wait long; knowledge of how many bytes the log holds; and an
// end of all writing as soon as Raft may take the log for another than it is.
package logstore
