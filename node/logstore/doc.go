// Package logstore keeps the Raft log and Raft's few stable values in one bbolt
// file. To raft-boltdb it adds what a long-running node needs: a checksum on
// every entry, verified whenever one is read from disk or received; a cache of
// the newest entries, bounded in bytes; truncation in small transactions, so
// that appends never wait long; and knowledge of how many bytes the log holds.
package logstore
