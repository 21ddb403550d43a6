package fsm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/command"
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
		if err != nil {
			t.Fatal(err)
		}
		if first, err = v.FirstEntry(); err != nil {
			t.Fatal(err)
		}
		return last, first
	}
	if last, first := times(); last != 0 || first != 0 {
		t.Errorf("an empty state has a backup of %d, an entry of %d", last, first)
	}
	r.publish(nil)
	published := r.now()
	r.publish(nil)
	r.later(command.DayMillis)
	for _, step := range []struct {
		at, want int64
		outcome  command.Outcome
	}{
		{published + 2, published + 2, command.OutcomeDone},
		{published + 1, published + 2, command.OutcomeUnchanged},
		{published + 2, published + 2, command.OutcomeUnchanged},
	} {
		if got := r.run(&command.RecordBackup{At: step.at})[0]; got.Outcome != step.outcome {
			t.Errorf("a backup of %d: %+v", step.at-published, got)
		}
		if last, first := times(); last != step.want || first != published {
			t.Errorf("the newest backup is of %d, the first entry of %d", last-published, first-published)
		}
	}
	r.run(&command.RecordBackup{At: published + 9*command.DayMillis})
	if last, _ := times(); last != r.now() {
		t.Errorf("a clock that is days fast gives a backup of %d, now is %d", last, r.now())
	}
}

func TestRecordBackupIsChecked(t *testing.T) {
	if command.Check(&command.RecordBackup{}) == nil || command.Check(&command.RecordBackup{At: -1}) == nil {
		t.Error("a backup without a time is fit for the log")
	}
	want := command.Batch{Stamp: 1, Groups: []command.Group{{Boot: boot1, Commands: []command.Command{{Seq: 1, Payload: &command.RecordBackup{At: 7}}}}}}
	data := must.Get(command.EncodeBatch(want))(t)
	if got, err := command.DecodeBatch(data); err != nil || !cmp.Equal(got, want, cmpopts.IgnoreFields(command.Command{}, "Data")) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}
