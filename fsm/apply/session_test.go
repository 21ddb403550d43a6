package apply_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

func (r *rig) result(boot command.BootID, seq uint64) (command.Result, bool) {
	v := r.View()
	defer v.Release()
	res, ok := v.Results(boot)[seq]
	return res, ok
}

func TestSessionAnswersAgain(t *testing.T) {
	r := newRig(t)
	boot := command.BootID{5}
	bad := fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 77))
	first := r.RunGroups(command.Group{Boot: boot, Commands: []command.Command{{Seq: 10, Payload: fsmtest.Post("ada", nil)}, {Seq: 11, Payload: bad}}})
	again := r.RunGroups(command.Group{Boot: boot, Commands: []command.Command{{Seq: 11, Payload: bad}, {Seq: 10, Payload: fsmtest.Post("ada", nil)}, {Seq: 12, Payload: fsmtest.Post("ada", nil)}}})
	want := []command.Result{first[1], first[0], {Outcome: command.OutcomeDone, Entry: 2}}
	check.Diff(t, again, want, "second answers")
	if got, ok := r.result(boot, 11); !ok || !cmp.Equal(got, first[1]) {
		t.Errorf("the view knows %+v, %v", got, ok)
	}
	_, known := r.result(boot, 13)
	check.Equal(t, known, false, "the view knows a command that never was")
}

// TestSessionComesBeforeRequest checks that a retry under the same internal id is
// the first answer, not a duplicate.
func TestSessionComesBeforeRequest(t *testing.T) {
	r := newRig(t)
	p := fsmtest.Post("ada", func(p *command.Publish) { p.Request = command.RequestKey{Scope: "ada", ID: "request-1"} })
	first := r.RunGroups(command.Group{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: 1, Payload: p}}})
	again := r.RunGroups(command.Group{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: 1, Payload: p}, {Seq: 2, Payload: p}}})
	want := []command.Result{first[0], {Outcome: command.OutcomeDuplicate, Entry: first[0].Entry}}
	check.Diff(t, again, want, "answers")
}

func TestSessionFloor(t *testing.T) {
	r := newRig(t)
	boot := command.BootID{5}
	r.RunGroups(command.Group{Boot: boot, Commands: []command.Command{{Seq: 1, Payload: fsmtest.Post("ada", nil)}, {Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 3, Payload: fsmtest.Post("ada", nil)}}})
	// The floor rises to 3, and a late command from below it arrives.
	got := r.RunGroups(command.Group{Boot: boot, Floor: 3, Commands: []command.Command{{Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 3, Payload: fsmtest.Post("ada", nil)}}})
	want := []command.Result{{Outcome: command.OutcomeDropped}, {Outcome: command.OutcomeDone, Entry: 3}}
	check.Diff(t, got, want, "answers")
	for seq, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		_, ok := r.result(boot, seq)
		check.Equal(t, ok, want, "the result of %d is kept", seq)
	}
	// A floor never falls.
	got = r.RunGroups(command.Group{Boot: boot, Floor: 1, Commands: []command.Command{{Seq: 2, Payload: fsmtest.Post("ada", nil)}}})
	check.Equal(t, got[0].Outcome, command.OutcomeDropped, "below a fallen floor: %+v", got[0])
	if v := r.View(); v.LastSeq() != 3 {
		t.Errorf("%d entries", v.LastSeq())
	} else {
		v.Release()
	}
}

// TestSessionKeepsOpenNumbers raises the floor past open numbers: what was carried
// out is answered again, what was not can still come.
func TestSessionKeepsOpenNumbers(t *testing.T) {
	r := newRig(t)
	boot := command.BootID{5}
	first := r.RunGroups(command.Group{Boot: boot, Floor: 1, Commands: []command.Command{{Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 4, Payload: fsmtest.Post("ada", nil)}}})
	got := r.RunGroups(command.Group{Boot: boot, Floor: 9, Open: []uint64{2, 3}, Commands: []command.Command{
		{Seq: 1, Payload: fsmtest.Post("ada", nil)}, {Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 3, Payload: fsmtest.Post("ada", nil)}, {Seq: 4, Payload: fsmtest.Post("ada", nil)}, {Seq: 9, Payload: fsmtest.Post("ada", nil)},
	}})
	dropped := command.Result{Outcome: command.OutcomeDropped}
	want := []command.Result{dropped, first[0], {Outcome: command.OutcomeDone, Entry: 3}, dropped, {Outcome: command.OutcomeDone, Entry: 4}}
	check.Diff(t, got, want, "answers")
	// A group from before comes late: commands that were answered meanwhile stay dropped,
	// and its declarations of 2 and 3 count.
	got = r.RunGroups(command.Group{Boot: boot, Floor: 3, Commands: []command.Command{
		{Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 3, Payload: fsmtest.Post("ada", nil)}, {Seq: 5, Payload: fsmtest.Post("ada", nil)}, {Seq: 9, Payload: fsmtest.Post("ada", nil)},
	}})
	want = []command.Result{dropped, want[2], dropped, want[4]}
	check.Diff(t, got, want, "answers to a late group")
	for seq, want := range map[uint64]bool{2: false, 3: true, 4: false, 5: false, 9: true} {
		_, ok := r.result(boot, seq)
		check.Equal(t, ok, want, "the result of %d is kept", seq)
	}
}

