package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestBudgetOfASender: each sender has its own bytes, and each network; a new name's key
// lifts no bound, that of an established one does; a request_id that was used before is free.
func TestBudgetOfASender(t *testing.T) {
	r := newRig(t)
	key := slices.Repeat([]byte{7}, command.KeyHashBytes)
	r.Run(&command.Register{Agent: "ada", AgentKey: "ada", Given: command.FieldDescription, Description: "Somebody.", NewKey: key, NewRecovery: key, Proof: command.Proof{Sender: "home"}})
	r.SetSettings(0, 2500)
	again := fsmtest.PostOfSize("bot", 1000)
	again.Request = command.RequestKey{Scope: "ada", ID: "request-1"}
	first := r.Run(again)[0]
	check.Equal(t, r.PublishWithinBudget("bot", 4), 1, "further entries of a sender taken")
	before := r.Budget()
	if got := r.Run(again)[0]; got.Outcome != command.OutcomeDuplicate || got.Entry != first.Entry {
		t.Errorf("what was written before: %+v", got)
	}
	check.Equal(t, r.Budget(), before, "the budget after a free write")
	keyed := func(sender string, key []byte) command.Result {
		p := fsmtest.PostOfSize(sender, 1000)
		p.Proof.Key = key
		return r.Run(p)[0]
	}
	over := []command.Problem{command.ProblemOverBudget}
	check.Diff(t, keyed("bot", key).Problems, over, "a write by the key of a new name")
	for i := range command.NetworkShare * 3 {
		n := r.PublishWithinBudget(fmt.Sprint("site", command.NetworkEnd, i), 1)
		check.Equal(t, n == 1, i < command.NetworkShare*5/2, "an entry of sender %d of a network is taken", i)
	}
	r.Later(state.EstablishedAfter)
	check.Equal(t, r.PublishWithinBudget("bot", 3), 2, "entries of a sender taken on another day")
	for i := range command.EstablishedShare * 3 {
		got := keyed(fmt.Sprint("bot", i%2), key).Outcome
		check.Equal(t, got == command.OutcomeDone, i < command.EstablishedShare*5/2, "write %d by an old key", i)
	}
	check.Diff(t, keyed("bot", slices.Repeat([]byte{8}, command.KeyHashBytes)).Problems, over, "a write by a wrong key")
	check.Equal(t, r.PublishWithinBudget("other", 2), 2, "entries of another sender taken, of 2")
	zero := uint64(0)
	r.Run(&command.SetSettings{SenderBytes: &zero})
	check.Equal(t, r.PublishWithinBudget("bot", 1), 1, "a sender is bounded after the bound was lifted")
	fsmtest.Expect(t, r.Run(&command.SetSettings{SenderBytes: &zero})[0], command.OutcomeUnchanged, "the same settings again")
}

func TestWelcomeSetting(t *testing.T) {
	for id, fit := range map[string]bool{"": true, "e12": true, "jzz": true, "h1": true, "x1": false, "e": false, "E1": false, "e1 e2": false, "e12345678901234": false} {
		check.Equal(t, command.Check(&command.SetSettings{Welcome: &id}) == nil, fit, "the welcome %q is fit for the log", id)
	}
	r := newRig(t)
	id := "e12"
	r.Run(&command.SetSettings{Welcome: &id})
	check.Equal(t, fsmtest.InView(t, r, (*view.View).Settings).Welcome, id, "the welcome")
}

// TestViewsKeepTheirHotRows: what is kept in memory of rows that change does not reach
// views of before the change.
func TestViewsKeepTheirHotRows(t *testing.T) {
	r := newRig(t)
	for n := range uint64(3) {
		r.Run(&command.SetSettings{DailyBytes: &n})
		r.Run(fsmtest.PostOfSize("s", 100)) // reads them
	}
	before := r.View()
	defer before.Release()
	more := uint64(9)
	r.Run(&command.SetSettings{DailyBytes: &more})
	after := r.View()
	defer after.Release()
	if was, is := must.Get(before.Settings())(t).DailyBytes, must.Get(after.Settings())(t).DailyBytes; was != 2 || is != 9 {
		t.Errorf("settings of %d bytes before and %d after the change, want 2 and 9", was, is)
	}
}

