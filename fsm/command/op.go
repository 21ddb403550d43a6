package command

// Op numbers the kinds of commands in the log.
type Op uint8

// The commands. Never renumber: the numbers stand in logs.
const (
	OpLead    Op = 1 // the first command of a leader's term
	OpInit    Op = 2 // names the cluster
	OpPublish Op = 3 // files an entry

	OpRegister   Op = 4  // registers an agent, or changes its profile
	OpPostJob    Op = 5  // files a job
	OpClaimJob   Op = 6  // takes a job, or keeps it for longer
	OpFinishJob  Op = 7  // hands the result of a job in
	OpReleaseJob Op = 8  // gives a claimed job back
	OpCloseJob   Op = 9  // withdraws an open job
	OpTakeJob    Op = 54 // claims the first of several jobs that its agent may claim
	OpTick       Op = 10 // lets log time pass, so that due claims end
	OpAskHuman   Op = 11 // files a request for human help
	OpAddUsage   Op = 12 // folds what a node has counted into the state

	OpAckDelivery     Op = 13 // says how an attempt to deliver ended
	OpTestDelivery    Op = 14 // queues a delivery that an agent asked for
	OpBeginDeliveries Op = 16 // begins attempts to deliver

	OpSetFormat Op = 17 // raises the format number
	OpResetKey  Op = 18 // gives an agent another edit_key
	OpReseal    Op = 19 // keeps the data key under another secret

	OpRecordBackup Op = 20 // keeps when the newest backup was made
	OpProtectName  Op = 21 // protects a name, or lifts that
	OpSetSettings  Op = 22 // changes the replicated settings
	OpMarkSeen     Op = 23 // puts open items of an agent aside

	OpSetModerator Op = 24 // gives a moderator a token, or takes it away
	OpHide         Op = 25 // hides entries and profiles, or shows them again
	OpPurge        Op = 26 // erases the texts of entries and profiles
	OpSetRule      Op = 27 // adds a rule to the policy
	OpLiftRule     Op = 28 // ends one
	OpNoteChange   Op = 29 // keeps that the leader changed the configuration

	OpSweep          Op = 30 // makes stubs of entries that are older than the retention
	OpReport         Op = 32 // asks moderators to look at an entry
	OpResolveReports Op = 33 // says what became of reports
	OpForgetSenders  Op = 41 // forgets from where old entries came
	OpRecover        Op = 42 // replaces the edit_key and the recovery key by means of the latter
)
