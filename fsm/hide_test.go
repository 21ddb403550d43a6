package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// byOperator is an order of the operator's.
var byOperator = command.Order{By: command.Operator, Reason: "spam"}

func hide(ids ...string) *command.Hide { return &command.Hide{Order: byOperator, IDs: ids} }

func unhide(ids ...string) *command.Hide {
	return &command.Hide{Order: byOperator, IDs: ids, Unhide: true}
}

// TestHiddenEntry: a hidden entry is a stub, appears only in a thread, and rejects new
// relations.
func TestHiddenEntry(t *testing.T) {
	r := newRig(t)
	root := r.publish(func(p *command.Publish) { p.Channel = "den" })
	spam := r.publish(func(p *command.Publish) {
		relate(command.RelationReply, root)(p)
		p.Agent, p.AgentKey, p.Title, p.Body, p.Tags = "eve", "eve", "Cheap pills", "Buy cheap pills here.", []string{"pills"}
	})
	r.publish(relate(command.RelationReply, root))
	expect(t, r.run(hide(state.EntryID(spam)))[0], command.OutcomeDone, "hide")
	doc, raw := r.read(spam)
	if doc.Hidden == nil || doc.Hidden.Reason != "spam" || doc.Hidden.At == 0 || doc.Channel != "den" || *doc.Supersedes != state.EntryID(root) || doc.CreatedAt == 0 {
		t.Errorf("the stub is %s", raw)
	}
	for _, word := range []string{"eve", "pills"} {
		check.Lacks(t, raw, word, "the stub")
	}
	doc, raw = r.read(root)
	if doc.SupersededByCount != 1 || len(doc.SupersededBy) != 1 || doc.SupersededBy[0].Agent != "ada" {
		t.Errorf("the entry that was answered is %s", raw)
	}
	check.Diff(t, r.list(view.Query{Thread: root, Since: -1}), []uint64{3, 2, 1}, "thread")
	for _, q := range []view.Query{{Q: "pills"}, {AgentKey: "eve"}, {TagKey: "pills"}, {Thread: root, Q: "pills"}, {Thread: root, AgentKey: "eve"}, {ForKey: "ada", Q: "cheap"}} {
		q.Since = -1
		check.Empty(t, r.list(q), "what %+v finds", q)
	}
	for _, p := range []command.Payload{
		post("bob", relate(command.RelationReply, spam)),
		post("eve", relate(command.RelationRetraction, spam)),
	} {
		check.Diff(t, r.run(p)[0].Problems, []command.Problem{command.ProblemHidden}, "%+v relates to a hidden entry", p)
	}
	expect(t, r.run(hide(state.EntryID(spam), "e99", "j2"))[0], command.OutcomeUnchanged, "hidden twice")
}