// TestBudgetKeepsAReserve: heavy senders are cut at half of the budget, and those that have
// written little go on. A new day begins with an unused budget and without rows of the
// former one.
func TestBudgetKeepsAReserve(t *testing.T) {
	r := newRig(t)
	const share = 2100 // two entries of taken, and not three
	r.SetSettings(share*4096, 1<<40)
	fill := func(bytes uint64) { // the budget is used by somebody else
		t.Helper()
		b := r.Budget()
		b.Day, b.Bytes = command.DayOf(r.Now()), bytes
		r.SetRow(state.KeyBudget, state.Encode(&b))
	}
	check.Equal(t, r.PublishWithinBudget("bot", 4), 4, "entries that fit into an empty budget, of 4")
	late := fsmtest.InView(t, r, func(v *view.View) (state.Budget, error) { return v.Budget(r.Now() - 2*command.DayMillis) })
	check.Equal(t, late, r.Budget(), "budget by a clock behind the log")
	fill(share * 4096 / 2)
	r.Run(&command.Tick{})
	check.Equal(t, r.PublishWithinBudget("bot", 2), 0, "entries of a heavy sender taken from the reserve")
	check.Equal(t, r.PublishWithinBudget("honest", 3), 2, "entries of a light sender taken from the reserve")
	fill(share * 4096 * 3 / 4)
	r.Run(&command.Tick{})
	check.Equal(t, r.PublishWithinBudget("other", 1), 0, "an entry was taken from the last quarter")
	r.Later(command.DayMillis)
	check.Equal(t, r.PublishWithinBudget("bot", 3), 3, "entries that fit on the next day, of 3")
	if b := r.Budget(); b.Senders != 1 || b.Day != command.DayOf(r.Now()) || b.Bytes < 2500 || b.Bytes > 3500 {
		t.Errorf("the next day has %+v", b)
	}
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceBudget), 2, "rows on the next day, the day's and its one sender's")
}

// TestBudgetOfManySenders: past the senders that are counted one by one, others share
// rows, and those that were counted keep theirs.
func TestBudgetOfManySenders(t *testing.T) {
	r := newRig(t)
	r.SetSettings(0, 1500)
	r.PublishWithinBudget("early", 1)
	b := r.Budget()
	b.Senders = state.MaxBudgetSenders
	r.SetRow(state.KeyBudget, state.Encode(&b))
	r.Run(&command.Tick{})
	check.Equal(t, r.PublishWithinBudget("late", 2), 1, "entries of a sender in a shared row taken")
	check.Equal(t, r.PublishWithinBudget("early", 1), 0, "a sender that was counted has lost its count")
	check.Equal(t, r.Budget().Senders, state.MaxBudgetSenders, "senders that are counted")
	tx := r.Begin()
	defer tx.Discard()
	if key, known := b.SenderKey(tx, "late"); !known || len(key) != stats.UsageDayKeyBytes+2 {
		t.Errorf("a late sender has the row %x", key)
	}
}

// TestRecordBackup: the newest backup counts, in whatever order they are recorded, and no
// backup counts for later than now.
func TestRecordBackup(t *testing.T) {
	r := newRig(t)
	times := func() (last, first int64) {
		t.Helper()
		return fsmtest.InView(t, r, (*view.View).LastBackup), fsmtest.InView(t, r, (*view.View).FirstEntry)
	}
	if last, first := times(); last != 0 || first != 0 {
		t.Errorf("an empty state has a backup of %d, an entry of %d", last, first)
	}
	r.Publish(nil)
	published := r.Now()
	r.Publish(nil)
	r.Later(command.DayMillis)
	for _, step := range []struct {
		at, want int64
		outcome  command.Outcome
	}{
		{published + 2, published + 2, command.OutcomeDone},
		{published + 1, published + 2, command.OutcomeUnchanged},
		{published + 2, published + 2, command.OutcomeUnchanged},
	} {
		check.Equal(t, r.Run(&command.RecordBackup{At: step.at})[0].Outcome, step.outcome, "a backup of %d", step.at-published)
		if last, first := times(); last != step.want || first != published {
			t.Errorf("the newest backup is of %d, the first entry of %d", last-published, first-published)
		}
	}
	r.Run(&command.RecordBackup{At: published + 9*command.DayMillis})
	check.Equal(t, fsmtest.InView(t, r, (*view.View).LastBackup), r.Now(), "the backup of a clock that is days fast")
}

