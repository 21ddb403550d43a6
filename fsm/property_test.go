package fsm

import (
	"os"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/internal/longtest"
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
		p.Target = EntryID(uint64(rapid.IntRange(1, n+2).Draw(t, "target")))
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
		g := drawWindow(t)
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
					Order: byOperator, Unhide: rapid.Bool().Draw(t, "unhide"),
					IDs: []string{EntryID(rapid.Uint64Range(1, uint64(n)+2).Draw(t, "one")), EntryID(rapid.Uint64Range(1, uint64(n)+2).Draw(t, "other one"))},
				}
			case 2:
				c.Payload = &command.SetRule{
					Order: byOperator, For: rapid.Int64Range(1, 20_000).Draw(t, "for"),
					Kind: command.RuleName, Subject: rapid.SampledFrom(someAgents).Draw(t, "blocked"),
				}
			case 3:
				c.Payload = &command.SetRule{Order: byOperator, For: 5000, Kind: command.RuleNetwork, Subject: "192.0.2.0/24"}
			case 4:
				c.Payload = &command.LiftRule{Order: byOperator, Number: rapid.Uint64Range(1, m.recorded+2).Draw(t, "lifted")}
			case 5:
				p.Proof.Held = 1
			}
			g.Commands = append(g.Commands, c)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// drawWindow draws a group without commands: a floor, and open numbers below it.
func drawWindow(t *rapid.T) command.Group {
	g := command.Group{Floor: rapid.Uint64Range(0, 20).Draw(t, "floor")}
	if g.Floor > 0 {
		g.Open = rapid.SliceOfNDistinct(rapid.Uint64Range(0, g.Floor-1), 0, 4, rapid.ID).Draw(t, "open")
		slices.Sort(g.Open)
	}
	return g
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

func drawQuery(t *rapid.T, m *model) Query {
	some := rapid.IntRange(0, 1<<9-1).Draw(t, "fields")
	has := func(bit int) bool { return some>>bit&1 == 1 }
	n := uint64(len(m.entries))
	q := Query{Since: -1}
	if has(0) {
		q.Kind = command.Kind(rapid.IntRange(1, 3).Draw(t, "kind"))
	}
	if has(1) {
		q.Channel = rapid.SampledFrom(someChannels).Draw(t, "channel")
	}
	if has(2) {
		q.AgentKey = rapid.SampledFrom(someAgents).Draw(t, "agent")
	}
	if has(3) {
		q.ForKey = rapid.SampledFrom(someAgents).Draw(t, "for")
	}
	if has(4) {
		q.TagKey = text.FoldTag(rapid.SampledFrom(someTags).Draw(t, "tag"))
	}
	if has(5) {
		q.Thread = rapid.Uint64Range(1, n+1).Draw(t, "thread")
	}
	if has(6) {
		q.ReplyTo = rapid.Uint64Range(1, n+1).Draw(t, "reply to")
	}
	if has(7) {
		q.Since = rapid.Int64Range(0, m.now+1).Draw(t, "since")
	}
	if has(8) {
		q.Q = rapid.SampledFrom([]string{"alpha", "alp", "ALPHA", "alpha beta ", "beta alph", "uber", "naive gam", "世界", "the ", "a", "!!", "nothing"}).Draw(t, "q")
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
			if got, ok := v.Request(command.OpPublish, command.Standing{}, byRequest(key)); !ok || got != seq {
				rt.Fatalf("request %+v is entry %d, %v, want %d", key, got, ok, seq)
			}
		}
		for boot, s := range want.sessions {
			for seq, r := range s.answers {
				got, ok := v.Result(boot, seq)
				if ok != s.mayCome(seq) || ok && (got.Entry != r.Entry || got.Outcome != r.Outcome) {
					rt.Fatalf("result of %s/%d is %+v, %v, want %+v after %+v", boot, seq, got, ok, r, s.groups)
				}
			}
		}
		for range 20 {
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
func checkSuccessors(t *rapid.T, v *View, want *model) {
	for _, e := range want.entries {
		var ids []string
		for _, o := range want.entries {
			if o.parent == e.seq && !o.hidden {
				ids = append(ids, EntryID(o.seq))
			}
		}
		doc, raw := readEntry(t, v, e.seq)
		var got []string
		for _, s := range doc.SupersededBy {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, ids) || doc.SupersededByCount != len(ids) {
			t.Fatalf("entry %d: superseded by %v, want %v: %s", e.seq, got, ids, raw)
		}
	}
}

// TestMachinesAgree applies one drawn log to three machines in different ways:
// entry by entry; in drawn pieces with restarts and crashes; and a part of it by
// a snapshot. All must end in the same state.
func TestMachinesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, _ := drawLog(t, rt)
		one := tempMachine(rt)
		defer func() { dropMachine(rt, one) }()
		for i := uint64(1); i <= l.last(); i++ {
			l.feed(one, i, i)
		}
		two := tempMachine(rt)
		defer func() { dropMachine(rt, two) }()
		two = feedRoughly(rt, l, two)

		three := tempMachine(rt)
		defer func() { dropMachine(rt, three) }()
		early := rapid.Uint64Range(0, l.last()).Draw(rt, "early")
		l.feed(three, 1, early)
		if err := takeSnapshot(two, l.last(), 99); err != nil {
			rt.Fatal(err)
		}
		meta, data, err := send(two)
		if err != nil {
			rt.Fatal(err)
		}
		if err := receive(three, meta, data); err != nil {
			rt.Fatal(err)
		}
		want := stateOf(rt, one)
		sameState(rt, want, stateOf(rt, two))
		sameState(rt, want, stateOf(rt, three))
	})
}

// feedRoughly applies a log in drawn pieces. In between it takes snapshots, and
// the machine is closed or crashes; it then begins at its newest snapshot.
func feedRoughly(rt *rapid.T, l *raftLog, m *Machine) *Machine {
	dir, snapshot := m.opts.Dir, uint64(0)
	for at := uint64(0); at < l.last(); {
		upto := rapid.Uint64Range(at+1, l.last()).Draw(rt, "upto")
		l.feed(m, at+1, upto)
		at = upto
		event := rapid.IntRange(0, 4).Draw(rt, "event")
		var err error
		switch event {
		case 0:
			err = takeSnapshot(m, at, 99)
			snapshot = at
		case 1:
			err = m.Close()
		case 2:
			err = m.Abandon()
		}
		if err != nil {
			rt.Fatal(err)
		}
		if event == 1 || event == 2 {
			if m, err = tryOpenAt(dir); err != nil {
				rt.Fatal(err)
			}
			at = snapshot
			if rapid.Bool().Draw(rt, "to the end") {
				l.feed(m, at+1, l.last())
				at = l.last()
			}
		}
	}
	return m
}

// tempMachine opens a machine for one round of a property.
func tempMachine(t *rapid.T) *Machine {
	dir, err := os.MkdirTemp("", "fsm")
	if err != nil {
		t.Fatal(err)
	}
	m, err := tryOpenAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func dropMachine(t *rapid.T, m *Machine) {
	checkHotRows(t, m)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(m.opts.Dir); err != nil {
		t.Error(err)
	}
}
