// Package consensus runs Raft for one node: its settings, transport, snapshots, access
// to the log, and log lines.
//
// It receives the state machine, the log, the snapshot store, the private port's stream
// layer, and hooks that it calls when a write of the log succeeded or failed. It does
// not decide who is a member or what is proposed, and it has no files of its own.
//
// # Departures from hashicorp/raft
//
//   - A strong read also asks a majority of the voters whether a newer term has begun.
//     Raft's VerifyLeader counts replies to messages that were sent before it was called,
//     so a leader that was paused and resumes could trust it too early.
//   - Raft waits up to ten seconds between attempts to reach a follower that was down. The
//     transport retries underneath, at most every 250 ms, so that a node that returns counts
//     at once. It closes a pipeline that accepts no data for four seconds: otherwise a
//     deposed leader could wait for it forever.
//   - The transport notifies followers of a commit as soon as the leader applies it
//     (decision 13).
//   - Leadership is handed over without Raft's own transfer, which may never end and then
//     rejects every command of a later term. A leader whose Raft does so ends (decision 20).
//   - The leader writes commands to its log while the followers receive them, and Raft's
//     commit index is corrected around it (decision 16).
//   - Raft's term changes only on its main goroutine. Heartbeats of another term than the
//     current one, or to a node that does not follow, are handled there. A leader's requests
//     go out only in the term of its newest vote, and their commit index is not past their
//     end. A snapshot that the state covers is not installed again (decision 18).
//   - Raft keeps a tail of another leader behind a snapshot that it installs, and rejects all
//     entries that follow the snapshot. The tail is deleted before. An entry that follows the
//     snapshot is also accepted if the log begins right behind the snapshot (tail.go).
//   - Raft sends a follower that installs a snapshot and rejects what follows the next one at
//     once. The transport makes pauses from a second to a minute (pauses.go).
//   - After the installation of a snapshot the log may have a gap. The entries before it are
//     kept until the next gap or start, so that a late duplicate of a snapshot cannot delete
//     acknowledged entries. A gap deletes only entries that a snapshot covers.
//   - Raft continues after a failed log write, whatever the disk then contains. Package
//     logstore compares: if a deleted tail was not replaced, if a failed transaction is in
//     the file nevertheless, or if a leader cannot write an entry that it has sent, it stops
//     writing and the node exits. The node also exits if a leader cannot write a
//     configuration, which Raft would use without its entry. The candidate of an old vote is
//     cleared before the term of a new one is stored.
//   - The checksum of a log record covers index, term, type and data, and is stored in the
//     record's Extensions, so that configuration entries are covered. The batch in it has
//     its own checksum, from the leader's memory to apply.
package consensus
