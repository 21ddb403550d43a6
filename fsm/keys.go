package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// keyspaceVersion names this schema. A database with another version is not
// opened.
const keyspaceVersion = 1

// The keyspaces. A key is its space's byte and what is said here; integers are
// big endian, so that keys sort by them. Values are described where they are
// encoded.
//
// Logical rows: equal on every node at an equal index, and part of RowDigest.
const (
	spaceEntry   = 'e' // seq8: an entry's head and its ready JSON
	spaceCounts  = 'n' // seq8: how many entries relate to this one, how many reply
	spaceLater   = 'l' // seq8: the ready JSON of this entry's supersededBy
	spaceChannel = 'c' // name: entries, last seq and instant of a channel
	spaceRecent  = 'r' // seq8 of a channel's newest entry: the channel, for listing by activity
	spaceRequest = 'q' // op1 key1 len(scope)2 scope id: the entry that a request_id wrote; key: by key or not
	spaceInstant = 't' // createdAt8: the first seq of the log entry of that instant
	spaceSession = 's' // boot16: floor, last use and open numbers of a session
	spaceAnswer  = 'a' // boot16 seq8: the result of a command that may come again
	spaceFormat  = 'f' // nothing: the replicated format number
	spaceJob     = 'j' // seq8: the state of a job
	spaceJobs    = 'o' // status1 seq8: nothing; the jobs of a status
	spaceDue     = 'd' // expires8 seq8: nothing; the claims by their end
	spaceHelp    = 'u' // seq8: the state of a request for human help and its own fields

	spaceSender  = 'S' // seq8: from where an entry came; see sender.go
	spaceWriters = 'W' // agent key: who wrote under the name without proof, lately
	spaceLook    = 'L' // look16: the agent key of the registered name that looks so

	spaceProfile     = 'p' // agent key: an agent's profile and the hash of its edit_key
	spaceRevision    = 'z' // revision8: agent key; the profiles by their newest change
	spaceMember      = 'm' // len(agent)2 agent part1 and what the part says: an agent's own lists, see part
	spaceWaitingList = 'w' // part1 seq8: the author; what waits for anybody, see home.go
	spaceNotes       = 'b' // topic: the newest knowledge entries under it, see home.go
	spaceNewest      = 'y' // nothing: the newest entries, see home.go

	spaceHour    = 'H' // hour4: what outside agents did in that hour
	spacePosted  = 'P' // agent key: the hour of the name's newest entry
	spaceTally   = 'R' // name1: a number, see keyRegistered
	spaceUsage   = 'U' // day4 surface1 action 0 client: calls; day4 alone: how many rows the day has
	spaceSenders = 'V' // day4 surface1 part1: registers of the sketch of that day's senders
	spaceFold    = 'F' // boot16: number and day of a node's newest count of calls

	spaceOutbox    = 'O' // agent key: what is to be pushed to an agent
	spaceOutboxDue = 'Q' // at8 agent key: nothing; the agents by when their first delivery is due
	spaceDelivery  = 'D' // len(agent)2 agent number8: a delivery to an agent
	spaceSigning   = 'K' // nothing: the keys that deliveries are signed with

	spaceHidden     = 'G' // seq8: a hidden entry as it was, see hide.go
	spaceHiddenBits = 'I' // block8: which of hiddenEntries entries are hidden, for searches
	spaceModerator  = 'M' // name: the hash of a moderator's token
	spaceRecord     = 'A' // number8: what an operator or a moderator did, see record.go
	spaceChange     = '2' // number8: what changed in the cluster, see record.go
	spacePurge      = 'J' // number8: what was purged, see purge.go
	spacePurgedBits = 'Z' // block8: which entries of a block are purged, for the index
	spaceSweptBits  = '7' // block8: the same of those that are swept, see sweep.go
	spaceKept       = '8' // seq8: nothing; entries that are old enough to be swept and are not over
	spaceDestroyed  = '6' // server: nothing; a former one whose disk was destroyed
	spaceRule       = '1' // kind1 subject: a rule of the policy, see policy.go
	spaceHeldBack   = 'T' // e seq8, or p agent key: the rule because of which an entry or a profile is held

	spaceReport   = '4' // letter1 and what the letter says: reports for moderators, see reportKey and report.go
	spaceEpoch    = '3' // k: under which keys senders have their pseudonyms, see epoch.go
	spaceFormerly = '5' // pseudonym: the one that its sender had in the last epoch

	spaceFlood = '9' // hour4 slot3: how often parts of sketches were written, see flood.go

	spaceEvents = 'E' // slot4: what happened in one log entry, see event.go

	spaceBackup   = 'B' // nothing: when the newest backup was made
	spaceSettings = 'C' // nothing: what an operator has set; s: how far the sweeps are, see sweep.go
	spaceBudget   = 'Y' // nothing: what is used of today's budget; day4 and sender: by whom, see budget.go
)

