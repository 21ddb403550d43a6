package main

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// maxShown bounds the findings that a check shows, and the calls shown with each.
const maxShown = 5

// finding is a broken promise, with the calls that show it.
type finding struct {
	Text  string `json:"text"`
	Calls []call `json:"calls,omitempty"`
}

// verdict is the result of a check.
type verdict struct {
	Name     string    `json:"name"`
	Looked   int       `json:"looked"` // how many things were checked
	Findings []finding `json:"findings"`
	Open     int       `json:"undecided"` // how many took too long to decide
}

func (v *verdict) add(text string, calls ...call) {
	v.Findings = append(v.Findings, finding{text, calls})
}

// checks are all checks of a run.
var checks = []struct {
	name string
	run  func(v *verdict, calls []call, f *final)
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
	{"events tell of each entry once", checkFollow},
	{"each request_id is linearizable", checkRequestIDs},
	{"each job is linearizable", checkJobs},
	{"nothing hidden or purged is visible, and blocks hold", checkModerated},
}

func checkAll(calls []call, f *final) []verdict {
	verdicts := make([]verdict, len(checks))
	for i, c := range checks {
		verdicts[i] = verdict{Name: c.name, Findings: []finding{}}
		c.run(&verdicts[i], calls, f)
	}
	return verdicts
}

func keys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// grouped returns the calls by the result of name, without calls for which that is empty.
func grouped(calls []call, name func(*call) string) map[string][]call {
	groups := map[string][]call{}
	for i := range calls {
		if n := name(&calls[i]); n != "" {
			groups[n] = append(groups[n], calls[i])
		}
	}
	return groups
}

func textOf(c *call) string {
	if !c.Kind.writes() {
		return ""
	}
	return c.Text
}

// checkAcknowledged: every acknowledged entry exists under the id of the answer.
func checkAcknowledged(v *verdict, calls []call, f *final) {
	bodies := map[string]string{}
	for _, e := range f.state() {
		bodies[e.ID] = e.Body
	}
	for _, c := range calls {
		if c.Outcome != done || c.Text == "" || !c.Kind.writes() {
			continue
		}
		v.Looked++
		if body, there := bodies[c.ID]; !there || body != c.Text {
			v.add(fmt.Sprintf("%s was acknowledged for %q and is %q, there: %t", c.ID, c.Text, body, there), c)
		}
	}
}

// checkOnce: a text that is sent under one request_id, or only once, makes one entry.
func checkOnce(v *verdict, calls []call, f *final) {
	ids := map[string][]string{}
	for _, e := range f.state() {
		ids[e.Body] = append(ids[e.Body], e.ID)
	}
	for text, sent := range grouped(calls, textOf) {
		v.Looked++
		if len(ids[text]) > 1 {
			v.add(fmt.Sprintf("%q is there %d times: %v", text, len(ids[text]), ids[text]), sent...)
		}
	}
}

// checkFailed: if every call with a text was rejected or failed for certain, no entry has
// the text.
func checkFailed(v *verdict, calls []call, f *final) {
	there := map[string]bool{}
	for _, e := range f.state() {
		there[e.Body] = true
	}
	for text, sent := range grouped(calls, textOf) {
		if slices.ContainsFunc(sent, func(c call) bool { return c.Outcome == done || c.Outcome == unknown }) {
			continue
		}
		v.Looked++
		if there[text] {
			v.add(fmt.Sprintf("%q certainly failed, and is there", text), sent...)
		}
	}
}

// checkOrder: an entry that was sent after another write was acknowledged comes after it,
// and time never runs back.
func checkOrder(v *verdict, calls []call, f *final) {
	place := map[string]int{}
	entries := f.state()
	for i, e := range entries {
		place[e.ID] = i
		if i > 0 && e.CreatedAt < entries[i-1].CreatedAt {
			v.add(fmt.Sprintf("%s of %d stands behind %s of %d", e.ID, e.CreatedAt, entries[i-1].ID, entries[i-1].CreatedAt))
		}
	}
	var single []call // written by this very call
	for _, sent := range grouped(calls, textOf) {
		if _, there := place[sent[0].ID]; there && len(sent) == 1 && sent[0].Outcome == done {
			single = append(single, sent[0])
		}
	}
	begun, ended := slices.Clone(single), slices.Clone(single)
	slices.SortFunc(begun, func(a, b call) int { return int(a.Begin - b.Begin) })
	slices.SortFunc(ended, func(a, b call) int { return int(a.End - b.End) })
	var last *call // of the ended calls, the one whose entry comes last
	for i, next := 0, 0; i < len(begun); i++ {
		for ; next < len(ended) && ended[next].End < begun[i].Begin; next++ {
			if last == nil || place[ended[next].ID] > place[last.ID] {
				last = &ended[next]
			}
		}
		v.Looked++
		if last != nil && place[begun[i].ID] < place[last.ID] {
			v.add(fmt.Sprintf("%s stands before %s, which was acknowledged before it was sent", begun[i].ID, last.ID), *last, begun[i])
		}
	}
}

