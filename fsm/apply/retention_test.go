package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

func (r *rig) stubs() (ids []string) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		if doc, _ := fsmtest.ReadEntry(r.T, v, seq); doc.Hidden != nil {
			ids = append(ids, doc.ID)
		}
	}
	return ids
}

func (r *rig) sweeps() (swept, waiting uint64) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	swept, waiting, err := v.Sweeps(r.Now())
	must.Do(r.T, err)
	return swept, waiting
}

// TestSweep: an entry older than the retention is a stub, in its thread and
// by its id; others stay, and there is no event.
func TestSweep(t *testing.T) {
	r := newRig(t)
	news := func(p *command.Publish) {
		p.Channel, p.Title, p.Body, p.Tags, p.Mentions = "test-a", "Old news", "Something rarely said.", []string{"olden"}, []string{"eve"}
		p.Kind, p.Request = command.KindKnowledge, command.RequestKey{Scope: "ada", ID: "request-1"}
	}
	root := r.Publish(news)
	reply := r.Run(fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, root)))[0].Entry
	spam := r.Publish(fsmtest.InChannel("test-b"))
	r.Run(fsmtest.Hide(state.EntryID(spam)))
	check.Equal(t, r.SweepAll(), 0, "sweeps without a retention")
	r.Run(fsmtest.Retain(2))
	r.Later(fsmtest.Day)
	other := r.Publish(fsmtest.InChannel("den"))
	young := r.Run(fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, root)))[0].Entry // in test-a
	r.SweepAll()
	check.Diff(t, r.stubs(), []string{state.EntryID(spam)}, "stubs before the time")
	events, _ := r.events()
	r.Later(fsmtest.Day + fsmtest.Hour)
	_, waiting := r.sweeps()
	check.Equal(t, waiting, 3, "entries that are due")
	r.SweepAll()
	check.Diff(t, r.stubs(), []string{state.EntryID(root), state.EntryID(reply), state.EntryID(spam)}, "stubs")
	if swept, waiting := r.sweeps(); swept != 3 || waiting != 0 {
		t.Errorf("%d are swept, %d wait", swept, waiting)
	}
	after, texts := r.events()
	check.Equal(t, len(after), len(events), "events after the sweep, %s", texts)
	doc, raw := r.Read(root)
	if doc.Hidden == nil || doc.Hidden.Reason != "Older than the retention" || !doc.Hidden.Expired || doc.Hidden.Purged || doc.Channel != "test-a" || doc.CreatedAt == 0 || doc.SupersededByCount != 1 {
		t.Errorf("the stub is %s", raw)
	}
	for _, word := range []string{"ada", "news", "rarely", "olden", "eve"} {
		check.Lacks(t, raw, word, "the stub")
	}
	check.Diff(t, r.List(view.Query{Thread: root, Since: -1}), []uint64{young, reply, root}, "thread")
	check.Diff(t, r.List(view.Query{Since: -1}), []uint64{young, other}, "list")
	for _, q := range []view.Query{{Q: "rarely"}, {TagKey: "olden"}, {AgentKey: "ada", Channel: "test-a"}, {ForKey: "eve"}} {
		q.Since = -1
		check.Empty(t, r.List(q), "%+v finds", q)
	}
	if got := r.Home("eve", 0); len(got.ForYou) > 0 || got.OwedByYouCount > 0 || slices.Contains(got.New, root) || len(got.TopicNotes) > 0 {
		t.Errorf("home of who was mentioned: %+v", got)
	}
	if got := r.Run(fsmtest.Post("ada", news))[0]; got.Outcome != command.OutcomeDuplicate || got.Entry != root {
		t.Errorf("the request again: %+v", got)
	}
	expectProblem(t, r.Run(fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, root)))[0], command.ProblemHidden, "a reply to the stub")
	if got := r.Run(fsmtest.Unhide(state.EntryID(root), state.EntryID(spam)), fsmtest.Hide(state.EntryID(root))); got[0].Outcome != command.OutcomeUnchanged || got[1].Outcome != command.OutcomeUnchanged {
		t.Errorf("unhidden and hidden: %+v", got)
	}
}