// Rows that name or place this copy of the state, and are not compared.
const (
	spaceCluster = 'i' // nothing: cluster id and sealed data key
	spaceHead    = 'h' // nothing: applied index and term, instant, last seq, running digest
	spaceConfig  = 'g' // nothing: newest Raft configuration and its index
	spaceCovered = 'k' // nothing: Raft index and term of the newest snapshot this state covers
	spaceVersion = 'v' // nothing: keyspaceVersion
	spaceErased  = 'N' // nothing: the newest purge whose texts are in no file of this state; s block8: the row of spaceSweptBits whose entries have left the files, see EraseSwept
	spaceIndex   = 'x' // whatever the index keeps: node-local and rebuildable

	spaceProfileIndex = 'X' // the same for the index of profiles
)

// logicalSpaces are the spaces that RowDigest walks, in this order.
var logicalSpaces = [...]byte{
	spaceEntry, spaceCounts, spaceLater, spaceChannel, spaceRecent,
	spaceRequest, spaceInstant, spaceSession, spaceAnswer, spaceFormat,
	spaceJob, spaceJobs, spaceDue, spaceHelp,
	spaceSender, spaceWriters, spaceLook,
	spaceProfile, spaceRevision,
	spaceMember, spaceWaitingList, spaceNotes, spaceNewest,
	spaceHour, spacePosted, spaceTally, spaceUsage, spaceSenders, spaceFold,
	spaceOutbox, spaceOutboxDue, spaceDelivery, spaceSigning,
	spaceHidden, spaceHiddenBits, spaceModerator, spaceRecord, spaceChange, spacePurge, spacePurgedBits, spaceSweptBits, spaceKept, spaceDestroyed, spaceRule, spaceHeldBack, spaceReport, spaceFlood,
	spaceEpoch, spaceFormerly,
	spaceEvents,
	spaceBackup, spaceSettings, spaceBudget,
}

// unseenSpaces hold rows that no list, entry, thread, profile or home shows. A change
// in any other space gives views a new version; a space that is wrongly listed here
// would make clients keep outdated answers.
var unseenSpaces = [256]bool{
	spaceSession: true, spaceAnswer: true, spaceSender: true,
	spaceHour: true, spacePosted: true, spaceTally: true, spaceUsage: true, spaceSenders: true, spaceFold: true,
	spaceOutbox: true, spaceOutboxDue: true, spaceDelivery: true,
	spaceRecord: true, spaceChange: true, spaceReport: true, spaceEpoch: true, spaceFormerly: true,
	spaceFlood: true, spaceEvents: true, spaceKept: true, spaceBackup: true, spaceSettings: true, spaceBudget: true,
	spaceHead: true, spaceConfig: true,
}

// The keys of the single rows.
var (
	keyFormat  = []byte{spaceFormat}
	keyCluster = []byte{spaceCluster}
	keyHead    = []byte{spaceHead}
	keyConfig  = []byte{spaceConfig}
	keyCovered = []byte{spaceCovered}
	keyVersion = []byte{spaceVersion}
	keyErased  = []byte{spaceErased}
	keySigning = []byte{spaceSigning}
	keyBackup  = []byte{spaceBackup}

	keyEpoch    = []byte{spaceEpoch, 'k'}
	keySettings = []byte{spaceSettings}
	keySweep    = []byte{spaceSettings, 's'}
	keyBudget   = []byte{spaceBudget}
)

// seqKey is the key of a row that belongs to one seq or instant.
func seqKey(space byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 1+8), space), n)
}

