package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// DeliveryKind says what a delivery is about (interface, 6).
type DeliveryKind uint8

// The kinds of deliveries. The numbers are stored.
const (
	DeliveryReply   DeliveryKind = 1 // a reply to an entry of the agent
	DeliveryMention DeliveryKind = 2 // an entry that mentions the agent
	DeliveryTest    DeliveryKind = 3 // nothing: the agent asked for it
	DeliveryDigest  DeliveryKind = 4 // entries of an hour that mention the agent
)

var deliveryKindNames = [...]string{
	DeliveryReply: "common.reply", DeliveryMention: "common.mention", DeliveryTest: "common.test",
	DeliveryDigest: "common.digest",
}

// String returns the type of the event in the interface.
func (k DeliveryKind) String() string {
	if k < DeliveryReply || int(k) >= len(deliveryKindNames) {
		return fmt.Sprintf("delivery(%d)", uint8(k))
	}
	return deliveryKindNames[k]
}

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

var deliveryStatusNames = [...]string{
	DeliveryWaiting: "waiting", DeliverySending: "sending", DeliveryDelivered: "delivered",
	DeliveryFailed: "failed", DeliveryDropped: "dropped",
}

// String returns the status's name in the interface.
func (s DeliveryStatus) String() string {
	if s < DeliveryWaiting || int(s) >= len(deliveryStatusNames) {
		return fmt.Sprintf("delivery status(%d)", uint8(s))
	}
	return deliveryStatusNames[s]
}

// The reasons for which deliveries are dropped.
const (
	ReasonQueueFull = "queue_full"   // more than MaxWaitingDeliveries waited, most of them of its sender
	ReasonHookOff   = "hook_off"     // the agent has taken its notify_url back
	ReasonHookGone  = "hook_removed" // the receiver answered that it is gone
	ReasonHidden    = "hidden"       // a moderator has hidden the entry
)

// DeliveryEnd describes a delivery that has ended.
type DeliveryEnd struct {
	AgentKey string // folded name of the agent
	ID       string // the webhook-id
	Status   DeliveryStatus
	Reason   string // of the last failure, or why it was dropped; "": delivered
	Attempts uint64 // that were begun
	// Gone is set when the receiver is gone: its notify_url was removed.
	Gone bool
}

// deliveryRow is the row of spaceDelivery.
//
//	version1 kind1 status1 entry queuedAt changedAt attempts failures hook
//	holder reason
//
// That of a digest goes on with mentions, len(listed) and listed. Numbers are uvarints,
// texts are preceded by their length; what is listed is stored as an outbox's queue is.
type deliveryRow struct {
	kind      DeliveryKind
	status    DeliveryStatus
	entry     uint64         // seq; 0: none
	queuedAt  int64          // milliseconds since the epoch
	changedAt int64          // of the status; the same
	attempts  uint64         // that have begun
	failures  uint64         // those of them in its own turn, by the receiver of that hook
	hook      uint64         // outbox.hook when the newest attempt began
	holder    command.BootID // of the node that makes the attempt; only while it is sending
	reason    string         // of the newest failure, or of the end; "": none
	mentions  uint64         // that a digest took
	listed    []queued       // those of them that it lists, by the seq of their entry; at most MaxDigestEntries
}

const deliveryRowVersion = 1

func (d *deliveryRow) encode() []byte {
	dst := []byte{deliveryRowVersion, byte(d.kind), byte(d.status)}
	dst = appendUints(dst, d.entry, uint64(d.queuedAt), uint64(d.changedAt), d.attempts, d.failures, d.hook)
	holder := d.holder[:]
	if d.status != DeliverySending {
		holder = nil
	}
	dst = appendBlob(appendBlob(dst, holder), d.reason)
	if d.kind == DeliveryDigest {
		dst = appendQueue(binary.AppendUvarint(dst, d.mentions), d.listed)
	}
	return dst
}

