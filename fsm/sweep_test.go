package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

const day = command.DayMillis

func retain(days uint64) *command.SetSettings { return &command.SetSettings{RetentionDays: &days} }

// sweepAll does what a leader does now, and returns how many commands that took.
func (r *rig) sweepAll() (n int) {
	r.t.Helper()
	for from := uint64(0); ; n++ {
		next, to := nextSweep(r.t, r.Machine, r.now(), from)
		if next == nil {
			return n
		}
		from = to
		if n > 1000 {
			r.t.Fatalf("there is no end to it: %+v", next)
		}
		expect(r.t, r.run(next)[0], command.OutcomeDone, "%+v", next)
	}
}

// nextSweep returns the next sweep, however many looks that takes; nil means that no entry
// is due.
func nextSweep(t tester, m *Machine, now int64, from uint64) (next *command.Sweep, to uint64) {
	t.Helper()
	v := m.View()
	defer v.Release()
	for whole := false; ; from = to {
		whole = whole || from == 0
		var err error
		if next, to, err = v.NextSweep(now, from); err != nil {
			t.Fatal(err)
		}
		if next != nil || whole && to == 0 {
			return next, to
		}
	}
}

func (r *rig) stubs() (ids []string) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		if doc, _ := readEntry(r.t, v, seq); doc.Hidden != nil {
			ids = append(ids, doc.ID)
		}
	}
	return ids
}

func (r *rig) sweeps() (swept, waiting uint64) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	swept, waiting, err := v.Sweeps(r.now())
	if err != nil {
		r.t.Fatal(err)
	}
	return swept, waiting
}

func in(channel string) func(*command.Publish) {
	return func(p *command.Publish) { p.Channel = channel }
}

// TestSweep: an entry older than the retention is a stub, in its thread and
// by its id; others stay, and there is no event.
func TestSweep(t *testing.T) {
	r := newRig(t)
	root := r.publish(func(p *command.Publish) {
		p.Channel, p.Title, p.Body, p.Tags, p.Mentions = "test-a", "Old news", "Something rarely said.", []string{"olden"}, []string{"eve"}
		p.Kind, p.Request = command.KindKnowledge, command.RequestKey{Scope: "ada", ID: "request-1"}
	})
	request := post("ada", func(p *command.Publish) {
		p.Channel, p.Title, p.Body, p.Tags, p.Mentions = "test-a", "Old news", "Something rarely said.", []string{"olden"}, []string{"eve"}
		p.Kind, p.Request = command.KindKnowledge, command.RequestKey{Scope: "ada", ID: "request-1"}
	})
	reply := r.run(post("bob", relate(command.RelationReply, root)))[0].Entry
	spam := r.publish(in("test-b"))
	r.run(hide(state.EntryID(spam)))
	check.Equal(t, r.sweepAll(), 0, "sweeps without a retention")
	r.run(retain(2))
	r.later(day)
	other := r.publish(in("den"))
	young := r.run(post("bob", relate(command.RelationReply, root)))[0].Entry // in test-a
	r.sweepAll()
	check.Diff(t, r.stubs(), []string{state.EntryID(spam)}, "stubs before the time")
	events, _ := r.events()
	r.later(day + hour)
	if _, waiting := r.sweeps(); waiting != 3 {
		t.Errorf("%d entries are due, want 3", waiting)
	}
	r.sweepAll()
	check.Diff(t, r.stubs(), []string{state.EntryID(root), state.EntryID(reply), state.EntryID(spam)}, "stubs")
	if swept, waiting := r.sweeps(); swept != 3 || waiting != 0 {
		t.Errorf("%d are swept, %d wait", swept, waiting)
	}
	if after, texts := r.events(); len(after) != len(events) {
		t.Errorf("sweeping is an event: %s", texts)
	}
	doc, raw := r.read(root)
	if doc.Hidden == nil || doc.Hidden.Reason != "Older than the retention" || !doc.Hidden.Expired || doc.Hidden.Purged || doc.Channel != "test-a" || doc.CreatedAt == 0 || doc.SupersededByCount != 1 {
		t.Errorf("the stub is %s", raw)
	}
	for _, word := range []string{"ada", "news", "rarely", "olden", "eve"} {
		check.Lacks(t, raw, word, "the stub")
	}
	check.Diff(t, r.list(view.Query{Thread: root, Since: -1}), []uint64{young, reply, root}, "thread")
	check.Diff(t, r.list(view.Query{Since: -1}), []uint64{young, other}, "list")
	for _, q := range []view.Query{{Q: "rarely"}, {TagKey: "olden"}, {AgentKey: "ada", Channel: "test-a"}, {ForKey: "eve"}} {
		q.Since = -1
		check.Empty(t, r.list(q), "%+v finds", q)
	}
	if got := r.home("eve", 0); len(got.ForYou) > 0 || got.OwedByYouCount > 0 || slices.Contains(got.New, root) || len(got.TopicNotes) > 0 {
		t.Errorf("home of who was mentioned: %+v", got)
	}
	if got := r.run(request)[0]; got.Outcome != command.OutcomeDuplicate || got.Entry != root {
		t.Errorf("the request again: %+v", got)
	}
	expectProblem(t, r.run(post("bob", relate(command.RelationReply, root)))[0], command.ProblemHidden, "a reply to the stub")
	if got := r.run(unhide(state.EntryID(root), state.EntryID(spam)), hide(state.EntryID(root))); got[0].Outcome != command.OutcomeUnchanged || got[1].Outcome != command.OutcomeUnchanged {
		t.Errorf("unhidden and hidden: %+v", got)
	}
}

