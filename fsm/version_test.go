package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// homeSeen is the home of an agent, and its end.
type homeSeen struct {
	shown string
	until int64
}

// sight is everything that readers of one view see: answers by what was asked for.
type sight struct {
	version uint64
	now     int64
	answers map[string]string
	homes   map[string]homeSeen
}

// see asks for everything but searches.
func see(t *rapid.T, m *Machine) *sight {
	v := m.View()
	defer v.Release()
	s := &sight{version: v.Version(), now: v.Time(), answers: map[string]string{}, homes: map[string]homeSeen{}}
	page := func(name string, seqs []uint64, next uint64, err error, show func([]byte, []uint64) ([]byte, error)) {
		var dst []byte
		if err == nil {
			dst, err = show(nil, seqs)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		s.answers[name] = fmt.Sprintf("%s next %d", dst, next)
	}
	agents := []string{"ada", "bob", "eve", command.AnonymousName}
	queries := []view.Query{{}, {Kind: command.KindKnowledge.String()}, {TagKey: "red"}, {Thread: 1}, {Thread: 3}, {ReplyTo: 2}, {Since: 1_700_000_020_000}}
	for _, name := range agents {
		queries = append(queries, view.Query{AgentKey: name}, view.Query{ForKey: name})
	}
	for _, channel := range someChannels {
		queries = append(queries, view.Query{Channel: channel})
	}
	for _, q := range queries {
		if q.Limit = 5; q.Since == 0 {
			q.Since = -1
		}
		seqs, next, err := v.List(q)
		page(fmt.Sprintf("entries %+v", q), seqs, next, err, v.AppendEntries)
	}
	for status := state.JobStatus(0); status <= state.JobClosed; status++ {
		for _, q := range []view.Query{{}, {AgentKey: "ada"}, {ClaimantKey: "bob"}} {
			q.JobStatus, q.Limit = status, 5
			seqs, next, err := v.ListJobs(q)
			page(fmt.Sprintf("jobs %+v", q), seqs, next, err, v.AppendJobs)
		}
	}
	for status := state.HelpStatus(0); status <= state.HelpClosed; status++ {
		seqs, next, err := v.ListHelp(view.Query{HelpStatus: status, Limit: 5})
		page(fmt.Sprintf("help %d", status), seqs, next, err, v.AppendHelps)
	}
	revisions, next, err := v.ListProfiles(view.Query{Limit: 5})
	page("profiles", revisions, next, err, v.AppendRevisions)
	s.answers["channels"] = fmt.Sprint(v.Channels())
	one := func(name string, dst []byte, err error) {
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			t.Fatal(name, err)
		}
		s.answers[name] = fmt.Sprint(string(dst), err)
	}
	for seq := uint64(1); seq <= 12; seq++ {
		for _, of := range []state.EntryType{state.TypeEntry, state.TypeJob, state.TypeHelp} {
			id := state.FormatID(of, seq)
			if found, known := v.Resolve(id); known {
				show := map[state.EntryType]func([]byte, uint64) ([]byte, error){state.TypeEntry: v.AppendEntry, state.TypeJob: v.AppendJob, state.TypeHelp: v.AppendHelp}[of]
				dst, err := show(nil, found)
				one(id, dst, err)
			}
		}
	}
	for _, name := range agents {
		dst, err := v.AppendProfile(nil, name)
		one("agent "+name, dst, err)
		for _, span := range []int64{-1, 2000, int64(24 * time.Hour / time.Millisecond)} {
			s.home(t, v, name, span)
		}
	}
	return s
}

// home asks for home since the beginning, or where span is not negative, since so long ago.
func (s *sight) home(t *rapid.T, v *view.View, agent string, span int64) {
	since := int64(0)
	if span >= 0 {
		since = max(0, v.Time()-span)
	}
	h, err := v.Home(&view.Preferences{AgentKey: agent}, since, span < 0)
	must.Do(t, err)
	shown := *h
	shown.Now, shown.Until = 0, 0
	text := fmt.Appendf(nil, "%+v", shown)
	for _, item := range slices.Concat(h.ForYou, h.OwedByYou) {
		h.New = append(h.New, item.Seq)
	}
	for _, seq := range slices.Concat(h.New, h.OwedToYou, h.TopicNotes, h.Waiting) {
		text = must.Get(v.AppendSummary(text, seq, 100, false))(t)
	}
	for _, seq := range slices.Concat(h.ToDeliver, h.OpenJobs) {
		text = must.Get(v.AppendJobSummary(text, seq, true))(t)
	}
	s.homes[fmt.Sprint(agent, span)] = homeSeen{string(text), h.Until}
}

// checkVersions holds that views with one version show the same.
func checkVersions(t *rapid.T, before, after *sight) {
	if before.version != after.version {
		return
	}
	for what, answer := range before.answers {
		must.Equal(t, after.answers[what], answer, "version %d has two answers for %s", after.version, what)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(before.answers)), slices.Sorted(maps.Keys(after.answers))) {
		t.Fatalf("version %d shows more, or less: %d answers, %d", after.version, len(before.answers), len(after.answers))
	}
	for who, home := range before.homes {
		if now := after.homes[who]; after.now < home.until && now.shown != home.shown {
			t.Fatalf("version %d, which was to hold until %d, has two homes of %s at %d and %d:\n%s\n%s", after.version, home.until, who, before.now, after.now, home.shown, now.shown)
		}
	}
}

// TestVersionsShowTheSame draws a log of all commands. Two views of one version show the
// same to every reader, also on a machine that applies the log in other calls.
func TestVersionsShowTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		before := see(rt, m)
		seen := map[uint64]*sight{0: before}
		w := newLogWriter(rt, newLog(t), m, func() {
			after := see(rt, m)
			checkVersions(rt, before, after)
			before, seen[m.Applied()] = after, after
		})
		for range rapid.IntRange(1, 25).Draw(rt, "log entries") {
			w.write()
		}
		other := tempMachine(rt)
		defer func() { dropMachine(rt, other) }()
		other = feedRoughly(rt, w.log, other)
		there := see(rt, other)
		then := seen[there.version]
		if then == nil {
			rt.Fatalf("version %d is no index", there.version)
		}
		checkVersions(rt, then, there)
	})
}

// TestUnseenCommands: what the cluster does by itself leaves the version as it is.
func TestUnseenCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Publish(nil)
	r.Run(fsmtest.Register("ada", "key of ada", nil))
	version := func() uint64 {
		v := r.View()
		defer v.Release()
		return v.Version()
	}
	first := version()
	for i, c := range []command.Payload{
		&command.Tick{}, &command.Lead{ServerID: "n1"}, &command.RecordBackup{At: 1}, &command.Sweep{},
		fsmtest.AddSenders(1, command.DayOf(r.Now()), command.SurfaceAPI, "one"), fsmtest.Report(state.EntryID(1), "s1"),
		&command.NoteChange{By: "n1", Action: "add", Server: "n2"},
		&command.MarkSeen{AgentKey: "ada", Entries: []uint64{1}},
	} {
		r.Run(c)
		check.Equal(t, version(), first, "command %d, %s, changes the version", i, command.OpOf(c))
	}
	r.Publish(nil)
	second := version()
	if v := r.View(); second != v.Index() {
		t.Errorf("version %d at index %d", second, v.Index())
	} else {
		v.Release()
	}
	r.Run(&command.Tick{})
	r.reopen()
	if v := version(); v < second {
		t.Errorf("version %d after %d", v, second)
	}
}
