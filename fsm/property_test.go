package fsm

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

func TestMain(m *testing.M) {
	longtest.Beside(4) // they wait for the disk
	os.Exit(m.Run())
}

var (
	someAgents   = []string{"ada", "bob", "eve", command.AnonymousName}
	someChannels = []string{"", "general", "den", "hall"}
	someTags     = []string{"red", "Red", "grün", "two words"}
	someWords    = []string{
		"alpha", "alphabet", "beta", "gamma", "delta", "über", "naïve", "世界", "a", "the", "x1",
	}
	someBoots = []command.BootID{{1}, {2}, {3}}
)

// drawPublish draws an entry; n is about how many there are.
func drawPublish(t *rapid.T, n int) *command.Publish {
	agent := rapid.SampledFrom(someAgents).Draw(t, "agent")
	p := &command.Publish{
		Agent: agent, AgentKey: agent,
		Kind:    command.Kind(rapid.IntRange(1, 3).Draw(t, "kind")),
		Channel: rapid.SampledFrom(someChannels).Draw(t, "channel"),
		Title:   "Title " + rapid.SampledFrom(someWords).Draw(t, "title"),
		Body:    "Body",
		Tags:    rapid.SliceOfNDistinct(rapid.SampledFrom(someTags), 0, 2, rapid.ID).Draw(t, "tags"),
	}
	for _, w := range rapid.SliceOfN(rapid.SampledFrom(someWords), 0, 4).Draw(t, "words") {
		p.Body += " " + w
	}
	p.Mentions = rapid.SliceOfNDistinct(rapid.SampledFrom(someAgents), 0, 2, rapid.ID).Draw(t, "mentions")
	if rapid.IntRange(0, 2).Draw(t, "related") > 0 {
		p.Relation = command.Relation(rapid.IntRange(1, 4).Draw(t, "relation"))
		p.Target = state.EntryID(uint64(rapid.IntRange(1, n+2).Draw(t, "target")))
	}
	if rapid.Bool().Draw(t, "keyed") {
		p.Request = command.RequestKey{Scope: agent, ID: rapid.SampledFrom([]string{"request-1", "request-2", "request-3"}).Draw(t, "request")}
	}
	return p
}

