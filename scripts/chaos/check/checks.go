// Package check compares the recorded calls of a run, and the state after it, with the
// promises of the interface.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	var single []record.Call // written by this very call
	for _, sent := range grouped(calls, textOf) {
		if _, there := place[sent[0].ID]; there && len(sent) == 1 && sent[0].Outcome == record.Done {
			single = append(single, sent[0])
		}
	}
	begun, ended := slices.Clone(single), slices.Clone(single)
	slices.SortFunc(begun, func(a, b record.Call) int { return int(a.Begin - b.Begin) })
	slices.SortFunc(ended, func(a, b record.Call) int { return int(a.End - b.End) })
	var last *record.Call // of the ended calls, the one whose entry comes last
	for i, next := 0, 0; i < len(begun); i++ {
		for ; next < len(ended) && ended[next].End < begun[i].Begin; next++ {
			if last == nil || place[ended[next].ID] > place[last.ID] {
				last = &ended[next]
			}
		}
		v.Looked++
		if last != nil && place[begun[i].ID] < place[last.ID] {
			v.Add(fmt.Sprintf("%s stands before %s, which was acknowledged before it was sent", begun[i].ID, last.ID), *last, begun[i])
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
