package main

import "slices"

// bug is a known bug: the edits that introduce it, and the tests that have to detect it.
type bug struct {
	name    string
	edits   []edit
	pkg     string // whose tests are run
	run     string // which of them
	because string // the effect on users
}

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, was, is string }

// bugs are those that systems like this one have had.
var bugs = slices.Concat(stateBugs, otherBugs)

// otherBugs are those outside of the state machine.
var otherBugs = []bug{
	{
		name:  "a client calls a lost write rejected",
		edits: []edit{{"api/client/client.go", "unknown = unknown || lost && ", "unknown = unknown && lost && "}},
		pkg:   "./api/client", run: "TestRepeats|TestContextEnds",
		because: "an agent writes again under another request_id, and its entry is there twice",
	},
	{
		name:  "a client takes half an event for a whole one",
		edits: []edit{{"api/client/events.go", "\t\t\tdata = value\n", "\t\t\tdata = value\n\t\t\tif err := readEvent(kind, data, yield); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n"}},
		pkg:   "./api/client", run: "TestStreamBreaksWithinEvent",
		because: "a stream that breaks at the wrong moment ends",
	},
	{
		name:  "a forged X-Forwarded-For proves a name",
		edits: []edit{{"api/client.go", "from.Proxied = !trusted && len(forwardedFor) > 0 || forwarded", "from.Proxied = forwarded"}},
		pkg:   "./api", run: "TestProofByAddress",
		because: "behind a balancer that is missing in --trusted-proxies, each client writes under the names of all others",
	},
	{
		name:  "a dry run writes",
		edits: []edit{{"api/op/write/draft.go", "\t\tcase f.Dry:\n", "\t\tcase false:\n"}},
		pkg:   "./api", run: "TestDryRun",
		because: "the placeholder of an example is published",
	},
	{
		name:  "an example with a placeholder is a real write",
		edits: []edit{{"api/op/write/example.go", "\t\to = o.Replace(FieldDryRun.Name, true)\n", ""}},
		pkg:   "./api", run: "TestUnknownJobAction|TestReceiverFails",
		because: "agents that send examples back publish placeholders",
	},
	{
		name:  "an example is not checked",
		edits: []edit{{"api/op/write/example.go", "if d = again; !d.Shared().Problems.Any() {", "if d = again; true {"}},
		pkg:   "./api", run: "TestRetractJob|TestEveryFieldErrorHasAnExample",
		because: "the example is rejected, too",
	},
	{
		name:  "a dry run takes from the write limit",
		edits: []edit{{"node/propose/admission.go", "return a.limiter.Peek(", "return a.limiter.Admit("}},
		pkg:   "./node/propose", run: "TestAsk",
		because: "who tries a write first has half as many",
	},
	{
		name:  "a claim of a taken job is written to the log",
		edits: []edit{{"api/op/write/policy.go", "if len(lost) > 0 {", "if false {"}},
		pkg:   "./api", run: "TestTakenClaims",
		because: "everybody who is late for a job costs each node a log entry, and pays for it",
	},
	{
		name:  "a claim is refused by a node that is behind",
		edits: []edit{{"api/op/write/policy.go", "\tc.Release()\n\treturn judge()", "\treturn judge()"}},
		pkg:   "./api", run: "TestTakenClaims",
		because: "an agent does not get a job that was given back",
	},
	{
		name:  "a claim is refused until the other one has ended by every clock",
		edits: []edit{{"api/op/write/policy.go", "c.Env.Now().Add(claimMargin)", "c.Env.Now()"}},
		pkg:   "./api", run: "TestTakenClaims",
		because: "an agent on a node whose clock is late does not get a job that is open at the leader",
	},
	{
		name:  "a claim that loses with a wrong key is refunded",
		edits: []edit{{"node/propose/admission.go", "slices.Equal(r.Problems, lostClaim)", "slices.Contains(r.Problems, command.ProblemJobClaimed)"}},
		pkg:   "./node/propose", run: "TestLostClaimsAreRefunded",
		because: "keys are guessed for free",
	},
	{
		name:  "every lost claim is refunded",
		edits: []edit{{"node/limit/limit.go", "if take(left, now, 1) > 0 {", "if take(left, now, 0) > 0 {"}},
		pkg:   "./node/propose", run: "TestLostClaimsAreRefunded",
		because: "a stranger writes log entries without a limit",
	},
	{
		name:  "senders of one network have nothing in common",
		edits: []edit{{"node/limit/limit.go", "{&b.networks, command.NetworkOf(from.Fingerprint)}, ", ""}},
		pkg:   "./node/limit", run: "TestBothKeysLimit",
		because: "one subscriber's IPv6 network has 65,536 times the rate of others",
	},
	{
		name:  "a page begins its stream of events when it is connected",
		edits: []edit{{"api/page/page.go", "p.frame.From = p.r.EventID()", `p.frame.From = ""`}},
		pkg:   "./api", run: "TestNewsSincePage",
		because: "what is published between a page and its stream is never news",
	},
	{
		name:  "the place of a stream of events is not given back",
		edits: []edit{{"api/guard/conns.go", "place := c.stream.Swap(nil); place != nil {", "place := c.stream.Swap(nil); place != nil && c.exempt {"}},
		pkg:   "./api/guard", run: "TestStreamPlaces",
		because: "after a while nobody can follow events",
	},
	{
		name:  "a wait that is over still counts",
		edits: []edit{{"api/guard/waits.go", "\tw.count -= wait.weight\n", ""}},
		pkg:   "./api/guard", run: "TestWaits$",
		because: "waits end earlier and earlier, until none waits",
	},
	{
		name:  "a wait outlives its client",
		edits: []edit{{"api/guard/conns.go", "err == nil || !is || !timeout.Timeout()", "err == nil && is && timeout.Timeout()"}},
		pkg:   "./api/guard", run: "TestWatch",
		because: "clients that come and go hold every place for a minute",
	},
	{
		name:  "a request may take its time to arrive",
		edits: []edit{{"api/guard/conns.go", "\t\tc.slow.Store(true)\n\t\t_ = c.SetReadDeadline(past) // fails on a closed connection\n", ""}},
		pkg:   "./api/guard", run: "TestArrivals",
		because: "one address announces bodies of a gigabyte, and the node holds that much",
	},
	{
		name:  "a purge leaves the log",
		edits: []edit{{"node/purge/purge.go", "if s.Log < s.Purged {", "if s.Log > s.Purged {"}},
		pkg:   "./node/integration", run: "PurgeLeavesNoBytes",
		because: "what was purged stays in the Raft log of every node",
	},
	{
		name:  "a purge leaves the pages of the log that are free",
		edits: []edit{{"node/logstore/rewrite.go", "		err = os.Rename(temp, s.path)", "		err = os.Remove(temp)"}},
		pkg:   "./node/logstore", run: "Rewrite",
		because: "what was purged stays in pages of the Raft log that bbolt has not used again",
	},
	{
		name:  "a log is cut with a new snapshot alone",
		edits: []edit{{"node/consensus/snapshots.go", "r.cfg.Log.DeleteRange(0, min(index, LastSnapshot(r.cfg.Snapshots)))", "r.cfg.Log.DeleteRange(0, 0)"}},
		pkg:   "./node/consensus", run: "CutLogBehind",
		because: "in a quiet cluster a node that was started again keeps what was purged",
	},
	{
		name:  "a write that is checked again is charged again",
		edits: []edit{{"api/op/write/draft.go", "from.Charged = true // what is checked again is charged once\n", ""}},
		pkg:   "./api", run: "PolicyIsCheckedAgain",
		because: "agents get 429 for one write whenever an operator changes a rule",
	},
	{
		name:  "a repeat enters the log",
		edits: []edit{{"api/op/write/policy.go", "if repeats {", "if repeats && err != nil {"}},
		pkg:   "./api", run: "RepeatsAreNotProposed",
		because: "a text that was purged is in the log again",
	},
	{
		name:  "the log is not synced",
		edits: []edit{{"node/logstore/open.go", "Path:                    s.path,", "Path: s.path, NoSync: true,"}},
		pkg:   "./node/logstore", run: "Unsynced",
		because: "an acknowledged write is lost with the power",
	},
	{
		name:  "a vote is not kept",
		edits: []edit{{"node/logstore/store.go", "return s.write(Storing, func() error { return s.bolt.Set(key, value) }, nil)", "return nil"}},
		pkg:   "./node/logstore", run: "StableStore",
		because: "a node votes twice in a term, and two lead",
	},
	{
		name:  "a vote is kept in two halves",
		edits: []edit{{"node/consensus/raft.go", "if err := l.Set(keyLastVoteCand, nil); err != nil {", "if err := error(nil); err != nil {"}},
		pkg:   "./node/consensus", run: "VoteIsNeverAnothers",
		because: "after a stop in between a candidate is elected without a look at its log",
	},
	{
		name:  "a notice commits what nobody compared",
		edits: []edit{{"node/consensus/transport.go", "req.LeaderCommitIndex = commit", "req.LeaderCommitIndex = n.applied"}},
		pkg:   "./node/consensus", run: "NoticeSparesADivergentTail",
		because: "a follower applies entries of a leader that failed, and is another state from then on",
	},
	{
		name:  "a notice takes the commit from another term",
		edits: []edit{{"node/consensus/transport.go", "term != n.term || index <= n.applied", "term < n.term || index <= n.applied"}},
		pkg:   "./node/consensus", run: "NoticeOfAnOldTerm",
		because: "a deposed leader has a follower apply what the next leader replaced",
	},
	{
		name:  "notices of a former term go on",
		edits: []edit{{"node/consensus/transport.go", "p.matched.Term != n.term || commit", "commit"}},
		pkg:   "./node/consensus", run: "NoticeUnderWayInAnOldTerm",
		because: "a follower applies its own entry for one of a newer term",
	},
	{
		name:  "a gap deletes without a snapshot",
		edits: []edit{{"node/logstore/write.go", "index <= last || index > covered+1", "index <= last || covered > index"}},
		pkg:   "./node/logstore", run: "GapNeedsASnapshot",
		because: "a node that took its log for longer than it was deletes what was acknowledged",
	},
	{
		name:  "a node goes on when a cut tail has no successors",
		edits: []edit{{"node/logstore/write.go", "\tif !cut {", "\tif cut || !cut {"}},
		pkg:   "./node/logstore", run: "TailWithoutItsSuccessors",
		because: "Raft counts on entries that are gone, and may be elected for them",
	},
	{
		name:  "a node goes on after the sync of a meta page failed",
		edits: []edit{{"node/logstore/write.go", "case after != before:", "case after < before:"}},
		pkg:   "./node/logstore", run: "OneSyncFails",
		because: "entries that Raft does not know stand among those that it stores later",
	},
	{
		name:  "a log whose terms fall is opened",
		edits: []edit{{"node/logstore/open.go", "case entry.Term < before:", "case entry.Term == 0 && before > 0:"}},
		pkg:   "./node/logstore", run: "DoNotFollow",
		because: "a node votes by a log that no order of writes makes",
	},
	{
		name:  "the floor is raised past an open call",
		edits: []edit{{"node/propose/session.go", "\t\tg.Open = append(g.Open, seq)\n", ""}},
		pkg:   "./node/propose", run: "SlowCall|Trouble",
		because: "a write that takes long is dropped, and its caller is never answered",
	},
	{
		name:  "a write is answered before this node has applied it",
		edits: []edit{{"node/propose/session.go", "\t\tif c.applied {\n\t\t\ts.finish(c, nil)\n\t\t}\n\t\treturn\n\tcase r.Status == statusUnknown:", "\t\ts.finish(c, nil)\n\t\treturn\n\tcase r.Status == statusUnknown:"}},
		pkg:   "./node/propose", run: "TestProposeWaitsForBothMachines",
		because: "an agent does not read its own write",
	},
	{
		name:  "a write of unknown outcome is called a failure",
		edits: []edit{{"node/propose/session.go", "\tcase r.Status == statusUnknown:\n\t\tc.handed = true\n", ""}},
		pkg:   "./node/propose", run: "TestLeadershipLoss",
		because: "what was reported as not written shows up later",
	},
	{
		name:  "a retry is charged again",
		edits: []edit{{"node/propose/admission.go", "if c.From.Charged || c.From ==", "if c.From =="}},
		pkg:   "./node/propose", run: "ChargedOnce|RetriesAreFree",
		because: "a writer below the limits is rejected while leadership moves",
	},
	{
		name:  "a leader does not say what it has charged",
		edits: []edit{{"node/propose/leader.go", "r.Charged, r.Rejected = true, over", "r.Rejected = over"}},
		pkg:   "./node/propose", run: "ChargedOnce|RetriesAreFree",
		because: "a writer below the limits is rejected while leadership moves",
	},
	{
		name:  "a strong read trusts Raft's word alone",
		edits: []edit{{"node/propose/readindex.go", "if err := p.confirmTerm(ctx, d, term); err != nil {", "if err := ctx.Err(); err != nil {"}},
		pkg:   "./node/propose", run: "TestDeposedLeaderServesNoStrongRead",
		because: "a leader that was stopped for a while serves old reads as new",
	},
	{
		name:  "a leader counts what its own disk does not have yet",
		edits: []edit{{"node/consensus/transport.go", "return min(commit, unwritten-1)", "return commit"}},
		pkg:   "./node/consensus", run: "NothingIsCommitted|EndAtTheQueue|CommitIndexEndsEarly",
		because: "a follower applies an entry that the leader loses with its power, and the others replace",
	},
	{
		name:  "a leader applies what its own disk does not have yet",
		edits: []edit{{"node/consensus/raft.go", "if f.log.WaitWritten(newest.Index) != nil {", "if newest.Index == 0 {"}},
		pkg:   "./node/consensus", run: "ApplyWaits",
		because: "an acknowledged write is on one disk of three",
	},
	{
		name:  "a term is stored before entries of the old one",
		edits: []edit{{"node/logstore/store.go", "\tif err := s.waitAll(); err != nil {\n\t\treturn err\n\t}\n\treturn s.write(Storing, func() error { return s.bolt.SetUint64(key", "\treturn s.write(Storing, func() error { return s.bolt.SetUint64(key"}},
		pkg:   "./node/logstore", run: "Overtakes",
		because: "a node gives its vote to one that lacks what it counted as stored",
	},
	{
		name:  "a tail is deleted without what is queued behind it",
		edits: []edit{{"node/logstore/write.go", "if err := s.WaitWritten(hi); err != nil {", "if err := s.WaitWritten(0); err != nil {"}},
		pkg:   "./node/logstore", run: "ConflictInTheQueue/[45]",
		because: "an entry of an old leader stays behind one of the next",
	},
	{
		name:  "a leader that was replaced makes entries in the next one's term",
		edits: []edit{{"node/consensus/raft.go", "l.terms.elected(entries[0].Term)", "l.terms.elected(l.terms.voted.Load())"}},
		pkg:   "./node/consensus", run: "WhatIsQueued",
		because: "two entries with the same index and term, and nodes that differ",
	},
	{
		name:  "a heartbeat takes a node back behind its vote",
		edits: []edit{{"node/consensus/receive.go", "if t.handleBeside(rpc, handle) {", "if handle(rpc); t != nil {"}},
		pkg:   "./node/consensus", run: "HeartbeatDuringAVote",
		because: "a node accepts entries that the leader it has voted for does not have, and a write is lost",
	},
	{
		name:  "the stored term falls",
		edits: []edit{{"node/consensus/terms.go", "term < current {", "term < current-current {"}},
		pkg:   "./node/consensus", run: "OldTermIsNotStored",
		because: "a node votes twice in a term",
	},
	{
		name:  "a heartbeat is handled in a term that is on disk and not in memory",
		edits: []edit{{"node/consensus/receive.go", "req.Term != t.terms.current.Load() || ", ""}},
		pkg:   "./node/consensus", run: "HandledBesideRaft",
		because: "the term in memory falls behind the one on disk",
	},
	{
		name:  "a candidate's heartbeats are handled beside Raft",
		edits: []edit{{"node/consensus/receive.go", " || r.State() != raft.Follower {", " {"}},
		pkg:   "./node/consensus", run: "HandledBesideRaft",
		because: "a heartbeat changes the state while Raft counts votes",
	},
	{
		name:  "heartbeats wait for the disk",
		edits: []edit{{"node/consensus/receive.go", "if t.handleBeside(rpc, handle) {", "if t.raft.Load() == nil {"}},
		pkg:   "./node/consensus", run: "HeartbeatsDoNotWait",
		because: "a slow disk of a follower makes a leader give up",
	},
	{
		name:  "a configuration that is in no log stays in force",
		edits: []edit{{"node/consensus/raft.go", "entries[0].Type == raft.LogConfiguration && entries[0].Index > 1 {", "entries[0].Type == raft.LogConfiguration && entries[0].Index == 1 {"}},
		pkg:   "./node/consensus", run: "ConfigurationThatIsNotStored",
		because: "after a full disk no change of the servers succeeds any more, or no leader is elected",
	},
	{
		name:  "a leader sends in a term in which it was not elected",
		edits: []edit{{"node/consensus/terms.go", "if t.voted.Load() != term {", "if t.voted.Load() > term {"}},
		pkg:   "./node/consensus", run: "RequestsNeedAnElection",
		because: "a notice of a commit rests on a log that the follower does not share",
	},
	{
		name:  "a request commits more than it shows to match",
		edits: []edit{{"node/consensus/transport.go", "min(written(l.log, req.LeaderCommitIndex), last)", "min(written(l.log, req.LeaderCommitIndex), last+req.LeaderCommitIndex)"}},
		pkg:   "./node/consensus", run: "CommitIndexEndsEarly",
		because: "a follower applies entries of another leader, and the nodes differ",
	},
	{
		name:  "a late duplicate of a snapshot is installed",
		edits: []edit{{"node/consensus/receive.go", "if s.begun || !s.covered() {", "if s.begun || !s.covered() || !s.begun {"}},
		pkg:   "./node/consensus", run: "CoveredSnapshot",
		because: "a node goes back to an old configuration",
	},
	{
		name:  "a leader is not told that a follower has its snapshot",
		edits: []edit{{"node/consensus/receive.go", "resp.Success, answer.Error = true, nil", "resp.Success = false"}},
		pkg:   "./node/consensus", run: "CoveredSnapshot",
		because: "the leader sends the same state again and again, and no entries",
	},
	{
		name:  "servers are changed while the disk is full",
		edits: []edit{{"node/membership/reconfigure.go", "if err := ms.cfg.CheckDisk(); err != nil {", "if err := error(nil); err != nil {"}},
		pkg:   "./node/membership", run: "NoChangeOnAFullDisk",
		because: "a leader that has no space ends where it could have handed over",
	},
	{
		name:  "a leader without space tries a change instead of handing over",
		edits: []edit{{"node/membership/planner.go", "if sit.alive[p.self].DiskLow {", "if sit.alive[p.self].DiskLow && p == nil {"}},
		pkg:   "./node/membership", run: "TestPlan$",
		because: "while a node waits to be added, the leader without space leads on",
	},
	{
		name:  "a node starts with a configuration that no log had",
		edits: []edit{{"node/offline/openlog.go", "if index != newest || !slices.Equal(has, servers) {", "if index > newest && !slices.Equal(has, servers) {"}},
		pkg:   "./node/offline", run: "TestCheckLog",
		because: "a node counts on a server that was never added",
	},
	{
		name:  "a node starts in a term before its vote",
		edits: []edit{{"node/offline/openlog.go", "if err == nil && current < voted {", "if err == nil && current < voted && voted == 0 {"}},
		pkg:   "./node/offline", run: "TestCheckLog",
		because: "a node that may have confirmed what it must not have leads others",
	},
	{
		name: "a strong read shares a question that was asked before it",
		edits: []edit{
			{"node/propose/readindex.go", "\t\tr.next = nil\n\t\tr.running = current != nil\n", "\t\tr.running = current != nil\n"},
			{"node/propose/readindex.go", "\t\t\tclose(current.done)\n", "\t\t\tr.mu.Lock()\n\t\t\tr.next = nil\n\t\t\tr.mu.Unlock()\n\t\t\tclose(current.done)\n"},
		},
		pkg: "./node/propose", run: "ConcurrentStrongReads",
		because: "a strong read misses what was acknowledged before it",
	},
	{
		name:  "a strong read covers what the leader has applied, and no more",
		edits: []edit{{"node/propose/readindex.go", "newestCommand(d.log, d.state.Applied(), d.raft.CommitIndex())", "d.state.Applied(), error(nil)"}},
		pkg:   "./node/propose", run: "ReadIndexCovers",
		because: "a strong read lacks what one at another node has shown",
	},
	{
		name: "the index of a strong read is taken after the verification",
		edits: []edit{
			{"node/propose/readindex.go", "\tindex, err := newestCommand(d.log, d.state.Applied(), d.raft.CommitIndex())\n\tif err != nil {\n\t\treturn 0, err\n\t}\n\tverify", "\tverify"},
			{"node/propose/readindex.go", "\treturn index, nil\n}\n\n// newestCommand", "\treturn newestCommand(d.log, d.state.Applied(), d.raft.CommitIndex())\n}\n\n// newestCommand"},
		},
		pkg: "./node/propose", run: "ReadIndexIsTaken",
		because: "a strong read waits for writes that came after it",
	},
	{
		name:  "a question without an answer holds other strong reads up",
		edits: []edit{{"node/propose/pipeline.go", "patience: RoundPatience", "patience: time.Hour"}},
		pkg:   "./node/propose", run: "HungRound",
		because: "every strong read of a follower waits for a leader that hangs",
	},
	{
		name:  "a leader leads without the term",
		edits: []edit{{"node/propose/leader.go", "return l.term != 0 && l.raft.CurrentTerm() == l.term", "return l.term != 0"}},
		pkg:   "./node/propose", run: "QueueIsRejectedInAnotherTerm|ProposeAsLeader",
		because: "a node serves a term whose earlier entries it has not applied",
	},
	{
		name:  "lost leadership is taken for not appended",
		edits: []edit{{"node/propose/outcome.go", "return errors.Is(err, raft.ErrNotLeader) ||", "return errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrNotLeader) ||"}},
		pkg:   "./node/propose", run: "RaftErrorsAreSorted|OneUnknownAttempt",
		because: "what was reported as not written shows up later",
	},
	{
		name:  "two clocks have no witness",
		edits: []edit{{"node/propose/clock.go", "origins = append(origins, soFar(former, logTime, mono))", "origins = append(origins, time.Time{})"}},
		pkg:   "./node/propose", run: "ClockSteps",
		because: "the time stands still when a leader's clock is set back while a voter is away",
	},
	{
		name:  "a new leader stamps by its own clock",
		edits: []edit{{"node/propose/stamp.go", "\tif !p.sync.knowsMajority() {", "\tif false {"}},
		pkg:   "./node/propose", run: "NothingIsStamped",
		because: "a clock that is ahead puts the log's time ahead for good",
	},
	{
		name:  "a step of the clock is not noticed",
		edits: []edit{{"node/propose/stamp.go", "\tif p.sync.stepped() {", "\tif false {"}},
		pkg:   "./node/propose", run: "MachineSlept|ClockIsSet",
		because: "a leader whose machine slept writes into the past",
	},
	{
		name:  "a log that is gone is taken for a new one",
		edits: []edit{{"node/logstore/open.go", "\tcase existing:\n\t\treturn fmt.Errorf(\"opening the log %s: %w\", s.path, ErrMissing)\n", ""}},
		pkg:   "./node/logstore", run: "Missing",
		because: "a voter forgets its vote and what it has acknowledged",
	},
	{
		name:  "strangers drain the bucket of a key",
		edits: []edit{{"node/limit/limit.go", "case standing.Strength == command.ByKey:", "case false:"}},
		pkg:   "./node/limit", run: "OwnerIsNotDrained",
		because: "1 of 16 writes of a verified agent gets through",
	},
	{
		name:  "a rotation throws the former secret away",
		edits: []edit{{"cluster/secretfile.go", "for i := 1; i < len(f.lines); i++ {", "for i := 1; i < 0; i++ {"}},
		pkg:   "./cluster", run: "SecretFileIsRotated",
		because: "no backup from before can be restored",
	},
	{
		name:  "root keeps what it restores",
		edits: []edit{{"node/offline/restore.go", "os.Lchown(path, uid, gid)", "os.Lchown(path, 0*uid, 0*gid)"}},
		pkg:   "./node/cli/operate", run: "TestRestoredFilesKeepTheOwner",
		because: "the unit's user cannot open its data directory",
	},
	{
		name:  "limits of writes stay as they were at the start",
		edits: []edit{{"node/limit/limit.go", "if perMinute != l.perMinute || burst != l.burst {", "if l.perMinute == 0 {"}},
		pkg:   "./node/limit", run: "TestLimitsChange",
		because: "a setting of the cluster changes nothing",
	},
	{
		name:  "a node's timers have no slack",
		edits: []edit{{"node/cli/cli.go", "\tif len(args) > 0 && args[0] == \"serve\" { // before anything else has begun\n\t\tstartAgain()\n\t}\n", ""}},
		pkg:   "./node/cli", run: "ServeStartsAgain",
		because: "the runtime's watching thread takes a sixth of the CPU",
	},
	{
		name:  "a node that cannot start again has few files",
		edits: []edit{{"node/cli/slack_linux.go", "\t_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)\n", ""}},
		pkg:   "./node/cli", run: "StartAgain",
		because: "it serves as few connections as the soft limit allows",
	},
	{
		name:  "a backup passes for restorable without its secret",
		edits: []edit{{"node/offline/restore.go", "\t_, err := o.openDataKey(info.SealedDataKey)\n\treturn err\n", "\treturn nil\n"}},
		pkg:   "./node/cli/operate", run: "SecretIsRotated",
		because: "the volumes are deleted before the restore fails",
	},
	{
		name:  "all is green while writes are rejected",
		edits: []edit{{"node/operator/report.go", "if r.Rejects != \"\" {", "if false {"}},
		pkg:   "./node/integration", run: "ConditionsAreTrue",
		because: "operators look elsewhere while nobody can write",
	},
	{
		name:  "one voter fewer is enough for a majority",
		edits: []edit{{"node/membership/reconfigure.go", "return living > voters/2", "return living >= voters/2"}},
		pkg:   "./node/membership", run: "Plan",
		because: "a server is removed and nothing is decided any more",
	},
	{
		name:  "one voter fewer may stay",
		edits: []edit{{"node/membership/planner.go", "left >= minVoters &&", "left >= minVoters-1 &&"}},
		pkg:   "./node/membership", run: "Plan",
		because: "the next failure stops all writes",
	},
	{
		name:  "a server is added to a configuration that nobody has looked at",
		edits: []edit{{"node/membership/reconfigure.go", "AddNonvoter(raft.ServerID(c.add), raft.ServerAddress(c.add), index,", "AddNonvoter(raft.ServerID(c.add), raft.ServerAddress(c.add), 0,"}},
		pkg:   "./node/membership", run: "ChangeHoldsForWhatItWasDecidedOn/add",
		because: "two changes that each leave a quorum take it together",
	},
	{
		name:  "a server gets its vote in a configuration that nobody has looked at",
		edits: []edit{{"node/membership/reconfigure.go", "AddVoter(raft.ServerID(c.promote), raft.ServerAddress(c.promote), index,", "AddVoter(raft.ServerID(c.promote), raft.ServerAddress(c.promote), 0,"}},
		pkg:   "./node/membership", run: "ChangeHoldsForWhatItWasDecidedOn/promote",
		because: "two changes that each leave a quorum take it together",
	},
	{
		name:  "a server loses its vote in a configuration that nobody has looked at",
		edits: []edit{{"node/membership/reconfigure.go", "DemoteVoter(raft.ServerID(c.demote), index,", "DemoteVoter(raft.ServerID(c.demote), 0,"}},
		pkg:   "./node/membership", run: "ChangeHoldsForWhatItWasDecidedOn/demote",
		because: "two changes that each leave a quorum take it together",
	},
	{
		name:  "a server is removed from a configuration that nobody has looked at",
		edits: []edit{{"node/membership/reconfigure.go", "RemoveServer(raft.ServerID(c.remove), index,", "RemoveServer(raft.ServerID(c.remove), 0,"}},
		pkg:   "./node/membership", run: "ChangeHoldsForWhatItWasDecidedOn/remove",
		because: "two changes that each leave a quorum take it together",
	},
	{
		name:  "a trial carries the call out",
		edits: []edit{{"api/op/serve.go", "if err != nil || c.Trial {", "if err != nil {"}},
		pkg:   "./api", run: "TestMCPRejections",
		because: "a tool call with wrong arguments is carried out, and others of them are not listed",
	},
	{
		name:  "a write with problems is made",
		edits: []edit{{"api/op/write/draft.go", "\t\tcase f.Problems.Any():\n\t\t\treturn decline(c, d)", "\t\tcase false:\n\t\t\treturn decline(c, d)"}},
		pkg:   "./api", run: "TestRulesHoldOnEverySurface",
		because: "the log takes what the rules forbid",
	},
	{
		name:  "the headers of a HEAD request wait for a body",
		edits: []edit{{"api/exchange.go", " && !x.rctx.IsHead() {", " {"}},
		pkg:   "./api", run: "TestAnswersOnOneConnection",
		because: "the client waits for an answer that never comes",
	},
}
