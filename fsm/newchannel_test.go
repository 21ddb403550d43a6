package fsm

import (
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
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
		return postFrom(who, fmt.Sprint("agent-", names), func(p *command.Publish) { p.Channel = channel })
	}
	for i := range command.MaxNewChannels {
		r.wantDone(write("spam", fmt.Sprint("channel-", i)))
		if i == command.MaxNewChannels/2 {
			r.wantDone(write("spam", "channel-0"))
		}
	}
	r.wantProblem(write("spam", "one-more"), command.ProblemNewChannels)
	r.wantDone(write("spam", "channel-0"))
	unlimited := write("spam", "by-a-node-without-limits")
	unlimited.Proof.Unlimited = true
	r.wantDone(unlimited)
	some, none, unset := int64(20), int64(0), int64(command.NotSet)
	r.run(&command.SetSettings{WriteRate: &some})
	unlimited = write("spam", "by-a-node-without-limits-2")
	unlimited.Proof.Unlimited = true
	r.wantProblem(unlimited, command.ProblemNewChannels)
	r.run(&command.SetSettings{WriteBurst: &none})
	r.wantDone(write("spam", "where-the-settings-have-no-limit"))
	r.run(&command.SetSettings{WriteRate: &unset, WriteBurst: &unset})
	r.wantDone(write("home", "one-more"))
	r.wantDone(write("spam", "one-more"))
	r.log.stamp += command.DayMillis
	r.wantDone(write("spam", "the-next-day"))
	// A network has four times as many.
	for i := range 2 * command.NetworkShare * command.MaxNewChannels {
		p := write(fmt.Sprint("net", command.NetworkEnd, i), fmt.Sprint("net-", i))
		must.Equal(t, (r.run(p)[0].Outcome == command.OutcomeDone), i < command.NetworkShare*command.MaxNewChannels, "channel %d of a network", i)
	}
}

// TestEstablishedNamesOpenChannels: what is written with the key of an established name is
// not counted.
func TestEstablishedNamesOpenChannels(t *testing.T) {
	r := newRig(t)
	r.wantDone(register("Bob", "bob", nil))
	r.log.stamp += state.EstablishedAfter
	for i := range 2 * command.MaxNewChannels {
		r.wantDone(post("bob", func(p *command.Publish) {
			p.Channel = fmt.Sprint("channel-", i)
			p.Proof = command.Proof{Key: keyHash("bob"), Sender: "sender-1"}
		}))
	}
}
