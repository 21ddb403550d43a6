package apply

import (
	"bytes"

	"github.com/commons-cluster/commons/fsm/state"
)

// countChannel counts an entry into its channel.
func (tx *Txn) countChannel(e *state.EntryRow) {
	c, _ := tx.channel(e.Channel)
	// A channel without entries is not listed. The keys of others change once an hour: a
	// reader has to step over every key that was deleted.
	before, now := state.RecentKey(c.LastAt, e.Channel), state.RecentKey(e.CreatedAt, e.Channel)
	if c.Entries == 0 || !bytes.Equal(before, now) {
		tx.del(before)
		tx.set(now, []byte{})
	}
	c.Entries++
	c.LastSeq, c.LastAt = e.Seq, e.CreatedAt
	tx.set(state.ChannelKey(e.Channel), state.Encode(&c))
}

// channel returns a channel's row, and false if no entry was published to the channel.
func (tx *Txn) channel(name string) (state.ChannelRow, bool) {
	return state.Read(tx, state.ChannelKey(name), state.Decode[state.ChannelRow])
}

// recountChannel changes the number of shown entries of a channel.
func (tx *Txn) recountChannel(e *state.EntryRow, change int64) {
	c, _ := tx.channel(e.Channel)
	c.Entries += uint64(change) //nolint:gosec // wraps around where it is negative
	tx.set(state.ChannelKey(e.Channel), state.Encode(&c))
	switch recent := state.RecentKey(c.LastAt, e.Channel); {
	case c.Entries == 0:
		tx.del(recent)
	case c.Entries == 1 && change > 0:
		tx.set(recent, []byte{})
	}
}
