package outbox

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// DeliveryKind is the kind of a delivery (interface, 6).
type DeliveryKind uint8

// The kinds of deliveries. The numbers are stored.
const (
	DeliveryReply   DeliveryKind = 1 // a reply to an entry of the agent
	DeliveryMention DeliveryKind = 2 // an entry that mentions the agent
	DeliveryTest    DeliveryKind = 3 // no entry: the agent asked for it
)

var deliveryKindNames = command.Names{
	0: "delivery", DeliveryReply: "common.reply", DeliveryMention: "common.mention", DeliveryTest: "common.test",
}

// String returns the type of the event in the interface.
func (k DeliveryKind) String() string { return deliveryKindNames.Name(uint8(k)) }

// DeliveryStatus is the state of a delivery.
type DeliveryStatus uint8

// The statuses of deliveries. The numbers are stored.
const (
	DeliveryWaiting   DeliveryStatus = 1 // for its turn, or for the next attempt
	DeliverySending   DeliveryStatus = 2 // an attempt has begun and has no outcome yet
	DeliveryDelivered DeliveryStatus = 3 // the receiver took it
	DeliveryFailed    DeliveryStatus = 4 // every attempt failed
	DeliveryDropped   DeliveryStatus = 5 // it was not attempted to the end
)

var deliveryStatusNames = command.Names{
	0: "delivery status", DeliveryWaiting: "waiting", DeliverySending: "sending", DeliveryDelivered: "delivered",
	DeliveryFailed: "failed", DeliveryDropped: "dropped",
}

// String returns the status's name in the interface.
func (s DeliveryStatus) String() string { return deliveryStatusNames.Name(uint8(s)) }

// The reasons for which deliveries are dropped.
const (
	ReasonQueueFull = "queue_full"   // more than MaxWaitingDeliveries waited
	ReasonHookOff   = "hook_off"     // the agent has taken its notify_url back
	ReasonHookGone  = "hook_removed" // the receiver answered that it is gone
	ReasonHidden    = "hidden"       // a moderator has hidden the entry
)

// DeliveryEnd describes a delivery that has ended.
type DeliveryEnd struct {
	AgentKey string // folded name of the agent
	ID       string // the webhook-id
	Status   DeliveryStatus
	Reason   string // of the last failure, or of the drop; empty if delivered
	Attempts uint64 // that were begun
	// Gone is set when the receiver is gone: its notify_url was removed.
	Gone bool
}

// DeliveryRow is the row of SpaceDelivery.
//
//	kind1 status1 entry QueuedAt ChangedAt attempts failures hook
//	holder reason
//
// Numbers are uvarints, texts are preceded by their length.
type DeliveryRow struct {
	Kind      DeliveryKind
	Status    DeliveryStatus
	Entry     uint64         // seq, or 0
	QueuedAt  int64          // milliseconds since the epoch
	ChangedAt int64          // of the status; the same
	Attempts  uint64         // that have begun
	Failures  uint64         // those of them that the receiver of that hook did not take
	Hook      uint64         // outbox.hook when the newest attempt began
	Holder    command.BootID // of the node that makes the attempt; only while it is sending
	Reason    string         // of the newest failure, or of the end; may be empty
}

// Fields implements state.Row.
func (d *DeliveryRow) Fields(c *state.Codec) {
	var holder []byte
	if d.Status == DeliverySending {
		holder = d.Holder[:]
	}
	c.Fields(
		(*byte)(&d.Kind), (*byte)(&d.Status), &d.Entry, &d.QueuedAt, &d.ChangedAt, &d.Attempts, &d.Failures, &d.Hook,
		&holder, &d.Reason,
	)
	copy(d.Holder[:], holder)
}

// LoadDelivery returns a delivery; false when it is not kept any more.
func LoadDelivery(r pebble.Reader, agentKey string, number uint64) (DeliveryRow, bool, error) {
	return state.Load(r, DeliveryKey(agentKey, number), state.Decode[DeliveryRow])
}

// DeliveryLease is the time for an attempt, in milliseconds of log time.
const DeliveryLease = 15_000

// RetryPauses are the pauses after failed attempts, in milliseconds. One more is the last.
var RetryPauses = [...]int64{5_000, 5 * 60_000, 30 * 60_000, 2 * 60 * 60_000, 5 * 60 * 60_000}

// RetryPause returns the pause after a number of failures, and false after the last.
func RetryPause(failures uint64) (pause int64, again bool) {
	if failures == 0 || failures > uint64(len(RetryPauses)) {
		return 0, false
	}
	return RetryPauses[failures-1], true
}

// RetryWait returns how long a pause takes, in milliseconds.
func RetryWait(c *command.AckDelivery, pause int64) int64 {
	return max(pause+pause*c.Jitter/1000, c.RetryAfter)
}

// Delivery is one entry on its way to one agent's receiver.
type Delivery struct {
	DeliveryRow
	AgentKey string // folded name of the agent
	Agent    string // as spelled in its profile
	Number   uint64 // among the agent's deliveries, from 1
	// ID is the webhook-id: the same for every attempt, and for no other delivery.
	ID string
	// NextAt is the earliest time of the next attempt, in milliseconds since the epoch; 0 without one, or if
	// it waits behind others.
	NextAt int64
	// URL is the receiver's address, set only to send the delivery. It is never shown.
	URL string
	// Salt is that of the receiver's secret, see state.ProfileFields.
	Salt string
}

// NextAttempt names the attempt that can follow.
func (d *Delivery) NextAttempt() command.Attempt {
	return command.Attempt{AgentKey: d.AgentKey, Delivery: d.Number, Number: d.Attempts + 1}
}

// AppendDeliveryID appends the webhook-id of a delivery. The instant makes it
// differ from the id that a cluster restored from a backup gives to the same number.
func AppendDeliveryID(dst []byte, p *state.ProfileRow, number uint64, d *DeliveryRow) []byte {
	dst = state.AppendID(dst, 'w', p.First)
	return state.AppendID(state.AppendID(dst, '-', number), '-', uint64(d.QueuedAt))
}

// DeliveryKey is the key of a delivery to an agent.
func DeliveryKey(agentKey string, number uint64) []byte {
	key := append(make([]byte, 0, 1+2+len(agentKey)+8), state.SpaceDelivery)
	key = append(binary.BigEndian.AppendUint16(key, uint16(len(agentKey))), agentKey...)
	return binary.BigEndian.AppendUint64(key, number)
}

// Show returns the public form of a delivery, given the outbox.
func (d *DeliveryRow) Show(p *state.ProfileRow, agentKey string, o *Outbox, next Turn, number uint64) Delivery {
	shown := Delivery{
		DeliveryRow: *d, AgentKey: agentKey, Agent: p.ID, Number: number, ID: string(AppendDeliveryID(nil, p, number, d)),
	}
	if i, waits := o.Find(number); waits && number != o.Sending {
		switch {
		case number == next.Number:
			shown.NextAt = next.at
		case o.Queue[i].Ready != 0 && !o.Paused:
			shown.NextAt = max(o.Queue[i].Ready, next.at)
		}
	}
	return shown
}
