package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

// TestInstantsRise checks that the instants of log entries strictly rise, also
// under a clock that goes back.
func TestInstantsRise(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	r.Stamp -= 600_000
	r.Publish(nil)
	r.Stamp += 1_200_000
	r.Publish(nil)
	one, _ := r.Read(1)
	two, _ := r.Read(2)
	three, _ := r.Read(3)
	check.Equal(t, two.CreatedAt, one.CreatedAt+1, "instants %d: created at", one.CreatedAt)
	check.Equal(t, three.CreatedAt, r.Stamp, "instants %d: created at", one.CreatedAt)
}

func TestDefaultChannels(t *testing.T) {
	r := newRig(t)
	for i, tt := range []struct {
		change func(*command.Publish)
		want   string
	}{
		{func(p *command.Publish) {}, "general"},
		{func(p *command.Publish) { p.Kind = command.KindKnowledge }, "knowledge"},
		{func(p *command.Publish) { p.Kind = command.KindFeatureRequest }, "wants"},
		{func(p *command.Publish) { p.Channel = "den" }, "den"},
		{func(p *command.Publish) { fsmtest.Relate(command.RelationReply, 4)(p) }, "den"},
		{func(p *command.Publish) { fsmtest.Relate(command.RelationReply, 4)(p); p.Channel = "other" }, "other"},
	} {
		doc, _ := r.Read(r.Publish(tt.change))
		check.Equal(t, doc.Channel, tt.want, "case %d: channel", i)
	}
}

func TestTargets(t *testing.T) {
	r := newRig(t)
	first := r.Publish(nil) // by ada
	rejected := func(p ...command.Problem) command.Result {
		return command.Result{Outcome: command.OutcomeRejected, Problems: p}
	}
	for name, tt := range map[string]struct {
		agent    string
		relation command.Relation
		target   string
		want     command.Result
	}{
		"unknown entry":        {"bob", command.RelationReply, "e9", rejected(command.ProblemUnknownTarget)},
		"not an id":            {"bob", command.RelationReply, "nonsense", rejected(command.ProblemUnknownTarget)},
		"not canonical":        {"bob", command.RelationReply, "e01", rejected(command.ProblemUnknownTarget)},
		"retraction by others": {"bob", command.RelationRetraction, state.EntryID(first), rejected(command.ProblemRetractionOther)},
		"retraction unknown":   {"bob", command.RelationRetraction, "e9", rejected(command.ProblemUnknownTarget)},
		"correction by others": {"bob", command.RelationCorrection, state.EntryID(first), command.Result{Outcome: command.OutcomeDone}},
		"own retraction":       {"ada", command.RelationRetraction, state.EntryID(first), command.Result{Outcome: command.OutcomeDone}},
		"follow-up":            {"ada", command.RelationFollowUp, state.EntryID(first), command.Result{Outcome: command.OutcomeDone}},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.Run(fsmtest.Post(tt.agent, func(p *command.Publish) { p.Relation, p.Target = tt.relation, tt.target }))[0]
			if tt.want.Outcome == command.OutcomeDone {
				tt.want.Entry = got.Entry
			}
			check.Diff(t, got, tt.want, "result")
		})
	}
}

// TestTargetInTheSameLogEntry relates to an entry made just before.
func TestTargetInTheSameLogEntry(t *testing.T) {
	r := newRig(t)
	got := r.Run(fsmtest.Post("ada", nil), fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 1)), fsmtest.Post("eve", fsmtest.Relate(command.RelationReply, 2)),
		fsmtest.Post("eve", fsmtest.Relate(command.RelationReply, 9)))
	if got[1].Entry != 2 || got[2].Entry != 3 || got[3].Outcome != command.OutcomeRejected {
		t.Fatalf("results %+v", got)
	}
	v := r.View()
	defer v.Release()
	m, ok, err := v.Meta(3)
	if err != nil || !ok || m.Thread != 1 || m.Parent != 2 {
		t.Errorf("meta %+v, %v, %v", m, ok, err)
	}
}