// TestBoundsOfRetention: a retention has at most a hundred years.
func TestBoundsOfRetention(t *testing.T) {
	for days, fit := range map[uint64]bool{0: true, 1: true, command.MaxRetentionDays: true, command.MaxRetentionDays + 1: false} {
		check.Equal(t, command.Check(retain(days)) == nil, fit, "a retention of %d days is fit for the log", days)
	}
}

// TestSweepPassesOver: cursors, since and counts pass over entries that are swept between
// two pages. Every other entry is listed exactly once.
func TestSweepPassesOver(t *testing.T) {
	r := newRig(t)
	r.run(retain(1))
	var left []uint64
	for i := range 40 {
		if i%3 > 0 {
			r.publish(func(p *command.Publish) { p.Channel, p.Mentions = "old-den", []string{"eve"} })
			continue
		}
		open := postJob("ada")
		open.Mentions = []string{"eve"}
		left = append(left, r.wantDone(open))
	}
	since := r.now() - 20_000
	inSince := len(r.list(view.Query{Since: since}))
	v := r.View()
	page, next, err := v.List(view.Query{Since: -1, Limit: 7})
	v.Release()
	if err != nil || len(page) != 7 || inSince != 20 {
		t.Fatalf("%d, next %d, %d since, %v", page, next, inSince, err)
	}
	r.later(2 * day)
	r.sweepAll()
	got := slices.DeleteFunc(page, func(seq uint64) bool { return !slices.Contains(left, seq) })
	for next != 0 {
		v := r.View()
		var err error
		page, next, err = v.List(view.Query{Since: -1, Limit: 4, Before: next})
		v.Release()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
	}
	slices.Reverse(got)
	check.Diff(t, got, left, "pages")
	if got := r.list(view.Query{Since: since}); !slices.Equal(got, []uint64{40, 37, 34, 31, 28, 25, 22}) && !slices.Equal(got, []uint64{40, 37, 34, 31, 28, 25, 22, 19}) {
		t.Errorf("since has %d", got)
	}
	var forYou []uint64
	for at := int64(0); ; {
		h := r.home("eve", at)
		for _, item := range h.ForYou {
			forYou = append(forYou, item.Seq)
		}
		if at = h.Now; !h.More {
			break
		}
	}
	check.Diff(t, forYou, left, "entries in home")
	check.Equal(t, r.home("eve", 0).OwedByYouCount, len(left), "entries that are owed")
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
	r.run(retain(1))
	open, claimed, done := r.run(postJob("ada"))[0].Entry, r.run(postJob("ada"))[0].Entry, r.run(postJob("ada"))[0].Entry
	asked, answered := r.run(ask("ada"))[0].Entry, r.run(ask("ada"))[0].Entry
	held := claim("bob", claimed)
	held.TTL = 30 * day
	claimEntry := r.run(held)[0].Entry
	r.run(claim("bob", done))
	r.later(day - hour/2)
	result := r.run(finish("bob", done))[0].Entry
	r.run(post("bob", func(p *command.Publish) {
		p.Relation, p.Target = command.RelationReply, state.FormatID(state.TypeHelp, answered)
	}))
	r.later(hour)
	r.sweepAll()
	if got := r.stubs(); !slices.Equal(got, []string{"e7"}) { // the claim of the job that is done
		t.Errorf("stubs are %s", got)
	}
	if job, raw := r.job(claimed); job.Status != state.JobClaimed || job.ClaimedBy != "bob" || !strings.Contains(raw, "Count the birds") {
		t.Errorf("the claimed job is %s", raw)
	}
	check.Diff(t, r.jobs(view.JobQuery{Status: state.JobOpen}), []uint64{open}, "open jobs")
	r.later(day)
	r.sweepAll()
	check.Diff(t, r.stubs(), []string{state.FormatID(state.TypeJob, done), state.FormatID(state.TypeHelp, answered), "e7", state.EntryID(result), "e9"}, "stubs a day later")
	r.run(finish("bob", claimed), closeJob("ada", open), post("ada", func(p *command.Publish) {
		p.Relation, p.Target = command.RelationRetraction, state.FormatID(state.TypeHelp, asked)
	}))
	r.sweepAll()
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
	r.later(day + hour)
	r.sweepAll()
	check.Equal(t, len(r.stubs()), 11, "in the end stubs")
	v := r.View()
	defer v.Release()
	check.Empty(t, must.Get(v.SeqsBefore([]byte{state.SpaceKept}, 0, 10))(t), "still noted")
}

