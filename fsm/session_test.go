package fsm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// group applies one log entry with one group and returns the results.
func (r *rig) group(g Group) []Result {
	r.t.Helper()
	before := len(r.obs.got)
	r.log.stamp += 1000
	index := r.log.batch(Batch{Stamp: r.log.stamp, Groups: []Group{g}})
	r.log.feed(r.Machine, index, index)
	var out []Result
	for _, a := range r.obs.got[before:] {
		if a.boot != g.Boot || a.index != index {
			r.t.Fatalf("observed boot %s at index %d, want %s at %d", a.boot, a.index, g.Boot, index)
		}
		out = append(out, a.res)
	}
	return out
}

func (r *rig) result(boot BootID, seq uint64) (Result, bool) {
	v := r.View()
	defer v.Release()
	return v.Result(boot, seq)
}

func TestSessionAnswersAgain(t *testing.T) {
	r := newRig(t)
	boot := BootID{5}
	bad := post("bob", relate(RelationReply, 77))
	first := r.group(Group{Boot: boot, Commands: []Command{{10, post("ada", nil)}, {11, bad}}})
	again := r.group(Group{Boot: boot, Commands: []Command{{11, bad}, {10, post("ada", nil)}, {12, post("ada", nil)}}})
	want := []Result{first[1], first[0], {Outcome: OutcomeDone, Entry: 2}}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("second answers (-want +got):\n%s", diff)
	}
	if got, ok := r.result(boot, 11); !ok || !cmp.Equal(got, first[1]) {
		t.Errorf("the view knows %+v, %v", got, ok)
	}
	if _, ok := r.result(boot, 13); ok {
		t.Error("the view knows a command that never was")
	}
}