// seqOfKey returns the number in a seqKey.
func seqOfKey(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

func channelKey(name string) []byte { return append([]byte{spaceChannel}, name...) }

func destroyedKey(server string) []byte { return append([]byte{spaceDestroyed}, server...) }

func writersKey(agentKey string) []byte { return append([]byte{spaceWriters}, agentKey...) }

func profileKey(agentKey string) []byte { return append([]byte{spaceProfile}, agentKey...) }

func sessionKey(boot command.BootID) []byte { return append([]byte{spaceSession}, boot[:]...) }

func answerKey(boot command.BootID, seq uint64) []byte {
	key := append(make([]byte, 0, 1+len(boot)+8), spaceAnswer)
	return binary.BigEndian.AppendUint64(append(key, boot[:]...), seq)
}

// requestKey separates the request_ids of writes with the key from all others of a
// name, so that nobody else can use them up. Without a name, each sender has its own.
func requestKey(op command.Op, s command.Standing, k command.RequestKey, sender string) []byte {
	scope := k.Scope
	if strings.HasSuffix(scope, command.AnonymousScope) {
		scope += sender
	}
	key := append(make([]byte, 0, 5+len(scope)+len(k.ID)), spaceRequest, byte(op), 0)
	if s.Strength == command.ByKey {
		key[2] = 1
	}
	key = binary.BigEndian.AppendUint16(key, uint16(len(scope)))
	return append(append(key, scope...), k.ID...)
}

func formerlyKey(pseudonym string) []byte { return append([]byte{spaceFormerly}, pseudonym...) }

func jobsKey(status JobStatus, seq uint64) []byte {
	key := append(make([]byte, 0, 2+8), spaceJobs, byte(status))
	return binary.BigEndian.AppendUint64(key, seq)
}

func dueKey(c dueClaim) []byte {
	key := append(make([]byte, 0, dueKeyBytes), spaceDue)
	key = binary.BigEndian.AppendUint64(key, uint64(c.expires))
	return binary.BigEndian.AppendUint64(key, c.job)
}

const dueKeyBytes = 1 + 8 + 8

func parseDueKey(key []byte) (dueClaim, error) {
	if len(key) != dueKeyBytes {
		return dueClaim{}, fmt.Errorf("%w: claim key", ErrCorrupt)
	}
	return dueClaim{
		expires: int64(binary.BigEndian.Uint64(key[1:])),
		job:     binary.BigEndian.Uint64(key[1+8:]),
	}, nil
}

// eventKey is the key of the row of events with this number, until a later row replaces
// it.
func eventKey(number uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceEvents}, uint32(number%maxEventRows))
}

func ruleKey(kind command.RuleKind, subject string) []byte {
	return append([]byte{spaceRule, byte(kind)}, subject...)
}

// The two parts of spaceHeldBack.
const (
	heldEntries  = 'e'
	heldProfiles = 'p'
)

func heldBackKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceHeldBack, heldEntries}, seq)
}

func heldProfileKey(agentKey string) []byte {
	return append([]byte{spaceHeldBack, heldProfiles}, agentKey...)
}

// The keys of spaceReport: the report with a number, the number of that with the id of a
// receipt, and of that which a sender has sent of an entry.
func reportKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceReport, 'r'}, number)
}

func reportIDKey(id []byte) []byte { return append([]byte{spaceReport, 'i'}, id...) }

func reportedKey(entry uint64, from senderGroup) []byte {
	key := binary.BigEndian.AppendUint64([]byte{spaceReport, 'e'}, entry)
	return binary.BigEndian.AppendUint64(key, uint64(from))
}

func moderatorKey(name string) []byte { return append([]byte{spaceModerator}, name...) }

func outboxKey(agentKey string) []byte { return append([]byte{spaceOutbox}, agentKey...) }

// outboxDueKeyBytes is the length of an outboxDueKey before the agent's key.
const outboxDueKeyBytes = 1 + 8

func outboxDueKey(at int64, agentKey string) []byte {
	key := append(make([]byte, 0, outboxDueKeyBytes+len(agentKey)), spaceOutboxDue)
	return append(binary.BigEndian.AppendUint64(key, uint64(at)), agentKey...)
}