// TestWindowsMeet holds that a number may come after windows in any order exactly
// when each of them holds it.
func TestWindowsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []command.Group
		for range rapid.IntRange(1, 4).Draw(t, "windows") {
			all = append(all, fsmtest.DrawWindow(t))
		}
		var met state.Window
		for _, g := range all {
			met = met.Meet(state.Window{Floor: g.Floor, Open: g.Open})
		}
		if len(met.Open) > command.MaxOpen || !slices.IsSorted(met.Open) || len(met.Open) > 0 && met.Open[len(met.Open)-1] >= met.Floor {
			t.Fatalf("%+v", met)
		}
		for seq := range uint64(30) {
			want := !slices.ContainsFunc(all, func(g command.Group) bool { return seq < g.Floor && !slices.Contains(g.Open, seq) })
			check.Equal(t, met.Holds(seq), want, "%+v holds %d", met, seq)
		}
	})
}

// TestRetryAfterLogTimeJumps repeats a command after log time went on by more than
// a day, with a new boot in between: it is still one entry.
func TestRetryAfterLogTimeJumps(t *testing.T) {
	r := newRig(t)
	cmd := command.Command{Seq: 1, Payload: fsmtest.Post("ada", nil)}
	first := r.RunGroups(command.Group{Boot: command.BootID{1}, Commands: []command.Command{cmd}})
	r.Stamp += 25 * 60 * 60 * 1000
	r.RunGroups(command.Group{Boot: command.BootID{2}, Commands: []command.Command{{Seq: 1, Payload: &command.Lead{ServerID: "n"}}}})
	again := r.RunGroups(command.Group{Boot: command.BootID{1}, Commands: []command.Command{cmd}})
	check.Diff(t, again, first, "answers")
	v := r.View()
	defer v.Release()
	check.Equal(t, v.LastSeq(), 1, "entries")
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t)
	boot := func(i int) command.BootID { return command.BootID{1, byte(i >> 8), byte(i)} }
	for i := range apply.MaxSessions + 3 {
		r.RunGroups(command.Group{Boot: boot(i), Commands: []command.Command{{Seq: 1, Payload: &command.Lead{ServerID: "n"}}}})
	}
	check.Equal(t, len(r.Sessions), apply.MaxSessions, "sessions")
	for i, want := range map[int]bool{2: false, 3: true, apply.MaxSessions + 2: true} {
		_, ok := r.result(boot(i), 1)
		check.Equal(t, ok, want, "session %d is kept", i)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	seq := uint64(1)
	r.RunGroups(command.Group{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: seq, Payload: &command.Lead{ServerID: "n"}}}})
	for range apply.MaxAnswers/2048 + 1 {
		g := command.Group{Boot: fsmtest.Boot1, Floor: 2, Open: []uint64{1}}
		for range 2048 {
			seq++
			g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: &command.Lead{ServerID: "n"}})
		}
		r.RunGroups(g)
	}
	s := r.Sessions[fsmtest.Boot1]
	if len(s.Answers) > apply.MaxAnswers || s.Floor != apply.MaxAnswers/2+1 {
		t.Fatalf("%d answers above floor %d, want it after half of them", len(s.Answers), s.Floor)
	}
	_, kept := r.result(fsmtest.Boot1, s.Floor-1)
	check.Equal(t, kept, false, "a result below the floor is kept")
	_, kept = r.result(fsmtest.Boot1, s.Floor)
	check.Equal(t, kept, true, "the result at the floor is kept")
	_, kept = r.result(fsmtest.Boot1, 1)
	check.Equal(t, kept, true, "the result of the open number is kept")
}

func TestResultRoundTrip(t *testing.T) {
	for _, want := range []command.Result{
		{},
		{Outcome: command.OutcomeDone, Entry: 1 << 60},
		{Outcome: command.OutcomeDuplicate, Entry: 3, Differs: true},
		{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemRetractionOther, command.ProblemUnknownTarget}},
	} {
		row := state.Encode((*state.ResultRow)(&want))
		got := must.Get(state.Decode[state.ResultRow](row))(t)
		check.Diff(t, command.Result(got), want, "%+v came back", want)
		for n := range row {
			check.Fails(state.Decode[state.ResultRow](row[:n]))(t, "decode %v cut to %d bytes", row, n)
		}
		check.Fails(state.Decode[state.ResultRow](append(slices.Clone(row), 0)))(t, "%v with a byte more passes", row)
	}
}

// TestSessionsSurviveRestarts reads the sessions back.
func TestSessionsSurviveRestarts(t *testing.T) {
	r := newRig(t)
	bad := fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 77))
	r.RunGroups(command.Group{Boot: fsmtest.Boot1, Floor: 5, Open: []uint64{2, 4}, Commands: []command.Command{
		{Seq: 2, Payload: bad}, {Seq: 7, Payload: bad}, {Seq: 5, Payload: fsmtest.Post("ada", nil)}, {Seq: 900, Payload: fsmtest.Post("ada", nil)},
	}})
	want := r.Sessions
	r.Reload()
	check.Equal(t, cmp.Diff(want, r.Sessions, cmp.AllowUnexported(apply.Session{})), "", "sessions (-before +after)")
}
