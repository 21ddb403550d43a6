package fsm

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestBackgroundWorkRests: compactions for erasures, the two readings of an export, and the digest
// of a view.
func TestBackgroundWorkRests(t *testing.T) {
	var steps atomic.Int64
	obs := &recorder{}
	r := rigOf(t, newLog(t), obs, openAt(t, t.TempDir(), func(o *Options) {
		o.Observer, o.Pace = obs, func() func() { return func() { steps.Add(1) } }
	}))
	r.log.feed(r.Machine, 1, 1)
	r.Run(fsmtest.Purge(publishPurged(r)...))
	rests := func(what string, work func()) {
		t.Helper()
		before := steps.Load()
		work()
		if steps.Load() == before {
			t.Errorf("%s made no step", what)
		}
	}
	rests("a compaction", func() {
		for range erasePasses {
			must.Do(t, r.store.compact(t.Context(), textRanges(1, 600)))
		}
	})
	v := r.View()
	rests("the digest of a view", func() { must.Get(v.RowDigest(t.Context()))(t) })
	v.Release()
	e := must.Get(r.Export())(t)
	rests("an export", func() { must.Get(io.Copy(io.Discard, e))(t) })
	rests("the digest of an export", func() { must.Get(e.RowDigest())(t) })
	must.Do(t, e.Close())
}

// TestCompactions: only the tables of a single paced compaction are written with steps.
func TestCompactions(t *testing.T) {
	for name, tt := range map[string]struct {
		category      vfs.DiskWriteCategory
		paced, second bool
		want          int
	}{
		"paced":               {category: compactionWrites, paced: true, want: 1},
		"not paced":           {category: compactionWrites},
		"a flush":             {category: "pebble-memtable-flush", paced: true},
		"a second compaction": {category: compactionWrites, paced: true, second: true},
	} {
		t.Run(name, func(t *testing.T) {
			steps := 0
			c := &compactionFS{FS: vfs.NewMem(), pace: func() func() { return func() { steps++ } }}
			c.paced.Store(tt.paced)
			must.Do(t, must.Get(c.Create("ended", compactionWrites))(t).Close())
			f := must.Get(c.Create("table", tt.category))(t)
			if tt.second {
				must.Get(c.Create("second", compactionWrites))(t)
			}
			must.Get(f.Write([]byte("text")))(t)
			check.Equal(t, steps, tt.want, "steps")
		})
	}
}
