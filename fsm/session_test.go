package fsm

import (
	"reflect"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// group applies one log entry with one group and returns the results.
func (r *rig) group(g command.Group) []command.Result {
	r.T.Helper()
	before := len(r.obs.got)
	r.log.stamp += 1000
	index := r.log.batch(command.Batch{Stamp: r.log.stamp, Groups: []command.Group{g}})
	r.log.feed(r.Machine, index, index)
	var out []command.Result
	for _, a := range r.obs.got[before:] {
		if a.Boot != g.Boot || a.Index != index {
			r.T.Fatalf("observed boot %s at index %d, want %s at %d", a.Boot, a.Index, g.Boot, index)
		}
		out = append(out, a.Res)
	}
	return out
}

// TestInstalledSessions installs a state over an older one. All that is in memory is of the
// new state, sessions included: a retry gets the answer that its command got before.
func TestInstalledSessions(t *testing.T) {
	from, to := newRig(t), newRig(t)
	boot, retired := command.BootID{5}, command.BootID{6}
	cmd := func(seq uint64) command.Command { return command.Command{Seq: seq, Payload: fsmtest.Post("ada", nil)} }
	from.group(command.Group{Boot: boot, Commands: []command.Command{cmd(1), cmd(2)}})
	from.group(command.Group{Boot: retired, Commands: []command.Command{cmd(1)}})
	from.log.feed(to.Machine, 1, from.log.last())
	first := from.group(command.Group{Boot: boot, Floor: 2, Commands: []command.Command{cmd(3)}})
	from.group(command.Group{Boot: retired, Floor: 2, Commands: []command.Command{cmd(2)}})
	must.Do(t, takeSnapshot(from.Machine, from.log.last(), 1))
	meta, data, err := send(from.Machine)
	must.Do(t, err)
	must.Do(t, receive(to.Machine, meta, data))
	onDisk, _, err := apply.LoadState(to.store.DB, command.MaxFormat)
	must.Do(t, err)
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	check.Equal(t, cmp.Diff(onDisk, to.Loaded, all, cmpopts.IgnoreFields(state.Policy{}, "Patterns")), "", "the state (-on disk +in memory)")

	again := from.group(command.Group{Boot: boot, Commands: []command.Command{cmd(3), cmd(1)}})
	check.Diff(t, again, append(first, command.Result{Outcome: command.OutcomeDropped}), "answers to the retry")
	from.log.feed(to.Machine, 1, from.log.last())
	sameState(t, stateOf(t, from.Machine), stateOf(t, to.Machine))
}