// TestUndoOfAnOrder: taking an order back shows what all its parts hide, and leaves what another order
// has hidden since, or a purge has erased.
func TestUndoOfAnOrder(t *testing.T) {
	part := func(of uint64, ids ...string) *command.Hide {
		return &command.Hide{Order: byOperator, IDs: ids, Of: of}
	}
	profiles := func(names ...string) *command.Hide { return &command.Hide{Order: byOperator, Agents: names} }
	for name, test := range map[string]struct {
		commands []command.Payload
		number   uint64
		shows    string // of the entries 1 to 4, and the profile of eve
	}{
		"one part":                  {[]command.Payload{part(0, "e1", "e2")}, 1, "1 2 3 4 eve"},
		"two parts":                 {[]command.Payload{part(0, "e1"), part(0, "e3"), part(1, "e2")}, 1, "1 2 4 eve"},
		"of another order":          {[]command.Payload{part(0, "e1"), part(0, "e2")}, 2, "2 3 4 eve"},
		"hidden again":              {[]command.Payload{part(0, "e1", "e2"), unhide("e1"), part(0, "e1")}, 1, "2 3 4 eve"},
		"purged":                    {[]command.Payload{part(0, "e1", "e2"), purge("e1")}, 1, "2 3 4 eve"},
		"a profile":                 {[]command.Payload{profiles("eve")}, 1, "1 2 3 4 eve"},
		"a profile hidden again":    {[]command.Payload{profiles("eve"), &command.Hide{Order: byOperator, Agents: []string{"eve"}, Unhide: true}, profiles("eve")}, 1, "1 2 3 4"},
		"a profile that was purged": {[]command.Payload{profiles("eve"), &command.Purge{Order: byOperator, Agents: []string{"eve"}}}, 1, "1 2 3 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for range 4 {
				r.publish(nil)
			}
			r.run(&command.Register{Agent: "eve", AgentKey: "eve", Given: command.FieldNote, Note: "Pills", NewKey: bytes.Repeat([]byte{1}, 32), NewRecovery: bytes.Repeat([]byte{1}, 32)})
			for _, c := range test.commands {
				expect(t, r.run(c)[0], command.OutcomeDone, "%T", c)
			}
			r.run(&command.Hide{Order: byOperator, IDs: []string{"e1", "e2", "e3", "e4"}, Agents: []string{"eve"}, Unhide: true, Of: test.number})
			v := r.View()
			defer v.Release()
			shown := []string{}
			for seq := range uint64(4) {
				if is := must.Get(v.Visibility(seq + 1))(t); is == view.Visible {
					shown = append(shown, fmt.Sprint(seq+1))
				}
			}
			if is, _, _ := v.ProfileVisibility("eve"); is == view.Visible {
				shown = append(shown, "eve")
			}
			check.Equal(t, strings.Join(shown, " "), test.shows, "shown entries and profiles")
			left, _, err := v.HiddenBy(test.number, 0, 10)
			check.Equal(t, len(left), 0, "entries that the order still hides, %v", err)
			check.Equal(t, len(must.Get(v.ProfilesHiddenBy(test.number))(t)), 0, "profiles that it still hides")
		})
	}
}

// TestHiddenByInParts: what an order hides is listed in parts, newest first, without what others hide.
func TestHiddenByInParts(t *testing.T) {
	r := newRig(t)
	for range 7 {
		r.publish(nil)
	}
	r.run(hide("e1", "e2", "e4", "e6", "e7"), hide("e3", "e5"))
	v := r.View()
	defer v.Release()
	var all [][]uint64
	for before := uint64(0); ; {
		seqs, next, err := v.HiddenBy(1, before, 2)
		must.Do(t, err)
		if all = append(all, seqs); next == 0 {
			break
		}
		before = next
	}
	check.Diff(t, all, [][]uint64{{7, 6}, {4, 2}, {1}}, "the parts")
}

// TestOnlyModeratorsHide: by their names, as long as these have a token.
func TestOnlyModeratorsHide(t *testing.T) {
	r := newRig(t)
	seq := r.publish(nil)
	by := func(name string, unhide bool) []command.Problem {
		return r.run(&command.Hide{Order: command.Order{By: name}, IDs: []string{state.EntryID(seq)}, Unhide: unhide})[0].Problems
	}
	none := []command.Problem{command.ProblemNotModerator}
	check.Diff(t, by("mia", false), none, "a stranger hides")
	token := bytes.Repeat([]byte{7}, command.KeyHashBytes)
	grant := func(name string, token []byte) command.Result {
		return r.run(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: name, Token: token, For: 1000_000})[0]
	}
	expect(t, grant("mia", token), command.OutcomeDone, "result")
	if got := by("mia", false); got != nil {
		t.Errorf("a moderator does not hide: %d", got)
	}
	v := r.View()
	mia, _, err := v.Moderator(token)
	stranger, _, strangerErr := v.Moderator(make([]byte, command.KeyHashBytes))
	v.Release()
	if mia.Name != "mia" || stranger.Name != "" || err != nil || strangerErr != nil {
		t.Errorf("the token is %q's, another one %q's, %v, %v", mia.Name, stranger.Name, err, strangerErr)
	}
	expect(t, grant("mia", nil), command.OutcomeDone, "revoked")
	check.Diff(t, by("mia", true), none, "one whose token was revoked unhides")
	expectProblem(t, grant("mia", nil), command.ProblemUnknownModerator, "revoked twice")
	for i := range command.MaxModerators {
		expect(t, grant(fmt.Sprintf("m%d", i), token), command.OutcomeDone, "moderator %d", i)
	}
	expectProblem(t, grant("one-more", token), command.ProblemTooManyModerators, "one moderator too many")
}

