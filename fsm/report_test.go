package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPurgeErasesReports: what a report quotes goes with the entry, out of the files too,
// also of one that was closed or is gone.
func TestPurgeErasesReports(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.Publish(nil)
	}
	send := func(target, says string) {
		c := fsmtest.Report(target, "s"+says)
		c.Text = "It says " + says
		r.WantOutcome(c, command.OutcomeDone, 0)
	}
	send("e1", purgedWord+" first.")
	r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, "e1"), command.OutcomeDone, 0)
	r.log.stamp += command.ReportKeptMillis
	r.Run(&command.Tick{}) // the first is gone
	send("e1", purgedWord+" again.")
	r.WantOutcome(fsmtest.ResolveReport(command.ReportErased, "e1"), command.OutcomeDone, 0)
	send("e1", purgedWord+" once more.")
	send("e2", "nothing.")
	must.Do(t, r.store.Flush())
	if found := r.find(); len(found) == 0 {
		t.Error("it is found nowhere before")
	}
	r.Run(fsmtest.Purge("e1"))
	for number := uint64(2); number <= 4; number++ {
		if got := r.WantReport(number); (got.Text == "") != (number < 4) || got.Reason != command.ReportSpam {
			t.Errorf("report %d is %+v", number, got)
		}
	}
	r.erase()
	if found, err := fsmtest.FindText(r.opts.Dir, purgedWord); len(found) > 0 || err != nil {
		t.Errorf("it is still in %q, %v", found, err)
	}
}
