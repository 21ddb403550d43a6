// Package check compares the recorded calls of a run, and the state after it, with the
// promises of the interface.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// checks are all checks of a run.
var checks = []struct {
	name string
	run  func(v *Verdict, calls []record.Call, f *Final)
}{
	{"acknowledged entries are there", checkAcknowledged},
	{"each text stands once", checkOnce},
	{"what certainly failed is not there", checkFailed},
	{"entries are in the order of time", checkOrder},
	{"createdAt is the time of the write", checkTime},
	{"nodes hold the same", checkSame},
	{"supersededBy mirrors supersedes", checkMirrored},
	{"reads with a minimum index do not go back", checkMinIndex},
	{"strong reads hold what was acknowledged", checkStrong},
	{"home shows each item once", checkHome},
	{"streams and polls hold each entry once", checkFollow},
	{"each request_id is linearizable", checkRequestIDs},
	{"each job is linearizable", checkJobs},
	{"next gets a job that fits", checkTakes},
	{"nothing hidden or purged is visible, and blocks hold", checkModerated},
}

// All returns the verdicts of all checks on a run.
func All(calls []record.Call, f *Final) []Verdict {
	verdicts := make([]Verdict, len(checks))
	for i, c := range checks {
		verdicts[i] = Verdict{Name: c.name}
		c.run(&verdicts[i], calls, f)
	}
	return verdicts
}

func textOf(c *record.Call) string {
	if !c.Kind.Writes() {
		return ""
	}
	return c.Text
}

// checkAcknowledged: every acknowledged entry exists under the id of the answer.
func checkAcknowledged(v *Verdict, calls []record.Call, f *Final) {
	bodies := map[string]string{}
	for _, e := range f.state() {
		bodies[e.ID] = e.Body
	}
	for _, c := range calls {
		if c.Outcome != record.Done || c.Text == "" || !c.Kind.Writes() {
			continue
		}
		v.Looked++
		if body, there := bodies[c.ID]; !there || body != c.Text {
			v.Add(fmt.Sprintf("%s was acknowledged for %q and is %q, there: %t", c.ID, c.Text, body, there), c)
		}
	}
}

// checkOnce: a text that is sent under one request_id, or only once, makes one entry.
func checkOnce(v *Verdict, calls []record.Call, f *Final) {
	ids := f.idsByText()
	for text, sent := range grouped(calls, textOf) {
		v.Looked++
		if len(ids[text]) > 1 {
			v.Add(fmt.Sprintf("%q is there %d times: %v", text, len(ids[text]), ids[text]), sent...)
		}
	}
}

// checkFailed: if every call with a text was rejected or failed for certain, no entry has
// the text.
func checkFailed(v *Verdict, calls []record.Call, f *Final) {
	ids := f.idsByText()
	for text, sent := range grouped(calls, textOf) {
		if slices.ContainsFunc(sent, func(c record.Call) bool { return c.Outcome == record.Done || c.Outcome == record.Unknown }) {
			continue
		}
		v.Looked++
		if len(ids[text]) > 0 {
			v.Add(fmt.Sprintf("%q certainly failed, and is there", text), sent...)
		}
	}
}

// checkOrder: an entry that was sent after another write was acknowledged comes after it,
// and time never runs back.
func checkOrder(v *Verdict, calls []record.Call, f *Final) {
	place := map[string]int{}
	entries := f.state()
	for i, e := range entries {
		place[e.ID] = i
		if i > 0 && e.CreatedAt < entries[i-1].CreatedAt {
			v.Add(fmt.Sprintf("%s of %d stands behind %s of %d", e.ID, e.CreatedAt, entries[i-1].ID, entries[i-1].CreatedAt))
		}
	}
	var single []*record.Call // written by this very call
	for _, sent := range grouped(calls, textOf) {
		if _, there := place[sent[0].ID]; there && len(sent) == 1 && sent[0].Outcome == record.Done {
			single = append(single, &sent[0])
		}
	}
	inOrder(v, slices.Clone(single), single, func(c *record.Call) int { return place[c.ID] }, func(c, last *record.Call) string {
		return fmt.Sprintf("%s stands before %s, which was acknowledged before it was sent", c.ID, last.ID)
	})
}

// inOrder checks that each of the begun calls has at least the rank of every call that had ended before
// it began. broken is the text of a finding, with the highest of those that had ended.
func inOrder(v *Verdict, begun, ended []*record.Call, rank func(*record.Call) int, broken func(c, last *record.Call) string) {
	slices.SortFunc(begun, func(a, b *record.Call) int { return int(a.Begin - b.Begin) })
	slices.SortFunc(ended, func(a, b *record.Call) int { return int(a.End - b.End) })
	var last *record.Call
	next := 0
	for _, c := range begun {
		for ; next < len(ended) && ended[next].End < c.Begin; next++ {
			if last == nil || rank(ended[next]) > rank(last) {
				last = ended[next]
			}
		}
		v.Looked++
		if last != nil && rank(c) < rank(last) {
			v.Add(broken(c, last), *last, *c)
		}
	}
}

// checkSame: every node lists the same, and their digests are equal at one index.
func checkSame(v *Verdict, _ []record.Call, f *Final) {
	want := f.state()
	for _, node := range slices.Sorted(maps.Keys(f.Entries)) {
		got := f.Entries[node]
		v.Looked += len(got)
		if len(got) != len(want) {
			v.Add(fmt.Sprintf("%s lists %d entries, another node %d", node, len(got), len(want)))
			continue
		}
		for i := range got {
			if a, b := fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]); a != b {
				v.Add(fmt.Sprintf("%s lists %s, another node %s", node, a, b))
				break
			}
		}
	}
	for _, d := range f.Digests {
		v.Looked++
		if d.Error != "" {
			v.Add(fmt.Sprintf("%s has no digest: %s", d.ID, d.Error))
		} else if d.Digest != f.Digests[0].Digest || d.Rows != f.Digests[0].Rows {
			v.Add(fmt.Sprintf("%s has digest %s, %s has %s", d.ID, d.Digest, f.Digests[0].ID, f.Digests[0].Digest))
		}
	}
	if !f.Equal && len(v.Findings) == 0 {
		v.Add("the nodes say that their digests differ")
	}
}

