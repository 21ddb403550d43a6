package main

// bug is a known bug: what turns the code back into one that has it, and the tests
// that have to notice.
type bug struct {
	name    string
	edits   []edit
	pkg     string // whose tests are run
	run     string // which of them
	because string // what the bug would do to users
}

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, was, is string }

// bugs are those that systems like this one have had.
var bugs = []bug{
	{
		name:  "the reserve of the day's budget is ignored",
		edits: []edit{{"fsm/command/settings.go", "return all <= s.DailyBytes/2", "return all <= s.DailyBytes"}},
		pkg:   "./fsm", run: "Fits|BudgetKeepsAReserve",
		because: "a botnet silences everybody who writes without a key",
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
		edits: []edit{{"node/consensus/log.go", "if err := l.Set(keyLastVoteCand, nil); err != nil {", "if err := error(nil); err != nil {"}},
		pkg:   "./node/consensus", run: "VoteIsNeverAnothers",
		because: "after a stop in between a candidate is elected without a look at its log",
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
		name: "claims end by the wall clock",
		edits: []edit{
			{"fsm/job.go", "if c.expires > tx.now || i == maxReopened {", "if c.expires > time.Now().UnixMilli() || i == maxReopened {"},
			{"fsm/job.go", "import (\n", "import (\n\t\"time\"\n"},
		},
		pkg: "./fsm", run: "TestClaimEnds",
		because: "nodes disagree whether a job is open",
	},
	{
		name:  "a request_id is forgotten",
		edits: []edit{{"fsm/publish.go", "\tif keyed {\n\t\ttx.keep(key, requestRow{entry: seq, content: sum}.append(nil))\n\t}\n", ""}},
		pkg:   "./fsm", run: "TestRequestKeys",
		because: "a retry publishes twice",
	},
	{
		name:  "answers are forgotten at a restart",
		edits: []edit{{"fsm/store.go", "if l.sessions, err = loadSessions(s.db); err != nil {", "if l.sessions = (sessions{}); err != nil {"}},
		pkg:   "./fsm", run: "TestSessionsSurviveRestarts",
		because: "a node's own retry is applied twice",
	},
	{
		name: "a session ends by log time",
		edits: []edit{{
			"fsm/session.go", "\tfor len(ss) >= maxSessions {\n",
			"\tmaps.DeleteFunc(ss, func(_ command.BootID, s *session) bool { return tx.now-s.lastUse > 24*60*60*1000 })\n\tfor len(ss) >= maxSessions {\n",
		}},
		pkg: "./fsm", run: "Session|RetryAfter",
		because: "a retry is applied twice when log time jumps",
	},
	{
		name:  "the floor is raised past an open call",
		edits: []edit{{"node/propose/session.go", "\t\tg.Open = append(g.Open, seq)\n", ""}},
		pkg:   "./node/propose", run: "SlowCall|Trouble",
		because: "a write that takes long is dropped, and its caller is never answered",
	},
	{
		name:  "the results of open calls are forgotten",
		edits: []edit{{"fsm/session.go", "\t\tif !s.holds(seq) {\n", "\t\tif true {\n"}},
		pkg:   "./fsm", run: "OpenNumbers|MachineAgainstModel",
		because: "a write that takes long is applied twice",
	},
	{
		name:  "the order of a map reaches the state",
		edits: []edit{{"fsm/session.go", "\tslices.Sort(seqs)\n\treturn seqs", "\treturn seqs"}},
		pkg:   "./fsm", run: "TestSessionFloor",
		because: "nodes hold different states",
	},
	{
		name:  "an entry is titled otherwise than before",
		edits: []edit{{"fsm/job.go", `resultTitle = "Result: "`, `resultTitle = "Outcome: "`}},
		pkg:   "./node/integration", run: "TestSavedDataOpens",
		because: "the nodes of a rolling upgrade hold different states",
	},
	{
		name:  "log time follows the leader's clock back",
		edits: []edit{{"fsm/apply.go", "tx.now = max(b.Stamp, tx.head.now+1)", "tx.now = b.Stamp"}},
		pkg:   "./fsm", run: "TestInstantsRise",
		because: "who polls with since misses entries",
	},
	{
		name:  "a snapshot is taken for durable too early",
		edits: []edit{{"fsm/snapshot/receive.go", "if err := st.Flush(); err != nil {", "if err := error(nil); err != nil {"}},
		pkg:   "./fsm", run: "TestCrashWhilePersisting",
		because: "the log is cut off behind a state that is gone after a crash",
	},
	{
		name:  "a snapshot of a replaced state is kept",
		edits: []edit{{"fsm/store.go", "return v != nil && v.store == s", "return v != nil"}},
		pkg:   "./fsm", run: "PersistOfAReplacedState",
		because: "a snapshot claims more than the state holds, and the log is cut off behind it",
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
		edits: []edit{{"node/propose/leader.go", "if !c.Charged && c.From", "if c.From"}},
		pkg:   "./node/propose", run: "ChargedOnce|RetriesAreFree",
		because: "a writer below the limits is rejected while leadership moves",
	},
	{
		name:  "a leader proposes what other nodes have not checked",
		edits: []edit{{"fsm/command/codec.go", "if err := c.Payload.check(); err != nil {", "if err := error(nil); err != nil {"}},
		pkg:   "./fsm/command", run: "TestLeaderChecksWhatIsForwarded",
		because: "a broken node files what the rules forbid",
	},
	{
		name:  "a text in the log is not UTF-8",
		edits: []edit{{"fsm/command/entry.go", "return checkBytes(\"sender\", p.Sender, MaxFingerprintBytes)", "return checkRange(\"sender\", len(p.Sender), 1, MaxFingerprintBytes, \"bytes\")"}},
		pkg:   "./fsm/command", run: "TestEveryTextIsUTF8",
		because: "what decodes the log does not take it, and every node stops",
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
		name: "a strong read shares a question that was asked before it",
		edits: []edit{
			{"node/propose/readindex.go", "\t\tr.next = nil\n\t\tr.running = current != nil\n", "\t\tr.running = current != nil\n"},
			{"node/propose/readindex.go", "\t\t\tclose(current.done)\n", "\t\t\tr.mu.Lock()\n\t\t\tr.next = nil\n\t\t\tr.mu.Unlock()\n\t\t\tclose(current.done)\n"},
		},
		pkg: "./node/propose", run: "ConcurrentStrongReads",
		because: "a strong read misses what was acknowledged before it",
	},
	{
		name: "the index of a strong read is taken after the verification",
		edits: []edit{
			{"node/propose/readindex.go", "\tindex := d.state.Applied()\n", ""},
			{"node/propose/readindex.go", "\treturn index, nil\n}\n\n// confirmTerm", "\treturn d.state.Applied(), nil\n}\n\n// confirmTerm"},
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
		edits: []edit{{"node/propose/clock.go", "\tif !p.sync.knowsMajority() {", "\tif false {"}},
		pkg:   "./node/propose", run: "NothingIsStamped",
		because: "a clock that is ahead puts the log's time ahead for good",
	},
	{
		name:  "a step of the clock is not noticed",
		edits: []edit{{"node/propose/clock.go", "\tif p.sync.stepped() {", "\tif false {"}},
		pkg:   "./node/propose", run: "MachineSlept|ClockIsSet",
		because: "a leader whose machine slept writes into the past",
	},
	{
		name:  "a poster claims the own job",
		edits: []edit{{"fsm/job.go", "case own && (op == command.OpClaimJob || op == command.OpFinishJob):", "case own && op == command.OpFinishJob:"}},
		pkg:   "./fsm", run: "TestJobTransitions",
		because: "the rules of jobs do not hold",
	},
	{
		name:  "a claimed job is claimed again",
		edits: []edit{{"fsm/job.go", "if op == command.OpCloseJob || !w.owns(s, &claim) {", "if op == command.OpCloseJob {"}},
		pkg:   "./fsm", run: "TestJobTransitions",
		because: "two agents do the same work",
	},
	{
		name:  "home says that a cut list is whole",
		edits: []edit{{"fsm/homeview.go", "h.Now = last.CreatedAt", "_ = last.CreatedAt"}},
		pkg:   "./fsm", run: "Home",
		because: "an agent never hears of what came after the page",
	},
	{
		name:  "an attempt may be begun by two leaders",
		edits: []edit{{"fsm/turn.go", "o.notBefore = now + DeliveryLease", "o.notBefore = now"}},
		pkg:   "./fsm", run: "TestAttemptsHaveOneHolder",
		because: "a receiver gets an event twice without any failure",
	},
	{
		name:  "an event that fails blocks the others",
		edits: []edit{{"fsm/turn.go", "\t\t\tif q.ready <= now {\n\t\t\t\treturn i\n\t\t\t}\n\t\t\tcontinue\n", "\t\t\tif q.ready <= now {\n\t\t\t\treturn i\n\t\t\t}\n\t\t\treturn -1\n"}},
		pkg:   "./fsm", run: "FailingEvent|Deliveries",
		because: "a receiver hears of nothing for hours because of one entry that it cannot take",
	},
	{
		name:  "a sender's junk drops another's event",
		edits: []edit{{"fsm/delivery.go", "o.surplus(), ReasonQueueFull", "len(o.queue)-1, ReasonQueueFull"}},
		pkg:   "./fsm", run: "QueueIsShared|Deliveries",
		because: "an agent never hears of a genuine mention behind 200 of a spammer",
	},
	{
		name:  "one sender uses a receiver's whole hour",
		edits: []edit{{"fsm/turn.go", "u.by[from] < senderShare*u.free && ", "u.free > 0 && "}},
		pkg:   "./fsm", run: "HourIsShared|Deliveries",
		because: "a genuine mention waits for an hour behind a spammer's",
	},
	{
		name:  "events wait on when their receiver is well again",
		edits: []edit{{"fsm/turn.go", "\t\tif q.outage {\n\t\t\tq.ready = 0\n\t\t}\n", ""}},
		pkg:   "./fsm", run: "EventsAfterAnOutage|Deliveries",
		because: "an outage of minutes delays events by hours",
	},
	{
		name:  "only the oldest event that failed probes",
		edits: []edit{{"fsm/turn.go", "return q.number > o.tried && older.number <= o.tried", "return false"}},
		pkg:   "./fsm", run: "EventThatIsNeverTaken|ReceiverThatIsDown",
		because: "a receiver hears of nothing for hours because of one entry that it cannot take",
	},
	{
		name:  "rejected events have their turn whenever another is taken",
		edits: []edit{{"fsm/turn.go", "q.outage = o.down()", "q.outage = true"}},
		pkg:   "./fsm", run: "EventsThatAreRejected",
		because: "what a receiver rejects for a minute is given up for good",
	},
	{
		name:  "a log that is gone is taken for a new one",
		edits: []edit{{"node/logstore/open.go", "\tcase existing:\n\t\treturn fmt.Errorf(\"opening the log %s: %w\", s.path, ErrMissing)\n", ""}},
		pkg:   "./node/logstore", run: "Missing",
		because: "a voter forgets its vote and what it has acknowledged",
	},
	{
		name:  "who has no key undoes what was done with it",
		edits: []edit{{"fsm/proof.go", "return w.Strength >= e.strength || len(w.Problems()) > 0", "return true"}},
		pkg:   "./fsm", run: "WhatProofUndoes|ExtensionKeeps",
		because: "a stranger retracts a verified entry, closes its author's job, or takes its claim",
	},
	{
		name:  "a stranger uses up the request_ids of a key",
		edits: []edit{{"fsm/keys.go", "\tif s.Strength == command.ByKey {\n\t\tkey[2] = 1\n\t}\n", ""}},
		pkg:   "./fsm", run: "RequestScopes",
		because: "the owner gets the stranger's text back, and its own is lost",
	},
	{
		name:  "a name that others use is protected",
		edits: []edit{{"fsm/sender.go", "return w.at > now-protectAfter &&", "return w.at > now &&"}},
		pkg:   "./fsm", run: "ProtectionIsNoWeapon",
		because: "whoever registers a name first shuts its users out",
	},
	{
		name:  "a link proves a name",
		edits: []edit{{"fsm/proof.go", "\tif !p.Address {\n\t\treturn \"\"\n\t}\n", ""}},
		pkg:   "./fsm", run: "NameVerified|WhatProofUndoes",
		because: "a page in a browser retracts what its reader's agent wrote",
	},
	{
		name:  "strangers drain the bucket of a key",
		edits: []edit{{"node/limit/limit.go", "if standing.Strength == command.ByKey {", "if false {"}},
		pkg:   "./node/limit", run: "OwnerIsNotDrained",
		because: "1 of 16 writes of a verified agent gets through",
	},
	{
		name:  "the author's word is crowded out",
		edits: []edit{{"fsm/publish.go", "if stays || counts.total < command.MaxSuccessors {", "if stays && false || counts.total < command.MaxSuccessors {"}},
		pkg:   "./fsm", run: "AuthorsWordStands",
		because: "a hundred replies of strangers hide that an entry was retracted",
	},
	{
		name:  "a receiver is kept that nobody has asked",
		edits: []edit{{"fsm/profile.go", "if changes && c.NotifyURL != \"\" && !next.notifyVerified && len(problems) == 0 {", "if false {"}},
		pkg:   "./fsm", run: "ReceiverIsAskedForOnce",
		because: "nothing is ever pushed to it, or somebody else is pushed to",
	},
	{
		name:  "keys that nobody can open are restored",
		edits: []edit{{"fsm/export.go", "err = b.Delete(keySigning, nil)", "err = nil"}},
		pkg:   "./fsm", run: "NewDataKey",
		because: "after a restore with a new data key nothing is pushed for 90 days",
	},
	{
		name:  "a rotation throws the former secret away",
		edits: []edit{{"cluster/secretfile.go", "for i := 1; i < len(f.lines); i++ {", "for i := 1; i < 0; i++ {"}},
		pkg:   "./cluster", run: "SecretFileIsRotated",
		because: "no backup from before can be restored",
	},
	{
		name:  "a backup passes for restorable without its secret",
		edits: []edit{{"node/offline/restore.go", "\t_, err := o.openDataKey(info.SealedDataKey)\n\treturn err\n", "\treturn nil\n"}},
		pkg:   "./node/cli", run: "SecretIsRotated",
		because: "the volumes are deleted before the restore fails",
	},
	{
		name:  "all is green while writes are rejected",
		edits: []edit{{"node/operator/report.go", "if r.Refuses != \"\" {", "if false {"}},
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
		edits: []edit{{"api/handler.go", "if err != nil || c.trial {", "if err != nil {"}},
		pkg:   "./api", run: "TestMCPRefusals",
		because: "a tool call with wrong arguments is carried out, and others of them are not listed",
	},
	{
		name:  "a write with problems is made",
		edits: []edit{{"api/handler.go", "\tif !f.problems.Any() {", "\tif true {"}},
		pkg:   "./api", run: "TestRulesHoldOnEverySurface",
		because: "the log takes what the rules forbid",
	},
	{
		name:  "terms of one hash are one term",
		edits: []edit{{"fsm/index/table.go", "have[1]>>tagShift == want[1]>>tagShift && t.long[uint32(have[1])] == text", "have[1]>>tagShift == want[1]>>tagShift"}},
		pkg:   "./fsm/index", run: "Table",
		because: "an entry is found by a word that it does not have",
	},
}
