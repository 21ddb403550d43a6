package apply

import "github.com/commons-cluster/commons/fsm/state"

// happen records an event about an entry.
func (tx *Txn) happen(kind state.EventKind, entry uint64) {
	tx.happened = append(tx.happened, state.Happening{Kind: kind, Entry: entry})
}

// putEvents writes the events of the log entry that is being applied.
func (tx *Txn) putEvents() {
	for first := 0; first < len(tx.happened); first += state.MaxRowEvents {
		row := state.EventRow{
			Index: tx.Head.Applied, At: tx.now, First: uint64(first) + 1, Before: tx.Head.LastEvent,
			Events: tx.happened[first:min(first+state.MaxRowEvents, len(tx.happened))],
		}
		tx.set(state.EventKey(tx.Head.EventRows), state.Encode(&row))
		tx.Head.EventRows++
		tx.Head.LastEvent = row.Last()
	}
	tx.happened, tx.stepped = tx.happened[:0], 0
}
