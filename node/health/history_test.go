package health

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

// TestHistory holds that each part of the last hour has its own sums, and that what is
// older is gone.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := New(Config{Started: time.Now()})
	note := h.pastWrites.add
	note(time.Second, 10*time.Millisecond)
	note(2*time.Second, 30*time.Millisecond)
	note(historyPart, 5*time.Millisecond)
	now := historyPart + time.Second
	got := h.pastWrites.timings(now)
	if last := got[historyParts-1]; last.Count != 1 || last.MeanMillis != 5 {
		t.Errorf("the last part: %+v", last)
	}
	if before := got[historyParts-2]; before.Count != 2 || before.MeanMillis != 20 || before.MostMillis != 30 {
		t.Errorf("the part before: %+v", before)
	}
	check.Equal(t, got[historyParts-3].Count, 0, "before the start")
	got = h.pastWrites.timings(now + historyPart*historyParts)
	for i, part := range got {
		check.Equal(t, part.Count, 0, "part %d after an hour: %+v", i, part)
	}
}

// TestElections holds that the newest elections are remembered, and no others.
func TestElections(t *testing.T) {
	t.Parallel()
	h := New(Config{Started: time.Now()})
	const seen = maxElections + 5
	for term := range uint64(seen) {
		h.NoteLeader("n1-x", term)
	}
	got := h.History().Elections
	if len(got) != maxElections || got[0].Term != seen-1 {
		t.Errorf("%d elections, the newest of term %d", len(got), got[0].Term)
	}
}
