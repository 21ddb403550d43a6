package fsm

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
)

// TestViewAt: a view of one index can be had in the middle of what is applied in
// one call, and only there.
func TestViewAt(t *testing.T) {
	l := newLog(t)
	l.seed(40)
	m := openAt(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type got struct {
		index  uint64
		digest [32]byte
		rows   [32]byte
		err    error
	}
	// Raft's own entries reach no state: no view has their index.
	var indexes []uint64
	for _, e := range l.entries {
		if e.Type == raft.LogCommand {
			indexes = append(indexes, e.Index)
		}
	}
	early, late, last := indexes[10], indexes[30], indexes[len(indexes)-1]
	wanted := []uint64{late, early, early, last}
	answers := make(chan got, len(wanted))
	for _, index := range wanted {
		go func() {
			v, err := m.ViewAt(ctx, index)
			if err != nil {
				answers <- got{index: index, err: err}
				return
			}
			defer v.Release()
			rows, err := v.RowDigest(ctx)
			answers <- got{v.Index(), v.Digest(), rows, err}
		}()
	}
	for waiting := 0; waiting < len(wanted); time.Sleep(time.Millisecond) {
		m.captures.mu.Lock()
		waiting = len(m.captures.open)
		m.captures.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("they do not wait")
		}
	}
	l.feed(m, 1, l.last())
	seen := map[uint64]bool{}
	for range wanted {
		a := <-answers
		if a.err != nil {
			t.Fatalf("%d: %v", a.index, a.err)
		}
		seen[a.index] = true
		other := l.fresh(t, a.index)
		if a.rows != other.Rows || a.digest != other.Rolling {
			t.Errorf("the view at %d is not the state at that index", a.index)
		}
	}
	if !seen[early] || !seen[late] || !seen[last] {
		t.Errorf("views of %v", seen)
	}
	check.Err(t, check.Last(m.ViewAt(ctx, early)), ErrPassed, "an index that is passed")
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	check.Err(t, check.Last(m.ViewAt(brief, l.last()+1)), context.DeadlineExceeded, "an index to come")
	check.Equal(t, len(m.captures.open), 0, "somebody still waits")
}

// TestRowDigestEnds: a digest whose context has ended stops.
func TestRowDigestEnds(t *testing.T) {
	l := newLog(t)
	l.seed(5)
	m := openAt(t, t.TempDir())
	l.feed(m, 1, l.last())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := m.View()
	defer v.Release()
	check.Err(t, check.Last(v.RowDigest(ctx)), context.Canceled, "error")
}
