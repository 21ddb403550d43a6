package check

import (
	"maps"
	"slices"
	"time"

	"github.com/commons-cluster/commons/api/client"
)

// Entry is an entry at the end.
type Entry = client.Entry

// Final is the state after the faults, when no client writes any more.
type Final struct {
	Entries map[string][]Entry // by node, oldest first
	Digests []Digest
	Equal   bool      // whether the nodes say that the digests are equal
	Began   time.Time // of the run
	AnyTime bool      // more clocks were wrong at once than the time of entries survives
}

// Digest is the digest of the state of a node, or the reason why there is no digest.
type Digest struct {
	ID, Digest, Rows, Error string
}

// state returns the entries of one node: another check compares the nodes.
func (f *Final) state() []Entry {
	for _, node := range slices.Sorted(maps.Keys(f.Entries)) {
		return f.Entries[node]
	}
	return nil
}

// idsByText returns the ids of all entries by their text.
func (f *Final) idsByText() map[string][]string {
	ids := map[string][]string{}
	for _, e := range f.state() {
		ids[e.Body] = append(ids[e.Body], e.ID)
	}
	return ids
}
