package fsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/must"
)

// TestTablesOfSpaces holds that a table has rows of one keyspace only, both as it is
// flushed and as it is compacted: tables of entries can then be moved to a lower level.
func TestTablesOfSpaces(t *testing.T) {
	m, l := openAt(t, t.TempDir()), newLog(t)
	check := func(when string) {
		t.Helper()
		levels := must.Get(m.store.DB.SSTables())(t)
		spaces := map[byte]bool{}
		for _, tables := range levels {
			for _, table := range tables {
				space := table.Smallest.UserKey[0]
				_, upper := state.SpaceBounds(space)
				if largest := table.Largest.UserKey; bytes.Compare(largest, upper) > 0 || bytes.Equal(largest, upper) && !table.Largest.IsExclusiveSentinel() {
					t.Errorf("%s: a table of %c reaches to %q", when, space, largest)
				}
				spaces[space] = true
			}
		}
		if !spaces[state.SpaceEntry] || len(spaces) < 5 {
			t.Errorf("%s: tables of the spaces %v", when, spaces)
		}
	}
	done := uint64(0)
	for round := range 3 {
		for i := range 20 {
			l.commands(&command.Publish{Agent: fmt.Sprint("a", i), AgentKey: fmt.Sprint("a", i), Kind: command.KindMessage, Channel: "lobby", Body: fmt.Sprint("text ", round, i)})
		}
		l.feed(m, done+1, l.last())
		done = l.last()
		must.Do(t, m.store.DB.DeleteRange([]byte{'a'}, []byte{'b'}, pebble.NoSync))
		must.Do(t, m.store.Flush())
		check("flushed")
	}
	must.Do(t, m.store.DB.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	check("compacted")
}
