package check

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// good is a history that all checks accept: two writes, one of them repeated, a job,
// and home of an agent that one of the writes mentions.
func good() ([]record.Call, Final) {
	at := func(c record.Call, begin, end int) record.Call {
		c.Begin, c.End = time.Duration(begin), time.Duration(end)
		if c.Outcome == "" {
			c.Outcome = record.Done
		}
		return c
	}
	calls := []record.Call{
		at(record.Call{Client: "a", Kind: record.Publish, Agent: "a", Text: "first @w", RequestID: "r1", Outcome: record.Unknown}, 0, 10),
		at(record.Call{Client: "a", Kind: record.Publish, Agent: "a", Text: "first @w", RequestID: "r1", ID: "e1", Index: 5, Duplicate: true}, 11, 20),
		at(record.Call{Client: "a", Kind: record.Publish, Agent: "a", Text: "second", ID: "e2", Index: 6, Supersedes: "e1"}, 21, 30),
		at(record.Call{Client: "a", Kind: record.Publish, Agent: "a", Text: "third", ID: "e3", Index: 7}, 31, 35),
		at(record.Call{Client: "a", Kind: record.Publish, Agent: "a", Text: "lost", Outcome: record.Failed}, 21, 30),
		at(record.Call{Client: "a", Kind: record.List, Agent: "a", MinIndex: 6, Index: 7, Expect: "e2", Seen: []string{"e2", "e1"}}, 31, 40),
		at(record.Call{Client: "b", Kind: record.Claim, Agent: "b", Job: "j4", ID: "e5"}, 40, 50),
		at(record.Call{Client: "c", Kind: record.Claim, Agent: "c", Job: "j4", Outcome: record.Rejected, Code: "job_claimed"}, 45, 55),
		at(record.Call{Client: "c", Kind: record.Look, Agent: "c", Job: "j4", Status: "claimed", ClaimedBy: "b"}, 56, 60),
		at(record.Call{Client: "w", Kind: record.Home, Agent: "w", Seen: []string{"e1"}}, 41, 42),
		at(record.Call{Client: "w", Kind: record.Home, Agent: "w", Outcome: record.Unknown}, 43, 44),
		at(record.Call{Client: "w", Kind: record.Home, Agent: "w"}, 45, 46),
		at(record.Call{Client: "f", Kind: record.Follow, Agent: "f", Seen: []string{"e1", "e2"}}, 41, 42),
		at(record.Call{Client: "f", Kind: record.Follow, Agent: "f", Seen: []string{"e3", "e6"}}, 43, 44),
		at(record.Call{Client: "m", Kind: record.Subject, Agent: "s", Text: "spam", ID: "e6"}, 50, 51),
		at(record.Call{Client: "m", Kind: record.Peek, Expect: "e6", Text: "spam", Shown: true}, 52, 53),
		at(record.Call{Client: "m", Kind: record.Moderated, Status: record.DoHide, Expect: "e6"}, 54, 55),
		at(record.Call{Client: "m", Kind: record.Peek, Expect: "e6", Text: "spam"}, 56, 57),
		at(record.Call{Client: "m", Kind: record.Moderated, Status: record.DoUnhide, Expect: "e6", Outcome: record.Unknown}, 58, 59),
		at(record.Call{Client: "m", Kind: record.Moderated, Status: record.DoPurge, Expect: "e6"}, 60, 61),
		at(record.Call{Client: "m", Kind: record.Attempt, Agent: "x", Expect: "x"}, 62, 63),
		at(record.Call{Client: "m", Kind: record.Moderated, Status: record.DoBlock, Expect: "x"}, 64, 65),
		at(record.Call{Client: "m", Kind: record.Attempt, Agent: "x", Expect: "x", Outcome: record.Rejected, Code: "blocked"}, 66, 67),
		at(record.Call{Client: "p", Kind: record.Post, Agent: "p", ID: "j8"}, 50, 51),
		at(record.Call{Client: "b", Kind: record.Take, Agent: "b", Poster: "p", Job: "j8", ID: "e9"}, 52, 53),
		at(record.Call{Client: "p", Kind: record.Close, Agent: "p", Job: "j8", Outcome: record.Rejected, Code: "job_claimed"}, 54, 55),
		at(record.Call{Client: "c", Kind: record.Look, Agent: "c", Job: "j8", Status: "claimed", ClaimedBy: "b"}, 56, 57),
		at(record.Call{Client: "b", Kind: record.Claim, Agent: "b", Job: "j8", Outcome: record.Unknown}, 58, 59),
		at(record.Call{Client: "c", Kind: record.Result, Agent: "c", Job: "j8", Outcome: record.Rejected, Code: "job_claimed"}, 60, 61),
		at(record.Call{Client: "c", Kind: record.Take, Agent: "c", Poster: "p", Outcome: record.Unknown}, 62, 63),
		at(record.Call{Client: "b", Kind: record.Release, Agent: "b", Job: "j8"}, 64, 65),
		at(record.Call{Client: "c", Kind: record.Look, Agent: "c", Job: "j8", Status: "claimed", ClaimedBy: "c"}, 66, 67),
		at(record.Call{Client: "s", Kind: record.Strong, Seen: []string{"e6", "e2"}}, 31, 33),
		at(record.Call{Client: "s", Kind: record.Strong, Seen: []string{"e6", "e3", "e2"}}, 36, 38),
		at(record.Call{Client: "s", Kind: record.Strong, Seen: []string{"e3"}}, 39, 40),
		at(record.Call{Client: "p", Kind: record.Close, Agent: "p", Job: "j8", Keyed: true}, 70, 71),
		at(record.Call{Client: "c", Kind: record.Look, Agent: "c", Job: "j8", Status: "closed"}, 72, 73),
	}
	entries := func() []Entry {
		return []Entry{
			{ID: "e1", Agent: "a", Body: "first @w", CreatedAt: 1, SupersededBy: []client.LaterEntry{{ID: "e2"}}, SupersededByCount: 1},
			{ID: "e2", Agent: "a", Body: "second", CreatedAt: 2, Supersedes: "e1"},
			{ID: "e3", Agent: "a", Body: "third", CreatedAt: 2},
		}
	}
	digests := []Digest{{ID: "n1", Digest: "d", Rows: "r"}, {ID: "n2", Digest: "d", Rows: "r"}}
	return calls, Final{Entries: map[string][]Entry{"n1": entries(), "n2": entries()}, Digests: digests, Equal: true, Began: time.UnixMilli(0)}
}

