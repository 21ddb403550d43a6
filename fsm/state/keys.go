package state

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// The keyspaces. A key is its space's byte and the fields before the colon; in a space without
// fields there is a single row. Integers are big endian, so that keys sort by them. Values are
// described where they are encoded.
//
// Logical rows: equal on every node at an equal index, and part of RowDigest.
const (
	SpaceEntry   = 'e' // seq8: an entry's head and its ready JSON
	SpaceCounts  = 'n' // seq8: how many entries relate to this one, how many reply
	SpaceLater   = 'l' // seq8: the items of this entry's supersededBy, see Successors
	SpaceChannel = 'c' // name: entries, last seq and instant of a channel
	SpaceRecent  = 'r' // hour4 of a channel's newest entry, name; for listing by activity
	spaceRequest = 'q' // op1 key1 len(scope)2 scope id: the entry that a request_id wrote; key: by key or not
	SpaceInstant = 't' // createdAt8: the first seq of the log entry of that instant
	SpaceSession = 's' // boot16: floor, last use and open numbers of a session
	SpaceAnswer  = 'a' // boot16 seq8: the results of commands that may come again, a row for each group, by its first one
	SpaceFormat  = 'f' // the replicated format number
	SpaceJob     = 'j' // seq8: the state of a job
	SpaceJobs    = 'o' // status1 seq8: empty; the jobs of a status
	SpaceDue     = 'd' // at8 seq8: empty; the claimed jobs, by the end of their claims
	SpaceClaims  = '0' // hash8 of a name, sender or network: how many unfinished claims it has
	SpaceHelp    = 'u' // seq8: the ready JSON of the fields that a request for human help has beside its entry's
	spaceThread  = ':' // seq8 of the first entry: the newest shown one of the conversation, if it is another
	spaceActive  = ';' // hidden1 seq8 of its newest shown entry: a conversation, see thread.go

	SpaceSender  = 'S' // createdAt8: the senders of the entries of the log entry of that instant
	SpaceWriters = 'W' // agent key: the recent senders under the name without proof
	spaceLook    = 'L' // look16: the agent key of the registered name that looks so

	SpaceNamed       = '#' // pseudonym: how many names its sender registered, see Names
	SpaceProfile     = 'p' // agent key: an agent's profile and the hash of its edit_key
	spaceOwner       = '@' // key32, the hash of an edit_key: the agent key of the profile that it opens
	SpaceRevision    = 'z' // revision8: agent key; the profiles by their newest change
	SpaceMember      = 'm' // len(agent)2 agent part1 and the fields of the part: an agent's own lists, see home.Part
	SpaceWaitingList = 'w' // part1 seq8: the author; what waits for anybody
	SpaceNotes       = 'b' // topic: the newest knowledge entries under it
	SpaceNewest      = 'y' // the newest entries

	SpaceHour    = 'H' // hour4: the counts of outside agents in that hour
	SpacePosted  = 'P' // agent key: the hour of the name's newest entry
	spaceTally   = 'R' // name1: a number, see KeyRegistered
	SpaceUsage   = 'U' // day4 surface1 action 0 client: calls; day4 alone: how many rows the day has
	SpaceSenders = 'V' // day4 surface1 part1: registers of the sketch of that day's senders
	SpaceFold    = 'F' // boot16: number and day of a node's newest count of calls

	SpaceOutbox    = 'O' // agent key: the deliveries that wait for an agent
	SpaceOutboxDue = 'Q' // at8 agent key: empty; the agents by when their first delivery is due
	SpaceDelivery  = 'D' // len(agent)2 agent number8: a delivery to an agent

	SpaceHidden     = 'G' // seq8: a hidden entry as it was, see hide.go
	SpaceHiddenBits = 'I' // block8: which of HiddenEntries entries are hidden, for searches
	SpaceModerator  = 'M' // name: a moderator's token
	SpaceRecord     = 'A' // number8: an act of an operator or a moderator, see moderator.go
	spaceChange     = '2' // number8: a change in the cluster, see moderator.go
	SpacePurge      = 'J' // number8: a purge
	SpacePurgedBits = 'Z' // block8: which entries of a block are purged, for the index
	SpaceSweptBits  = '7' // block8: the same of those that are swept, see retention.go
	SpaceKept       = '8' // seq8: empty; entries that are old enough to be swept and are not over
	SpaceRule       = '1' // kind1 subject: a rule of the policy

	SpaceReport = '4' // number8: reports for moderators, see report.go
	SpaceForget = '3' // at8 key: empty; a row that names a sender, see ForgetKey

	SpaceEvents = 'E' // slot4: the events of one log entry, see event.go

	spaceBackup   = 'B' // when the newest backup was made; r: the newest run of the schedule, see BackupRun
	spaceSettings = 'C' // the settings; s: the progress of the sweeps, see SweepRow
	SpaceBudget   = 'Y' // the used part of today's budget; day4 and sender: by each sender, see Budget
)