// TestBackupRun: the newest run of the schedule counts, and a run that fails changes neither the
// newest nor the oldest backup. Another store begins without a run.
func TestBackupRun(t *testing.T) {
	r := newRig(t)
	url := "s3://backups/one"
	r.Run(&command.SetSettings{BackupURL: &url})
	begin := r.Now()
	r.Later(command.DayMillis)
	first := state.BackupRun{Began: begin + 10, Saved: begin + 11, Oldest: begin + 1, Problem: "locked"}
	failed := state.BackupRun{Began: begin + 20, Saved: begin + 11, Oldest: begin + 1, Failed: true, Problem: "full"}
	doubted, verified, next := failed, failed, first
	doubted.Doubt, verified.Verified = "damaged", begin+11
	next.Began, next.Saved, next.Problem, next.Verified = begin+30, begin+31, "", begin+11
	for _, step := range []struct {
		name    string
		payload command.Payload
		outcome command.Outcome
		want    state.BackupRun
		last    int64
	}{
		{"a run", &command.RecordBackup{At: begin + 11, Run: begin + 10, Oldest: begin + 1, Problem: "locked"}, command.OutcomeDone, first, begin + 11},
		{"the same again", &command.RecordBackup{At: begin + 11, Run: begin + 10, Oldest: begin + 1}, command.OutcomeUnchanged, first, begin + 11},
		{"a backup by hand", &command.RecordBackup{At: begin + 15}, command.OutcomeDone, first, begin + 15},
		{"a run that fails", &command.RecordBackup{Run: begin + 20, Problem: "full"}, command.OutcomeDone, failed, begin + 15},
		{"an earlier run", &command.RecordBackup{Run: begin + 19, Problem: "late"}, command.OutcomeUnchanged, failed, begin + 15},
		{"the store again", &command.SetSettings{BackupURL: &url}, command.OutcomeUnchanged, failed, begin + 15},
		{"a check of another backup", &command.RecordBackup{Verified: begin + 10}, command.OutcomeUnchanged, failed, begin + 15},
		{"a check that fails", &command.RecordBackup{Verified: begin + 11, Problem: "damaged"}, command.OutcomeDone, doubted, begin + 15},
		{"a check", &command.RecordBackup{Verified: begin + 11}, command.OutcomeDone, verified, begin + 15},
		{"the next run", &command.RecordBackup{At: begin + 31, Run: begin + 30, Oldest: begin + 1}, command.OutcomeDone, next, begin + 31},
		{"a late check", &command.RecordBackup{Verified: begin + 11}, command.OutcomeUnchanged, next, begin + 31},
		{"another store", &command.SetSettings{BackupURL: new(string)}, command.OutcomeDone, state.BackupRun{}, begin + 31},
	} {
		t.Run(step.name, func(t *testing.T) {
			check.Equal(t, r.Run(step.payload)[0].Outcome, step.outcome, "outcome")
			check.Equal(t, fsmtest.InView(t, r, (*view.View).BackupRun), step.want, "run")
			check.Equal(t, fsmtest.InView(t, r, (*view.View).LastBackup), step.last, "the newest backup")
		})
	}
}

// TestBackupSettings holds that credentials have no place in the address of a store.
func TestBackupSettings(t *testing.T) {
	few, none, much := uint64(command.MinBackupMillis-1), uint64(0), uint64(command.MaxBackupKeep+1)
	for _, c := range []*command.SetSettings{{BackupMillis: &few}, {BackupKeep: &none}, {BackupKeep: &much}} {
		check.Fails(command.Check(c))(t, "check %+v", c)
	}
	for url, fit := range map[string]bool{
		"": true, "s3://backups": true, "s3://backups/a/b/": true, "file:///backups/a.b": true,
		"s3://id:key@backups": false, "s3://backups?key=1": false, "s3://backups/a#b": false, "s3://backups:443/a": false, "s3://backups/%41": false,
		"s3://backups/../other": false, "https://backups": false, "file://backups": false, "s3://" + strings.Repeat("b", command.MaxBackupURLBytes): false,
	} {
		err := command.Check(&command.SetSettings{BackupURL: &url})
		check.Equal(t, err == nil, fit, "%q is fit for the log", url)
		if err != nil && url != "" && strings.Contains(err.Error(), url) {
			t.Errorf("the error repeats the address: %v", err)
		}
	}
	r := newRig(t)
	url, millis, keep, verify := "s3://backups/commons", uint64(3_600_000), uint64(3), false
	r.Run(&command.SetSettings{BackupURL: &url, BackupMillis: &millis, BackupKeep: &keep, BackupVerify: &verify})
	want := command.DefaultSettings
	want.BackupURL, want.BackupMillis, want.BackupKeep, want.BackupVerify = url, millis, keep, verify
	check.Equal(t, fsmtest.InView(t, r, (*view.View).Settings), want, "settings")
}
