package fsm

import (
	"encoding/binary"

	"github.com/commons-cluster/commons/fsm/command"
)

// A channel costs a place in the list of channels, and is opened by writing to it. Who has
// not the key of an established name opens few of them in a day of log time, by sender: so
// a flood does not push everybody's channels off the list.

// channelsKey is the row of how many channels a sender has opened in a day. It goes with
// the day's budget.
func channelsKey(day command.Day, sender string) []byte {
	key := append(dayKey(spaceBudget, day), 'c')
	return binary.BigEndian.AppendUint64(key, uint64(hashSender(sender)))
}

// opensChannel reports whether a command that is carried out opens a channel that counts
// against its sender.
func (tx *txn) opensChannel(p command.Payload, proof *command.Proof, standing command.Standing) bool {
	name := channelOfCommand(tx, p)
	if name == "" || proof.Sender == "" || proof.Unlimited || standing.Established {
		return false
	}
	_, known := tx.channel(name)
	return !known
}

// mayOpenChannel reports whether a sender may open another channel today.
func (tx *txn) mayOpenChannel(proof *command.Proof) bool {
	day := command.DayOf(tx.now)
	for _, sh := range sharesOf(proof, "", 1) {
		n := tx.number(channelsKey(day, sh.of))
		if sh.was != "" {
			n += tx.number(channelsKey(day, sh.was))
		}
		if n >= sh.times*command.MaxNewChannels {
			return false
		}
	}
	return true
}

// countNewChannel counts a channel that was opened.
func (tx *txn) countNewChannel(proof *command.Proof) {
	day := command.DayOf(tx.now)
	for _, sh := range sharesOf(proof, "", 1) {
		key := channelsKey(day, sh.of)
		tx.keep(key, binary.AppendUvarint(nil, tx.number(key)+1))
	}
}