// both changes what every node holds.
func both(f *Final, change func([]Entry) []Entry) {
	for node := range f.Entries {
		f.Entries[node] = change(f.Entries[node])
	}
}

// TestChecksSeeWhatIsWrong feeds each check a history that it has to reject, and no
// other check rejects the good one.
func TestChecksSeeWhatIsWrong(t *testing.T) {
	for _, bad := range []struct {
		what, check string
		spoil       func(calls []record.Call, f *Final)
	}{
		{"nothing", "", func([]record.Call, *Final) {}},
		{"an acknowledged entry is lost", "acknowledged entries are there", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { return e[:2] })
		}},
		{"an entry has another's text", "acknowledged entries are there", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { e[2].Body = "other"; return e })
		}},
		{"a repeated write stands twice", "each text stands once", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { return append(e, Entry{ID: "e9", Body: e[0].Body, CreatedAt: 9}) })
		}},
		{"a write that failed is there", "what certainly failed is not there", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { return append(e, Entry{ID: "e9", Body: "lost", CreatedAt: 9}) })
		}},
		{"an entry stands before one that was there earlier", "entries are in the order of time", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { e[1], e[2] = e[2], e[1]; return e })
		}},
		{"time runs back", "entries are in the order of time", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { e[2].CreatedAt = 1; return e })
		}},
		{"a write was stamped by a clock that is ahead", "createdAt is the time of the write", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { e[2].CreatedAt = time.Hour.Milliseconds(); return e })
		}},
		{"a write was stamped by a clock that is behind", "createdAt is the time of the write", func(_ []record.Call, f *Final) {
			f.Began = f.Began.Add(time.Hour)
		}},
		{"nothing: a write was stamped by two clocks that are ahead", "", func(_ []record.Call, f *Final) {
			f.AnyTime = true
			both(f, func(e []Entry) []Entry { e[2].CreatedAt = time.Hour.Milliseconds(); return e })
		}},
		{"a node lacks an entry", "nodes hold the same", func(_ []record.Call, f *Final) { f.Entries["n2"] = f.Entries["n2"][:2] }},
		{"a node has another text", "nodes hold the same", func(_ []record.Call, f *Final) { f.Entries["n2"][1].Body = "other" }},
		{"digests differ", "nodes hold the same", func(_ []record.Call, f *Final) { f.Digests[1].Rows = "x" }},
		{"a node has no digest", "nodes hold the same", func(_ []record.Call, f *Final) { f.Digests[1].Error = "away" }},
		{"the nodes say that they differ", "nodes hold the same", func(_ []record.Call, f *Final) { f.Equal = false }},
		{"a correction is not listed", "supersededBy mirrors supersedes", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { e[0].SupersededBy, e[0].SupersededByCount = nil, 0; return e })
		}},
		{"a correction is listed that there is not", "supersededBy mirrors supersedes", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry {
				e[1].SupersededBy, e[1].SupersededByCount = []client.LaterEntry{{ID: "e3"}}, 1
				return e
			})
		}},
		{"an answer is too old", "reads with a minimum index do not go back", func(c []record.Call, _ *Final) { c[5].Index = 5 }},
		{"a read lacks what its client wrote", "reads with a minimum index do not go back", func(c []record.Call, _ *Final) { c[5].Seen = []string{"e1"} }},
		{"home misses a mention", "home shows each item once", func(c []record.Call, _ *Final) { c[9].Seen = nil }},
		{"home repeats a mention", "home shows each item once", func(c []record.Call, _ *Final) { c[11].Seen = []string{"e1"} }},
		{"home shows what is not there", "home shows each item once", func(c []record.Call, _ *Final) { c[11].Seen = []string{"e99"} }},
		{"a stream leaves an event out", "streams and polls hold each entry once", func(c []record.Call, _ *Final) { c[12].Seen = []string{"e1"} }},
		{"a stream ends early", "streams and polls hold each entry once", func(c []record.Call, _ *Final) { c[13].Seen = nil }},
		{"a stream repeats an event", "streams and polls hold each entry once", func(c []record.Call, _ *Final) { c[13].Seen = []string{"e2", "e3"} }},
		{"a stream is out of order", "streams and polls hold each entry once", func(c []record.Call, _ *Final) { c[12].Seen = []string{"e2", "e1"} }},
		{"a stream cannot go on", "streams and polls hold each entry once", func(c []record.Call, _ *Final) { c[13].Code = "reset" }},
		{"a poll misses an entry", "streams and polls hold each entry once", func(c []record.Call, _ *Final) {
			c[12].Kind, c[13].Kind, c[13].Seen = record.Poll, record.Poll, nil
		}},
		{"a request_id has two ids", "each request_id is linearizable", func(c []record.Call, _ *Final) {
			c[0].Outcome, c[0].ID = record.Done, "e3"
		}},
		{"a request_id is written twice", "each request_id is linearizable", func(c []record.Call, _ *Final) {
			c[0].Outcome, c[0].ID, c[1].Duplicate = record.Done, "e1", false
		}},
		{"a first write is answered as a repetition", "each request_id is linearizable", func(c []record.Call, _ *Final) {
			c[0].RequestID = ""
		}},
		{"a first write that was sent twice is answered as a repetition", "", func(c []record.Call, _ *Final) {
			c[0].RequestID, c[1].Resent = "", true
		}},
		{"a job is claimed twice", "each job is linearizable", func(c []record.Call, _ *Final) { c[7].Outcome, c[7].Code = record.Done, "" }},
		{"a strong read is old", "each job is linearizable", func(c []record.Call, _ *Final) { c[8].Status, c[8].ClaimedBy = "open", "" }},
		{"a strong read lacks what was acknowledged", "strong reads hold what was acknowledged", func(c []record.Call, _ *Final) { c[33].Seen = []string{"e6", "e2"} }},
		{"a strong read lacks what another one had", "strong reads hold what was acknowledged", func(c []record.Call, _ *Final) {
			c[3].Outcome, c[34].Seen = record.Unknown, []string{"e2"}
		}},
		{"a strong read shows nothing", "strong reads hold what was acknowledged", func(c []record.Call, _ *Final) { c[34].Seen = nil }},
		{"a strong read shows only what was there before the run", "strong reads hold what was acknowledged", func(c []record.Call, _ *Final) {
			c[34].Seen = []string{"e6", "e0"}
		}},
		{"nothing: a strong read shows only what was purged later", "", func(c []record.Call, _ *Final) { c[34].Seen = []string{"e6"} }},
		{"nothing: a strong read does not show what was hidden, and was shown again later", "", func(c []record.Call, f *Final) {
			c[19].Status, c[34].Seen = record.DoUnhide, []string{"e3", "e2"}
			both(f, func(e []Entry) []Entry { return append(e, Entry{ID: "e6", Agent: "s", Body: "spam", CreatedAt: 3}) })
		}},
		{"a hidden entry is shown", "nothing hidden or purged is visible, and blocks hold", func(c []record.Call, _ *Final) { c[17].Shown = true }},
		{"an entry is hidden that nobody hid", "nothing hidden or purged is visible, and blocks hold", func(c []record.Call, _ *Final) { c[15].Shown = false }},
		{"a node lists a purged entry at the end", "nothing hidden or purged is visible, and blocks hold", func(_ []record.Call, f *Final) {
			both(f, func(e []Entry) []Entry { return append(e, Entry{ID: "e6", Agent: "s", Body: "spam", CreatedAt: 3}) })
		}},
		{"a blocked name writes", "nothing hidden or purged is visible, and blocks hold", func(c []record.Call, _ *Final) { c[22].Outcome, c[22].Code = record.Done, "" }},
		{"a name is blocked that nobody blocked", "nothing hidden or purged is visible, and blocks hold", func(c []record.Call, _ *Final) {
			c[20].Outcome, c[20].Code = record.Rejected, "blocked"
		}},
		{"a claimed job is closed without a key", "each job is linearizable", func(c []record.Call, _ *Final) { c[25].Outcome, c[25].Code = record.Done, "" }},
		{"another agent finishes a claimed job", "each job is linearizable", func(c []record.Call, _ *Final) { c[28].Outcome, c[28].Code = record.Done, "" }},
		{"a closed job is claimed", "each job is linearizable", func(c []record.Call, _ *Final) { c[36].Status, c[36].ClaimedBy = "claimed", "c" }},
		{"a job is taken that another one has", "each job is linearizable", func(c []record.Call, _ *Final) { c[30].Outcome, c[30].Code = record.Rejected, "too_many_claims" }},
		{"next gets a job of another poster", "next gets a job that fits", func(c []record.Call, _ *Final) { c[24].Poster = "q" }},
		{"next gets a job that the agent had", "next gets a job that fits", func(c []record.Call, _ *Final) {
			c[29].Outcome, c[29].Job, c[29].Agent, c[29].Begin, c[29].End = record.Done, "j8", "b", 68, 69
			c[31].Outcome = record.Unknown
		}},
		{"a claim is rejected without a reason", "each job is linearizable", func(c []record.Call, _ *Final) { c[7].Code = "job_done" }},
	} {
		calls, f := good()
		bad.spoil(calls, &f)
		rejecting := map[string]string{}
		for _, v := range All(calls, &f) {
			if len(v.Findings) > 0 {
				rejecting[v.Name] = v.Findings[0].Text
			}
		}
		if _, ok := rejecting[bad.check]; ok != (bad.check != "") || bad.check == "" && len(rejecting) > 0 {
			t.Errorf("%s: %q rejects it: %t; all that reject: %v", bad.what, bad.check, ok, rejecting)
		}
	}
}

// TestJobOfUnknownOutcome: a call without an answer may have taken effect, or not.
func TestJobOfUnknownOutcome(t *testing.T) {
	calls := []record.Call{
		{Client: "b", Kind: record.Claim, Agent: "b", Job: "j", Outcome: record.Unknown, Begin: 0, End: 10},
		{Client: "c", Kind: record.Look, Agent: "c", Job: "j", Outcome: record.Done, Status: "open", Begin: 11, End: 12},
		{Client: "c", Kind: record.Look, Agent: "c", Job: "j", Outcome: record.Done, Status: "claimed", ClaimedBy: "b", Begin: 13, End: 14},
	}
	for _, tc := range []struct {
		calls []record.Call
		ok    bool
	}{
		{calls[:2], true},
		{calls, true}, // later than its client gave up
		{[]record.Call{calls[0], calls[2], {Client: "c", Kind: record.Look, Agent: "c", Job: "j", Outcome: record.Done, Status: "open", Begin: 15, End: 16}}, false},
	} {
		var v Verdict
		checkJobs(&v, tc.calls, nil)
		if (len(v.Findings) == 0) != tc.ok {
			t.Errorf("%+v: %+v", tc.calls, v.Findings)
		}
	}
}
