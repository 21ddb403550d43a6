package view_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func asking(p *command.Publish) { p.Question = true }

// TestPoolFillsUp answers questions outside and inside the waiting list in one call: what
// comes after them is the newest one that still waits.
func TestPoolFillsUp(t *testing.T) {
	r := newRig(t)
	var asked []uint64
	for range home.WaitingPerAuthor + 5 {
		asked = append(asked, r.Publish(asking))
	}
	answer := func(seq uint64) command.Payload {
		return fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, seq))
	}
	r.Run(answer(asked[4]), answer(asked[14]))
	want := append([]uint64{asked[3]}, asked[5:14]...)
	slices.Reverse(want)
	check.Diff(t, r.Home("eve", 0).Waiting, want, "waiting")
	if got := r.Home("ada", 0); len(got.Waiting) != 0 || len(got.OwedToYou) != 13 {
		t.Errorf("the author's own: waiting %v, owed %v", got.Waiting, got.OwedToYou)
	}
}

// TestWaitingBehindWhatConcerns: what waits is found behind more of the list than a view
// keeps, all of which concerns the reader.
func TestWaitingBehindWhatConcerns(t *testing.T) {
	r := newRig(t)
	want := r.Publish(asking)
	for i := range view.WaitingKept + 1 {
		author := fmt.Sprint("author", i/home.WaitingPerAuthor)
		r.Publish(func(p *command.Publish) {
			p.Agent, p.AgentKey, p.Question, p.Mentions = author, author, true, []string{"eve"}
		})
	}
	for range 2 {
		check.Diff(t, r.Home("eve", 0).Waiting, []uint64{want}, "waiting")
	}
}

// TestNotesOfATopicInAView: a view reads the notes of a topic once, for all homes, and
// those of more topics than it keeps each time.
func TestNotesOfATopicInAView(t *testing.T) {
	r := newRig(t)
	note := func(agent string) uint64 {
		return r.Publish(func(p *command.Publish) {
			p.Agent, p.AgentKey, p.Kind, p.Channel = agent, agent, command.KindKnowledge, "tea"
		})
	}
	ofAda, ofEve := note("ada"), note("eve")
	v := r.View()
	defer v.Release()
	for range 2 {
		for reader, want := range map[string]uint64{"ada": ofEve, "eve": ofAda} {
			notes, err := v.Notes("tea")
			if got := notes.Others(reader, 0, command.MaxTopicNotes); err != nil || !slices.Equal(got, []uint64{want}) {
				t.Errorf("notes for %s are %v, want %d: %v", reader, got, want, err)
			}
		}
	}
	for i := range view.NoteTopics {
		must.Get(v.Notes(fmt.Sprint("topic", i)))(t)
	}
	check.Equal(t, len(v.EveryHome.Notes), view.NoteTopics, "topics with notes")
	newest := note("bob")
	newer := r.View()
	defer newer.Release()
	for _, at := range []struct {
		view *view.View
		want []uint64
	}{{v, []uint64{ofEve}}, {newer, []uint64{newest, ofEve}}} {
		notes, err := at.view.Notes("tea")
		if got := notes.Others("ada", 0, command.MaxTopicNotes); err != nil || !slices.Equal(got, at.want) {
			t.Errorf("notes at %d are %v, want %v: %v", at.view.Index(), got, at.want, err)
		}
	}
}

// TestGapsOfAnOlderView: a view does not see an entry that came after it, though a lookup
// in a newer one has found it.
func TestGapsOfAnOlderView(t *testing.T) {
	r := newRig(t)
	r.Publish(func(*command.Publish) {})
	since := r.Head.Now
	r.Run(fsmtest.MarkSeen("bob", "", 1)) // time goes on
	older := r.View()
	defer older.Release()
	seq := r.Publish(func(*command.Publish) {})
	newer := r.View()
	defer newer.Release()
	for range 2 {
		if got, some, err := newer.FirstAfter(since); got != seq || !some || err != nil {
			t.Errorf("the newer view: %d, %v, %v", got, some, err)
		}
		if got, some, err := older.FirstAfter(since); some || err != nil {
			t.Errorf("the older view: %d, %v", got, err)
		}
	}
}

func TestPoolKeepsSpaceSmall(t *testing.T) {
	r := newRig(t)
	for range 3 * home.WaitingPerAuthor {
		r.Publish(asking)
	}
	v := r.View()
	defer v.Release()
	rows := 0
	must.Do(t, state.ScanAll(v.Reader(), state.SpaceWaitingList, func(_, _ []byte) error { rows++; return nil }))
	check.Equal(t, rows, home.WaitingPerAuthor, "rows of one author in the waiting list")
}

