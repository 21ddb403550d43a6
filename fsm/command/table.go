package command

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

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
	OpTakeJob    Op = 10 // claims the first of several jobs that its agent may claim
	OpTick       Op = 11 // lets log time pass, so that due claims end
	OpAskHuman   Op = 12 // files a request for human help
	OpAddUsage   Op = 13 // folds what a node has counted into the state

	OpAckDelivery     Op = 14 // reports the outcome of an attempt to deliver
	OpTestDelivery    Op = 15 // queues a delivery that an agent asked for
	OpBeginDeliveries Op = 16 // begins attempts to deliver

	OpSetFormat Op = 17 // raises the format number
	OpResetKey  Op = 18 // gives an agent another edit_key
	OpReseal    Op = 19 // seals the data key under another secret

	OpRecordBackup Op = 20 // records the newest backup
	OpProtectName  Op = 21 // protects a name, or lifts its protection
	OpSetSettings  Op = 22 // changes the replicated settings
	OpMarkSeen     Op = 23 // puts open items of an agent aside

	OpSetModerator Op = 24 // gives a moderator a token, or takes it away
	OpHide         Op = 25 // hides entries and profiles, or shows them again
	OpPurge        Op = 26 // erases the texts of entries and profiles
	OpSetRule      Op = 27 // adds a rule to the policy
	OpLiftRule     Op = 28 // ends one
	OpNoteChange   Op = 29 // records a change of Raft's configuration

	OpSweep          Op = 30 // makes stubs of entries that are older than the retention
	OpReport         Op = 31 // asks moderators to look at an entry
	OpResolveReports Op = 32 // sets the outcome of reports
	OpForgetSenders  Op = 33 // forgets the senders of old entries
	OpRecover        Op = 34 // replaces the edit_key and the recovery key by means of the latter
)

// commands is the command table. To add a command, add its number and a row here,
// its type in a file of its own, and a row in the table of effects in fsm/apply. The numbers
// in the rows are formats.
var commands = map[Op]Descriptor{
	OpLead:    unsigned[Lead]("lead", 1),
	OpInit:    unsigned[Init]("init", 1),
	OpPublish: byName[Publish]("publish", 1, OwnChannel, ProofNeeded),

	OpRegister:   byName[Register]("register", 1, NoChannel, ProofIfRegistered),
	OpPostJob:    byName[PostJob]("post_job", 1, JobsChannel, ProofNeeded),
	OpClaimJob:   byName[ClaimJob]("claim_job", 1, JobsChannel, ProofNeeded),
	OpFinishJob:  byName[FinishJob]("finish_job", 1, JobsChannel, ProofNeeded),
	OpReleaseJob: byName[ReleaseJob]("release_job", 1, JobsChannel, ProofNeeded),
	OpCloseJob:   byName[CloseJob]("close_job", 1, JobsChannel, ProofNeeded),
	OpTakeJob:    byName[TakeJob]("take_job", 1, JobsChannel, ProofNeeded),
	OpTick:       unsigned[Tick]("tick", 1),
	OpAskHuman:   byName[AskHuman]("ask_human", 1, HelpChannel, ProofNeeded),
	OpAddUsage:   unsigned[AddUsage]("add_usage", 1),

	OpAckDelivery:     unsigned[AckDelivery]("ack_delivery", 1),
	OpTestDelivery:    byName[TestDelivery]("test_delivery", 1, NoChannel, ProofNeeded),
	OpBeginDeliveries: unsigned[BeginDeliveries]("begin_deliveries", 1),

	OpSetFormat: unsigned[SetFormat]("set_format", 1),
	OpResetKey:  unsigned[ResetKey]("reset_key", 1),
	OpReseal:    unsigned[Reseal]("reseal", 1),

	OpRecordBackup: unsigned[RecordBackup]("record_backup", 1),
	OpProtectName:  unsigned[ProtectName]("protect_name", 1),
	OpSetSettings:  unsigned[SetSettings]("set_settings", 1),
	OpMarkSeen:     byName[MarkSeen]("mark_seen", 1, NoChannel, ProofNeeded),

	OpSetModerator: unsigned[SetModerator]("set_moderator", 1),
	OpHide:         unsigned[Hide]("hide", 1),
	OpPurge:        unsigned[Purge]("purge", 1),
	OpSetRule:      unsigned[SetRule]("set_rule", 1),
	OpLiftRule:     unsigned[LiftRule]("lift_rule", 1),
	OpNoteChange:   unsigned[NoteChange]("note_change", 1),

	OpSweep:          unsigned[Sweep]("sweep", 1),
	OpReport:         byName[Report]("report", 1, NoChannel, ProofNotNeeded),
	OpResolveReports: unsigned[ResolveReports]("resolve_reports", 1),
	OpForgetSenders:  unsigned[ForgetSenders]("forget_senders", 1),
	OpRecover:        byName[Recover]("recover", 1, NoChannel, ProofNotNeeded),
}

