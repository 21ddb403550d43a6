package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// sent is an entry of a sender, of about so many bytes.
func sent(sender string, bytes int) *command.Publish {
	const rest = 80
	return post("ada", func(p *command.Publish) {
		p.Proof.Sender, p.Body = sender, strings.Repeat("a", max(command.MinBody, bytes-rest))
	})
}

// setSettings sets both settings.
func (r *rig) setSettings(daily, sender uint64) {
	r.t.Helper()
	expect(r.t, r.run(&command.SetSettings{DailyBytes: &daily, SenderBytes: &sender})[0], command.OutcomeDone, "settings")
}

// taken publishes entries of 1,000 bytes, each in a log entry, and counts those that
// were not over the budget.
func (r *rig) taken(sender string, entries int) (n int) {
	r.t.Helper()
	for range entries {
		p := sent(sender, 1000)
		v := r.View()
		_, _, fits, err := v.Assess(p, len(must.Get(command.Encode(p))(r.t)), r.now()+1000)
		v.Release()
		if err != nil {
			r.t.Fatal(err)
		}
		got := r.run(p)[0]
		over := slices.Equal(got.Problems, []command.Problem{command.ProblemOverBudget})
		if over == fits || !over && got.Outcome != command.OutcomeDone {
			r.t.Fatalf("the view says that it fits: %t; %+v", fits, got)
		}
		if !over {
			n++
		}
	}
	return n
}

func (r *rig) budget() state.Budget {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	b := must.Get(v.Budget(r.now()))(r.t)
	return b
}

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

// TestBudgetKeepsAReserve: heavy senders are cut at half of the budget, and those that have
// written little go on. A new day begins with an unused budget and without rows of the
// former one.
func TestBudgetKeepsAReserve(t *testing.T) {
	r := newRig(t)
	const share = 2100 // two entries of taken, and not three
	r.setSettings(share*4096, 1<<40)
	fill := func(bytes uint64) { // the budget is used by somebody else
		t.Helper()
		b := r.budget()
		r.applyMu.Lock()
		defer r.applyMu.Unlock()
		b.Day, b.Bytes = command.DayOf(r.now()), bytes
		must.Do(t, r.store.DB.Set(state.KeyBudget, state.Encode(&b), pebble.NoSync))
		r.store.Hot.Drop()
	}
	check.Equal(t, r.taken("bot", 4), 4, "entries that fit into an empty budget, of 4")
	v := r.View()
	check.Equal(t, must.Get(v.Budget(r.now()-2*command.DayMillis))(t), r.budget(), "budget by a clock behind the log")
	v.Release()
	fill(share * 4096 / 2)
	r.run(&command.Tick{})
	check.Equal(t, r.taken("bot", 2), 0, "entries of a heavy sender taken from the reserve")
	check.Equal(t, r.taken("honest", 3), 2, "entries of a light sender taken from the reserve")
	fill(share * 4096 * 3 / 4)
	r.run(&command.Tick{})
	check.Equal(t, r.taken("other", 1), 0, "an entry was taken from the last quarter")
	r.later(command.DayMillis)
	check.Equal(t, r.taken("bot", 3), 3, "entries that fit on the next day, of 3")
	if b := r.budget(); b.Senders != 1 || b.Day != command.DayOf(r.now()) || b.Bytes < 2500 || b.Bytes > 3500 {
		t.Errorf("the next day has %+v", b)
	}
	rows := 0
	lower, upper := state.SpaceBounds(state.SpaceBudget)
	if err := state.ScanSpace(r.store.DB, lower, upper, func(_, _ []byte) error { rows++; return nil }); err != nil || rows != 2 {
		t.Errorf("%d rows on the next day, %v; want the day's and its one sender's", rows, err)
	}
}