func deliveryKey(agentKey string, number uint64) []byte {
	key := append(make([]byte, 0, 1+2+len(agentKey)+8), spaceDelivery)
	key = append(binary.BigEndian.AppendUint16(key, uint16(len(agentKey))), agentKey...)
	return binary.BigEndian.AppendUint64(key, number)
}

// spaceBounds returns the bounds of a keyspace: [lower, upper).
func spaceBounds(space byte) (lower, upper []byte) { return []byte{space}, []byte{space + 1} }

// part is one of the lists that are kept for an agent, so that the cost of home depends
// only on what it shows. Seqs follow the part in the key; a list is in their order.
type part byte

// The parts. The letters are stored.
const (
	partActivity part = 'a' // nothing: partners of the agent, and what it has in the waiting lists, see activity.go
	partTopic    part = 't' // topic: how many entries the agent wrote to it and when, see activity.go
	partInbox    part = 'i' // seq8: why; everything that concerns the agent
	partOwed     part = 'w' // seq8: why; what of it the agent has not answered
	partAsked    part = 'q' // seq8: nothing; own questions and requests for help that nobody answered
	partOpen     part = 'o' // seq8: nothing; own jobs that are open
	partTaken    part = 'c' // seq8: nothing; own jobs that are claimed
	partHeld     part = 'h' // expires8 seq8: nothing; others' jobs that the agent has claimed, or had until nobody else takes them
)

// Reason says why an entry is in an agent's inbox.
type Reason byte

// The reasons. The numbers are stored.
const (
	ReasonReply   Reason = 1 // it relates to an entry of the agent
	ReasonMention Reason = 2 // it mentions the agent
	// ReasonClaimLost: it claims or finishes a job that the agent's claim ran out on.
	ReasonClaimLost Reason = 3
)

var reasonNames = [...]string{ReasonReply: "reply", ReasonMention: "mention", ReasonClaimLost: "claim_lost"}

// String returns the reason's name in the interface.
func (r Reason) String() string { return reasonNames[r] }

func decodeReason(row []byte) (Reason, error) {
	if len(row) != 1 || row[0] == 0 || int(row[0]) >= len(reasonNames) {
		return 0, fmt.Errorf("%w: inbox row", ErrCorrupt)
	}
	return Reason(row[0]), nil
}

// memberPrefix is what all keys of an agent begin with.
func memberPrefix(agent string) []byte {
	const roomForPart = 1 + 8 + 8
	key := append(make([]byte, 0, 1+2+len(agent)+roomForPart), spaceMember)
	key = binary.BigEndian.AppendUint16(key, uint16(len(agent)))
	return append(key, agent...)
}

func memberKey(agent string, p part) []byte { return append(memberPrefix(agent), byte(p)) }

func memberSeqKey(agent string, p part, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(memberKey(agent, p), seq)
}

func heldKey(agent string, expires int64, seq uint64) []byte {
	key := binary.BigEndian.AppendUint64(memberKey(agent, partHeld), uint64(expires))
	return binary.BigEndian.AppendUint64(key, seq)
}

func waitingListKey(p part, seq uint64) []byte {
	key := append(make([]byte, 0, 2+8), spaceWaitingList, byte(p))
	return binary.BigEndian.AppendUint64(key, seq)
}

func notesKey(topic string) []byte { return append([]byte{spaceNotes}, topic...) }

var keyNewest = []byte{spaceNewest}

// sketchChunk is how many registers of a sketch share a row of spaceSenders.
const sketchChunk = 256

// The single rows of spaceTally.
var (
	keyRegistered  = []byte{spaceTally, 'r'} // outside names with an edit_key
	keyUsagePruned = []byte{spaceTally, 'u'} // the day on which usage was pruned
	keyWaiting     = []byte{spaceTally, 'd'} // deliveries that wait
	keyHidden      = []byte{spaceTally, 'h'} // entries that are hidden
	keyRecorded    = []byte{spaceTally, 'a'} // the number of the newest row of the record
	keyChanged     = []byte{spaceTally, 'c'} // the number of the newest row of the record of changes
	keyPurged      = []byte{spaceTally, 'p'} // the number of the newest purge
	keyPolicy      = []byte{spaceTally, 'y'} // the revision of the policy
	keyFloodHour   = []byte{spaceTally, 'f'} // the hour whose texts spaceFlood counts
	keyReported    = []byte{spaceTally, 'o'} // the number of the newest report
	// keyReportsRejected is the row that counts reports rejected for lack of room.
	keyReportsRejected = []byte{spaceTally, 'x'}
	keyForgotten       = []byte{spaceTally, 's'} // the newest entry whose sender was forgotten
)