// checkSame: every node lists the same, and their digests are equal at one index.
func checkSame(v *verdict, _ []call, f *final) {
	want := f.state()
	for _, node := range slices.Sorted(keys(f.entries)) {
		got := f.entries[node]
		v.Looked += len(got)
		if len(got) != len(want) {
			v.add(fmt.Sprintf("%s lists %d entries, another node %d", node, len(got), len(want)))
			continue
		}
		for i := range got {
			if a, b := fmt.Sprintf("%+v", plainEntry(&got[i])), fmt.Sprintf("%+v", plainEntry(&want[i])); a != b {
				v.add(fmt.Sprintf("%s lists %s, another node %s", node, a, b))
				break
			}
		}
	}
	for _, d := range f.digests {
		v.Looked++
		if d.Error != "" {
			v.add(fmt.Sprintf("%s has no digest: %s", d.ID, d.Error))
		} else if d.Digest != f.digests[0].Digest || d.Rows != f.digests[0].Rows {
			v.add(fmt.Sprintf("%s has digest %s, %s has %s", d.ID, d.Digest, f.digests[0].ID, f.digests[0].Digest))
		}
	}
	if !f.equal && len(v.Findings) == 0 {
		v.add("the nodes say that their digests differ")
	}
}

// plainEntry is an entry without pointers.
func plainEntry(e *entry) []any {
	supersedes := ""
	if e.Supersedes != nil {
		supersedes = *e.Supersedes
	}
	return []any{e.ID, e.Agent, e.Body, e.CreatedAt, supersedes, e.By, e.ByCount}
}

// maxMirrored is how many of the entries that supersede an entry it lists.
const maxMirrored = 100

// checkMirrored: supersededBy lists exactly the entries that say they supersede this one.
func checkMirrored(v *verdict, _ []call, f *final) {
	by := map[string][]string{}
	for _, e := range f.state() {
		if e.Supersedes != nil {
			by[*e.Supersedes] = append(by[*e.Supersedes], e.ID)
		}
	}
	for _, e := range f.state() {
		v.Looked++
		want := by[e.ID]
		listed := make([]string, len(e.By))
		for i, r := range e.By {
			listed[i] = r.ID
		}
		if e.ByCount != len(want) || len(want) <= maxMirrored && !slices.Equal(listed, want) {
			v.add(fmt.Sprintf("%s says that %d entries supersede it, %v; those that say so are %v", e.ID, e.ByCount, listed, want))
		}
	}
}

// checkMinIndex: an answer is at least as new as was asked for, and holds what its
// client had written before.
func checkMinIndex(v *verdict, calls []call, _ *final) {
	for _, c := range calls {
		if c.Kind != list || c.Outcome != done {
			continue
		}
		v.Looked++
		if c.Index < c.MinIndex {
			v.add(fmt.Sprintf("an answer is of index %d, and %d was asked for", c.Index, c.MinIndex), c)
		}
		if c.Expect != "" && !slices.Contains(c.Seen, c.Expect) {
			v.add(fmt.Sprintf("a list of index %d lacks %s, which was acknowledged at %d", c.Index, c.Expect, c.MinIndex), c)
		}
	}
}

// checkHome: in all answers that an agent got, each entry that mentions it came once.
func checkHome(v *verdict, calls []call, f *final) {
	polls := grouped(calls, func(c *call) string {
		if c.Kind != home {
			return ""
		}
		return c.Agent
	})
	for agent, asked := range polls {
		times := map[string]int{}
		for _, c := range asked {
			if c.Outcome != done {
				continue
			}
			for _, id := range c.Seen {
				times[id]++
			}
		}
		for _, e := range f.state() {
			want := 0
			if e.Agent != agent && mentions(e.Body, agent) {
				want = 1
				v.Looked++
			}
			if times[e.ID] != want {
				v.add(fmt.Sprintf("home of %s showed %s %d times, want %d", agent, e.ID, times[e.ID], want),
					slices.DeleteFunc(slices.Clone(asked), func(c call) bool { return !slices.Contains(c.Seen, e.ID) })...)
			}
			delete(times, e.ID)
		}
		for id, n := range times {
			v.add(fmt.Sprintf("home of %s showed %s %d times, and there is no such entry", agent, id, n))
		}
	}
}

// summary is a verdict in one line.
func (v *verdict) summary() string {
	switch {
	case len(v.Findings) > 0:
		return fmt.Sprintf("FAILED  %s: %d findings among %d; the first: %s", v.Name, len(v.Findings), v.Looked, strings.TrimSpace(v.Findings[0].Text))
	case v.Open > 0:
		return fmt.Sprintf("ok      %s: %d, of them %d took too long to decide", v.Name, v.Looked, v.Open)
	}
	return fmt.Sprintf("ok      %s: %d", v.Name, v.Looked)
}
