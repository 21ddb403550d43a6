package consensus

import (
	"strconv"

	"github.com/hashicorp/raft"
)

// A snapshot is installed behind a log whose tail may be of another leader, and conflict
// with it. Raft keeps such a tail, in its log and in memory, and rejects all entries that
// follow the snapshot: their leader sends the snapshot again, without an end. So the tail
// is deleted before Raft installs the snapshot. No entry in it was ever committed, because
// the snapshot has another one in the place of its first.

// snapshotEnd is the Data of an entry that stands for the last one of a snapshot. It is
// recognised by its address, which no entry from the network has.
var snapshotEnd = []byte("the last entry of a snapshot")

// snapshotEndOf returns a request with the last entry of a snapshot, as if the leader had
// sent that entry before the snapshot. Raft checks the leader's term, and deletes the tail
// that conflicts with the entry.
func snapshotEndOf(req *raft.InstallSnapshotRequest) raft.RPC {
	return raft.RPC{RespChan: make(chan raft.RPCResponse, 1), Command: &raft.AppendEntriesRequest{
		RPCHeader: req.RPCHeader, Term: req.Term,
		Entries: []*raft.Log{{Index: req.LastLogIndex, Term: req.LastLogTerm, Type: raft.LogNoop, Data: snapshotEnd}},
	}}
}

// isSnapshotEnd reports whether snapshotEndOf made an entry.
func isSnapshotEnd(entry *raft.Log) bool {
	return len(entry.Data) > 0 && &entry.Data[0] == &snapshotEnd[0]
}

// endAt is StoreLogs for the last entry of a snapshot. Its content is known only to the
// snapshot, so the entry is not stored. It becomes the newest entry that the log has: Raft
// takes the index and the term of an entry that it has stored for the end of its log.
func (l raftLog) endAt(entry *raft.Log) (err error) {
	entry.Index, entry.Term, err = l.Settle()
	return err
}

// followsSnapshot reports whether a request's entries follow the newest snapshot of this
// node, whose last entry its log does not have any more. Raft looks for that entry only in
// the log, unless the log is empty, and would reject the request.
func (t *transport) followsSnapshot(req *raft.AppendEntriesRequest) bool {
	r := t.raft.Load()
	if r == nil || req.PrevLogEntry == 0 {
		return false
	}
	if first, err := t.log.FirstIndex(); err != nil || first != req.PrevLogEntry+1 {
		return false
	}
	stats := r.Stats()
	return stats["last_snapshot_index"] == strconv.FormatUint(req.PrevLogEntry, 10) &&
		stats["last_snapshot_term"] == strconv.FormatUint(req.PrevLogTerm, 10)
}