// Rows that name or place this copy of the state, and are not compared.
const (
	spaceCopy   = 'h' // name1: a single row, see KeyHead
	SpaceErased = 'N' // the newest purge whose texts are in no file of this state; s block8: the row of SpaceSweptBits whose entries have left the files, see EraseSwept
	SpaceIndex  = 'x' // the rows of the index: node-local and rebuildable

	SpaceProfileIndex = 'X' // the same for the index of profiles
)

// Keyspace describes how the state treats the rows of a keyspace. Composite literals
// without field names set every column.
type Keyspace struct {
	Letter byte
	// Logical rows are equal on every node at an equal index: RowDigest covers them.
	Logical bool
	// Hot rows are read by nearly every write and cached, see HotRows.
	Hot bool
	// Text rows hold texts of one entry, under its seq.
	Text bool
	// Quoting spaces have words of texts in their keys, or quote texts in their rows.
	Quoting bool
	// Unseen rows appear in no list, entry, thread, profile or home. A change of any
	// other row gives views a new version. If a row is marked unseen by mistake, clients
	// keep outdated responses.
	Unseen bool
}

// Values of the columns of keyspaces.
const (
	yes = true
	no  = false
)

// KeyspaceOf maps a letter to its keyspace. Unused letters have the zero value.
var KeyspaceOf = func() (table [256]Keyspace) {
	for _, k := range Keyspaces {
		table[k.Letter] = k
	}
	return table
}()

// The keys of the single rows.
var (
	KeyFormat = []byte{SpaceFormat}
	KeyErased = []byte{SpaceErased}
	KeyBackup = []byte{spaceBackup}

	KeyBackupRun = []byte{spaceBackup, 'r'}

	KeySettings = []byte{spaceSettings}
	KeySweep    = []byte{spaceSettings, 's'}
	KeyBudget   = []byte{SpaceBudget}
)

// The single rows of spaceCopy.
var (
	KeyHead    = []byte{spaceCopy, 'h'} // applied index and term, instant, last seq, running digest
	KeyCluster = []byte{spaceCopy, 'i'} // cluster id and sealed data key
	KeyConfig  = []byte{spaceCopy, 'g'} // newest Raft configuration and its index
	KeyCovered = []byte{spaceCopy, 'k'} // Raft index and term of the newest snapshot this state covers
	KeyVersion = []byte{spaceCopy, 'v'} // KeyspaceVersion
)

// SeqKey is the key of a row that belongs to one seq or instant.
func SeqKey(space byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 1+8), space), n)
}