func decodeDeliveryRow(row []byte) (d deliveryRow, err error) {
	r := rowReader{rest: row}
	r.version(deliveryRowVersion)
	d.kind, d.status = DeliveryKind(r.byte()), DeliveryStatus(r.byte())
	d.entry, d.queuedAt, d.changedAt = r.uint(), int64(r.uint()), int64(r.uint())
	d.attempts, d.failures, d.hook = r.uint(), r.uint(), r.uint()
	copy(d.holder[:], r.text())
	d.reason = r.text()
	if d.kind == DeliveryDigest {
		d.mentions, d.listed = r.uint(), r.queue()
	}
	return d, r.done("delivery row")
}

// loadDelivery returns a delivery; false when it is not kept any more.
func loadDelivery(r pebble.Reader, agentKey string, number uint64) (deliveryRow, bool, error) {
	return load(r, deliveryKey(agentKey, number), decodeDeliveryRow)
}

// delivery returns a waiting delivery, including changes of the call so far.
func (tx *txn) delivery(agentKey string, number uint64) deliveryRow {
	d, ok := read(tx, deliveryKey(agentKey, number), decodeDeliveryRow)
	if !ok {
		tx.must(fmt.Errorf("%w: delivery %d of %q is missing", ErrCorrupt, number, agentKey))
	}
	return d
}

// putDelivery stores a delivery with a new status.
func (tx *txn) putDelivery(agentKey string, number uint64, d *deliveryRow, status DeliveryStatus) {
	d.status, d.changedAt = status, tx.now
	tx.keepDelivery(agentKey, number, d)
}

// keepDelivery stores a delivery with unchanged status.
func (tx *txn) keepDelivery(agentKey string, number uint64, d *deliveryRow) {
	tx.keep(deliveryKey(agentKey, number), d.encode())
}

// notifyReceivers queues the deliveries of an entry: one for each agent with a receiver
// that it answers or mentions. The zero target means that there is none.
func (tx *txn) notifyReceivers(e *entryRow, p *command.Publish, target *entryRow) {
	hooks := tx.caches.hooks
	if len(hooks) == 0 {
		return
	}
	for _, name := range e.inbox {
		filter, hooked := hooks[name]
		if !hooked {
			continue
		}
		switch kind, ok := pushKind(filter, name, e, p, target); {
		case !ok:
		case kind == DeliveryMention && filter&command.Digest != 0:
			tx.collectMention(name, e.Seq, e.sender(p))
		default:
			tx.queueDelivery(name, kind, e.Seq, e.sender(p))
		}
	}
}

// sender returns the group of the entry's sender, for sharing a receiver's queue.
func (e *entryRow) sender(p *command.Publish) senderGroup {
	if e.verified() {
		return provenSender(e.AgentKey)
	}
	return unprovenSender(p.Proof.Sender)
}

// mentions reports whether an entry names an agent.
func mentions(p *command.Publish, agentKey string) bool { return slices.Contains(p.Mentions, agentKey) }

// queueDelivery adds a delivery to an agent's queue and returns its number. If too many
// wait then, one of them is dropped.
func (tx *txn) queueDelivery(agentKey string, kind DeliveryKind, entry uint64, from senderGroup) uint64 {
	o := tx.outbox(agentKey)
	o.last++
	if len(o.queue) == 0 {
		o.notBefore = max(o.notBefore, tx.now)
	}
	o.queue = append(o.queue, queued{number: o.last, from: from})
	tx.countWaiting(1)
	d := deliveryRow{kind: kind, entry: entry, queuedAt: tx.now}
	tx.putDelivery(agentKey, o.last, &d, DeliveryWaiting)
	if len(o.queue) > command.MaxWaitingDeliveries {
		tx.dropDelivery(agentKey, o, surplus(o.queue, o.sending), ReasonQueueFull)
	}
	if old := o.last - min(o.last, command.MaxListedDeliveries); old > 0 {
		if _, waits := o.find(old); !waits {
			tx.keep(deliveryKey(agentKey, old), nil)
		}
	}
	return o.last
}

