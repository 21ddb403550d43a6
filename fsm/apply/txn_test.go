package apply

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestScan holds that a call reads the rows as it has left them. A scan finds a row once that is stored
// and written again, and none that was deleted: what a log entry ends must not depend on how the log was cut into calls.
func TestScan(t *testing.T) {
	db := must.Get(pebble.Open("", &pebble.Options{FS: vfs.NewMem()}))(t)
	defer db.Close()
	for _, seq := range []uint64{1, 2, 3, 4, 9} {
		must.Do(t, db.Set(state.KeptKey(seq), nil, pebble.NoSync))
	}
	var rows state.Rows
	rows.Open(db)
	l, c, err := LoadState(db, command.MaxFormat)
	must.Do(t, err)
	tx := Begin(&rows, l, c, command.MaxFormat, nil)
	defer tx.Discard()
	tx.del(state.KeptKey(1))
	tx.set(state.KeptKey(2), []byte{})
	tx.del(state.KeptKey(3))
	tx.set(state.KeptKey(3), []byte{})
	tx.set(state.KeptKey(7), []byte{})
	tx.set(state.KeptKey(8), []byte{})
	tx.del(state.KeptKey(8))
	for _, test := range []struct {
		limit int
		want  []uint64
	}{{10, []uint64{2, 3, 4, 7}}, {3, []uint64{2, 3, 4}}, {1, []uint64{2}}} {
		var got []uint64
		for _, key := range tx.scan(state.KeptKey(0), state.KeptKey(9), test.limit) {
			got = append(got, state.SeqOfKey(key))
		}
		check.Diff(t, got, test.want, "the first %d keys", test.limit)
	}
	tx.now = 1
	tx.dropRange(state.KeptKey(0), state.KeptKey(9))
	_, found := tx.Get(state.KeptKey(4))
	check.Equal(t, found, false, "a row of a dropped range is read")
	check.Empty(t, tx.scan(state.KeptKey(0), state.KeptKey(9), 10), "keys of a dropped range")
	rows.Recent.Put(1, []byte("as stored"))
	tx.firstFresh = 2
	tx.recastEntry(1, []byte("rewritten"))
	check.Equal(t, string(tx.entryRow(1)), "rewritten", "an entry that the call has rewritten")
}
