package view

import (
	"cmp"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Channel is a channel with its counts.
type Channel struct {
	Name        string
	Entries     uint64
	LastEntryAt int64 // milliseconds since the epoch
	lastSeq     uint64
}

// maxChannelLook bounds the channels of one hour that are put in order.
const maxChannelLook = 4 * command.MaxChannels

// Channels returns the most recently active channels, newest first, which must not be
// changed. If more than maxChannelLook were active in an hour, some of that hour are left out.
func (v *View) Channels() []Channel {
	v.channelsOnce.Do(func() {
		lower, upper := state.SpaceBounds(state.SpaceRecent)
		var hour uint32
		v.must(state.ScanBack(v.snap, lower, upper, func(key, _ []byte) error {
			in, name, err := state.SplitRecentKey(key)
			if err != nil {
				return err
			}
			if n := len(v.channels); n == maxChannelLook || n >= command.MaxChannels && in != hour {
				return state.ErrEnough
			}
			hour = in
			c, err := state.LoadOrZero(v.snap, state.ChannelKey(name), state.Decode[state.ChannelRow])
			v.channels = append(v.channels, Channel{Name: name, Entries: c.Entries, LastEntryAt: c.LastAt, lastSeq: c.LastSeq})
			return err
		}))
		slices.SortFunc(v.channels, func(a, b Channel) int { return cmp.Compare(b.lastSeq, a.lastSeq) })
		v.channels = v.channels[:min(len(v.channels), command.MaxChannels)]
	})
	return v.channels
}
