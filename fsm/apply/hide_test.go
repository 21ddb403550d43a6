package apply_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestHiddenEntry: a hidden entry is a stub, appears only in a thread, and rejects new
// relations.
func TestHiddenEntry(t *testing.T) {
	r := newRig(t)
	root := r.Publish(func(p *command.Publish) { p.Channel = "den" })
	spam := r.Publish(func(p *command.Publish) {
		fsmtest.Relate(command.RelationReply, root)(p)
		p.Agent, p.AgentKey, p.Title, p.Body, p.Tags = "eve", "eve", "Cheap pills", "Buy cheap pills here.", []string{"pills"}
	})
	r.Publish(fsmtest.Relate(command.RelationReply, root))
	fsmtest.Expect(t, r.Run(fsmtest.Hide(state.EntryID(spam)))[0], command.OutcomeDone, "hide")
	doc, raw := r.Read(spam)
	if doc.Hidden == nil || doc.Hidden.Reason != "spam" || doc.Hidden.At == 0 || doc.Channel != "den" || *doc.Supersedes != state.EntryID(root) || doc.CreatedAt == 0 {
		t.Errorf("the stub is %s", raw)
	}
	for _, word := range []string{"eve", "pills"} {
		check.Lacks(t, raw, word, "the stub")
	}
	doc, raw = r.Read(root)
	if doc.SupersededByCount != 1 || len(doc.SupersededBy) != 1 || doc.SupersededBy[0].Agent != "ada" {
		t.Errorf("the entry that was answered is %s", raw)
	}
	check.Diff(t, r.List(view.Query{Thread: root, Since: -1}), []uint64{3, 2, 1}, "thread")
	events, v := fsmtest.EventsOf(t, r, view.EventCursor{}, 10), r.View()
	defer v.Release()
	for _, q := range []view.Query{{Q: "pills"}, {AgentKey: "eve"}, {TagKey: "pills"}, {Thread: root, Q: "pills"}, {Thread: root, AgentKey: "eve"}, {ForKey: "ada", Q: "cheap"}} {
		q.Since = -1
		check.Empty(t, r.List(q), "what %+v finds", q)
		selected := must.Get(v.SelectEvents(slices.Clone(events), q))(t)
		check.Equal(t, slices.ContainsFunc(selected, func(e view.Event) bool { return e.Entry == spam }), false, "%+v selects an event of the hidden entry", q)
	}
	for _, p := range []command.Payload{
		fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, spam)),
		fsmtest.Post("eve", fsmtest.Relate(command.RelationRetraction, spam)),
	} {
		check.Diff(t, r.Run(p)[0].Problems, []command.Problem{command.ProblemHidden}, "%+v relates to a hidden entry", p)
	}
	fsmtest.Expect(t, r.Run(fsmtest.Hide(state.EntryID(spam), "e99", "j2"))[0], command.OutcomeUnchanged, "hidden twice")
}

// TestHiddenTogether: when one command hides as many replies as it can, the conversation ends with the
// newest that is still shown.
func TestHiddenTogether(t *testing.T) {
	r := newRig(t)
	root, other := r.Publish(nil), r.Publish(nil)
	reply := fsmtest.Relate(command.RelationReply, root)
	r.Publish(reply)
	var spam []string
	for range command.MaxHidden {
		spam = append(spam, state.EntryID(r.Publish(reply)))
	}
	fsmtest.Expect(t, r.Run(fsmtest.Hide(spam...))[0], command.OutcomeDone, "hide")
	v := r.View()
	defer v.Release()
	active, _, err := v.ListThreads(view.ThreadQuery{})
	check.Err(t, err, nil, "list")
	check.Diff(t, active, []uint64{root, other}, "the conversations, the one that was active last first")
}