// Descriptor describes a command. The texts of a command and the content that repeated
// requests are compared by are methods of its type.
type Descriptor struct {
	Name    string
	Format  int // required of the cluster; a newer field of a command raises it, see newer
	Channel Channel
	Proof   ProofRule

	empty func() Payload
}

// Channel selects the channel that a command writes to.
type Channel string

// The channels.
const (
	NoChannel   Channel = "none" // it writes no entry
	OwnChannel  Channel = "own"  // that of the entry, or of its target
	JobsChannel Channel = "jobs"
	HelpChannel Channel = "help" // of requests for human help
)

// ProofRule is the effect of the setting ProvenOnly on a command.
type ProofRule string

// The rules of proof.
const (
	ProofNotNeeded    ProofRule = "not needed"    // the setting has no effect
	ProofIfRegistered ProofRule = "if registered" // a new name needs no proof
	ProofNeeded       ProofRule = "needed"
)

// signed is a command under a name.
type signed interface {
	Payload
	Signature() Signature
	// texts returns the texts that others will read, or nil.
	texts() []string
	// content returns the fields of the client's request, or nil if repeated requests are not
	// compared. State has a hash of them, so their order must not change.
	content() [][]string
}

// ordered is a command of a moderator or of the operator.
type ordered interface {
	Payload
	order() *Order
}

// payload is a command of type T.
type payload[T any] interface {
	*T
	Payload
}

// unsigned describes a command of a node itself, of an operator or of a moderator.
func unsigned[T any, P payload[T]](name string, format int) Descriptor {
	return Descriptor{name, format, NoChannel, ProofNotNeeded, func() Payload { return P(new(T)) }}
}

func byName[T any, P interface {
	payload[T]
	signed
}](name string, format int, channel Channel, proof ProofRule) Descriptor {
	return Descriptor{name, format, channel, proof, func() Payload { return P(new(T)) }}
}

// Describe returns the descriptor of a command.
func Describe(p Payload) Descriptor { return commands[OpOf(p)] }

// String returns the command's name, for logs and metrics.
func (o Op) String() string {
	if row, ok := commands[o]; ok {
		return row.Name
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Ops returns the numbers of all commands, in order.
func Ops() []Op { return slices.Sorted(maps.Keys(commands)) }

// New returns an empty payload of that kind, or nil if there is no such command.
func New(o Op) Payload {
	if row, ok := commands[o]; ok {
		return row.empty()
	}
	return nil
}

// numbers has the number of each command by its type.
var numbers = func() map[reflect.Type]Op {
	ops := make(map[reflect.Type]Op, len(commands))
	for op, row := range commands {
		ops[reflect.TypeOf(row.empty())] = op
	}
	return ops
}()

// OpOf returns the number of a payload in the log.
func OpOf(p Payload) Op { return numbers[reflect.TypeOf(p)] }

// newer is a command with a field that is newer than the command.
type newer interface {
	// Needs returns the format that the cluster must have, given the fields that are set.
	Needs() int
}

// FormatOf returns the format that the cluster must have before it may log the payload.
func FormatOf(b Payload) int {
	if n, ok := b.(newer); ok {
		return n.Needs()
	}
	return Describe(b).Format
}

// TextsOf returns the texts of a command that others will read, or nil.
func TextsOf(p Payload) []string {
	if s, ok := p.(signed); ok {
		return s.texts()
	}
	return nil
}

// ContentOf returns the fields by which repeated requests are compared, or nil.
func ContentOf(p Payload) [][]string {
	if s, ok := p.(signed); ok {
		return s.content()
	}
	return nil
}

// SignatureOf returns the signature of a command, and false for a command without one.
func SignatureOf(p Payload) (Signature, bool) {
	if s, ok := p.(signed); ok {
		return s.Signature(), true
	}
	return Signature{}, false
}

// OrderOf returns the order that a moderator gives with a command, or nil.
func OrderOf(p Payload) *Order {
	if o, ok := p.(ordered); ok {
		return o.order()
	}
	return nil
}
