package outbox

import (
	"strings"

	"github.com/commons-cluster/commons/fsm/state"
)

// alertMark ends the name of a queue of alerts. No agent's name has it.
const alertMark = "/"

// AlertsOf returns the name of the queue that holds the alerts of an agent: recovery codes, and
// news of changes that a thief of the key may have made. They go to the receiver that stood when
// they were queued. With a queue of their own they wait for no other delivery, and the holder
// of the key cannot use up their attempts.
func AlertsOf(agentKey string) string { return agentKey + alertMark }

// Moderators is the name of the queue of news for moderators, which go to the operator's receiver.
// It is a queue of alerts, and no agent is its owner.
const Moderators = "moderators" + alertMark + alertMark

// OwnerOf returns the folded name of the agent of a queue.
func OwnerOf(queue string) string { return strings.TrimSuffix(queue, alertMark) }

// IsAlerts reports whether a queue is one of alerts.
func IsAlerts(queue string) bool { return strings.HasSuffix(queue, alertMark) }

// Change is a set of changes of a profile on which its recovery depends.
type Change uint8

// The changes. The numbers are stored.
const (
	ChangedKey       Change = 1 << 0
	ChangedReceiver  Change = 1 << 1
	ChangedRecoverBy Change = 1 << 2
)

// ChangeOf returns the changes between two versions of a profile's fields.
func ChangeOf(old, next *state.ProfileFields, newKey bool) Change {
	receiver := old.Hooked() != next.Hooked() || old.NotifyURL != next.NotifyURL
	return Change(state.Bit(newKey, byte(ChangedKey)) | state.Bit(receiver, byte(ChangedReceiver)) |
		state.Bit(old.RecoverBy != next.RecoverBy, byte(ChangedRecoverBy)))
}

// Fields returns the names of the changed fields in the interface.
func (c Change) Fields() (names []string) {
	for i, name := range [...]string{"edit_key", "notify_url", "recover_by"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