// TestRecord: every action has a row, newest first, in pages.
func TestRecord(t *testing.T) {
	r := newRig(t)
	seq := r.publish(nil)
	r.run(hide(state.EntryID(seq)), unhide(state.EntryID(seq)), unhide(state.EntryID(seq)))
	v := r.View()
	defer v.Release()
	rows, next, err := v.Records(0, 1)
	if err != nil || len(rows) != 1 || next != 2 {
		t.Fatalf("%+v, next %d, %v", rows, next, err)
	}
	older, end, err := v.Records(next, 5)
	want := []state.Record{{Number: 1, At: v.Time(), By: "operator", Action: state.ActionHide, What: "e1", Reason: "spam"}}
	if err != nil || end != 0 || !slices.Equal(older, want) || rows[0].Action != state.ActionUnhide {
		t.Errorf("%+v before %+v, next %d, %v", older, rows, end, err)
	}
}

// TestRecordIsBounded: the oldest rows go.
func TestRecordIsBounded(t *testing.T) {
	r := newRig(t)
	r.publish(nil)
	r.applyMu.Lock()
	err := r.store.DB.Set(state.KeyRecorded, state.AppendUints(nil, state.MaxRecorded), pebble.NoSync)
	if err == nil {
		old := state.Record{By: "mia"}
		err = r.store.DB.Set(state.SeqKey(state.SpaceRecord, 1), state.Encode(&old), pebble.NoSync)
	}
	r.applyMu.Unlock()
	must.Do(t, err)
	r.run(hide("e1"))
	v := r.View()
	defer v.Release()
	if rows, _, err := v.Records(0, 5); err != nil || len(rows) != 1 || rows[0].Number != state.MaxRecorded+1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestHiddenJob: its claim ends, claims and results quote it no more, and unhide gives
// no claim back.
func TestHiddenJob(t *testing.T) {
	r := newRig(t)
	job := postJob("ada")
	job.Title = "Sell pills"
	seq := r.run(job)[0].Entry
	id := state.FormatID(state.TypeJob, seq)
	claim := r.run(&command.ClaimJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: id}, TTL: 1000_000})[0].Entry
	r.run(hide(id))
	if _, raw := r.read(claim); strings.Contains(raw, "pills") || !strings.Contains(raw, view.HiddenJob) {
		t.Errorf("the claim is %s", raw)
	}
	check.Empty(t, r.list(view.Query{Q: "pills", Since: -1}), "entries with the word of the job")
	for status := range state.JobHidden {
		check.Empty(t, r.jobs(view.JobQuery{Status: status}), "jobs that are %s", status)
	}
	if h := r.home("bob", 0); len(h.ToDeliver) > 0 || len(h.OpenJobs) > 0 {
		t.Errorf("bob is shown %+v", h)
	}
	check.Empty(t, r.home("ada", 0).OwedToYou, "what ada is owed")
	finish := &command.FinishJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: id}, Result: "Done."}
	check.Diff(t, r.run(finish)[0].Problems, []command.Problem{command.ProblemHidden}, "a hidden job is done")
	r.run(unhide(id))
	if got, _ := r.job(seq); got.Status != state.JobOpen || got.ClaimedBy != "" {
		t.Errorf("the job is %+v", got)
	}
	if _, raw := r.read(claim); !strings.Contains(raw, "Claimed: Sell pills") {
		t.Errorf("the claim is %s", raw)
	}
	check.Diff(t, r.jobs(view.JobQuery{Status: state.JobOpen}), []uint64{seq}, "open")
}

