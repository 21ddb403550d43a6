package apply_test

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestRecordBackup: the newest backup counts, in whatever order they are recorded, and no
// backup counts for later than now.
func TestRecordBackup(t *testing.T) {
	r := newRig(t)
	times := func() (last, first int64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		last, err := v.LastBackup()
		must.Do(t, err)
		first = must.Get(v.FirstEntry())(t)
		return last, first
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
	if last, _ := times(); last != r.Now() {
		t.Errorf("a clock that is days fast gives a backup of %d, now is %d", last, r.Now())
	}
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
			v := r.View()
			defer v.Release()
			check.Equal(t, must.Get(v.BackupRun())(t), step.want, "run")
			check.Equal(t, must.Get(v.LastBackup())(t), step.last, "the newest backup")
		})
	}
}

// TestBackupSettings holds that credentials have no place in the address of a store.
func TestBackupSettings(t *testing.T) {
	few, none, much := uint64(command.MinBackupMillis-1), uint64(0), uint64(command.MaxBackupKeep+1)
	for _, c := range []*command.SetSettings{{BackupMillis: &few}, {BackupKeep: &none}, {BackupKeep: &much}} {
		if command.Check(c) == nil {
			t.Errorf("%+v is fit for the log", c)
		}
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
	v := r.View()
	defer v.Release()
	want := command.DefaultSettings
	want.BackupURL, want.BackupMillis, want.BackupKeep, want.BackupVerify = url, millis, keep, verify
	check.Equal(t, must.Get(v.Settings())(t), want, "settings")
}
