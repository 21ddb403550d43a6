package fsm

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestForgottenInTheSameCall: the results are the same if one call of Raft has the command
// that forgets senders, another one, and one that looks for a sender.
func TestForgottenInTheSameCall(t *testing.T) {
	for _, together := range []bool{false, true} {
		r := newRig(t)
		seq := r.WantDone(fsmtest.PostFrom("home", command.AnonymousName, nil))
		r.log.stamp += int64(command.DefaultSettings.SenderDays) * command.DayMillis
		before := len(r.obs.got)
		first := r.log.commands(&command.ForgetSenders{})
		r.log.commands(&command.ForgetSenders{})
		last := r.log.commands(fsmtest.PostFrom("home", command.AnonymousName, fsmtest.Relate(command.RelationRetraction, seq)))
		if together {
			r.log.feed(r.Machine, first, last)
		} else {
			for i := first; i <= last; i++ {
				r.log.feed(r.Machine, i, i)
			}
		}
		var got []command.Result
		for _, a := range r.obs.got[before:] {
			got = append(got, a.Res)
		}
		check.Diff(t, got, []command.Result{
			{Outcome: command.OutcomeDone},
			{Outcome: command.OutcomeUnchanged},
			{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemRetractionAnonymous}},
		}, "results, together: %t", together)
	}
}

// TestNoRowNamesAForgottenSender draws logs of all commands, lets the time pass for which senders are
// remembered, and looks for the pseudonyms in every row. A profile has the address that registered it,
// and a rule its sender; waiting deliveries end in their own time.
func TestNoRowNamesAForgottenSender(t *testing.T) {
	senders := []string{"from-home", "from-work"}
	spared := []byte{state.SpaceProfile, state.SpaceRule, state.SpaceOutbox, state.SpaceDelivery}
	rapid.Check(t, func(rt *rapid.T) {
		l, m := newLog(t), tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		w := newLogWriter(rt, l, m, func() {})
		for range rapid.IntRange(1, 20).Draw(rt, "log entries") {
			w.write()
		}
		l.stamp += 100 * command.DayMillis // reports are open for longer
		l.nextSeq[fsmtest.Boot1] = w.seqs[fsmtest.Boot1]
		later := fsmtest.Post("later", func(p *command.Publish) { p.Proof.Sender = "elsewhere" })
		for range 5 {
			l.commands(&command.Tick{}, &command.ForgetSenders{}, later)
			w.feed()
		}
		v := m.View()
		defer v.Release()
		for _, space := range state.Keyspaces {
			if slices.Contains(spared, space.Letter) {
				continue
			}
			must.Do(rt, state.ScanAll(v.Reader(), space.Letter, func(key, row []byte) error {
				for _, sender := range senders {
					if all := slices.Concat(key, row); namesSender(all, sender) {
						rt.Errorf("keyspace %c: %q %q names the sender %s", space.Letter, key, row, sender)
					}
				}
				return nil
			}))
		}
	})
}

// namesSender reports whether a row has the pseudonym of a sender, or a hash of it.
func namesSender(row []byte, sender string) bool {
	hash := uint64(state.UnprovenSender(sender))
	return bytes.Contains(row, []byte(sender)) || bytes.Contains(row, binary.LittleEndian.AppendUint64(nil, hash)) ||
		bytes.Contains(row, binary.BigEndian.AppendUint64(nil, hash))
}