// TestNewAfterAFloodIsHidden: when a flood is hidden, home shows the new entries before it again.
func TestNewAfterAFloodIsHidden(t *testing.T) {
	r := newRig(t)
	before := r.publish(nil)
	var flood []string
	for i := range 2 * command.MaxNew {
		flood = append(flood, state.EntryID(r.run(post(fmt.Sprint("spam-", i%2), nil))[0].Entry))
	}
	check.Equal(t, len(r.home("bob", 0).New), command.MaxNew, "new entries in a flood")
	r.run(hide(flood...))
	check.Diff(t, r.home("bob", 0).New, []uint64{before}, "new entries when it is hidden")
	check.Equal(t, len(r.home("ada", 0).New), 0, "new entries of the author of the other one")
	r.run(unhide(flood...))
	check.Equal(t, len(r.home("bob", 0).New), command.MaxNew, "new entries when it is shown again")
}

// TestHiddenClaimIsNotTold: home of the former claimant does not list a hidden claim.
func TestHiddenClaimIsNotTold(t *testing.T) {
	r := newRig(t)
	brief := func(agent string) *command.ClaimJob {
		return &command.ClaimJob{JobAction: onJob(agent, 1), TTL: 1}
	}
	r.run(postJob("ada"), brief("bob"))
	r.run(&command.Tick{})
	claim := r.run(brief("eve"))[0].Entry
	expectTold := func(want bool, when string) {
		t.Helper()
		v := r.View()
		defer v.Release()
		has := must.Get(v.HasFor(&view.Preferences{AgentKey: "bob"}, 0))(t)
		check.Equal(t, has, want, "bob has news %s", when)
		check.Equal(t, len(r.home("bob", 0).ForYou) > 0, want, "home of bob lists the claim %s", when)
	}
	expectTold(true, "of the claim")
	r.run(hide(state.EntryID(claim)))
	expectTold(false, "while it is hidden")
	r.run(unhide(state.EntryID(claim)))
	expectTold(true, "when it is shown again")
}

// TestHiddenDelivery: what waits is dropped, and not queued again.
func TestHiddenDelivery(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	reply := func(p *command.Publish) { p.Agent, p.AgentKey, p.Mentions = "eve", "eve", []string{"ada"} }
	first, second := r.publish(reply), r.publish(reply)
	r.run(hide(state.EntryID(second)))
	r.run(unhide(state.EntryID(second)))
	o := r.outbox("ada")
	if o.Waiting != 1 || o.Newest[0].Status != outbox.DeliveryDropped || o.Newest[0].Reason != outbox.ReasonHidden || o.Newest[1].Entry != first {
		t.Errorf("the outbox is %+v", o)
	}
}

// TestHiddenProfile: it is in no list, and its text is shown nowhere.
func TestHiddenProfile(t *testing.T) {
	r := newRig(t)
	r.run(register("ada", "key-ada", func(c *command.Register) { c.Description, c.Note, c.Given = "I sell pills.", "pills", 31 }))
	r.run(register("bob", "key-bob", nil))
	list := func(q string) (all []uint64) {
		v := r.View()
		defer v.Release()
		all, _, err := v.ListProfiles(view.ProfileQuery{Q: q})
		must.Do(t, err)
		return all
	}
	before, _ := r.profile("ada")
	r.run(&command.Hide{Order: byOperator, Agents: []string{"ada"}})
	doc, _ := r.profile("ada")
	check.Lacks(t, doc, "pills", "the profile")
	check.Contains(t, doc, `"hidden":{"at":`, "the profile")
	if all, found := list(""), list("pills"); !slices.Equal(all, []uint64{2}) || len(found) > 0 {
		t.Errorf("the profiles are %d, found are %d", all, found)
	}
	r.run(&command.Hide{Order: byOperator, Agents: []string{"ada"}, Unhide: true})
	if after, _ := r.profile("ada"); after != before {
		t.Errorf("the profile was %s and is %s", before, after)
	}
	if all, found := list(""), list("pills"); !slices.Equal(all, []uint64{2, 1}) || !slices.Equal(found, []uint64{1}) {
		t.Errorf("the profiles are %d, found are %d", all, found)
	}
}

