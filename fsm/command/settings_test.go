package command_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestFits(t *testing.T) {
	set := command.Settings{DailyBytes: 1 << 22, SenderBytes: 1 << 20} // a small share is 1 KiB
	one := func(bytes uint64) []command.Use { return []command.Use{{Bytes: bytes, Times: 1}} }
	for _, test := range []struct {
		name        string
		set         command.Settings
		bytes, all  uint64
		uses        []command.Use
		established bool
		want        bool
	}{
		{"the first", set, 100, 0, one(0), false, true},
		{"a heavy one, of the first half", set, 100, 1<<21 - 100, one(1 << 19), false, true},
		{"a heavy one, of the second half", set, 100, 1<<21 - 99, one(1 << 19), false, false},
		{"a heavy one that is established", set, 100, 1<<21 - 99, one(1 << 19), true, false},
		{"a light one, of the second half", set, 24, 1 << 21, one(1000), false, true},
		{"one that is heavy with this", set, 25, 1 << 21, one(1000), false, false},
		{"a light one in a heavy network", set, 24, 1 << 21, append(one(1000), command.Use{Bytes: 5000, Times: 4}), false, false},
		{"a light one in a network of several", set, 24, 1 << 21, append(one(1000), command.Use{Bytes: 4072, Times: 4}), false, true},
		{"a light one, up to the last quarter", set, 24, 3<<20 - 24, one(1000), false, true},
		{"a light one, of the last quarter", set, 24, 3<<20 - 23, one(1000), false, false},
		{"one that is established, the last bytes", set, 24, 1<<22 - 24, one(1000), true, true},
		{"one that is established, and nothing is left", set, 24, 1<<22 - 23, one(1000), true, false},
		{"all of its own", set, 100, 1<<20 - 100, one(1<<20 - 100), false, true},
		{"more than its own", set, 100, 1<<20 - 99, one(1<<20 - 99), false, false},
		{"no bound of all", command.Settings{SenderBytes: 1000}, 100, 1 << 40, one(900), false, true},
		{"no bound of all, more than its own", command.Settings{SenderBytes: 1000}, 101, 1 << 40, one(900), false, false},
		{"no bound of a sender", command.Settings{DailyBytes: 1 << 22}, 100, 2000, one(2000), false, true},
		{"no bounds", command.Settings{}, 100, 1 << 40, one(1 << 40), false, true},
	} {
		check.Equal(t, test.set.Fits(test.bytes, test.all, test.established, test.uses...), test.want, "%s: fits", test.name)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	large := uint64(command.MaxSettingBytes + 1)
	if command.Check(&command.SetSettings{DailyBytes: &large}) == nil || command.Check(&command.SetSettings{SenderBytes: &large}) == nil {
		t.Error("a setting that is too large is fit for the log")
	}
	most, none := uint64(command.MaxSettingBytes), uint64(0)
	command.CheckRoundTrip(t, &command.SetSettings{}, &command.SetSettings{DailyBytes: &most, SenderBytes: &none})
}

func TestRecordBackupIsChecked(t *testing.T) {
	for _, c := range []command.RecordBackup{{}, {At: -1}, {Run: 1}, {Verified: -1}, {Verified: 1, Run: 1, Problem: "full"}, {Verified: 1, At: 1}} {
		check.Fails(command.Check(&c))(t, "check %+v", c)
	}
	want := command.Batch{Stamp: 1, Groups: []command.Group{{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: 1, Payload: &command.RecordBackup{At: 7}}}}}}
	data := must.Get(command.EncodeBatch(want))(t)
	if got, err := command.DecodeBatch(data); err != nil || !cmp.Equal(got, want, cmpopts.IgnoreFields(command.Command{}, "Data")) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

// TestBoundsOfRetention: a retention has at most a hundred years.
func TestBoundsOfRetention(t *testing.T) {
	for days, fit := range map[uint64]bool{0: true, 1: true, command.MaxRetentionDays: true, command.MaxRetentionDays + 1: false} {
		check.Equal(t, command.Check(fsmtest.Retain(days)) == nil, fit, "a retention of %d days is fit for the log", days)
	}
}
