package state

// The acts of moderators and operators, and the changes in the cluster, have separate records,
// so that frequent changes of the leader do not push out acts of moderators. MaxRecorded and
// maxChanges bound their rows, and MaxRecordedBytes the text on the object of an act: they
// take 640 MiB at most. Older rows are deleted; the numbers show that they existed.
const (
	MaxRecorded      = 100_000
	maxChanges       = 10_000
	MaxRecordedBytes = 4096
)

// Journal locates the rows of a record.
type Journal struct {
	Space  byte
	Newest []byte // key of the number of the newest row
	Keeps  uint64
}

// The two journals: of moderators and operators, and of changes in the cluster.
var (
	ModerationRecord = Journal{SpaceRecord, KeyRecorded, MaxRecorded}
	ChangeRecord     = Journal{spaceChange, keyChanged, maxChanges}
)

// Record is one row of a record: who did what.
type Record struct {
	Number uint64 // from 1
	At     int64  // milliseconds since the epoch
	By     string // command.Operator, the name of a moderator, ByLeader, or a server id
	Action string
	What   string // the object of the act
	Reason string
	// Order is the number of the first part of an order in parts, or of the order that this takes back.
	// 0 means an order of its own.
	Order uint64
}

// Fields implements Row. The number stands in the key.
func (r *Record) Fields(c *Codec) {
	c.Fields(&r.At, &r.Order, &r.By, &r.Action, &r.What, &r.Reason)
}

// Moderator is the row of SpaceModerator: a moderator with a token.
type Moderator struct {
	Name  string // the key
	Token []byte // the SHA-256 of the token
	Until int64  // when the token ends, in milliseconds since the epoch
}

// ModeratorKey is the key of a moderator.
func ModeratorKey(name string) []byte { return append([]byte{SpaceModerator}, name...) }

// Fields implements Row. The name stands in the key.
func (m *Moderator) Fields(c *Codec) {
	c.Fields(&m.Until, &m.Token)
}

// The actions of moderators and operators in the record.
const (
	ActionHide            = "hide"
	ActionUnhide          = "unhide"
	ActionPurge           = "purge"
	ActionSetModerator    = "set_moderator"
	ActionRemoveModerator = "remove_moderator"
	ActionSettings        = "settings"
	ActionResolve         = "resolve"
)

// The changes of the cluster in the record, beside those of command.NoteChange.
const (
	ActionLead          = "lead"
	ActionForm          = "form_cluster"
	ActionRestore       = "restore"
	ActionRecover       = "recover"
	ActionSetFormat     = "raise_format"
	ActionResetKey      = "reset_key"
	ActionProtectName   = "protect_name"
	ActionUnprotectName = "unprotect_name"
	ActionChangeSecret  = "change_secret"
)

// ByLeader means the leader of that time: the newest ActionLead before the row names
// it.
const ByLeader = "leader"