// TestSweepIsBounded: a command looks at so many entries and makes so many stubs.
func TestSweepIsBounded(t *testing.T) {
	r := newRig(t)
	jobs, entries := make([]command.Payload, apply.MaxSweepLook+50), make([]command.Payload, 3*command.MaxSwept/2)
	for i := range jobs { // open, so that they are kept
		jobs[i] = postJob("ada")
	}
	for i := range entries {
		entries[i] = post("ada", nil)
	}
	r.run(jobs...)
	r.run(entries...)
	r.run(retain(1))
	r.later(2 * day)
	for _, want := range []uint64{0, command.MaxSwept, 3 * command.MaxSwept / 2} {
		r.run(&command.Sweep{})
		if swept, _ := r.sweeps(); swept != want {
			t.Errorf("%d are swept, want %d", swept, want)
		}
	}
	if n := r.sweepAll(); n > 0 {
		t.Errorf("%d sweeps more", n)
	}
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
			jobs[i] = postJob("ada")
		}
		r.run(jobs...)
	}
	r.run(retain(1))
	r.later(2 * day)
	r.sweepAll()
	must.Equal(t, r.rows(state.SpaceKept), n, "rows kept")
	r.run(closeJob("ada", view.MaxKeptLook+7), closeJob("ada", n))
	r.later(2 * day)
	v := r.View()
	defer v.Release()
	from := uint64(0)
	for look, want := range []struct {
		over []uint64
		to   uint64
	}{{nil, view.MaxKeptLook + 1}, {[]uint64{view.MaxKeptLook + 7}, 2*view.MaxKeptLook + 1}, {[]uint64{n}, 0}, {nil, view.MaxKeptLook + 1}} {
		next, to, err := v.NextSweep(r.now(), from)
		if err != nil || (next == nil) != (want.over == nil) || next != nil && !slices.Equal(next.Over, want.over) || to != want.to {
			t.Errorf("look %d from %d: %+v, to %d, %v; want %d, to %d", look, from, next, to, err, want.over, want.to)
		}
		from = to
	}
}

// TestSweepClosesReports: the reports of a swept entry are closed as expired. Those of
// other entries wait on.
func TestSweepClosesReports(t *testing.T) {
	r := newRig(t)
	r.publish(nil)
	r.publish(nil)
	r.later(2 * day)
	r.publish(nil)
	r.run(hide("e2"))
	for i, target := range []string{"e1", "e3", "e1"} {
		if i == 2 {
			r.only(resolveReport(command.ReportKept, "e1"), command.OutcomeDone, 0)
		}
		r.only(report(target, fmt.Sprint("s", i)), command.OutcomeDone, 0)
	}
	r.run(retain(1))
	r.sweepAll()
	for range 2 {
		for i, want := range []command.ReportOutcome{command.ReportKept, command.ReportOpen, command.ReportExpired} {
			v := r.View()
			got, err := v.Report(uint64(i + 1)) //nolint:gosec // small
			v.Release()
			if err != nil || got.Outcome != want || (got.Closed > 0) != (want != command.ReportOpen) || (got.Text == "") != (got.Entry == 1) {
				t.Errorf("report %d is %+v, %v, want outcome %q", i+1, got, err, want)
			}
		}
		checkReportQueue(t, r.Machine)
		r.restart()
	}
	check.Equal(t, r.only(report("e1", "s0"), command.OutcomeDuplicate, 0).Entry, 1, "reported again")
	r.only(resolveReport(command.ReportErased, "e1"), command.OutcomeUnchanged, 0)
}

