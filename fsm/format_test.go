package fsm

import (
	"errors"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// future is a payload of a later version.
type future struct{ command.Lead }

func (*future) Needs() int { return 7 }

func TestFormatOf(t *testing.T) {
	for _, op := range command.Ops() {
		if got := command.FormatOf(command.New(op)); got > command.MaxFormat {
			t.Errorf("%s needs format %d, and this program knows up to %d", op, got, command.MaxFormat)
		}
	}
	if got := command.FormatOf(&future{}); got != 7 {
		t.Errorf("a later payload needs %d", got)
	}
}

// TestFormatOnlyRises: the number goes up, never down, survives a restart, and
// keeps out a program that does not know it.
func TestFormatOnlyRises(t *testing.T) {
	knows := func(format int) func(*Options) { return func(o *Options) { o.MaxFormat = format } }
	dir, l := t.TempDir(), newLog(t)
	m := openAt(t, dir, knows(3))
	if got := m.Format(); got != command.InitialFormat {
		t.Errorf("a new state has format %d", got)
	}
	for _, step := range []struct{ set, want int }{{2, 2}, {1, 2}, {3, 3}} {
		index := l.commands(&command.SetFormat{Format: step.set})
		l.feed(m, index, index)
		if got := m.Format(); got != step.want {
			t.Errorf("after %d: format %d, want %d", step.set, got, step.want)
		}
	}
	closeMachine(t, m)
	if _, err := tryOpenAt(dir, knows(2)); !errors.Is(err, command.ErrNewerFormat) {
		t.Errorf("a program that knows format 2 opens format 3: %v", err)
	}
	m = openAt(t, dir, knows(3))
	if got := m.Format(); got != 3 {
		t.Errorf("after a restart: format %d", got)
	}
	index := l.commands(&command.SetFormat{Format: 4})
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, command.ErrNewerFormat) {
			t.Errorf("a format that is not known: %v", err)
		}
	}()
	l.feed(m, index, index)
}

// format1 are the commands that every program reads. Since the first release the list
// never grows.
var format1 = [...]command.Op{
	command.OpLead, command.OpInit, command.OpPublish, command.OpRegister, command.OpPostJob, command.OpClaimJob, command.OpFinishJob, command.OpReleaseJob, command.OpCloseJob, command.OpTick, command.OpAskHuman, command.OpAddUsage,
	command.OpAckDelivery, command.OpTestDelivery, command.OpRotateSigningKey, command.OpBeginDeliveries, command.OpSetFormat, command.OpResetKey, command.OpReseal, command.OpRecordBackup,
	command.OpProtectName, command.OpSetSettings, command.OpMarkSeen,
	command.OpSetModerator, command.OpHide, command.OpPurge, command.OpSetRule, command.OpLiftRule, command.OpNoteChange, command.OpSweep,
	command.OpReport, command.OpResolveReports, command.OpDestroyDisk, command.OpNextEpoch, command.OpForgetSenders,
}

// TestLaterCommandsNeedAFormat: a command without the method Needs would enter the
// log while there are programs that cannot read it, and end them.
func TestLaterCommandsNeedAFormat(t *testing.T) {
	for _, op := range command.Ops() {
		if later := !slices.Contains(format1[:], op); later != (command.FormatOf(command.New(op)) > command.InitialFormat) {
			t.Errorf("%s: came after format %d: %t; needs format %d", op, command.InitialFormat, later, command.FormatOf(command.New(op)))
		}
	}
	for _, op := range format1 {
		if command.New(op) == nil {
			t.Errorf("%s cannot be read any more", op)
		}
	}
}