// collectMention adds a mention to the agent's hourly digest; the hour begins with the
// first mention. A digest counts as the agent's own delivery: its turn does not depend
// on the senders in it.
func (tx *txn) collectMention(agentKey string, entry uint64, from senderGroup) {
	o := tx.outbox(agentKey)
	if o.digest == 0 {
		number := tx.queueDelivery(agentKey, DeliveryDigest, 0, provenSender(agentKey))
		i, waits := o.find(number)
		if !waits {
			return // the queue is full
		}
		o.digest, o.queue[i].ready = number, tx.now+hourMillis
	}
	d := tx.delivery(agentKey, o.digest)
	d.mentions++
	d.listed = append(d.listed, queued{number: entry, from: from})
	if len(d.listed) > command.MaxDigestEntries {
		i := surplus(d.listed, 0)
		d.listed = slices.Delete(d.listed, i, i+1)
	}
	tx.keepDelivery(agentKey, o.digest, &d)
}

// endDelivery takes a delivery out of the queue. It is kept while it is one of the
// newest.
func (tx *txn) endDelivery(agentKey string, o *outbox, i int, d *deliveryRow, status DeliveryStatus) {
	number := o.queue[i].number
	o.queue = slices.Delete(o.queue, i, i+1)
	if o.sending == number {
		o.sending = 0
	}
	if o.digest == number {
		o.digest = 0
	}
	tx.countWaiting(-1)
	tx.putDelivery(agentKey, number, d, status)
	tx.noteEnd(agentKey, number, d)
	if number+command.MaxListedDeliveries <= o.last {
		tx.keep(deliveryKey(agentKey, number), nil)
	}
}

// dropDelivery removes a delivery from the queue before its last attempt.
func (tx *txn) dropDelivery(agentKey string, o *outbox, i int, reason string) {
	d := tx.delivery(agentKey, o.queue[i].number)
	d.reason = reason
	tx.endDelivery(agentKey, o, i, &d, DeliveryDropped)
}

// noteEnd records that a delivery has ended.
func (tx *txn) noteEnd(agentKey string, number uint64, d *deliveryRow) {
	p, _ := tx.profile(agentKey)
	tx.ended = append(tx.ended, DeliveryEnd{
		AgentKey: agentKey, ID: string(appendDeliveryID(nil, &p, number, d.queuedAt)),
		Status: d.status, Reason: d.reason, Attempts: d.attempts,
	})
}

// dropDeliveries empties an agent's queue.
func (tx *txn) dropDeliveries(agentKey string, o *outbox, reason string) {
	for len(o.queue) > 0 {
		tx.dropDelivery(agentKey, o, 0, reason)
	}
}

// countWaiting changes the count of waiting deliveries.
func (tx *txn) countWaiting(change int64) {
	tx.keep(keyWaiting, binary.AppendUvarint(nil, uint64(int64(tx.number(keyWaiting))+change)))
}

// DeliveryLease is how long the node that makes an attempt has for it, in milliseconds
// of log time. After that the next attempt may begin.
const DeliveryLease = 15_000

// retryPauses are the pauses after each failed attempt, in milliseconds. After one more
// failure the delivery has failed.
var retryPauses = [...]int64{5_000, 5 * 60_000, 30 * 60_000, 2 * 60 * 60_000, 5 * 60 * 60_000}

// retryPause returns the pause after a number of failures, in milliseconds; false if
// there is no further attempt.
func retryPause(failures uint64) (pause int64, again bool) {
	if failures == 0 || failures > uint64(len(retryPauses)) {
		return 0, false
	}
	return retryPauses[failures-1], true
}

func (tx *txn) applyBeginDeliveries(c *command.BeginDeliveries) command.Result {
	for i := range c.Attempts {
		tx.beginAttempt(c.Holder, &c.Attempts[i])
	}
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) beginAttempt(holder command.BootID, a *command.Attempt) {
	o := tx.outbox(a.AgentKey)
	i := o.next(tx.now)
	if i < 0 || o.queue[i].number != a.Delivery {
		return
	}
	d := tx.delivery(a.AgentKey, a.Delivery)
	if a.Number != d.attempts+1 {
		return
	}
	if o.sending != 0 && o.sending != a.Delivery { // its lease is over
		lost := tx.delivery(a.AgentKey, o.sending)
		tx.putDelivery(a.AgentKey, o.sending, &lost, DeliveryWaiting)
	}
	if d.hook != o.hook { // the present receiver has not failed yet
		d.failures = 0
	}
	d.attempts, d.holder, d.hook = a.Number, holder, o.hook
	tx.putDelivery(a.AgentKey, a.Delivery, &d, DeliverySending)
	o.begin(i, tx.now)
}

