package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// MaxShown bounds the findings that are shown of a check, and the calls of each.
const MaxShown = 5

// Finding is a broken promise, with the calls that show it.
type Finding struct {
	Text  string
	Calls []record.Call
}

// Verdict is the result of a check.
type Verdict struct {
	Name     string
	Looked   int // how many things were checked
	Findings []Finding
	Open     int // how many took too long to decide
}

// Add adds a finding.
func (v *Verdict) Add(text string, calls ...record.Call) {
	v.Findings = append(v.Findings, Finding{text, calls})
}

// grouped returns the calls by the result of name, without calls for which that is empty.
func grouped(calls []record.Call, name func(*record.Call) string) map[string][]record.Call {
	groups := map[string][]record.Call{}
	for i := range calls {
		if n := name(&calls[i]); n != "" {
			groups[n] = append(groups[n], calls[i])
		}
	}
	return groups
}

// Summary is a verdict in one line.
func (v *Verdict) Summary() string {
	switch {
	case len(v.Findings) > 0:
		return fmt.Sprintf("FAILED  %s: %d findings among %d; the first: %s", v.Name, len(v.Findings), v.Looked, strings.TrimSpace(v.Findings[0].Text))
	case v.Open > 0:
		return fmt.Sprintf("ok      %s: %d, of them %d took too long to decide", v.Name, v.Looked, v.Open)
	}
	return fmt.Sprintf("ok      %s: %d", v.Name, v.Looked)
}

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

// idsByText returns the ids of the entries that have each text.
func (f *Final) idsByText() map[string][]string {
	ids := map[string][]string{}
	for _, e := range f.state() {
		ids[e.Body] = append(ids[e.Body], e.ID)
	}
	return ids
}
