package health

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
)

func TestRecentForgets(t *testing.T) {
	r := newRecent()
	check.Equal(t, r.timing(0), (admin.Timing{}), "nothing was measured")
	r.add(time.Second, 10*time.Millisecond)
	r.add(2*time.Second, 30*time.Millisecond)
	r.add(50*time.Second, 2*time.Millisecond)
	for at, want := range map[time.Duration]admin.Timing{
		50 * time.Second:  {Count: 3, MeanMillis: 14, MostMillis: 30},
		59 * time.Second:  {Count: 3, MeanMillis: 14, MostMillis: 30},
		70 * time.Second:  {Count: 1, MeanMillis: 2, MostMillis: 2},
		109 * time.Second: {Count: 1, MeanMillis: 2, MostMillis: 2},
		110 * time.Second: {},
		time.Hour:         {},
	} {
		check.Equal(t, r.timing(at), want, "after %v", at)
	}
	// A part that replaces an old one begins anew.
	r.add(61*time.Second, time.Millisecond)
	want := admin.Timing{Count: 2, MeanMillis: 1.5, MostMillis: 2}
	check.Equal(t, r.timing(62*time.Second), want, "a part that is used again")
}

func TestRejectionsByCode(t *testing.T) {
	var r rejections
	if got := r.list(0); got == nil || len(got) != 0 {
		t.Errorf("nothing was rejected: %v", got)
	}
	r.add(time.Second, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"})
	r.add(30*time.Second, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "too many"})
	r.add(time.Second, &command.Unavailable{Code: command.CodeDiskFull, Reason: "full"})
	want := []admin.Rejected{{Code: "disk_full", Count: 1, Reason: "full"}, {Code: "not_enqueued", Count: 2, Reason: "too many"}}
	check.Diff(t, r.list(30*time.Second), want, "list")
	later := []admin.Rejected{{Code: "not_enqueued", Count: 1, Reason: "too many"}}
	check.Diff(t, r.list(80*time.Second), later, "list when most are old")
}