// TestHomeOfClaims: a claim leaves toDeliver at the instant at which it ends.
func TestHomeOfClaims(t *testing.T) {
	r := newRig(t)
	job := r.Run(&command.PostJob{Author: command.Author{Agent: "ada", AgentKey: "ada"}, Title: "A title", Body: "Some body."})[0].Entry
	check.Diff(t, r.Home("bob", 0).OpenJobs, []uint64{job}, "open jobs")
	held := func() []uint64 {
		return fsmtest.InView(t, r, func(v *view.View) ([]uint64, error) { return v.Held("bob", 2) })
	}
	claim := &command.ClaimJob{JobAction: fsmtest.OnJob("bob", job), TTL: 3000}
	r.Run(claim)
	check.Diff(t, held(), []uint64{job}, "bob holds")
	if h := r.Home("bob", 0); !slices.Equal(h.ToDeliver, []uint64{job}) || len(h.OpenJobs) != 0 {
		t.Errorf("to deliver %v, open %v", h.ToDeliver, h.OpenJobs)
	}
	if h := r.Home("ada", 0); !slices.Equal(h.OwedToYou, []uint64{job}) || len(h.ForYou) != 1 {
		t.Errorf("owed %v, for you %v", h.OwedToYou, h.ForYou)
	}
	r.Run(&command.Tick{})
	r.Run(&command.Tick{})
	r.Run(&command.Tick{})
	if h := r.Home("bob", 0); !slices.Equal(h.ToDeliver, []uint64{job}) || !slices.Equal(h.OpenJobs, []uint64{job}) {
		t.Errorf("after its end: to deliver %v, open %v", h.ToDeliver, h.OpenJobs)
	}
	check.Equal(t, len(held()), 0, "claims that bob holds after its end")
	claim.JobAction = fsmtest.OnJob("eve", job)
	r.Run(claim, &command.FinishJob{JobAction: fsmtest.OnJob("eve", job), Result: "Done."})
	check.Empty(t, r.Home("ada", 0).OwedToYou, "what is owed after the result")
}

// TestCorrectedQuestion leaves the open items of who asked, and those of whom the
// correction tells.
func TestCorrectedQuestion(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Post("ada", func(p *command.Publish) { p.Question, p.Mentions = true, []string{"bob", "eve"} }))
	r.Run(fsmtest.Post("ada", func(p *command.Publish) {
		fsmtest.Relate(command.RelationCorrection, 1)(p)
		p.Mentions = []string{"bob"}
	}))
	check.Empty(t, r.Home("ada", 0).OwedToYou, "what ada is owed")
	check.Empty(t, r.Home("dan", 0).Waiting, "what waits")
	for agent, want := range map[string]uint64{"bob": 2, "eve": 1} {
		if h := r.Home(agent, 0); len(h.OwedByYou) != 1 || h.OwedByYou[0].Seq != want {
			t.Errorf("%s owes %v", agent, h.OwedByYou)
		}
	}
}

// TestHiddenAnswer: a question waits again while its only answer is hidden.
func TestHiddenAnswer(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Post("ada", asking), fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 1)))
	for _, step := range []struct {
		c    command.Payload
		want []uint64
	}{
		{fsmtest.Hide("e2"), []uint64{1}},
		{fsmtest.Unhide("e2"), nil},
		{fsmtest.Post("ada", fsmtest.Relate(command.RelationCorrection, 1)), nil},
		{fsmtest.Hide("e2"), nil},
	} {
		r.Run(step.c)
		check.Diff(t, append([]uint64(nil), r.Home("ada", 0).OwedToYou...), step.want, "what ada is owed after %+v", step.c)
		check.Diff(t, r.List(view.Query{Unanswered: true, Since: -1}), step.want, "what is unanswered after %+v", step.c)
	}
}

// TestMarkSeen puts open items aside for the holder of the key only.
func TestMarkSeen(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("ada", "k1", nil))
	for range 3 {
		r.Run(fsmtest.Post("bob", func(p *command.Publish) { p.Mentions = []string{"ada", "eve"} }))
	}
	for name, c := range map[string]*command.MarkSeen{
		"a wrong key": fsmtest.MarkSeen("ada", "k2", 1), "an address": {AgentKey: "ada", Proof: command.Proof{Sender: "sender-1", Address: true}, Entries: []uint64{1}},
		"no profile": fsmtest.MarkSeen("eve", "k1", 1),
	} {
		if got := r.Run(c)[0]; got.Outcome != command.OutcomeRejected || len(got.Problems) != 1 || len(r.Problems(c)) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	fsmtest.Expect(t, r.Run(fsmtest.MarkSeen("ada", "k1", 1, 3, 3, 4, 99))[0], command.OutcomeDone, "result")
	r.Run(fsmtest.Post("bob", func(p *command.Publish) { p.Mentions = []string{"ada"} }))
	h := r.Home("ada", 0)
	if len(h.ForYou) != 4 || h.OwedByYouCount != 2 || h.OwedByYou[0].Seq != 4 || h.OwedByYou[1].Seq != 2 {
		t.Errorf("%+v", h)
	}
	check.Equal(t, r.Home("eve", 0).OwedByYouCount, 3, "entries that another owes")
}