// TestSessionComesBeforeRequest checks that a retry under the same internal id is
// the first answer, not a duplicate.
func TestSessionComesBeforeRequest(t *testing.T) {
	r := newRig(t)
	p := post("ada", func(p *Publish) { p.Request = RequestKey{"ada", "request-1"} })
	first := r.group(Group{Boot: boot1, Commands: []Command{{1, p}}})
	again := r.group(Group{Boot: boot1, Commands: []Command{{1, p}, {2, p}}})
	want := []Result{first[0], {Outcome: OutcomeDuplicate, Entry: first[0].Entry}}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestSessionFloor(t *testing.T) {
	r := newRig(t)
	boot := BootID{5}
	r.group(Group{Boot: boot, Commands: []Command{{1, post("ada", nil)}, {2, post("ada", nil)}, {3, post("ada", nil)}}})
	// The floor rises to 3, and a late command from below it arrives.
	got := r.group(Group{Boot: boot, Floor: 3, Commands: []Command{{2, post("ada", nil)}, {3, post("ada", nil)}}})
	want := []Result{{Outcome: OutcomeDropped}, {Outcome: OutcomeDone, Entry: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	for seq, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		if _, ok := r.result(boot, seq); ok != want {
			t.Errorf("result of %d kept: %v", seq, ok)
		}
	}
	// A floor never falls.
	got = r.group(Group{Boot: boot, Floor: 1, Commands: []Command{{2, post("ada", nil)}}})
	if got[0].Outcome != OutcomeDropped {
		t.Errorf("below a fallen floor: %+v", got[0])
	}
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
	boot := BootID{5}
	first := r.group(Group{Boot: boot, Floor: 1, Commands: []Command{{2, post("ada", nil)}, {4, post("ada", nil)}}})
	got := r.group(Group{Boot: boot, Floor: 9, Open: []uint64{2, 3}, Commands: []Command{
		{1, post("ada", nil)}, {2, post("ada", nil)}, {3, post("ada", nil)}, {4, post("ada", nil)}, {9, post("ada", nil)},
	}})
	dropped := Result{Outcome: OutcomeDropped}
	want := []Result{dropped, first[0], {Outcome: OutcomeDone, Entry: 3}, dropped, {Outcome: OutcomeDone, Entry: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	// A group from before comes late: what was answered meanwhile stays dropped, and
	// what it says of 2 and 3 counts.
	got = r.group(Group{Boot: boot, Floor: 3, Commands: []Command{
		{2, post("ada", nil)}, {3, post("ada", nil)}, {5, post("ada", nil)}, {9, post("ada", nil)},
	}})
	want = []Result{dropped, want[2], dropped, want[4]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers to a late group (-want +got):\n%s", diff)
	}
	for seq, want := range map[uint64]bool{2: false, 3: true, 4: false, 5: false, 9: true} {
		if _, ok := r.result(boot, seq); ok != want {
			t.Errorf("result of %d kept: %v", seq, ok)
		}
	}
}

// TestWindowsMeet holds that a number may come after windows in any order exactly
// when each of them holds it.
func TestWindowsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Group
		for range rapid.IntRange(1, 4).Draw(t, "windows") {
			all = append(all, drawWindow(t))
		}
		var met window
		for _, g := range all {
			met = met.meet(window{floor: g.Floor, open: g.Open})
		}
		if len(met.open) > MaxOpen || !slices.IsSorted(met.open) || len(met.open) > 0 && met.open[len(met.open)-1] >= met.floor {
			t.Fatalf("%+v", met)
		}
		for seq := range uint64(30) {
			want := !slices.ContainsFunc(all, func(g Group) bool { return seq < g.Floor && !slices.Contains(g.Open, seq) })
			if met.holds(seq) != want {
				t.Errorf("%+v holds %d: %v, want %v", met, seq, !want, want)
			}
		}
	})
}

// TestRetryAfterLogTimeJumps repeats a command after log time went on by more than
// a day, with a new boot in between: it is still one entry.
func TestRetryAfterLogTimeJumps(t *testing.T) {
	r := newRig(t)
	command := Command{1, post("ada", nil)}
	first := r.group(Group{Boot: BootID{1}, Commands: []Command{command}})
	r.log.stamp += 25 * 60 * 60 * 1000
	r.group(Group{Boot: BootID{2}, Commands: []Command{{1, &Lead{ServerID: "n"}}}})
	again := r.group(Group{Boot: BootID{1}, Commands: []Command{command}})
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("answers (-first +again):\n%s", diff)
	}
	v := r.View()
	defer v.Release()
	if v.LastSeq() != 1 {
		t.Errorf("%d entries, want 1", v.LastSeq())
	}
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t)
	boot := func(i int) BootID { return BootID{1, byte(i >> 8), byte(i)} }
	for i := range maxSessions + 3 {
		r.group(Group{Boot: boot(i), Commands: []Command{{1, &Lead{ServerID: "n"}}}})
	}
	if len(r.sessions) != maxSessions {
		t.Errorf("%d sessions", len(r.sessions))
	}
	for i, want := range map[int]bool{2: false, 3: true, maxSessions + 2: true} {
		if _, ok := r.result(boot(i), 1); ok != want {
			t.Errorf("session %d kept: %v", i, ok)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	r := newRig(t)
	seq := uint64(1)
	r.group(Group{Boot: boot1, Commands: []Command{{seq, &Lead{ServerID: "n"}}}})
	for range maxAnswers/2048 + 1 {
		g := Group{Boot: boot1, Floor: 2, Open: []uint64{1}}
		for range 2048 {
			seq++
			g.Commands = append(g.Commands, Command{seq, &Lead{ServerID: "n"}})
		}
		r.group(g)
	}
	s := r.sessions[boot1]
	if len(s.answers) > maxAnswers || s.floor <= 2 {
		t.Fatalf("%d answers above floor %d", len(s.answers), s.floor)
	}
	if _, ok := r.result(boot1, s.floor-1); ok {
		t.Error("a result below the floor is kept")
	}
	if _, ok := r.result(boot1, s.floor); !ok {
		t.Error("the result at the floor is gone")
	}
	if _, ok := r.result(boot1, 1); !ok {
		t.Error("the result of the open number is gone")
	}
}

// TestSessionsSurviveRestarts reads the sessions back.
func TestSessionsSurviveRestarts(t *testing.T) {
	r := newRig(t)
	bad := post("bob", relate(RelationReply, 77))
	r.group(Group{Boot: boot1, Floor: 5, Open: []uint64{2, 4}, Commands: []Command{
		{2, bad}, {7, bad}, {5, post("ada", nil)}, {900, post("ada", nil)},
	}})
	want := r.sessions
	closeMachine(t, r.Machine)
	again := openAt(t, r.opts.Dir)
	if diff := cmp.Diff(want, again.sessions, cmp.AllowUnexported(session{}, window{})); diff != "" {
		t.Errorf("sessions (-before +after):\n%s", diff)
	}
}

func TestResultRoundTrip(t *testing.T) {
	for _, want := range []Result{
		{},
		{Outcome: OutcomeDone, Entry: 1 << 60},
		{Outcome: OutcomeDuplicate, Entry: 3, Differs: true},
		{Outcome: OutcomeRejected, Problems: []Problem{ProblemRetractionOther, ProblemUnknownTarget}},
	} {
		row := appendResult(nil, want)
		got, err := decodeResult(row)
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
		for n := range row {
			if got, err := decodeResult(row[:n]); err == nil {
				t.Errorf("%v cut to %d bytes is %+v", row, n, got)
			}
		}
		if _, err := decodeResult(append(slices.Clone(row), 0)); err == nil {
			t.Errorf("%v with a byte more passes", row)
		}
	}
}