func (tx *txn) applyAckDelivery(c *command.AckDelivery) command.Result {
	o := tx.outbox(c.AgentKey)
	i, waits := o.find(c.Delivery)
	if !waits || o.sending != c.Delivery {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	d := tx.delivery(c.AgentKey, c.Delivery)
	if d.attempts != c.Number {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	d.reason = c.Reason
	o.sending = 0
	switch {
	case c.Outcome == command.AttemptDelivered:
		o.taken(tx.now)
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryDelivered)
	case d.hook != o.hook: // the agent has another receiver by now
		o.probe(tx.now)
		tx.putDelivery(c.AgentKey, c.Delivery, &d, DeliveryWaiting)
	case c.Outcome == command.AttemptGone:
		d.failures++
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryFailed)
		tx.ended[len(tx.ended)-1].Gone = true
		tx.removeHook(c.AgentKey, o)
	default:
		tx.failDelivery(c, o, i, &d)
	}
	return command.Result{Outcome: command.OutcomeDone}
}

// failDelivery counts a failure, after which the delivery waits for its next attempt or
// has failed. An attempt that was not its own turn does not count; if the receiver
// asked for a longer pause, its turn comes later.
func (tx *txn) failDelivery(c *command.AckDelivery, o *outbox, i int, d *deliveryRow) {
	q := &o.queue[i]
	turn := q.ready <= tx.now
	o.rejected(q, turn, tx.now, func(pause int64) int64 { return retryWait(c, pause) })
	if !turn {
		q.ready = max(q.ready, tx.now+c.RetryAfter)
		tx.putDelivery(c.AgentKey, c.Delivery, d, DeliveryWaiting)
		return
	}
	d.failures++
	pause, again := retryPause(d.failures)
	if !again {
		tx.endDelivery(c.AgentKey, o, i, d, DeliveryFailed)
		return
	}
	q.ready = tx.now + retryWait(c, pause)
	tx.putDelivery(c.AgentKey, c.Delivery, d, DeliveryWaiting)
}

// retryWait returns how long a pause takes, in milliseconds.
func retryWait(c *command.AckDelivery, pause int64) int64 {
	return max(pause+pause*c.Jitter/1000, c.RetryAfter)
}

func (tx *txn) applyTestDelivery(c *command.TestDelivery) command.Result {
	p, known := tx.profile(c.AgentKey)
	if problems := againstTest(c, &p, known); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	tx.useKey(c.AgentKey, &p)
	number := tx.queueDelivery(c.AgentKey, DeliveryTest, 0, provenSender(c.AgentKey))
	tx.outbox(c.AgentKey).probe(tx.now)
	return command.Result{Outcome: command.OutcomeDone, Entry: number}
}

// againstTest returns every rule against the command, given the profile.
func againstTest(c *command.TestDelivery, p *profileRow, known bool) []command.Problem {
	switch {
	case !known:
		return []command.Problem{command.ProblemUnknownAgent}
	case len(c.Proof.Key) == 0:
		return []command.Problem{command.ProblemNoKey}
	case !p.opens(c.Proof.Key):
		return []command.Problem{command.ProblemWrongKey}
	case !p.hooked():
		return []command.Problem{command.ProblemNoHook}
	}
	return nil
}

// pushKind returns how an entry in an agent's inbox is pushed to the agent; false if it
// is not. The zero target means that there is none.
func pushKind(f command.PushFilter, agentKey string, e *entryRow, p *command.Publish, target *entryRow) (DeliveryKind, bool) {
	replies := command.NoReplies
	if target.Type == TypeJob {
		replies = command.NoJobs
	}
	switch {
	case f&command.OnlyProven != 0 && !e.verified():
		return 0, false
	case f&replies == 0 && e.Relation == command.RelationReply && agentKey == target.AgentKey:
		return DeliveryReply, true
	case f&command.NoMentions == 0 && mentions(p, agentKey):
		return DeliveryMention, true
	}
	return 0, false
}