// drawBatch draws a log entry of ours: several boots, retries, and a clock that
// goes anywhere.
func drawBatch(t *rapid.T, last command.Batch, m *model) command.Batch {
	n := len(m.entries)
	b := command.Batch{Stamp: max(0, last.Stamp+rapid.Int64Range(-5000, 10_000).Draw(t, "tick"))}
	for range rapid.IntRange(0, 3).Draw(t, "groups") {
		g := fsmtest.DrawWindow(t)
		g.Boot = rapid.SampledFrom(someBoots).Draw(t, "boot")
		for range rapid.IntRange(0, 4).Draw(t, "commands") {
			p := drawPublish(t, n)
			p.Proof.Policy = m.revision
			c := command.Command{Seq: rapid.Uint64Range(1, 40).Draw(t, "seq"), Payload: p}
			switch rapid.IntRange(0, 14).Draw(t, "other") {
			case 0:
				c.Payload = &command.Lead{ServerID: "n1"}
			case 1:
				c.Payload = &command.Hide{
					Order: fsmtest.ByOperator, Unhide: rapid.Bool().Draw(t, "unhide"), Of: rapid.Uint64Range(0, min(m.recorded, 3)).Draw(t, "order"),
					IDs: []string{state.EntryID(rapid.Uint64Range(1, uint64(n)+2).Draw(t, "one")), state.EntryID(rapid.Uint64Range(1, uint64(n)+2).Draw(t, "other one"))},
				}
			case 2:
				c.Payload = &command.SetRule{
					Order: fsmtest.ByOperator, For: rapid.Int64Range(1, 20_000).Draw(t, "for"),
					Kind: command.RuleName, Subject: rapid.SampledFrom(someAgents).Draw(t, "blocked"),
				}
			case 3:
				c.Payload = &command.SetRule{Order: fsmtest.ByOperator, For: 5000, Kind: command.RuleNetwork, Subject: "192.0.2.0/24"}
			case 4:
				c.Payload = &command.LiftRule{Order: fsmtest.ByOperator, Number: rapid.Uint64Range(1, m.recorded+2).Draw(t, "lifted")}
			}
			g.Commands = append(g.Commands, c)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// drawLog draws a log with its model.
func drawLog(tb testing.TB, t *rapid.T) (*raftLog, *model) {
	l, m := newLog(tb), newModel()
	var b command.Batch
	for range rapid.IntRange(1, 30).Draw(t, "log entries") {
		switch rapid.IntRange(0, 11).Draw(t, "type") {
		case 0:
			l.add(raft.LogNoop, nil)
		case 1:
			l.add(raft.LogConfiguration, l.entries[0].Data)
		default:
			b = drawBatch(t, b, m)
			l.batch(b)
			m.apply(b)
		}
	}
	return l, m
}

func drawQuery(t *rapid.T, m *model) view.Query {
	some := rapid.IntRange(0, 1<<9-1).Draw(t, "fields") & rapid.IntRange(0, 1<<9-1).Draw(t, "fewer fields")
	if rapid.Bool().Draw(t, "search") {
		some = 1<<8 | some&^7
	}
	has := func(bit int) bool { return some>>bit&1 == 1 }
	n := uint64(len(m.entries))
	q := view.Query{Since: -1}
	values := func(of []string, name string) string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 3, rapid.ID).Draw(t, name), view.Or)
	}
	if has(0) {
		q.Kind = values([]string{"message", "knowledge", "feature_request"}, "kind")
	}
	if has(1) {
		q.Channel = values([]string{"general", "den", "hall", "none"}, "channel")
	}
	if has(2) {
		q.AgentKey = values(someAgents, "agent")
	}
	if has(3) {
		q.ForKey = rapid.SampledFrom(someAgents).Draw(t, "for")
	}
	if has(4) {
		q.TagKey = values([]string{text.FoldTag("red"), text.FoldTag("grün"), text.FoldTag("two words"), "none"}, "tag")
	}
	if has(5) {
		q.Thread = rapid.Uint64Range(1, n+1).Draw(t, "thread")
	}
	if has(6) {
		q.ReplyTo = rapid.Uint64Range(1, n+1).Draw(t, "reply to")
	}
	if has(7) {
		q.Since = rapid.Int64Range(-m.now-2, m.now+1).Draw(t, "since")
	}
	if has(8) {
		q.Q = rapid.SampledFrom([]string{
			"alpha", "alp", "ALPHA", "alpha beta ", "beta alph", "uber", "naive gam", "世界", "the ", "a", "!!", "nothing", "alpha the ",
			`"alpha beta"`, `"beta the" alp`, `"body a"`, "-alpha", "alp -beta", `-"alpha beta" the `, "alpha beta gamma delta",
		}).Draw(t, "q")
		q.AnyWord = rapid.Bool().Draw(t, "any word")
	}
	q.Limit = rapid.IntRange(0, 5).Draw(t, "limit")
	return q
}