// TestSweepPassesOver: cursors, since and counts pass over entries that are swept between
// two pages. Every other entry is listed exactly once.
func TestSweepPassesOver(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Retain(1))
	var left []uint64
	for i := range 40 {
		if i%3 > 0 {
			r.Publish(func(p *command.Publish) { p.Channel, p.Mentions = "old-den", []string{"eve"} })
			continue
		}
		open := fsmtest.PostJob("ada")
		open.Mentions = []string{"eve"}
		left = append(left, r.WantDone(open))
	}
	since := r.Now() - 20_000
	inSince := len(r.List(view.Query{Since: since}))
	v := r.View()
	page, next, err := v.List(view.Query{Since: -1, Limit: 7})
	v.Release()
	if err != nil || len(page) != 7 || inSince != 20 {
		t.Fatalf("%d, next %d, %d since, %v", page, next, inSince, err)
	}
	r.Later(2 * fsmtest.Day)
	r.SweepAll()
	got := slices.DeleteFunc(page, func(seq uint64) bool { return !slices.Contains(left, seq) })
	for next != 0 {
		v := r.View()
		var err error
		page, next, err = v.List(view.Query{Since: -1, Limit: 4, Before: next})
		v.Release()
		must.Do(t, err)
		got = append(got, page...)
	}
	slices.Reverse(got)
	check.Diff(t, got, left, "pages")
	if got := r.List(view.Query{Since: since}); !slices.Equal(got, []uint64{40, 37, 34, 31, 28, 25, 22}) && !slices.Equal(got, []uint64{40, 37, 34, 31, 28, 25, 22, 19}) {
		t.Errorf("since has %d", got)
	}
	var forYou []uint64
	for at := int64(0); ; {
		h := r.Home("eve", at)
		for _, item := range h.ForYou {
			forYou = append(forYou, item.Seq)
		}
		if at = h.Now; !h.More {
			break
		}
	}
	check.Diff(t, forYou, left, "entries in home")
	check.Equal(t, r.Home("eve", 0).OwedByYouCount, len(left), "entries that are owed")
	v = r.View()
	defer v.Release()
	var channels []string
	err = state.ScanSpace(v.Reader(), []byte{state.SpaceChannel}, []byte{state.SpaceChannel + 1}, func(key, row []byte) error {
		c, err := state.Decode[state.ChannelRow](row)
		channels = append(channels, fmt.Sprintf("%s %d", key[1:], c.Entries))
		return err
	})
	if want := []string{"jobs 14", "old-den 0"}; err != nil || !slices.Equal(channels, want) {
		t.Errorf("channels are %q, %v, want %q", channels, err, want)
	}
}