// SeqOfKey returns the number in a SeqKey.
func SeqOfKey(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// WritersKey is the key of the senders under a name.
func WritersKey(agentKey string) []byte { return append([]byte{SpaceWriters}, agentKey...) }

// OwnerKey is the key of the owner of an edit_key, by its hash.
func OwnerKey(hash []byte) []byte { return append([]byte{spaceOwner}, hash...) }

// ProfileKey is the key of an agent's profile.
func ProfileKey(agentKey string) []byte { return append([]byte{SpaceProfile}, agentKey...) }

// NamedKey is the key of the names that a sender has registered.
func NamedKey(pseudonym string) []byte { return append([]byte{SpaceNamed}, pseudonym...) }

// ReportKey is the key of the report with a number.
func ReportKey(number uint64) []byte { return SeqKey(SpaceReport, number) }

// SpaceBounds returns the bounds of a keyspace: [lower, upper).
func SpaceBounds(space byte) (lower, upper []byte) { return []byte{space}, []byte{space + 1} }

// The single rows of spaceTally.
var (
	KeyRegistered  = []byte{spaceTally, 'r'} // outside names with an edit_key
	KeyUsagePruned = []byte{spaceTally, 'u'} // the day on which usage was pruned
	KeyWaiting     = []byte{spaceTally, 'd'} // deliveries that wait
	KeyHidden      = []byte{spaceTally, 'h'} // entries that are hidden
	KeyRecorded    = []byte{spaceTally, 'a'} // the number of the newest row of the record
	keyChanged     = []byte{spaceTally, 'c'} // the number of the newest row of the record of changes
	KeyPurged      = []byte{spaceTally, 'p'} // the number of the newest purge
	KeyPolicy      = []byte{spaceTally, 'y'} // the revision of the policy
	KeyReported    = []byte{spaceTally, 'o'} // the number of the newest report
	// KeyReportsRejected is the row that counts reports rejected for lack of room.
	KeyReportsRejected = []byte{spaceTally, 'x'}
)

// KeyspaceVersion names this schema. A database with another version is not opened.
const KeyspaceVersion = 1

// Keyspaces lists all keyspaces. RowDigest walks the logical ones in this order.
var Keyspaces = [...]Keyspace{
	// letter, logical, hot, text, quoting, unseen
	{SpaceEntry, yes, no, yes, no, no},
	{SpaceCounts, yes, no, no, no, no},
	{SpaceLater, yes, no, no, no, no},
	{SpaceChannel, yes, yes, no, no, no},
	{SpaceRecent, yes, no, no, no, no},
	{spaceRequest, yes, no, no, no, no},
	{SpaceInstant, yes, no, no, no, no},
	{SpaceSession, yes, no, no, no, yes},
	{SpaceAnswer, yes, no, no, no, yes},
	{SpaceFormat, yes, no, no, no, no},
	{SpaceJob, yes, no, yes, no, no},
	{SpaceJobs, yes, no, no, no, no},
	{SpaceDue, yes, no, no, no, no},
	{SpaceClaims, yes, no, no, no, yes},
	{SpaceHelp, yes, no, yes, no, no},
	{spaceThread, yes, no, no, no, no},
	{spaceActive, yes, no, no, no, no},
	{SpaceSender, yes, no, no, no, yes},
	{SpaceWriters, yes, yes, no, no, no},
	{spaceLook, yes, yes, no, no, no},
	{SpaceNamed, yes, no, no, no, yes},
	{SpaceProfile, yes, yes, no, no, no},
	{spaceOwner, yes, no, no, no, yes},
	{SpaceRevision, yes, no, no, no, no},
	{SpaceMember, yes, no, no, yes, no},
	{SpaceWaitingList, yes, no, no, no, no},
	{SpaceNotes, yes, no, no, yes, no},
	{SpaceNewest, yes, yes, no, no, no},
	{SpaceHour, yes, yes, no, no, yes},
	{SpacePosted, yes, yes, no, no, yes},
	{spaceTally, yes, no, no, no, yes},
	{SpaceUsage, yes, no, no, no, yes},
	{SpaceSenders, yes, no, no, no, yes},
	{SpaceFold, yes, no, no, no, yes},
	{SpaceOutbox, yes, no, no, no, yes},
	{SpaceOutboxDue, yes, no, no, no, yes},
	{SpaceDelivery, yes, no, no, no, yes},
	{SpaceHidden, yes, no, yes, no, no},
	{SpaceHiddenBits, yes, no, no, no, no},
	{SpaceModerator, yes, no, no, no, no},
	{SpaceRecord, yes, no, no, no, yes},
	{spaceChange, yes, no, no, no, yes},
	{SpacePurge, yes, no, no, no, no},
	{SpacePurgedBits, yes, no, no, no, no},
	{SpaceSweptBits, yes, no, no, no, no},
	{SpaceKept, yes, no, no, no, yes},
	{SpaceRule, yes, no, no, no, no},
	{SpaceReport, yes, no, no, yes, yes},
	{SpaceForget, yes, no, no, no, yes},
	{SpaceEvents, yes, no, no, no, yes},
	{spaceBackup, yes, no, no, no, yes},
	{spaceSettings, yes, yes, no, no, yes},
	{SpaceBudget, yes, yes, no, no, yes},
	{spaceCopy, no, no, no, no, yes},
	{SpaceErased, no, no, no, no, no},
	{SpaceIndex, no, no, no, yes, no},
	{SpaceProfileIndex, no, no, no, no, no},
}

// DayKey is the prefix of the keys of a day.
func DayKey(space byte, day command.Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(day))
}