// TestRetentionChanges: sweeps go on with another retention, also for what was kept under the one
// before, and a dry run counts the entries concerned.
func TestRetentionChanges(t *testing.T) {
	r := newRig(t)
	r.run(retain(30))
	r.publish(nil)
	job := r.wantDone(postJob("ada"))
	r.later(20 * day)
	r.publish(nil)
	r.later(20 * day)
	r.publish(nil)
	r.sweepAll()
	older := func(days, want uint64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		check.Equal(t, must.Get(v.Older(days, r.now()))(t), want, "entries older than %d days", days)
	}
	older(10, 2) // the first is a stub already
	r.run(hide("e3"))
	older(10, 2) // hidden entries are swept, too
	r.run(unhide("e3"))
	older(10, 2)
	older(30, 1)
	older(50, 0)
	check.Diff(t, r.stubs(), []string{"e1"}, "stubs")
	r.run(retain(10))
	r.sweepAll()
	check.Diff(t, r.stubs(), []string{"e1", "e3"}, "after it is shorter, stubs")
	r.run(retain(0))
	r.later(100 * day)
	r.run(closeJob("ada", job))
	check.Equal(t, r.sweepAll(), 0, "sweeps without a retention")
	r.run(&command.Sweep{Over: []uint64{job, 4}})
	check.Equal(t, len(r.stubs()), 2, "stubs without a retention")
	r.run(retain(200))
	check.Equal(t, r.sweepAll(), 0, "sweeps while all are younger than a longer retention")
	r.later(day)
	r.run(retain(1))
	r.sweepAll()
	check.Diff(t, r.stubs(), []string{"e1", state.FormatID(state.TypeJob, job), "e3", "e4"}, "stubs in the end")
}

// TestPurgeAfterSweep: what is swept can still be purged, for its bytes are on the disks;
// a purge list finds it, too.
func TestPurgeAfterSweep(t *testing.T) {
	r := newRig(t)
	ids := publishPurged(r)
	r.run(retain(1))
	r.later(2 * day)
	r.sweepAll()
	expect(t, r.run(purge(ids...))[0], command.OutcomeDone, "purge")
	for _, id := range ids {
		_, seq, _ := state.ParseID(id)
		if doc, raw := r.read(seq); doc.Hidden == nil || doc.Hidden.Reason != "spam" || !doc.Hidden.Purged {
			t.Errorf("the stub is %s", raw)
		}
	}
	must.Do(t, r.store.Flush())
	if len(r.find()) == 0 {
		t.Fatal("the word is in no file before it is erased: the test shows nothing")
	}
	r.erase()
	check.Empty(t, r.find(), "the word is still in")
	expect(t, r.run(purge(ids...))[0], command.OutcomeUnchanged, "purged again")
}