func TestSupersededBy(t *testing.T) {
	r := newRig(t)
	first := r.Publish(nil)
	doc, raw := r.Read(first)
	if doc.SupersededBy == nil || len(doc.SupersededBy) != 0 || doc.SupersededByCount != 0 {
		t.Errorf("without successors: %s", raw)
	}
	for i := range command.MaxSuccessors + 5 {
		relation := command.RelationReply
		if i%2 == 1 {
			relation = command.RelationFollowUp
		}
		r.Run(fsmtest.Post(fmt.Sprintf("bob%d", i), fsmtest.Relate(relation, first)))
	}
	doc, raw = r.Read(first)
	if len(doc.SupersededBy) != command.MaxSuccessors || doc.SupersededByCount != command.MaxSuccessors+5 {
		t.Fatalf("%d items, count %d: %s", len(doc.SupersededBy), doc.SupersededByCount, raw)
	}
	for i, s := range doc.SupersededBy {
		if s.ID != state.EntryID(first+1+uint64(i)) || s.Agent != fmt.Sprintf("bob%d", i) || s.Relation != []string{"reply", "follow_up"}[i%2] {
			t.Errorf("item %d is %+v", i, s)
		}
		at, _ := r.Read(first + 1 + uint64(i))
		check.Equal(t, s.CreatedAt, at.CreatedAt, "the time of item %d", i)
	}
	v := r.View()
	defer v.Release()
	m, _, err := v.Meta(first)
	if err != nil || m.Replies != (command.MaxSuccessors+5+1)/2 {
		t.Errorf("meta %+v, %v", m, err)
	}
}

// TestOldViewKeepsItsSuccessors reads one entry through views of before and after.
func TestOldViewKeepsItsSuccessors(t *testing.T) {
	r := newRig(t)
	first := r.Publish(nil)
	old := r.View()
	defer old.Release()
	r.Run(fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, first)))
	doc, _ := fsmtest.ReadEntry(t, old, first)
	check.Equal(t, doc.SupersededByCount, 0, "the old view shows: superseded by count")
	check.Empty(t, doc.SupersededBy, "the old view shows: superseded by")
	doc, _ = r.Read(first)
	check.Equal(t, doc.SupersededByCount, 1, "successors in the new view")
	if _, ok := old.Resolve("e2"); ok {
		t.Error("the old view knows the new entry")
	}
	if seqs, _, err := old.List(view.Query{}); err != nil || !slices.Equal(seqs, []uint64{1}) {
		t.Errorf("the old view lists %v, %v", seqs, err)
	}
}

func TestRequestKeys(t *testing.T) {
	r := newRig(t)
	key := func(id string) func(*command.Publish) {
		return func(p *command.Publish) { p.Request = command.RequestKey{Scope: p.AgentKey, ID: id} }
	}
	first := r.Publish(key("request-1"))
	duplicate := func(differs bool) command.Result {
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: first, Differs: differs}
	}
	both := func(fs ...func(*command.Publish)) func(*command.Publish) {
		return func(p *command.Publish) {
			for _, f := range fs {
				f(p)
			}
		}
	}
	tests := map[string]struct {
		p    *command.Publish
		want command.Result
	}{
		"the same again":     {fsmtest.Post("ada", key("request-1")), duplicate(false)},
		"another body":       {fsmtest.Post("ada", both(key("request-1"), func(p *command.Publish) { p.Body = "Other text." })), duplicate(true)},
		"another tag":        {fsmtest.Post("ada", both(key("request-1"), func(p *command.Publish) { p.Tags = []string{"x"} })), duplicate(true)},
		"even when rejected": {fsmtest.Post("ada", both(key("request-1"), fsmtest.Relate(command.RelationReply, 99))), duplicate(true)},
		"another scope":      {fsmtest.Post("bob", key("request-1")), command.Result{Outcome: command.OutcomeDone, Entry: first + 1}},
	}
	for _, name := range []string{"the same again", "another body", "another tag", "even when rejected", "another scope"} {
		check.Diff(t, r.Run(tests[name].p)[0], tests[name].want, "%s", name)
	}
	// Twice in one log entry.
	got := r.Run(fsmtest.Post("ada", key("request-2")), fsmtest.Post("ada", key("request-2")))
	if got[0].Outcome != command.OutcomeDone || got[1].Outcome != command.OutcomeDuplicate || got[1].Entry != got[0].Entry {
		t.Errorf("twice at once: %+v", got)
	}
	// A rejection leaves the key free.
	rejected := r.Run(fsmtest.Post("ada", both(key("request-3"), fsmtest.Relate(command.RelationReply, 99))))[0]
	if accepted := r.Run(fsmtest.Post("ada", key("request-3")))[0]; rejected.Outcome != command.OutcomeRejected || accepted.Outcome != command.OutcomeDone {
		t.Errorf("after a rejection: %+v, %+v", rejected, accepted)
	}
	v := r.View()
	defer v.Release()
	if seq, ok, _ := v.Earlier(command.OpPublish, fsmtest.ByRequest(command.RequestKey{Scope: "ada", ID: "request-1"})); !ok || seq != first {
		t.Errorf("request-1 is entry %d, %v", seq, ok)
	}
	for _, k := range []command.RequestKey{{}, {Scope: "ada", ID: "request-9"}, {Scope: "adar", ID: "equest-1"}} {
		if seq, ok, _ := v.Earlier(command.OpPublish, fsmtest.ByRequest(k)); ok {
			t.Errorf("%+v is entry %d", k, seq)
		}
	}
	if _, ok, _ := v.Earlier(command.OpInit, fsmtest.ByRequest(command.RequestKey{Scope: "ada", ID: "request-1"})); ok {
		t.Error("a key counts for another operation")
	}
}