// TestMachineAgainstModel applies a drawn log and asks drawn queries, following
// each to its last page.
func TestMachineAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, want := drawLog(t, rt)
		m := tempMachine(rt)
		defer dropMachine(rt, m)
		l.feed(m, 1, l.last())
		v := m.View()
		defer v.Release()
		if v.LastSeq() != uint64(len(want.entries)) || v.Time() != want.now {
			rt.Fatalf("%d entries at %d, want %d at %d", v.LastSeq(), v.Time(), len(want.entries), want.now)
		}
		for key, seq := range want.requests {
			if got, ok, _ := v.Earlier(command.OpPublish, fsmtest.ByRequest(key)); !ok || got != seq {
				rt.Fatalf("request %+v is entry %d, %v, want %d", key, got, ok, seq)
			}
		}
		for boot, s := range want.sessions {
			results := v.Results(boot)
			for seq, r := range s.answers {
				got, ok := results[seq]
				if ok != s.mayCome(seq) || ok && (got.Entry != r.Entry || got.Outcome != r.Outcome) {
					rt.Fatalf("result of %s/%d is %+v, %v, want %+v after %+v", boot, seq, got, ok, r, s.groups)
				}
			}
		}
		for range 40 {
			q := drawQuery(rt, want)
			for page := 0; ; page++ {
				seqs, next, err := v.List(q)
				wantSeqs, wantNext := want.list(q)
				if err != nil || !slices.Equal(seqs, wantSeqs) || next != wantNext {
					rt.Fatalf("page %d of %+v: %v, next %d, %v, want %v, next %d", page, q, seqs, next, err, wantSeqs, wantNext)
				}
				if next == 0 {
					break
				}
				q.Before = next
			}
		}
		checkSuccessors(rt, v, want)
	})
}

// checkSuccessors checks that supersededBy mirrors supersedes.
func checkSuccessors(t *rapid.T, v *view.View, want *model) {
	for _, e := range want.entries {
		var ids []string
		for _, o := range want.entries {
			if o.parent == e.seq && !o.hidden {
				ids = append(ids, state.EntryID(o.seq))
			}
		}
		doc, raw := fsmtest.ReadEntry(t, v, e.seq)
		var got []string
		for _, s := range doc.SupersededBy {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, ids) || doc.SupersededByCount != len(ids) {
			t.Fatalf("entry %d: superseded by %v, want %v: %s", e.seq, got, ids, raw)
		}
	}
}

// TestMachinesAgree draws a log of all commands. Machines that apply it in other calls,
// with restarts, crashes and installed snapshots in between, have the same results,
// digests and rows at each index.
func TestMachinesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var got recorder
		observed := func(o *Options) { o.Observer, o.MaxFormat = &got, command.MaxFormat+1 }
		one := tempMachine(rt, observed)
		defer func() { dropMachine(rt, one) }()
		want := history{}
		applied := func() { want.add(rt, one, &got) }
		applied()
		w := newLogWriter(rt, newLog(t), one, applied)
		var sent []sentSnapshot
		for range 1 + 10*w.below(12) + w.below(10) {
			w.write()
			if w.oneOf(30) {
				must.Do(rt, takeSnapshot(one, w.log.last(), 99))
				meta, data, err := send(one)
				must.Do(rt, err)
				sent = append(sent, sentSnapshot{meta, data})
			}
		}
		all := tempMachine(rt, observed) // in a single call
		defer func() { dropMachine(rt, all) }()
		w.log.feed(all, 1, w.log.last())
		want.check(rt, w.log, all, &got)
		two := &follower{T: rt, log: w.log, m: tempMachine(rt, observed), sent: sent}
		defer func() { dropMachine(rt, two.m) }()
		two.check = func() {
			want.check(rt, w.log, two.m, &got)
			fsmtest.CheckReportQueue(rt, two.m.store.DB, two.m.Reports)
		}
		two.run()
		sameState(rt, stateOf(rt, one), stateOf(rt, two.m))
		fsmtest.CheckNameCounts(rt, two.m)
	})
}

// history is the state of a machine after each log entry, by the applied index.
type history map[uint64]moment

type moment struct {
	rolling, rows [32]byte
	answers       []apply.Answered // of the log entry
}

// add notes the state of a machine that has applied one log entry more.
func (h history) add(t fsmtest.Tester, m *Machine, got *recorder) {
	t.Helper()
	index, rolling := m.Digest()
	if _, known := h[index]; !known {
		h[index] = moment{rolling, rowDigest(t, m), got.got}
	}
	got.got = nil
}

func rowDigest(t fsmtest.Tester, m *Machine) [32]byte {
	t.Helper()
	v := m.View()
	defer v.Release()
	return must.Get(v.RowDigest(context.Background()))(t)
}

