package check

import (
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// checkStrong: a strong read, at any node, is at least as new as every write that was
// acknowledged, and every strong read that was answered, before it was sent. An empty read,
// or one with only entries from before the run, is older than all of these. Entries that
// moderators work with are ignored, because they disappear and come back.
func checkStrong(v *Verdict, calls []record.Call, f *Final) {
	place, comesAndGoes := map[string]int{}, moderatedIDs(calls)
	for i, e := range f.state() {
		if !comesAndGoes[e.ID] {
			place[e.ID] = i + 1 // 0 is nowhere
		}
	}
	newest := func(c *record.Call) (at int) {
		if c.Kind != record.Strong {
			return place[c.ID]
		}
		for _, id := range c.Seen {
			at = max(at, place[id])
		}
		return at
	}
	var ended, begun []*record.Call
	for i := range calls {
		c := &calls[i]
		if c.Outcome != record.Done || c.Kind != record.Strong && !c.Kind.Writes() {
			continue
		}
		if newest(c) != 0 {
			ended = append(ended, c)
		}
		if c.Kind == record.Strong && (len(c.Seen) == 0 || slices.ContainsFunc(c.Seen, func(id string) bool { return !comesAndGoes[id] })) {
			begun = append(begun, c)
		}
	}
	slices.SortFunc(ended, func(a, b *record.Call) int { return int(a.End - b.End) })
	slices.SortFunc(begun, func(a, b *record.Call) int { return int(a.Begin - b.Begin) })
	var last *record.Call // of those that had ended, the newest
	next := 0
	for _, c := range begun {
		for ; next < len(ended) && ended[next].End < c.Begin; next++ {
			if last == nil || newest(ended[next]) > newest(last) {
				last = ended[next]
			}
		}
		v.Looked++
		if last != nil && newest(c) < newest(last) {
			v.Add(fmt.Sprintf("a strong read at %s lacks what %s had from %s %v before it was sent", c.Node, last.Client, last.Node, c.Begin-last.End), *last, *c)
		}
	}
}
