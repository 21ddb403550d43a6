package fsmtest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// EventsOf reads all events behind a cursor, some at a time.
func EventsOf(t Tester, m Viewer, c view.EventCursor, limit int) []view.Event {
	t.Helper()
	v := m.View()
	defer v.Release()
	var all []view.Event
	for {
		events, err := v.Events(&c, limit)
		if err != nil {
			t.Fatalf("events behind %+v: %v", c, err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// ChangeLog returns the record of changes, the oldest first: the actor, the action and its
// object.
func ChangeLog(t *testing.T, v *view.View) (rows []string) {
	t.Helper()
	records, next, err := v.Changes(0, 100)
	if err != nil || next != 0 {
		t.Fatal(next, err)
	}
	for i := range records {
		r := &records[len(records)-1-i]
		if r.At == 0 || r.Number != uint64(i+1) {
			t.Errorf("%+v", r)
		}
		rows = append(rows, strings.TrimSpace(strings.Join([]string{r.By, r.Action, r.What, r.Reason}, " ")))
	}
	return rows
}

// Home returns the home of an agent.
func (r *Hand) Home(agent string, since int64) *view.Home {
	r.T.Helper()
	return InView(r.T, r, func(v *view.View) (*view.Home, error) {
		return v.Home(&view.Preferences{AgentKey: agent}, since, false)
	})
}

// MarkSeen notes that an agent with a key has seen entries.
func MarkSeen(agent, key string, entries ...uint64) *command.MarkSeen {
	return &command.MarkSeen{AgentKey: agent, Proof: command.Proof{Key: KeyHash(key)}, Entries: entries}
}

// AddCalls is a fold of calls of one kind.
func AddCalls(number uint64, day command.Day, count uint64) *command.AddUsage {
	return &command.AddUsage{
		Boot: Boot1, Number: number,
		Rows: []command.UsageRow{{Day: day, Surface: command.SurfaceAPI, Action: "listEntries", Client: "curl", Count: count}},
	}
}

// AddSenders is a fold of senders alone.
func AddSenders(number uint64, day command.Day, surface command.Surface, senders ...string) *command.AddUsage {
	s := stats.NewSenders()
	for _, name := range senders {
		s.Insert(name)
	}
	row := command.SenderRow{Day: day, Surface: surface}
	for i, rank := range s.Registers() {
		if rank > 0 {
			row.Registers = command.AppendRegister(row.Registers, i, rank)
		}
	}
	return &command.AddUsage{Boot: Boot1, Number: number, Senders: []command.SenderRow{row}}
}

// Today is the day of the rig's newest log entry.
func (r *Hand) Today() command.Day {
	v := r.View()
	defer v.Release()
	return command.DayOf(v.Time())
}

// DrawWindow draws a group without commands: a floor, and open numbers below it.
func DrawWindow(t *rapid.T) command.Group {
	g := command.Group{Floor: rapid.Uint64Range(0, 20).Draw(t, "floor")}
	if g.Floor > 0 {
		g.Open = rapid.SliceOfNDistinct(rapid.Uint64Range(0, g.Floor-1), 0, 4, rapid.ID).Draw(t, "open")
		slices.Sort(g.Open)
	}
	return g
}

// Day in milliseconds.
const Day = command.DayMillis

// Retain sets for how many days texts are kept.
func Retain(days uint64) *command.SetSettings { return &command.SetSettings{RetentionDays: &days} }

// SweepAll does what a leader does now, and returns how many commands that took.
func (r *Hand) SweepAll() (n int) {
	r.T.Helper()
	for from := uint64(0); ; n++ {
		next, to := NextSweep(r.T, r, r.Now(), from)
		if next == nil {
			return n
		}
		from = to
		if n > 1000 {
			r.T.Fatalf("there is no end to it: %+v", next)
		}
		Expect(r.T, r.Run(next)[0], command.OutcomeDone, "%+v", next)
	}
}

// NextSweep returns the next sweep, however many looks that takes; nil means that no entry
// is due.
func NextSweep(t Tester, m Viewer, now int64, from uint64) (next *command.Sweep, to uint64) {
	t.Helper()
	v := m.View()
	defer v.Release()
	for whole := false; ; from = to {
		whole = whole || from == 0
		var err error
		next, to, err = v.NextSweep(now, from)
		must.Do(t, err)
		if next != nil || whole && to == 0 {
			return next, to
		}
	}
}

// InChannel puts an entry into a channel.
func InChannel(channel string) func(*command.Publish) {
	return func(p *command.Publish) { p.Channel = channel }
}

// PostOfSize is an entry of a sender, of about so many bytes.
func PostOfSize(sender string, bytes int) *command.Publish {
	const rest = 80
	return Post("ada", func(p *command.Publish) {
		p.Proof.Sender, p.Body = sender, strings.Repeat("a", max(command.MinBody, bytes-rest))
	})
}

// SetSettings sets both settings.
func (r *Hand) SetSettings(daily, sender uint64) {
	r.T.Helper()
	Expect(r.T, r.Run(&command.SetSettings{DailyBytes: &daily, SenderBytes: &sender})[0], command.OutcomeDone, "settings")
}

// PublishWithinBudget publishes entries of 1,000 bytes, each in a log entry, and counts those that
// were not over the budget.
func (r *Hand) PublishWithinBudget(sender string, entries int) (n int) {
	r.T.Helper()
	for range entries {
		p := PostOfSize(sender, 1000)
		v := r.View()
		_, _, fits, err := v.Assess(p, len(must.Get(command.Encode(p))(r.T)), r.Now()+1000)
		v.Release()
		must.Do(r.T, err)
		got := r.Run(p)[0]
		over := slices.Equal(got.Problems, []command.Problem{command.ProblemOverBudget})
		if over == fits || !over && got.Outcome != command.OutcomeDone {
			r.T.Fatalf("the view says that it fits: %t; %+v", fits, got)
		}
		if !over {
			n++
		}
	}
	return n
}

// Budget returns what was written today.
func (r *Hand) Budget() state.Budget {
	r.T.Helper()
	return InView(r.T, r, func(v *view.View) (state.Budget, error) { return v.Budget(r.Now()) })
}
