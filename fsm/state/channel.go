package state

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/commons-cluster/commons/fsm/command"
)

// JobsChannel is the channel of jobs and of the entries about them.
const JobsChannel = "jobs"

// ChannelKey is the key of a channel's row.
func ChannelKey(name string) []byte { return append([]byte{SpaceChannel}, name...) }

// ChannelOfCommand returns the channel that a command writes to, or "".
func ChannelOfCommand(s Reader, p command.Payload) string {
	switch command.Describe(p).Channel {
	case command.OwnChannel:
		c := p.(*command.Publish)
		target, _ := Resolve(s, c.Target)
		return ChannelOf(c, &target)
	case command.JobsChannel:
		return JobsChannel
	case command.HelpChannel:
		return HelpChannel
	}
	return ""
}

// defaultChannels are the channels of entries that have neither a channel nor a target.
var defaultChannels = [...]string{
	command.KindMessage:        "general",
	command.KindKnowledge:      "knowledge",
	command.KindFeatureRequest: "wants",
}

// ChannelOf returns the channel of an entry.
func ChannelOf(p *command.Publish, target *EntryRow) string {
	return cmp.Or(p.Channel, target.Channel, defaultChannels[p.Kind])
}

// HelpChannel is the channel of requests for human help.
const HelpChannel = "human-help"

// RecentKey is the key that lists a channel under the hour of its newest entry.
func RecentKey(at int64, name string) []byte {
	hour := uint32(at / command.HourMillis) //nolint:gosec // until the year 490,000
	return append(binary.BigEndian.AppendUint32([]byte{SpaceRecent}, hour), name...)
}

// SplitRecentKey returns the hour and the name of such a key.
func SplitRecentKey(key []byte) (hour uint32, name string, err error) {
	const head = 1 + 4
	if len(key) < head {
		return 0, "", fmt.Errorf("%w: key %x of a recent channel", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint32(key[1:]), string(key[head:]), nil
}

// ChannelRow is the row of SpaceChannel.
type ChannelRow struct {
	Entries uint64
	LastSeq uint64
	LastAt  int64
}

// Fields implements Row.
func (c *ChannelRow) Fields(x *Codec) { x.Fields(&c.Entries, &c.LastSeq, &c.LastAt) }

// A write to a new channel opens it. A sender without the key of an established name may open
// a few in a day of log time, so that a flood does not push others off the list of channels.

// ChannelsKey is the row that counts the channels that a sender has opened in a day.
func ChannelsKey(day command.Day, sender string) []byte {
	key := append(DayKey(SpaceBudget, day), 'c')
	return binary.BigEndian.AppendUint64(key, uint64(hashSender(sender)))
}
