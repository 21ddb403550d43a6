package fsm

import (
	"errors"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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
	check.Equal(t, command.FormatOf(&future{}), 7, "a later payload needs")
}

// TestFormatOnlyRises: the number goes up, never down, survives a restart, and
// keeps out a program that does not know it.
func TestFormatOnlyRises(t *testing.T) {
	knows := func(format int) func(*Options) { return func(o *Options) { o.MaxFormat = format } }
	dir, l := t.TempDir(), newLog(t)
	m := openAt(t, dir, knows(3))
	check.Equal(t, m.Format(), command.InitialFormat, "a new state has format")
	for _, step := range []struct{ set, want int }{{2, 2}, {1, 2}, {3, 3}} {
		index := l.commands(&command.SetFormat{Format: step.set})
		l.feed(m, index, index)
		check.Equal(t, m.Format(), step.want, "after %d: format", step.set)
	}
	closeMachine(t, m)
	check.Err(t, check.Last(tryOpenAt(dir, knows(2))), command.ErrNewerFormat, "a program that knows format 2 opens format 3")
	m = openAt(t, dir, knows(3))
	check.Equal(t, m.Format(), 3, "after a restart: format")
	closeMachine(t, m)
	var fatal error
	m = openAt(t, dir, knows(3), func(o *Options) { o.Fatal = func(err error) { fatal = err } })
	index := l.commands(&command.SetFormat{Format: 4})
	fed := make(chan bool)
	go func() {
		defer close(fed)
		l.feed(m, index, index)
		fed <- true
	}()
	if <-fed || !errors.Is(fatal, command.ErrNewerFormat) || m.Applied() >= index {
		t.Errorf("a format that is not known: %v; applied up to %d of %d", fatal, m.Applied(), index)
	}
}

// TestNewerSnapshotIsRejected: what is received in a format that is not known takes no
// state's place, and ends the program with a sentence.
func TestNewerSnapshotIsRejected(t *testing.T) {
	l := newLog(t)
	newer := openAt(t, t.TempDir(), func(o *Options) { o.MaxFormat = 2 })
	l.feed(newer, 1, l.commands(&command.SetFormat{Format: 2}))
	must.Do(t, takeSnapshot(newer, l.last(), 3))
	meta, data, err := send(newer)
	must.Do(t, err)
	var fatal error
	old := openAt(t, t.TempDir(), func(o *Options) {
		o.MaxFormat = 1
		o.Fatal = func(err error) { fatal = err }
	})
	if err := receive(old, meta, data); !errors.Is(err, command.ErrNewerFormat) || !errors.Is(fatal, command.ErrNewerFormat) || old.Applied() != 0 {
		t.Errorf("received %v, ended with %v, at index %d", err, fatal, old.Applied())
	}
}
