package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	strongReaders = 2 // at each node, beside one whose reads are not strong
	// strongTimeout is short, so that a stopped node finds fresh requests when it
	// continues, and answers them before it knows that it was stopped.
	strongTimeout = 1500 * time.Millisecond
	strongLimit   = 20 // entries, of which some are moderated later
)

// read repeatedly asks one node for the newest entries.
func (w *crowd) read(ctx context.Context, how kind, node *harness.Node, random *rand.Rand) {
	caller := *w.client
	caller.http = &http.Client{Timeout: strongTimeout, Transport: w.client.http.Transport}
	name := fmt.Sprintf("%sreader-of-%s", w.prefix, node.Name)
	path := fmt.Sprintf("/api/entries?limit=%d", strongLimit)
	if how == strong {
		path += "&consistency=strong"
	}
	for ctx.Err() == nil {
		c := call{Client: name, Surface: "http", Kind: how, Agent: name}
		caller.doSeen(ctx, &c, node, request{http.MethodGet, path, nil, http.Header{}}, "entries")
		rest(ctx, pollPause/2+time.Duration(random.Int64N(int64(pollPause))))
	}
}

// checkStrong: a strong read, at any node, is no older than any write that was
// acknowledged, or any strong read that was answered, before it was sent. One that shows
// nothing, or only entries from before the run, is older than any. Entries that moderators
// work with come and go, and say nothing about a read's age.
func checkStrong(v *verdict, calls []call, f *final) {
	place, comesAndGoes := map[string]int{}, moderatedIDs(calls)
	for i, e := range f.state() {
		if !comesAndGoes[e.ID] {
			place[e.ID] = i + 1 // 0 is nowhere
		}
	}
	newest := func(c *call) (at int) {
		if c.Kind != strong {
			return place[c.ID]
		}
		for _, id := range c.Seen {
			at = max(at, place[id])
		}
		return at
	}
	var ended, begun []*call
	for i := range calls {
		c := &calls[i]
		if c.Outcome != done || c.Kind != strong && !c.Kind.writes() {
			continue
		}
		if newest(c) != 0 {
			ended = append(ended, c)
		}
		if c.Kind == strong && (len(c.Seen) == 0 || slices.ContainsFunc(c.Seen, func(id string) bool { return !comesAndGoes[id] })) {
			begun = append(begun, c)
		}
	}
	slices.SortFunc(ended, func(a, b *call) int { return int(a.End - b.End) })
	slices.SortFunc(begun, func(a, b *call) int { return int(a.Begin - b.Begin) })
	var last *call // of those that had ended, the newest
	next := 0
	for _, c := range begun {
		for ; next < len(ended) && ended[next].End < c.Begin; next++ {
			if last == nil || newest(ended[next]) > newest(last) {
				last = ended[next]
			}
		}
		v.Looked++
		if last != nil && newest(c) < newest(last) {
			v.add(fmt.Sprintf("a strong read at %s lacks what %s had from %s %v before it was sent", c.Node, last.Client, last.Node, c.Begin-last.End), *last, *c)
		}
	}
}