// check compares a machine, and the results since the last check, with the history.
func (h history) check(t fsmtest.Tester, l *raftLog, m *Machine, got *recorder) {
	t.Helper()
	results := map[uint64][]apply.Answered{}
	for _, a := range got.got {
		results[a.Index] = append(results[a.Index], a)
	}
	got.got = nil
	for _, index := range slices.Sorted(maps.Keys(results)) {
		if diff := cmp.Diff(h[index].answers, results[index], cmp.AllowUnexported(apply.Answered{})); diff != "" {
			t.Fatalf("results at index %d (-one by one +here):\n%s", index, diff)
		}
	}
	index, rolling := m.Digest()
	must.Equal(t, rolling, h[index].rolling, "the rolling digest at index %d", index)
	if rowDigest(t, m) != h[index].rows {
		t.Fatalf("rows at index %d (-one by one +here):\n%s", index, cmp.Diff(l.rowsAt(t, index), allRows(t, m)))
	}
}

// rowsAt returns the rows that the log makes of an empty machine, applied one by one.
func (l *raftLog) rowsAt(t fsmtest.Tester, last uint64) map[string]string {
	dir := must.Get(os.MkdirTemp("", "fsm"))(t)
	m := must.Get(tryOpenAt(dir, func(o *Options) { o.MaxFormat = command.MaxFormat + 1 }))(t)
	for i := uint64(1); i <= last; i++ {
		l.feed(m, i, i)
	}
	rows := allRows(t, m)
	must.Do(t, errors.Join(m.Close(), os.RemoveAll(dir)))
	return rows
}

// sentSnapshot is a snapshot as a leader sends it.
type sentSnapshot struct {
	meta *raft.SnapshotMeta
	data []byte
}

// follower applies a log in drawn calls. In between it erases what was swept, takes snapshots and
// installs those that are sent to it, and the machine is closed or crashes; it then begins at its
// newest snapshot.
type follower struct {
	*rapid.T
	log   *raftLog
	m     *Machine
	sent  []sentSnapshot
	check func() // called after each step; may be nil
}

func (f *follower) run() {
	snapshot := uint64(0)
	for at := uint64(0); at < f.log.last(); {
		upto := rapid.Uint64Range(at+1, f.log.last()).Draw(f.T, "upto")
		f.log.feed(f.m, at+1, upto)
		at = upto
		var err error
		switch event := rapid.IntRange(0, 9).Draw(f.T, "event"); event {
		case 5:
			_, err = f.m.EraseSwept(context.Background(), func() bool { return rapid.IntRange(0, 3).Draw(f.T, "other work") == 0 })
		case 6:
			err = takeSnapshot(f.m, at, 99)
			snapshot = max(snapshot, at)
		case 7:
			if len(f.sent) > 0 {
				s := rapid.SampledFrom(f.sent).Draw(f.T, "sent")
				err = receive(f.m, s.meta, s.data)
				snapshot, at = max(snapshot, s.meta.Index), max(at, s.meta.Index)
			}
		case 8, 9:
			end := f.m.Close
			if event == 9 {
				end = f.m.Abandon
			}
			if err = end(); err == nil {
				f.m, err = Open(f.m.opts)
			}
			at = snapshot
		}
		must.Do(f, err)
		if f.check != nil {
			f.check()
		}
	}
}

// feedRoughly applies a log in drawn calls, with snapshots, restarts and crashes in
// between.
func feedRoughly(rt *rapid.T, l *raftLog, m *Machine) *Machine {
	f := follower{T: rt, log: l, m: m}
	f.run()
	return f.m
}

// tempMachine opens a machine for one round of a property.
func tempMachine(t *rapid.T, change ...func(*Options)) *Machine {
	dir := must.Get(os.MkdirTemp("", "fsm"))(t)
	return must.Get(tryOpenAt(dir, change...))(t)
}

func dropMachine(t *rapid.T, m *Machine) {
	checkHotRows(t, m)
	check.Err(t, m.Close(), nil, "close")
	check.Err(t, os.RemoveAll(m.opts.Dir), nil, "remove all")
}