// TestSweptWordsLeaveTheIndex: blocks that were sealed are written anew without the words,
// and stubs stay in their threads, also after a restart.
func TestSweptWordsLeaveTheIndex(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	root := r.publish(in("den"))
	r.run(post("eve", func(p *command.Publish) {
		relate(command.RelationReply, root)(p)
		p.Body = "Say " + purgedWord + "."
	}))
	r.later(2 * day)
	payloads := make([]command.Payload, 0, 1000)
	for i := range state.HiddenEntries {
		payloads = append(payloads, post("ada", in("hall")))
		if len(payloads) == cap(payloads) || i == state.HiddenEntries-1 {
			r.run(payloads...)
			payloads = payloads[:0]
		}
	}
	word := []byte(strings.ToLower(purgedWord))
	terms := func() (n int) {
		lower, upper := state.SpaceBounds(state.SpaceIndex)
		must.Do(t, state.ScanSpace(r.store.DB, lower, upper, func(key, _ []byte) error {
			if bytes.Contains(key, word) {
				n++
			}
			return nil
		}))
		return n
	}
	await.Eventually(t, "the first block to be sealed", func() bool { return terms() > 0 })
	r.run(retain(1))
	r.sweepAll()
	must.Do(t, r.store.Flush())
	if terms() == 0 || len(r.find()) == 0 {
		t.Fatal("the word left the files by itself: the test shows nothing")
	}
	thread := func() {
		t.Helper()
		check.Diff(t, r.list(view.Query{Thread: root, Since: -1}), []uint64{2, 1}, "thread")
		check.Diff(t, r.list(view.Query{Q: "body", Since: -1, Before: 10}), []uint64{9, 8, 7, 6, 5, 4, 3}, "found")
	}
	thread()
	for range 2 {
		if done, err := r.EraseSwept(t.Context(), never); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	if n := terms(); n > 0 {
		t.Errorf("the word is in %d keys of the index", n)
	}
	thread()
	await.Eventually(t, "former tables to go", func() bool { only, err := r.store.onlyLiveTables(); return only && err == nil })
	for _, file := range r.find() {
		check.Lacks(t, file, ".sst", "a file with the word")
	}
	r.reopen()
	thread()
}

func never() bool { return false }

// TestEraseSweptGivesWay: what else waits goes first, and what is left is done afterwards;
// also what was kept when the sweeps passed by leaves the tables.
func TestEraseSweptGivesWay(t *testing.T) {
	r := newRig(t)
	doomed := postJob("ada")
	doomed.Body = "Say " + purgedWord + "."
	job := r.run(doomed)[0].Entry
	r.publish(nil)
	r.run(retain(1))
	r.later(2 * day)
	r.sweepAll()
	if done, err := r.EraseSwept(t.Context(), never); !done || err != nil {
		t.Fatal(done, err)
	}
	r.run(closeJob("ada", job))
	r.later(2 * day)
	r.sweepAll()
	must.Do(t, r.store.Flush())
	inTables := func() bool {
		return slices.ContainsFunc(r.find(), func(file string) bool { return strings.Contains(file, ".sst") })
	}
	if !inTables() {
		t.Fatal("the word left the tables by itself: the test shows nothing")
	}
	asked := 0
	for parts := range 2 { // first the index, then the only block
		asked = 0
		done, err := r.EraseSwept(t.Context(), func() bool { asked++; return asked > 1-parts })
		if done || err != nil || asked != 2-parts {
			t.Errorf("it was done while something waits: %t %v, asked %d times", done, err, asked)
		}
	}
	for range 2 { // the second has no work
		asked = 0
		if done, err := r.EraseSwept(t.Context(), func() bool { asked++; return false }); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	if asked > 0 {
		t.Error("what is done is done again")
	}
	await.Eventually(t, "former tables to go", func() bool { only, err := r.store.onlyLiveTables(); return only && err == nil })
	if inTables() {
		t.Errorf("the word is still in %s", r.find())
	}
}

// reopen closes the machine and opens it again.
func (r *rig) reopen() {
	r.t.Helper()
	dir := r.opts.Dir
	must.Do(r.t, r.Close())
	r.Machine = openAt(r.t, dir, func(o *Options) { o.Observer = r.obs })
}

// TestSweptInTheEnd draws a log of all commands: after all sweeps that are due, exactly what is
// old enough is a stub, and counts say what is shown.
func TestSweptInTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := tempMachine(rt, func(o *Options) { o.MaxFormat = command.MaxFormat + 1 })
		defer dropMachine(rt, m)
		w := newLogWriter(rt, newLog(t), m, func() {})
		for range 5 + w.below(60) {
			w.write()
		}
		w.log.stamp += 5 * day
		w.log.nextSeq[boot1] = w.seqs[boot1]
		days := one[uint64](w, 1, 2, 3)
		w.log.commands(retain(days), &command.Tick{})
		w.feed()
		for next, _ := nextSweep(rt, m, w.log.stamp, 0); next != nil; next, _ = nextSweep(rt, m, w.log.stamp, 0) {
			w.log.commands(next)
			w.feed()
		}
		checkSwept(rt, m, days)
	})
}

// allRows returns all logical rows.
func allRows(t tester, m *Machine) map[string]string {
	rows := map[string]string{}
	for _, space := range logicalSpaces() {
		lower, upper := state.SpaceBounds(space)
		err := state.ScanSpace(m.store.DB, lower, upper, func(key, row []byte) error {
			rows[string(key)] = string(row)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// checkSwept holds the entries against a retention after all sweeps.
func checkSwept(t *rapid.T, m *Machine, days uint64) {
	period := int64(days) * day //nolint:gosec // small
	v := m.View()
	defer v.Release()
	shown := map[string]uint64{}
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	tx := m.begin()
	defer tx.Discard()
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		e, _ := tx.Entry(seq)
		doc, raw := readEntry(t, v, seq)
		if doc.Hidden == nil {
			shown[e.Channel]++
		}
		end, over := state.RetentionStart(tx, &e)
		old := over && end <= v.Time()-period
		switch gone := doc.Hidden != nil && (doc.Hidden.Purged || doc.Hidden.Expired); {
		case old && !gone:
			t.Errorf("%s is older than %d days, and %s", doc.ID, days, raw)
		case gone && strings.Contains(raw, "Body"):
			t.Errorf("%s shows its text: %s", doc.ID, raw)
		}
	}
	err := state.ScanSpace(v.Reader(), []byte{state.SpaceChannel}, []byte{state.SpaceChannel + 1}, func(key, row []byte) error {
		c, err := state.Decode[state.ChannelRow](row)
		check.Equal(t, c.Entries, shown[string(key[1:])], "entries of a channel")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