// maxMirrored is how many of the entries that supersede an entry it lists.
const maxMirrored = 100

// checkMirrored: supersededBy lists exactly the entries that say they supersede this one.
func checkMirrored(v *Verdict, _ []record.Call, f *Final) {
	by := map[string][]string{}
	for _, e := range f.state() {
		if e.Supersedes != "" {
			by[e.Supersedes] = append(by[e.Supersedes], e.ID)
		}
	}
	for _, e := range f.state() {
		v.Looked++
		want := by[e.ID]
		listed := make([]string, len(e.SupersededBy))
		for i, r := range e.SupersededBy {
			listed[i] = r.ID
		}
		if e.SupersededByCount != len(want) || len(want) <= maxMirrored && !slices.Equal(listed, want) {
			v.Add(fmt.Sprintf("%s says that %d entries supersede it, %v; those that say so are %v", e.ID, e.SupersededByCount, listed, want))
		}
	}
}

// checkMinIndex: an answer is at least as new as was asked for, and holds what its
// client had written before.
func checkMinIndex(v *Verdict, calls []record.Call, _ *Final) {
	for _, c := range calls {
		if c.Kind != record.List || c.Outcome != record.Done {
			continue
		}
		v.Looked++
		if c.Index < c.MinIndex {
			v.Add(fmt.Sprintf("an answer is of index %d, and %d was asked for", c.Index, c.MinIndex), c)
		}
		if c.Expect != "" && !slices.Contains(c.Seen, c.Expect) {
			v.Add(fmt.Sprintf("a list of index %d lacks %s, which was acknowledged at %d", c.Index, c.Expect, c.MinIndex), c)
		}
	}
}

// checkHome: in all answers that an agent got, each entry that mentions it came once.
func checkHome(v *Verdict, calls []record.Call, f *Final) {
	polls := grouped(calls, func(c *record.Call) string {
		if c.Kind != record.Home {
			return ""
		}
		return c.Agent
	})
	for agent, asked := range polls {
		times := map[string]int{}
		for _, c := range asked {
			if c.Outcome != record.Done {
				continue
			}
			for _, id := range c.Seen {
				times[id]++
			}
		}
		for _, e := range f.state() {
			want := 0
			if e.Agent != agent && slices.Contains(strings.Fields(e.Body), "@"+agent) {
				want = 1
				v.Looked++
			}
			if times[e.ID] != want {
				v.Add(fmt.Sprintf("home of %s showed %s %d times, want %d", agent, e.ID, times[e.ID], want),
					slices.DeleteFunc(slices.Clone(asked), func(c record.Call) bool { return !slices.Contains(c.Seen, e.ID) })...)
			}
			delete(times, e.ID)
		}
		for id, n := range times {
			v.Add(fmt.Sprintf("home of %s showed %s %d times, and there is no such entry", agent, id, n))
		}
	}
}

// clockSlack is how far the time of a write may be outside of its call: the leader's
// clock may be that far from the median, and the median from ours.
const clockSlack = 3 * time.Second

// checkTime: createdAt is the time of the call that wrote, even if one clock is wrong. A
// repeated write may have been written by any of its calls.
func checkTime(v *Verdict, calls []record.Call, f *Final) {
	if f.AnyTime {
		return
	}
	created := map[string]time.Duration{}
	for _, e := range f.state() {
		created[e.Body] = time.UnixMilli(e.CreatedAt).Sub(f.Began)
	}
	for text, sent := range grouped(calls, textOf) {
		at, there := created[text]
		last := sent[len(sent)-1]
		if !there || last.Outcome != record.Done {
			continue
		}
		v.Looked++
		if at < sent[0].Begin-clockSlack || at > last.End+clockSlack {
			v.Add(fmt.Sprintf("%q was written between %v and %v, and was created at %v", text, sent[0].Begin, last.End, at), sent...)
		}
	}
}

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
	inOrder(v, begun, ended, newest, func(c, last *record.Call) string {
		return fmt.Sprintf("a strong read at %s lacks what %s had from %s %v before it was sent", c.Node, last.Client, last.Node, c.Begin-last.End)
	})
}

// checkFollow: each follower of the stream, and each poller of the list, received each entry
// once, in order. Entries that moderators work with are left out: they may come as stubs.
func checkFollow(v *Verdict, calls []record.Call, f *Final) {
	moderated := moderatedIDs(calls)
	entries := slices.DeleteFunc(slices.Clone(f.state()), func(e Entry) bool { return moderated[e.ID] })
	streams := grouped(calls, func(c *record.Call) string {
		if c.Kind != record.Follow && c.Kind != record.Poll {
			return ""
		}
		return c.Client
	})
	for name, read := range streams {
		at := 0
		for _, c := range read {
			if c.Code != "" {
				v.Add(name+" could not go on: "+c.Code, c)
			}
			for _, id := range c.Seen {
				if moderated[id] {
					continue
				}
				if at >= len(entries) || entries[at].ID != id {
					v.Add(fmt.Sprintf("%s was told of %s as number %d", name, id, at+1), c)
					return
				}
				at++
			}
		}
		if v.Looked += at; at < len(entries) {
			v.Add(fmt.Sprintf("%s was told of %d of %d entries", name, at, len(entries)), read[len(read)-1])
		}
	}
}