// TestBudgetOfASender: each sender has its own bytes, and each network; a new name's key
// lifts no bound, that of an established one does; a request_id that was used before is free.
func TestBudgetOfASender(t *testing.T) {
	r := newRig(t)
	key := slices.Repeat([]byte{7}, command.KeyHashBytes)
	r.run(&command.Register{Agent: "ada", AgentKey: "ada", Given: command.FieldDescription, Description: "Somebody.", NewKey: key, NewRecovery: key, Proof: command.Proof{Sender: "home"}})
	r.setSettings(0, 2500)
	again := sent("bot", 1000)
	again.Request = command.RequestKey{Scope: "ada", ID: "request-1"}
	first := r.run(again)[0]
	check.Equal(t, r.taken("bot", 4), 1, "further entries of a sender taken")
	before := r.budget()
	if got := r.run(again)[0]; got.Outcome != command.OutcomeDuplicate || got.Entry != first.Entry {
		t.Errorf("what was written before: %+v", got)
	}
	check.Equal(t, r.budget(), before, "the budget after a free write")
	keyed := func(sender string, key []byte) command.Result {
		p := sent(sender, 1000)
		p.Proof.Key = key
		return r.run(p)[0]
	}
	over := []command.Problem{command.ProblemOverBudget}
	check.Diff(t, keyed("bot", key).Problems, over, "a write by the key of a new name")
	for i := range command.NetworkShare * 3 {
		if n := r.taken(fmt.Sprint("site", command.NetworkEnd, i), 1); (n == 1) != (i < command.NetworkShare*5/2) {
			t.Errorf("sender %d of a network: %d entries taken", i, n)
		}
	}
	r.later(state.EstablishedAfter)
	check.Equal(t, r.taken("bot", 3), 2, "entries of a sender taken on another day")
	for i := range command.EstablishedShare * 3 {
		if got := keyed(fmt.Sprint("bot", i%2), key); (got.Outcome == command.OutcomeDone) != (i < command.EstablishedShare*5/2) {
			t.Errorf("write %d by the key of an established name: %+v", i, got)
		}
	}
	check.Diff(t, keyed("bot", slices.Repeat([]byte{8}, command.KeyHashBytes)).Problems, over, "a write by a wrong key")
	check.Equal(t, r.taken("other", 2), 2, "entries of another sender taken, of 2")
	zero := uint64(0)
	r.run(&command.SetSettings{SenderBytes: &zero})
	check.Equal(t, r.taken("bot", 1), 1, "a sender is bounded after the bound was lifted")
	expect(t, r.run(&command.SetSettings{SenderBytes: &zero})[0], command.OutcomeUnchanged, "the same settings again")
}

// TestBudgetOfManySenders: past the senders that are counted one by one, others share
// rows, and those that were counted keep theirs.
func TestBudgetOfManySenders(t *testing.T) {
	r := newRig(t)
	r.setSettings(0, 1500)
	r.taken("early", 1)
	b := r.budget()
	b.Senders = state.MaxBudgetSenders
	must.Do(t, r.store.DB.Set(state.KeyBudget, state.Encode(&b), pebble.NoSync))
	r.store.Hot.Drop()
	r.run(&command.Tick{})
	check.Equal(t, r.taken("late", 2), 1, "entries of a sender in a shared row taken")
	check.Equal(t, r.taken("early", 1), 0, "a sender that was counted has lost its count")
	check.Equal(t, r.budget().Senders, state.MaxBudgetSenders, "senders that are counted")
	r.applyMu.Lock()
	defer r.applyMu.Unlock()
	tx := r.begin()
	defer tx.Discard()
	if key, known := b.SenderKey(tx, "late"); !known || len(key) != stats.UsageDayKeyBytes+2 {
		t.Errorf("a late sender has the row %x", key)
	}
}

func TestWelcomeSetting(t *testing.T) {
	for id, fit := range map[string]bool{"": true, "e12": true, "jzz": true, "h1": true, "x1": false, "e": false, "E1": false, "e1 e2": false, "e12345678901234": false} {
		check.Equal(t, command.Check(&command.SetSettings{Welcome: &id}) == nil, fit, "the welcome %q is fit for the log", id)
	}
	r := newRig(t)
	id := "e12"
	r.run(&command.SetSettings{Welcome: &id})
	v := r.View()
	defer v.Release()
	check.Equal(t, must.Get(v.Settings())(t).Welcome, id, "the welcome")
}

// TestViewsKeepTheirHotRows: what is kept in memory of rows that change does not reach
// views of before the change.
func TestViewsKeepTheirHotRows(t *testing.T) {
	r := newRig(t)
	for n := range uint64(3) {
		r.run(&command.SetSettings{DailyBytes: &n})
		r.run(sent("s", 100)) // reads them
	}
	before := r.View()
	defer before.Release()
	more := uint64(9)
	r.run(&command.SetSettings{DailyBytes: &more})
	after := r.View()
	defer after.Release()
	if was, is := must.Get(before.Settings())(t).DailyBytes, must.Get(after.Settings())(t).DailyBytes; was != 2 || is != 9 {
		t.Errorf("settings of %d bytes before and %d after the change, want 2 and 9", was, is)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	large := uint64(command.MaxSettingBytes + 1)
	if command.Check(&command.SetSettings{DailyBytes: &large}) == nil || command.Check(&command.SetSettings{SenderBytes: &large}) == nil {
		t.Error("a setting that is too large is fit for the log")
	}
	most, none := uint64(command.MaxSettingBytes), uint64(0)
	checkRoundTrip(t, &command.SetSettings{}, &command.SetSettings{DailyBytes: &most, SenderBytes: &none})
}