// TestUndoOfAnOrder: taking an order back shows what all its parts hide, and leaves what another order
// has hidden since, or a purge has erased.
func TestUndoOfAnOrder(t *testing.T) {
	part := func(of uint64, ids ...string) *command.Hide {
		return &command.Hide{Order: fsmtest.ByOperator, IDs: ids, Of: of}
	}
	profiles := func(names ...string) *command.Hide { return &command.Hide{Order: fsmtest.ByOperator, Agents: names} }
	for name, test := range map[string]struct {
		commands []command.Payload
		number   uint64
		shows    string // of the entries 1 to 4, and the profile of eve
	}{
		"one part":                  {[]command.Payload{part(0, "e1", "e2")}, 1, "1 2 3 4 eve"},
		"two parts":                 {[]command.Payload{part(0, "e1"), part(0, "e3"), part(1, "e2")}, 1, "1 2 4 eve"},
		"of another order":          {[]command.Payload{part(0, "e1"), part(0, "e2")}, 2, "2 3 4 eve"},
		"hidden again":              {[]command.Payload{part(0, "e1", "e2"), fsmtest.Unhide("e1"), part(0, "e1")}, 1, "2 3 4 eve"},
		"purged":                    {[]command.Payload{part(0, "e1", "e2"), fsmtest.Purge("e1")}, 1, "2 3 4 eve"},
		"a profile":                 {[]command.Payload{profiles("eve")}, 1, "1 2 3 4 eve"},
		"a profile hidden again":    {[]command.Payload{profiles("eve"), &command.Hide{Order: fsmtest.ByOperator, Agents: []string{"eve"}, Unhide: true}, profiles("eve")}, 1, "1 2 3 4"},
		"a profile that was purged": {[]command.Payload{profiles("eve"), &command.Purge{Order: fsmtest.ByOperator, Agents: []string{"eve"}}}, 1, "1 2 3 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for range 4 {
				r.Publish(nil)
			}
			r.Run(&command.Register{Agent: "eve", AgentKey: "eve", Given: command.FieldNote, Note: "Pills", NewKey: bytes.Repeat([]byte{1}, 32), NewRecovery: bytes.Repeat([]byte{1}, 32)})
			for _, c := range test.commands {
				fsmtest.Expect(t, r.Run(c)[0], command.OutcomeDone, "%T", c)
			}
			r.Run(&command.Hide{Order: fsmtest.ByOperator, IDs: []string{"e1", "e2", "e3", "e4"}, Agents: []string{"eve"}, Unhide: true, Of: test.number})
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
		r.Publish(nil)
	}
	r.Run(fsmtest.Hide("e1", "e2", "e4", "e6", "e7"), fsmtest.Hide("e3", "e5"))
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
	seq := r.Publish(nil)
	by := func(name string, unhide bool) []command.Problem {
		return r.Run(&command.Hide{Order: command.Order{By: name}, IDs: []string{state.EntryID(seq)}, Unhide: unhide})[0].Problems
	}
	none := []command.Problem{command.ProblemNotModerator}
	check.Diff(t, by("mia", false), none, "a stranger hides")
	token := bytes.Repeat([]byte{7}, command.KeyHashBytes)
	grant := func(name string, token []byte) command.Result {
		return r.Run(&command.SetModerator{Order: command.Order{By: command.Operator}, Name: name, Token: token, For: 1000_000})[0]
	}
	fsmtest.Expect(t, grant("mia", token), command.OutcomeDone, "result")
	check.Empty(t, by("mia", false), "problems of a moderator who hides")
	v := r.View()
	mia, _, err := v.Moderator(token)
	stranger, _, strangerErr := v.Moderator(make([]byte, command.KeyHashBytes))
	v.Release()
	if mia.Name != "mia" || stranger.Name != "" || err != nil || strangerErr != nil {
		t.Errorf("the token is %q's, another one %q's, %v, %v", mia.Name, stranger.Name, err, strangerErr)
	}
	fsmtest.Expect(t, grant("mia", nil), command.OutcomeDone, "revoked")
	check.Diff(t, by("mia", true), none, "one whose token was revoked unhides")
	expectProblem(t, grant("mia", nil), command.ProblemUnknownModerator, "revoked twice")
	for i := range command.MaxModerators {
		fsmtest.Expect(t, grant(fmt.Sprintf("m%d", i), token), command.OutcomeDone, "moderator %d", i)
	}
	expectProblem(t, grant("one-more", token), command.ProblemTooManyModerators, "one moderator too many")
}

// TestRecord: every action has a row, newest first, in pages.
func TestRecord(t *testing.T) {
	r := newRig(t)
	seq := r.Publish(nil)
	r.Run(fsmtest.Hide(state.EntryID(seq)), fsmtest.Unhide(state.EntryID(seq)), fsmtest.Unhide(state.EntryID(seq)))
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

// TestHiddenJob: its claim ends, claims and results quote it no more, and unhide gives
// no claim back.
func TestHiddenJob(t *testing.T) {
	r := newRig(t)
	job := fsmtest.PostJob("ada")
	job.Title = "Sell pills"
	seq := r.Run(job)[0].Entry
	id := state.FormatID(state.TypeJob, seq)
	claim := r.Run(&command.ClaimJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: id}, TTL: 1000_000})[0].Entry
	r.Run(fsmtest.Hide(id))
	if _, raw := r.Read(claim); strings.Contains(raw, "pills") || !strings.Contains(raw, view.HiddenJob) {
		t.Errorf("the claim is %s", raw)
	}
	check.Empty(t, r.List(view.Query{Q: "pills", Since: -1}), "entries with the word of the job")
	for status := range state.JobHidden {
		check.Empty(t, r.jobs(view.Query{JobStatus: status}), "jobs that are %s", status)
	}
	if h := r.Home("bob", 0); len(h.ToDeliver) > 0 || len(h.OpenJobs) > 0 {
		t.Errorf("bob is shown %+v", h)
	}
	check.Empty(t, r.Home("ada", 0).OwedToYou, "what ada is owed")
	finish := &command.FinishJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: id}, Result: "Done."}
	check.Diff(t, r.Run(finish)[0].Problems, []command.Problem{command.ProblemHidden}, "a hidden job is done")
	r.Run(fsmtest.Unhide(id))
	if got, _ := r.job(seq); got.Status != state.JobOpen || got.ClaimedBy != "" {
		t.Errorf("the job is %+v", got)
	}
	_, raw := r.Read(claim)
	check.Contains(t, raw, "Claimed: Sell pills", "the claim")
	check.Diff(t, r.jobs(view.Query{JobStatus: state.JobOpen}), []uint64{seq}, "open")
}