// TestSweepKeepsWhatGoesOn: open and claimed jobs, the claim that holds one, and open
// requests for help stay until they are over, and what was said last is old enough.
func TestSweepKeepsWhatGoesOn(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Retain(1))
	open, claimed, done := r.Run(fsmtest.PostJob("ada"))[0].Entry, r.Run(fsmtest.PostJob("ada"))[0].Entry, r.Run(fsmtest.PostJob("ada"))[0].Entry
	asked, answered := r.Run(fsmtest.Help("ada"))[0].Entry, r.Run(fsmtest.Help("ada"))[0].Entry
	held := fsmtest.Claim("bob", claimed)
	held.TTL = 30 * fsmtest.Day
	claimEntry := r.Run(held)[0].Entry
	r.Run(fsmtest.Claim("bob", done))
	r.Later(fsmtest.Day - fsmtest.Hour/2)
	result := r.Run(finish("bob", done))[0].Entry
	r.Run(fsmtest.Post("bob", func(p *command.Publish) {
		p.Relation, p.Target = command.RelationReply, state.FormatID(state.TypeHelp, answered)
	}))
	r.Later(fsmtest.Hour)
	r.SweepAll()
	if got := r.stubs(); !slices.Equal(got, []string{"e7"}) { // the claim of the job that is done
		t.Errorf("stubs are %s", got)
	}
	if job, raw := r.job(claimed); job.Status != state.JobClaimed || job.ClaimedBy != "bob" || !strings.Contains(raw, "Count the birds") {
		t.Errorf("the claimed job is %s", raw)
	}
	check.Diff(t, r.jobs(view.Query{JobStatus: state.JobOpen}), []uint64{open}, "open jobs")
	r.Run(fsmtest.Post("ada", func(p *command.Publish) {
		p.Relation, p.Target = command.RelationReply, state.FormatID(state.TypeHelp, answered)
	}))
	r.Later(fsmtest.Day - fsmtest.Hour/4)
	r.SweepAll() // the answer goes before what it answers, which stays answered
	check.Diff(t, r.stubs(), []string{state.FormatID(state.TypeJob, done), "e7", state.EntryID(result), "e9"}, "stubs a day later")
	r.Later(fsmtest.Hour)
	r.SweepAll()
	check.Diff(t, r.stubs(), []string{state.FormatID(state.TypeJob, done), state.FormatID(state.TypeHelp, answered), "e7", state.EntryID(result), "e9", "ea"}, "stubs after an hour more")
	r.Run(finish("bob", claimed), fsmtest.CloseJob("ada", open), fsmtest.Post("ada", func(p *command.Publish) {
		p.Relation, p.Target = command.RelationRetraction, state.FormatID(state.TypeHelp, asked)
	}))
	r.SweepAll()
	stubs := r.stubs()
	for _, id := range []string{state.FormatID(state.TypeJob, claimed), state.FormatID(state.TypeHelp, asked)} {
		if slices.Contains(stubs, id) {
			t.Errorf("%s is a stub as soon as it is over", id)
		}
	}
	for _, id := range []string{state.FormatID(state.TypeJob, open), state.EntryID(claimEntry)} { // a closed job without replies
		if !slices.Contains(stubs, id) {
			t.Errorf("%s is no stub once it is over: %s", id, stubs)
		}
	}
	r.Later(fsmtest.Day + fsmtest.Hour)
	r.SweepAll()
	check.Equal(t, len(r.stubs()), 12, "in the end stubs")
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceKept), 0, "still noted")
}

// TestSweepIsBounded: a command looks at so many entries and makes so many stubs.
func TestSweepIsBounded(t *testing.T) {
	r := newRig(t)
	jobs, entries := make([]command.Payload, apply.MaxSweepLook+50), make([]command.Payload, 3*command.MaxSwept/2)
	for i := range jobs { // open, so that they are kept
		jobs[i] = fsmtest.PostJob("ada")
	}
	for i := range entries {
		entries[i] = fsmtest.Post("ada", nil)
	}
	r.Run(jobs...)
	r.Run(entries...)
	r.Run(fsmtest.Retain(1))
	r.Later(2 * fsmtest.Day)
	for _, want := range []uint64{0, command.MaxSwept, 3 * command.MaxSwept / 2} {
		r.Run(&command.Sweep{})
		swept, _ := r.sweeps()
		check.Equal(t, swept, want, "entries that are swept")
	}
	check.Equal(t, r.SweepAll(), 0, "sweeps more")
}

// TestLooksAreBounded: one look reads so many of the entries that were kept, and the next
// one goes on behind them.
func TestLooksAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	const n = 2*view.MaxKeptLook + 50
	for i := 0; i < n; i += 50 {
		jobs := make([]command.Payload, 50)
		for i := range jobs {
			jobs[i] = fsmtest.PostJob("ada")
		}
		r.Run(jobs...)
	}
	r.Run(fsmtest.Retain(1))
	r.Later(2 * fsmtest.Day)
	r.SweepAll()
	must.Equal(t, fsmtest.RowsIn(t, r, state.SpaceKept), n, "rows kept")
	r.Run(fsmtest.CloseJob("ada", view.MaxKeptLook+7), fsmtest.CloseJob("ada", n))
	r.Later(2 * fsmtest.Day)
	v := r.View()
	defer v.Release()
	from := uint64(0)
	for look, want := range []struct {
		over []uint64
		to   uint64
	}{{nil, view.MaxKeptLook + 1}, {[]uint64{view.MaxKeptLook + 7}, 2*view.MaxKeptLook + 1}, {[]uint64{n}, 0}, {nil, view.MaxKeptLook + 1}} {
		next, to, err := v.NextSweep(r.Now(), from)
		if err != nil || (next == nil) != (want.over == nil) || next != nil && !slices.Equal(next.Over, want.over) || to != want.to {
			t.Errorf("look %d from %d: %+v, to %d, %v; want %d, to %d", look, from, next, to, err, want.over, want.to)
		}
		from = to
	}
}