// TestUnhideBringsEverythingBack: whatever was hidden in whatever order, the rows are
// those of before; meanwhile no view shows any of it.
func TestUnhideBringsEverythingBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, _ := drawLog(t, rt)
		m := tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		seq := uint64(0)
		apply := func(payloads ...command.Payload) {
			g := command.Group{Boot: command.BootID{9}}
			for _, p := range payloads {
				seq++
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: p})
			}
			l.batch(command.Batch{Groups: []command.Group{g}})
		}
		apply(
			postJob("bob"), &command.AskHuman{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Goal: "A goal", Action: "An action"},
			post("ada", func(p *command.Publish) { p.Body, p.Kind, p.Tags = "Is this a note?", command.KindKnowledge, someTags }),
		)
		l.feed(m, 1, l.last())
		before := rowsOf(rt, m)
		var ids []string
		for seq := uint64(1); seq <= m.Head.LastSeq; seq++ {
			if id, hidden := idOf(rt, m, seq); !hidden && rapid.Bool().Draw(rt, "hidden") {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			return
		}
		step := func(hidden bool, ids []string) {
			for _, id := range ids {
				c := hide(id)
				c.Unhide = !hidden
				apply(c)
				l.feed(m, l.last(), l.last())
			}
		}
		step(true, rapid.Permutation(ids).Draw(rt, "order"))
		v := m.View()
		for _, q := range []view.Query{{}, {Q: "t"}, {AgentKey: "ada"}, {AgentKey: "bob"}, {ForKey: "ada"}} {
			q.Since, q.Limit = -1, command.MaxList
			seqs, _, err := v.List(q)
			must.Do(rt, err)
			for _, seq := range seqs {
				if meta, _, _ := v.Meta(seq); meta.Hidden {
					rt.Errorf("%+v shows the hidden entry %d", q, seq)
				}
			}
		}
		v.Release()
		if rapid.Bool().Draw(rt, "restarted") {
			dir := m.opts.Dir
			must.Do(rt, m.Close())
			var err error
			if m, err = tryOpenAt(dir); err != nil {
				rt.Fatal(err)
			}
		}
		step(false, rapid.Permutation(ids).Draw(rt, "order back"))
		after := rowsOf(rt, m)
		for key, row := range before {
			check.Equal(rt, after[key], row, "the row %q", key)
			delete(after, key)
		}
		for key, row := range after {
			rt.Errorf("the row %q is %q and was none", key, row)
		}
	})
}

// rowsOf returns the logical rows but for those of sessions and of the record, and of
// the policy: rules end while a test goes on.
func rowsOf(t tester, m *Machine) map[string]string {
	rows := map[string]string{}
	for _, space := range logicalSpaces() {
		if slices.Contains([]byte{state.SpaceSession, state.SpaceAnswer, state.SpaceRecord, state.SpaceEvents, state.SpaceRule}, space) {
			continue
		}
		lower, upper := state.SpaceBounds(space)
		must.Do(t, state.ScanSpace(m.store.DB, lower, upper, func(key, row []byte) error {
			if !slices.ContainsFunc([][]byte{state.KeyRecorded, state.KeyHidden, state.KeyPolicy}, func(other []byte) bool { return bytes.Equal(key, other) }) {
				rows[string(key)] = string(row)
			}
			return nil
		}))
	}
	return rows
}

// idOf returns the public id of an entry, and whether it is hidden.
func idOf(t tester, m *Machine, seq uint64) (id string, hidden bool) {
	v := m.View()
	defer v.Release()
	meta, ok, err := v.Meta(seq)
	if !ok || err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	return state.FormatID(meta.Type, seq), meta.Hidden
}

// TestHiddenWordsAfterRestart: a node that was started again while an entry was hidden
// finds it as the others do when it is shown again.
func TestHiddenWordsAfterRestart(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	l := newLog(t)
	l.commands(post("ada", func(p *command.Publish) { p.Body = "Rare words here." }))
	l.commands(hide("e1"))
	l.feed(m, 1, l.last())
	closeMachine(t, m)
	m = openAt(t, dir)
	l.feed(m, l.last()+1, l.commands(unhide("e1")))
	v := m.View()
	defer v.Release()
	if got, _, err := v.List(view.Query{Q: "rare", AgentKey: "ada", Since: -1}); err != nil || !slices.Equal(got, []uint64{1}) {
		t.Errorf("found are %d, %v", got, err)
	}
}
