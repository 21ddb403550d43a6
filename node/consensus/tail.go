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

// skipCovered takes what the newest snapshot of this node covers out of a leader's request
// that begins before the log does. Raft looks for these entries only in the log, and would
// reject every request that begins before the end of the snapshot, also where the log is
// empty and an entry behind it could not be written: a leader that has the entries itself
// sends no snapshot. What a snapshot covers is committed, so no leader has other entries,
// and Raft need not compare them. A request with another term for the snapshot's last
// entry is left to Raft.
func (t *transport) skipCovered(req *raft.AppendEntriesRequest) {
	r := t.raft.Load()
	if r == nil || req.PrevLogEntry == 0 && len(req.Entries) == 0 {
		return
	}
	if first, err := t.log.FirstIndex(); err != nil || first != 0 && first <= req.PrevLogEntry {
		return
	}
	stats := r.Stats()
	index, errIndex := strconv.ParseUint(stats["last_snapshot_index"], 10, 64)
	term, errTerm := strconv.ParseUint(stats["last_snapshot_term"], 10, 64)
	if errIndex != nil || errTerm != nil || index == 0 || index < req.PrevLogEntry {
		return
	}
	covered := *req
	covered.Entries = req.Entries[:min(index-req.PrevLogEntry, uint64(len(req.Entries)))]
	if last, lastTerm := lastOf(&covered); last == index && lastTerm != term {
		return
	}
	req.Entries = req.Entries[len(covered.Entries):]
	req.PrevLogEntry, req.PrevLogTerm = 0, 0 // Raft looks for no entry
}