// TestRetentionChanges: sweeps go on with another retention, also for what was kept under the one
// before, and a dry run counts the entries concerned.
func TestRetentionChanges(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Retain(30))
	r.Publish(nil)
	job := r.WantDone(fsmtest.PostJob("ada"))
	r.Later(20 * fsmtest.Day)
	r.Publish(nil)
	r.Later(20 * fsmtest.Day)
	r.Publish(nil)
	r.SweepAll()
	older := func(days, want uint64) {
		t.Helper()
		got := fsmtest.InView(t, r, func(v *view.View) (uint64, error) { return v.Older(days, r.Now()) })
		check.Equal(t, got, want, "entries older than %d days", days)
	}
	older(10, 2) // the first is a stub already
	r.Run(fsmtest.Hide("e3"))
	older(10, 2) // hidden entries are swept, too
	r.Run(fsmtest.Unhide("e3"))
	older(10, 2)
	older(30, 1)
	older(50, 0)
	check.Diff(t, r.stubs(), []string{"e1"}, "stubs")
	r.Run(fsmtest.Retain(10))
	r.SweepAll()
	check.Diff(t, r.stubs(), []string{"e1", "e3"}, "after it is shorter, stubs")
	r.Run(fsmtest.Retain(0))
	r.Later(100 * fsmtest.Day)
	r.Run(fsmtest.CloseJob("ada", job))
	check.Equal(t, r.SweepAll(), 0, "sweeps without a retention")
	r.Run(&command.Sweep{Over: []uint64{job, 4}})
	check.Equal(t, len(r.stubs()), 2, "stubs without a retention")
	r.Run(fsmtest.Retain(200))
	check.Equal(t, r.SweepAll(), 0, "sweeps while all are younger than a longer retention")
	r.Later(fsmtest.Day)
	r.Run(fsmtest.Retain(1))
	r.SweepAll()
	check.Diff(t, r.stubs(), []string{"e1", state.FormatID(state.TypeJob, job), "e3", "e4"}, "stubs in the end")
}

// TestSweepClosesReports: the reports of a swept entry are closed as expired. Those of
// other entries wait on.
func TestSweepClosesReports(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	r.Publish(nil)
	r.Later(2 * fsmtest.Day)
	r.Publish(nil)
	r.Run(fsmtest.Hide("e2"))
	for i, target := range []string{"e1", "e3", "e1"} {
		if i == 2 {
			r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, "e1"), command.OutcomeDone, 0)
		}
		r.WantOutcome(fsmtest.Report(target, fmt.Sprint("s", i)), command.OutcomeDone, 0)
	}
	r.Run(fsmtest.Retain(1))
	r.SweepAll()
	for range 2 {
		for i, want := range []command.ReportOutcome{command.ReportKept, command.ReportOpen, command.ReportExpired} {
			got := r.WantReport(uint64(i + 1)) //nolint:gosec // small
			if got.Outcome != want || (got.Closed > 0) != (want != command.ReportOpen) || (got.Text == "") != (got.Entry == 1) {
				t.Errorf("report %d is %+v, want outcome %q", i+1, got, want)
			}
		}
		r.CheckReportQueue()
		r.Reload()
	}
	check.Equal(t, r.WantOutcome(fsmtest.Report("e1", "s0"), command.OutcomeDuplicate, 0).Entry, 1, "reported again")
	r.WantOutcome(fsmtest.ResolveReport(command.ReportErased, "e1"), command.OutcomeUnchanged, 0)
}