func TestChannels(t *testing.T) {
	r := newRig(t)
	in := func(name string) func(*command.Publish) { return func(p *command.Publish) { p.Channel = name } }
	r.Run(fsmtest.Post("ada", in("aa")), fsmtest.Post("ada", in("bb")), fsmtest.Post("ada", in("aa")))
	early := r.Stamp
	r.Run(fsmtest.Post("ada", in("cc")))
	r.Run(fsmtest.Post("ada", in("bb")))
	v := r.View()
	defer v.Release()
	want := []view.Channel{{Name: "bb", Entries: 2, LastEntryAt: r.Stamp}, {Name: "cc", Entries: 1, LastEntryAt: r.Stamp - 1000}, {Name: "aa", Entries: 2, LastEntryAt: early}}
	check.Diff(t, listed(v.Channels()), want, "channels")
}

// listed returns channels without the fields of package view.
func listed(channels []view.Channel) (list []view.Channel) {
	for _, c := range channels {
		list = append(list, view.Channel{Name: c.Name, Entries: c.Entries, LastEntryAt: c.LastEntryAt})
	}
	return list
}

// TestChannelsAcrossHours: a channel is listed once, under the hour of its newest entry, and not
// while all of its entries are hidden.
func TestChannelsAcrossHours(t *testing.T) {
	r := newRig(t)
	in := func(name string) command.Payload {
		return fsmtest.Post("ada", func(p *command.Publish) { p.Channel = name })
	}
	want := func(want ...string) {
		t.Helper()
		v := r.View()
		defer v.Release()
		var names []string
		for _, c := range v.Channels() {
			names = append(names, fmt.Sprint(c.Name, " ", c.Entries))
		}
		check.Diff(t, names, want, "channels")
	}
	r.Run(in("aa"), in("bb"))
	r.Run(in("cc"))
	want("cc 1", "bb 1", "aa 1")
	r.Stamp += command.HourMillis
	r.Run(in("bb"))
	want("bb 2", "cc 1", "aa 1")
	r.Run(fsmtest.Hide("e3", "e2"))
	want("bb 1", "aa 1")
	r.Run(fsmtest.Hide("e4"))
	want("aa 1")
	r.Run(fsmtest.Unhide("e3", "e4"))
	want("bb 1", "cc 1", "aa 1")
	r.Stamp += command.HourMillis
	r.Run(in("aa"), in("cc"))
	want("cc 2", "aa 2", "bb 1")
}

func TestInitCountsOnce(t *testing.T) {
	r := newRig(t)
	v := r.View()
	if v.ClusterID() != "" || v.SealedDataKey() != nil || v.Format() != command.InitialFormat {
		t.Errorf("at first: %q, %v, %d", v.ClusterID(), v.SealedDataKey(), v.Format())
	}
	v.Release()
	r.Run(&command.Init{ClusterID: "one", SealedDataKey: []byte("key one")}, &command.Init{ClusterID: "two", SealedDataKey: []byte("key two")})
	r.Run(&command.Init{ClusterID: "three", SealedDataKey: []byte("key three")}, &command.Lead{ServerID: "n1"})
	v = r.View()
	defer v.Release()
	check.Equal(t, v.ClusterID(), "one", "cluster id")
	check.Equal(t, string(v.SealedDataKey()), "key one", "cluster: sealed data key")
}

// TestRowsOfAnEntry: a published entry of one of many agents costs at most 4.5 rows, with all that it
// changes beside them, where 20 entries with a channel and a tag share a log entry.
func TestRowsOfAnEntry(t *testing.T) {
	r := newRig(t)
	posts := make([]command.Payload, 20)
	for i := range posts {
		in := func(p *command.Publish) { p.Channel, p.Tags = fmt.Sprintf("channel-%d", i%8), []string{"bench"} }
		posts[i] = fsmtest.Post(fmt.Sprintf("agent-%d", i), in)
	}
	r.Run(posts...)
	before := r.Written()
	r.Run(posts...)
	if rows := r.Written() - before; rows > len(posts)*9/2 {
		t.Errorf("%d entries wrote %d rows", len(posts), rows)
	}
}
