package apply_test

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/must"
)

// TestNewChannels: a sender opens few channels in a day, under whatever names; it goes on
// writing to those that are there, and another sender, and the next day, are not concerned.
func TestNewChannels(t *testing.T) {
	r := newRig(t)
	names := 0
	write := func(who, channel string) *command.Publish {
		names++
		return fsmtest.PostFrom(who, fmt.Sprint("agent-", names), func(p *command.Publish) { p.Channel = channel })
	}
	for i := range command.MaxNewChannels {
		r.WantDone(write("spam", fmt.Sprint("channel-", i)))
		if i == command.MaxNewChannels/2 {
			r.WantDone(write("spam", "channel-0"))
		}
	}
	r.WantProblem(write("spam", "one-more"), command.ProblemNewChannels)
	r.WantDone(write("spam", "channel-0"))
	unlimited := write("spam", "by-a-node-without-limits")
	unlimited.Proof.Unlimited = true
	r.WantDone(unlimited)
	some, none, unset := int64(20), int64(0), int64(command.NotSet)
	r.Run(&command.SetSettings{WriteRate: &some})
	unlimited = write("spam", "by-a-node-without-limits-2")
	unlimited.Proof.Unlimited = true
	r.WantProblem(unlimited, command.ProblemNewChannels)
	r.Run(&command.SetSettings{WriteBurst: &none})
	r.WantDone(write("spam", "where-the-settings-have-no-limit"))
	r.Run(&command.SetSettings{WriteRate: &unset, WriteBurst: &unset})
	r.WantDone(write("home", "one-more"))
	r.WantDone(write("spam", "one-more"))
	r.Stamp += command.DayMillis
	r.WantDone(write("spam", "the-next-day"))
	// A network has four times as many.
	for i := range 2 * command.NetworkShare * command.MaxNewChannels {
		p := write(fmt.Sprint("net", command.NetworkEnd, i), fmt.Sprint("net-", i))
		must.Equal(t, (r.Run(p)[0].Outcome == command.OutcomeDone), i < command.NetworkShare*command.MaxNewChannels, "channel %d of a network", i)
	}
}

// TestEstablishedNamesOpenChannels: what is written with the key of an established name is
// not counted.
func TestEstablishedNamesOpenChannels(t *testing.T) {
	r := newRig(t)
	r.WantDone(fsmtest.Register("Bob", "bob", nil))
	r.Stamp += state.EstablishedAfter
	for i := range 2 * command.MaxNewChannels {
		r.WantDone(fsmtest.Post("bob", func(p *command.Publish) {
			p.Channel = fmt.Sprint("channel-", i)
			p.Proof = command.Proof{Key: fsmtest.KeyHash("bob"), Sender: "sender-1"}
		}))
	}
}