// TestNewAfterAFloodIsHidden: when a flood is hidden, home shows the new entries before it again.
func TestNewAfterAFloodIsHidden(t *testing.T) {
	r := newRig(t)
	before := r.Publish(nil)
	var flood []string
	for i := range 2 * command.MaxNew {
		flood = append(flood, state.EntryID(r.Run(fsmtest.Post(fmt.Sprint("spam-", i%2), nil))[0].Entry))
	}
	check.Equal(t, len(r.Home("bob", 0).New), command.MaxNew, "new entries in a flood")
	r.Run(fsmtest.Hide(flood...))
	check.Diff(t, r.Home("bob", 0).New, []uint64{before}, "new entries when it is hidden")
	check.Equal(t, len(r.Home("ada", 0).New), 0, "new entries of the author of the other one")
	r.Run(fsmtest.Unhide(flood...))
	check.Equal(t, len(r.Home("bob", 0).New), command.MaxNew, "new entries when it is shown again")
}

// TestHiddenClaimIsNotTold: home of the former claimant does not list a hidden claim.
func TestHiddenClaimIsNotTold(t *testing.T) {
	r := newRig(t)
	brief := func(agent string) *command.ClaimJob {
		return &command.ClaimJob{JobAction: fsmtest.OnJob(agent, 1), TTL: 1}
	}
	r.Run(fsmtest.PostJob("ada"), brief("bob"))
	r.Run(&command.Tick{})
	claim := r.Run(brief("eve"))[0].Entry
	expectTold := func(want bool, when string) {
		t.Helper()
		v := r.View()
		defer v.Release()
		has := must.Get(v.HasFor(&view.Preferences{AgentKey: "bob"}, 0))(t)
		check.Equal(t, has, want, "bob has news %s", when)
		check.Equal(t, len(r.Home("bob", 0).ForYou) > 0, want, "home of bob lists the claim %s", when)
	}
	expectTold(true, "of the claim")
	r.Run(fsmtest.Hide(state.EntryID(claim)))
	expectTold(false, "while it is hidden")
	r.Run(fsmtest.Unhide(state.EntryID(claim)))
	expectTold(true, "when it is shown again")
}

// TestHiddenDelivery: what waits is dropped, and not queued again.
func TestHiddenDelivery(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	reply := func(p *command.Publish) { p.Agent, p.AgentKey, p.Mentions = "eve", "eve", []string{"ada"} }
	first, second := r.Publish(reply), r.Publish(reply)
	r.Run(fsmtest.Hide(state.EntryID(second)))
	r.Run(fsmtest.Unhide(state.EntryID(second)))
	o := r.Outbox("ada")
	if o.Waiting != 1 || o.Newest[0].Status != outbox.DeliveryDropped || o.Newest[0].Reason != outbox.ReasonHidden || o.Newest[1].Entry != first {
		t.Errorf("the outbox is %+v", o)
	}
}

// TestHiddenProfile: it is in no list, and its text is shown nowhere.
func TestHiddenProfile(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("ada", "key-ada", func(c *command.Register) { c.Description, c.Note, c.Given = "I sell pills.", "pills", 31 }))
	r.Run(fsmtest.Register("bob", "key-bob", nil))
	list := func(q string) (all []uint64) {
		v := r.View()
		defer v.Release()
		all, _, err := v.ListProfiles(view.Query{Q: q})
		must.Do(t, err)
		return all
	}
	before, _ := r.Profile("ada")
	r.Run(&command.Hide{Order: fsmtest.ByOperator, Agents: []string{"ada"}})
	doc, _ := r.Profile("ada")
	check.Lacks(t, doc, "pills", "the profile")
	check.Contains(t, doc, `"hidden":{"at":`, "the profile")
	if all, found := list(""), list("pills"); !slices.Equal(all, []uint64{2}) || len(found) > 0 {
		t.Errorf("the profiles are %d, found are %d", all, found)
	}
	r.Run(&command.Hide{Order: fsmtest.ByOperator, Agents: []string{"ada"}, Unhide: true})
	after, _ := r.Profile("ada")
	check.Equal(t, after, before, "the profile")
	if all, found := list(""), list("pills"); !slices.Equal(all, []uint64{2, 1}) || !slices.Equal(found, []uint64{1}) {
		t.Errorf("the profiles are %d, found are %d", all, found)
	}
}
