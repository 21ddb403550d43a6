package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
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
		if n := r.PublishWithinBudget(fmt.Sprint("site", command.NetworkEnd, i), 1); (n == 1) != (i < command.NetworkShare*5/2) {
			t.Errorf("sender %d of a network: %d entries taken", i, n)
		}
	}
	r.Later(state.EstablishedAfter)
	check.Equal(t, r.PublishWithinBudget("bot", 3), 2, "entries of a sender taken on another day")
	for i := range command.EstablishedShare * 3 {
		if got := keyed(fmt.Sprint("bot", i%2), key); (got.Outcome == command.OutcomeDone) != (i < command.EstablishedShare*5/2) {
			t.Errorf("write %d by the key of an established name: %+v", i, got)
		}
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
	v := r.View()
	defer v.Release()
	check.Equal(t, must.Get(v.Settings())(t).Welcome, id, "the welcome")
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
	v := r.View()
	check.Equal(t, must.Get(v.Budget(r.Now()-2*command.DayMillis))(t), r.Budget(), "budget by a clock behind the log")
	v.Release()
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