// TestHomeCounts counts what is not listed, up to a bound.
func TestHomeCounts(t *testing.T) {
	r := newRig(t)
	for n := range command.MaxCounted + 1 {
		r.Run(fsmtest.Post("bob", func(p *command.Publish) { p.Mentions, p.Question = []string{"ada"}, true }))
		h := r.Home("ada", 0)
		if want := min(n+1, command.MaxCounted); h.OwedByYouCount != want || len(h.OwedByYou) != min(want, command.MaxOwed) || len(h.Waiting) != 0 {
			t.Fatalf("after %d: %d counted, %d listed, %d wait", n+1, h.OwedByYouCount, len(h.OwedByYou), len(h.Waiting))
		}
		if h := r.Home("bob", 0); h.OwedToYouCount != min(n+1, command.MaxCounted) || len(h.OwedToYou) != min(n+1, command.MaxOwed) {
			t.Fatalf("after %d: %d counted, %d listed", n+1, h.OwedToYouCount, len(h.OwedToYou))
		}
	}
}

// TestTopicCountsNothingBelowZero: a topic that was dropped and came anew does not count
// its earlier entries.
func TestTopicCountsNothingBelowZero(t *testing.T) {
	a := &home.Activity{Topics: []home.Topic{{Name: "sea", Entries: 1}}}
	for i, want := range []bool{true, false, false} {
		if got := a.Uncount("sea"); got != want || a.Topics[0].Entries != 0 {
			t.Errorf("%d: %v, and %d entries left", i, got, a.Topics[0].Entries)
		}
	}
}

func TestSummary(t *testing.T) {
	r := newRig(t)
	body := "Quote \" backslash \\ line\nand\u2028 über 世界 😀 ,\"supersedes\":\"e9\" end"
	first := r.Run(fsmtest.Post("bob", func(p *command.Publish) { p.Agent, p.Title, p.Body = "Bob \\\"", `Is "this" it?`, body }))[0].Entry
	second := r.Publish(fsmtest.Relate(command.RelationReply, first))
	third := r.Publish(fsmtest.Relate(command.RelationFollowUp, first))
	v := r.View()
	defer func() { v.Release() }()
	for limit := range utf8.RuneCountInString(body) + 2 {
		raw := must.Get(v.AppendSummary([]byte("x"), first, limit, true))(t)
		var got map[string]any
		if err := json.Unmarshal(raw[1:], &got); err != nil {
			t.Fatalf("limit %d: %v: %s", limit, err, raw)
		}
		want := body
		if limit == 0 {
			want = ""
		} else if runes := []rune(body); limit < len(runes) {
			want = string(runes[:limit-1]) + "…"
		}
		if got["body"] != want || got["title"] != `Is "this" it?` || got["agent"] != "Bob \\\"" {
			t.Errorf("limit %d: %s", limit, raw)
		}
		if got["replyTo"] != nil || got["replies"] != 1.0 || got["id"] != state.EntryID(first) {
			t.Errorf("limit %d: %s", limit, raw)
		}
	}
	for seq, want := range map[uint64]string{second: `"replyTo":"` + state.EntryID(first) + `"`, third: `"replyTo":null`} {
		check.Contains(t, string(must.Get(v.AppendSummary(nil, seq, command.MaxBody, true))(t)), want, "summary")
	}
	if raw, err := v.AppendSummary(nil, third, 0, true); err != nil || !strings.Contains(string(raw), `"body":"","replyTo":null,"supersedes":"`+state.EntryID(first)+`","relation":"follow_up"`) {
		t.Errorf("%s, %v", raw, err)
	}
	check.Fails(v.AppendSummary(nil, 99, 1, true))(t, "an entry that does not exist has a summary")
	check.Fails(v.AppendJobSummary(nil, first, false))(t, "an entry that is no job has a job's summary")
}

// TestSummaryTitle cuts long titles, and leaves out a body that only repeats the title.
func TestSummaryTitle(t *testing.T) {
	short, long := `Is "this" it? Ä`, strings.Repeat("ä\"", view.MaxSummaryTitle/2)
	for _, test := range []struct {
		name, title, body, wantTitle, wantBody string
		distinct                               bool
	}{
		{"body equals title", short, short, short, "", true},
		{"body equals title, but is wanted", short, short, short, short, false},
		{"body goes on", short, short + " Or that?", short, short + " Or that?", true},
		{"longest", long, long, long, "", true},
		{"too long", long + "x", long + "x", string([]rune(long)[:view.MaxSummaryTitle-1]) + "…", long + "x", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			seq := r.Run(fsmtest.Post("bob", func(p *command.Publish) { p.Title, p.Body = test.title, test.body }))[0].Entry
			v := r.View()
			defer v.Release()
			raw := must.Get(v.AppendSummary(nil, seq, command.MaxBody, test.distinct))(t)
			var got struct{ Title, Body string }
			must.Do(t, json.Unmarshal(raw, &got))
			check.Diff(t, []string{got.Title, got.Body}, []string{test.wantTitle, test.wantBody}, "title and body")
		})
	}
}