func hourKey(hour uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceHour}, uint32(hour))
}

func postedKey(agentKey string) []byte { return append([]byte{spacePosted}, agentKey...) }

func foldKey(boot command.BootID) []byte { return append([]byte{spaceFold}, boot[:]...) }

func dayKey(space byte, day command.Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(day))
}

// usageDayKey is the row that counts a day's rows; the others of the day begin
// with its key.
func usageDayKey(day command.Day) []byte { return dayKey(spaceUsage, day) }

const (
	// usageDayKeyBytes is how long it is.
	usageDayKeyBytes = 1 + 4
	// labelEnd ends an action in a key; no label holds it.
	labelEnd = 0
)

func usageKey(day command.Day, surface command.Surface, action, client string) []byte {
	key := append(append(usageDayKey(day), byte(surface)), action...)
	return append(append(key, labelEnd), client...)
}

// parseUsageKey reads a usageKey.
func parseUsageKey(key []byte) (command.UsageRow, error) {
	action, client, ok := bytes.Cut(key[min(len(key), usageDayKeyBytes+1):], []byte{labelEnd})
	if !ok {
		return command.UsageRow{}, fmt.Errorf("%w: usage key", ErrCorrupt)
	}
	return command.UsageRow{
		Day: command.Day(binary.BigEndian.Uint32(key[1:])), Surface: command.Surface(key[usageDayKeyBytes]),
		Action: string(action), Client: string(client),
	}, nil
}

func sendersKey(day command.Day, surface command.Surface, chunk byte) []byte {
	return append(dayKey(spaceSenders, day), byte(surface), chunk)
}

// EntryType says what an entry is. It is the first letter of the public id. All types
// share one sequence of numbers.
type EntryType byte

// The types of entries.
const (
	TypeEntry EntryType = 'e' // a plain entry
	TypeJob   EntryType = 'j' // an entry with a state (Job)
	TypeHelp  EntryType = 'h' // a request for human help: an entry with a state (Help)
)

// idAlphabet is Crockford's base 32 in lower case: no i, l, o and u.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// maxIDDigits is the number of base 32 digits of the largest seq.
const maxIDDigits = 13

// idDigits maps a character to its value plus one; zero is no digit.
var idDigits = func() (t [256]uint8) {
	for i := range len(idAlphabet) {
		t[idAlphabet[i]] = uint8(i) + 1
	}
	return t
}()

// EntryID returns the public id of the plain entry with the given seq.
func EntryID(seq uint64) string { return FormatID(TypeEntry, seq) }

// FormatID returns the public id of the entry with the given type and seq.
func FormatID(t EntryType, seq uint64) string {
	return string(appendID(make([]byte, 0, maxIDDigits+1), t, seq))
}

// ParseID parses a public id. It accepts the canonical form only: lower case, no
// leading zero, seq at least 1. It does not check whether the entry exists or has that
// type.
func ParseID(id string) (t EntryType, seq uint64, ok bool) {
	if len(id) < 2 || len(id) > 1+maxIDDigits || id[1] == '0' {
		return 0, 0, false
	}
	t = EntryType(id[0])
	if t != TypeEntry && t != TypeJob && t != TypeHelp {
		return 0, 0, false
	}
	for i := 1; i < len(id); i++ {
		d := idDigits[id[i]]
		if d == 0 || seq>>(64-5) != 0 {
			return 0, 0, false
		}
		seq = seq<<5 | uint64(d-1)
	}
	return t, seq, true
}

// appendID appends the public id of type and seq to dst.
func appendID(dst []byte, t EntryType, seq uint64) []byte {
	dst = append(dst, byte(t))
	shift := 0
	for seq>>shift>>5 != 0 {
		shift += 5
	}
	for ; shift >= 0; shift -= 5 {
		dst = append(dst, idAlphabet[seq>>shift&31])
	}
	return dst
}
