package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// good is a history that nothing is wrong with: two writes, one of them repeated, a job,
// and home of an agent that one of the writes mentions.
func good() ([]call, final) {
	to := func(id string) *string { return &id }
	at := func(c call, begin, end int) call {
		c.Begin, c.End = time.Duration(begin), time.Duration(end)
		if c.Outcome == "" {
			c.Outcome = done
		}
		return c
	}
	calls := []call{
		at(call{Client: "a", Kind: publish, Agent: "a", Text: "first @w", RequestID: "r1", Outcome: unknown}, 0, 10),
		at(call{Client: "a", Kind: publish, Agent: "a", Text: "first @w", RequestID: "r1", ID: "e1", Index: 5, Duplicate: true}, 11, 20),
		at(call{Client: "a", Kind: publish, Agent: "a", Text: "second", ID: "e2", Index: 6, Supersedes: "e1"}, 21, 30),
		at(call{Client: "a", Kind: publish, Agent: "a", Text: "third", ID: "e3", Index: 7}, 31, 35),
		at(call{Client: "a", Kind: publish, Agent: "a", Text: "lost", Outcome: failed}, 21, 30),
		at(call{Client: "a", Kind: list, Agent: "a", MinIndex: 6, Index: 7, Expect: "e2", Seen: []string{"e2", "e1"}}, 31, 40),
		at(call{Client: "b", Kind: claim, Agent: "b", Job: "j4", ID: "e5"}, 40, 50),
		at(call{Client: "c", Kind: claim, Agent: "c", Job: "j4", Outcome: rejected, Code: "job_claimed"}, 45, 55),
		at(call{Client: "c", Kind: look, Agent: "c", Job: "j4", Status: "claimed", ClaimedBy: "b"}, 56, 60),
		at(call{Client: "w", Kind: home, Agent: "w", Seen: []string{"e1"}}, 41, 42),
		at(call{Client: "w", Kind: home, Agent: "w", Outcome: unknown}, 43, 44),
		at(call{Client: "w", Kind: home, Agent: "w"}, 45, 46),
		at(call{Client: "f", Kind: follow, Agent: "f", Seen: []string{"e1", "e2"}}, 41, 42),
		at(call{Client: "f", Kind: follow, Agent: "f", Seen: []string{"e3", "e6"}}, 43, 44),
		at(call{Client: "m", Kind: subject, Agent: "s", Text: "spam", ID: "e6"}, 50, 51),
		at(call{Client: "m", Kind: peek, Expect: "e6", Text: "spam", Shown: true}, 52, 53),
		at(call{Client: "m", Kind: moderated, Status: doHide, Expect: "e6"}, 54, 55),
		at(call{Client: "m", Kind: peek, Expect: "e6", Text: "spam"}, 56, 57),
		at(call{Client: "m", Kind: moderated, Status: doUnhide, Expect: "e6", Outcome: unknown}, 58, 59),
		at(call{Client: "m", Kind: moderated, Status: doPurge, Expect: "e6"}, 60, 61),
		at(call{Client: "m", Kind: attempt, Agent: "x", Expect: "x"}, 62, 63),
		at(call{Client: "m", Kind: moderated, Status: doBlock, Expect: "x"}, 64, 65),
		at(call{Client: "m", Kind: attempt, Agent: "x", Expect: "x", Outcome: rejected, Code: "blocked"}, 66, 67),
		at(call{Client: "s", Kind: strong, Seen: []string{"e6", "e2"}}, 31, 33),
		at(call{Client: "s", Kind: strong, Seen: []string{"e6", "e3", "e2"}}, 36, 38),
		at(call{Client: "s", Kind: strong, Seen: []string{"e3"}}, 39, 40),
	}
	entries := func() []entry {
		return []entry{
			{ID: "e1", Agent: "a", Body: "first @w", CreatedAt: 1, By: []ref{{"e2"}}, ByCount: 1},
			{ID: "e2", Agent: "a", Body: "second", CreatedAt: 2, Supersedes: to("e1")},
			{ID: "e3", Agent: "a", Body: "third", CreatedAt: 2},
		}
	}
	digests := []digest{{ID: "n1", Digest: "d", Rows: "r"}, {ID: "n2", Digest: "d", Rows: "r"}}
	return calls, final{entries: map[string][]entry{"n1": entries(), "n2": entries()}, digests: digests, equal: true, began: time.UnixMilli(0)}
}

// both changes what every node holds.
func both(f *final, change func([]entry) []entry) {
	for node := range f.entries {
		f.entries[node] = change(f.entries[node])
	}
}

// TestChecksSeeWhatIsWrong feeds each check a history that it has to reject, and no
// other check rejects the good one.
func TestChecksSeeWhatIsWrong(t *testing.T) {
	for _, bad := range []struct {
		what, check string
		spoil       func(calls []call, f *final)
	}{
		{"nothing", "", func([]call, *final) {}},
		{"an acknowledged entry is lost", "acknowledged entries are there", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { return e[:2] })
		}},
		{"an entry has another's text", "acknowledged entries are there", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[2].Body = "other"; return e })
		}},
		{"a repeated write stands twice", "each text stands once", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { return append(e, entry{ID: "e9", Body: e[0].Body, CreatedAt: 9}) })
		}},
		{"a write that failed is there", "what certainly failed is not there", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { return append(e, entry{ID: "e9", Body: "lost", CreatedAt: 9}) })
		}},
		{"an entry stands before one that was there earlier", "entries are in the order of time", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[1], e[2] = e[2], e[1]; return e })
		}},
		{"time runs back", "entries are in the order of time", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[2].CreatedAt = 1; return e })
		}},
		{"a write was stamped by a clock that is ahead", "createdAt is the time of the write", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[2].CreatedAt = time.Hour.Milliseconds(); return e })
		}},
		{"a write was stamped by a clock that is behind", "createdAt is the time of the write", func(_ []call, f *final) {
			f.began = f.began.Add(time.Hour)
		}},
		{"a node lacks an entry", "nodes hold the same", func(_ []call, f *final) { f.entries["n2"] = f.entries["n2"][:2] }},
		{"a node has another text", "nodes hold the same", func(_ []call, f *final) { f.entries["n2"][1].Body = "other" }},
		{"digests differ", "nodes hold the same", func(_ []call, f *final) { f.digests[1].Rows = "x" }},
		{"a node has no digest", "nodes hold the same", func(_ []call, f *final) { f.digests[1].Error = "away" }},
		{"the nodes say that they differ", "nodes hold the same", func(_ []call, f *final) { f.equal = false }},
		{"a correction is not listed", "supersededBy mirrors supersedes", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[0].By, e[0].ByCount = nil, 0; return e })
		}},
		{"a correction is listed that there is not", "supersededBy mirrors supersedes", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { e[1].By, e[1].ByCount = []ref{{"e3"}}, 1; return e })
		}},
		{"an answer is too old", "reads with a minimum index do not go back", func(c []call, _ *final) { c[5].Index = 5 }},
		{"a read lacks what its client wrote", "reads with a minimum index do not go back", func(c []call, _ *final) { c[5].Seen = []string{"e1"} }},
		{"home misses a mention", "home shows each item once", func(c []call, _ *final) { c[9].Seen = nil }},
		{"home repeats a mention", "home shows each item once", func(c []call, _ *final) { c[11].Seen = []string{"e1"} }},
		{"home shows what is not there", "home shows each item once", func(c []call, _ *final) { c[11].Seen = []string{"e99"} }},
		{"a stream leaves an event out", "events tell of each entry once", func(c []call, _ *final) { c[12].Seen = []string{"e1"} }},
		{"a stream ends early", "events tell of each entry once", func(c []call, _ *final) { c[13].Seen = nil }},
		{"a stream repeats an event", "events tell of each entry once", func(c []call, _ *final) { c[13].Seen = []string{"e2", "e3"} }},
		{"a stream is out of order", "events tell of each entry once", func(c []call, _ *final) { c[12].Seen = []string{"e2", "e1"} }},
		{"a stream cannot go on", "events tell of each entry once", func(c []call, _ *final) { c[13].Code = "reset" }},
		{"a request_id has two ids", "each request_id is linearizable", func(c []call, _ *final) {
			c[0].Outcome, c[0].ID = done, "e3"
		}},
		{"a request_id is written twice", "each request_id is linearizable", func(c []call, _ *final) {
			c[0].Outcome, c[0].ID, c[1].Duplicate = done, "e1", false
		}},
		{"a job is claimed twice", "each job is linearizable", func(c []call, _ *final) { c[7].Outcome, c[7].Code = done, "" }},
		{"a strong read is old", "each job is linearizable", func(c []call, _ *final) { c[8].Status, c[8].ClaimedBy = "open", "" }},
		{"a strong read lacks what was acknowledged", "strong reads hold what was acknowledged", func(c []call, _ *final) { c[24].Seen = []string{"e6", "e2"} }},
		{"a strong read lacks what another one had", "strong reads hold what was acknowledged", func(c []call, _ *final) {
			c[3].Outcome, c[25].Seen = unknown, []string{"e2"}
		}},
		{"a strong read shows nothing", "strong reads hold what was acknowledged", func(c []call, _ *final) { c[25].Seen = nil }},
		{"a strong read shows only what was there before the run", "strong reads hold what was acknowledged", func(c []call, _ *final) {
			c[25].Seen = []string{"e6", "e0"}
		}},
		{"nothing: a strong read shows only what was purged later", "", func(c []call, _ *final) { c[25].Seen = []string{"e6"} }},
		{"nothing: a strong read does not show what was hidden, and was shown again later", "", func(c []call, f *final) {
			c[19].Status, c[25].Seen = doUnhide, []string{"e3", "e2"}
			both(f, func(e []entry) []entry { return append(e, entry{ID: "e6", Agent: "s", Body: "spam", CreatedAt: 3}) })
		}},
		{"a hidden entry is shown", "nothing hidden or purged is visible, and blocks hold", func(c []call, _ *final) { c[17].Shown = true }},
		{"an entry is hidden that nobody hid", "nothing hidden or purged is visible, and blocks hold", func(c []call, _ *final) { c[15].Shown = false }},
		{"a node lists a purged entry at the end", "nothing hidden or purged is visible, and blocks hold", func(_ []call, f *final) {
			both(f, func(e []entry) []entry { return append(e, entry{ID: "e6", Agent: "s", Body: "spam", CreatedAt: 3}) })
		}},
		{"a blocked name writes", "nothing hidden or purged is visible, and blocks hold", func(c []call, _ *final) { c[22].Outcome, c[22].Code = done, "" }},
		{"a name is blocked that nobody blocked", "nothing hidden or purged is visible, and blocks hold", func(c []call, _ *final) {
			c[20].Outcome, c[20].Code = rejected, "blocked"
		}},
		{"a claim is rejected without a reason", "each job is linearizable", func(c []call, _ *final) { c[7].Code = "job_done" }},
	} {
		calls, f := good()
		bad.spoil(calls, &f)
		rejecting := map[string]string{}
		for _, v := range checkAll(calls, &f) {
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
	calls := []call{
		{Client: "b", Kind: claim, Agent: "b", Job: "j", Outcome: unknown, Begin: 0, End: 10},
		{Client: "c", Kind: look, Agent: "c", Job: "j", Outcome: done, Status: "open", Begin: 11, End: 12},
		{Client: "c", Kind: look, Agent: "c", Job: "j", Outcome: done, Status: "claimed", ClaimedBy: "b", Begin: 13, End: 14},
	}
	for _, tc := range []struct {
		calls []call
		ok    bool
	}{
		{calls[:2], true},
		{calls, true}, // later than its client gave up
		{[]call{calls[0], calls[2], {Client: "c", Kind: look, Agent: "c", Job: "j", Outcome: done, Status: "open", Begin: 15, End: 16}}, false},
	} {
		var v verdict
		checkJobs(&v, tc.calls, nil)
		if (len(v.Findings) == 0) != tc.ok {
			t.Errorf("%+v: %+v", tc.calls, v.Findings)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		status int
		answer map[string]any
		want   outcome
		id     string
	}{
		{201, map[string]any{"entry": map[string]any{"id": "e1"}, "duplicate": false}, done, "e1"},
		{200, map[string]any{"result": map[string]any{"structuredContent": map[string]any{"entry": map[string]any{"id": "e2"}}}}, done, "e2"},
		{200, map[string]any{"error": map[string]any{"code": -32000.0, "data": []any{map[string]any{"code": "not_enqueued"}}}}, failed, ""},
		{200, map[string]any{"result": map[string]any{"isError": true, "structuredContent": map[string]any{"code": "outcome_unknown"}}}, unknown, ""},
		{503, map[string]any{"code": "not_enqueued"}, failed, ""},
		{503, map[string]any{"code": "outcome_unknown"}, unknown, ""},
		{502, map[string]any{}, unknown, ""},
		{500, map[string]any{"code": "internal"}, unknown, ""},
		{409, map[string]any{"code": "job_done"}, rejected, ""},
	} {
		c := call{Kind: publish}
		c.read(tc.status, tc.answer)
		if c.Outcome != tc.want || c.ID != tc.id {
			t.Errorf("%d %v: %s %q, want %s %q", tc.status, tc.answer, c.Outcome, c.ID, tc.want, tc.id)
		}
	}
}

// TestSentAndLost: a GET whose connection breaks is sent again by net/http, and finds
// nobody: it may have been written all the same. Without a connection it was not.
func TestSentAndLost(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served int
	server := &http.Server{ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served == 1 {
			_, _ = io.WriteString(w, "{}")
			return
		}
		_ = listener.Close()
		panic(http.ErrAbortHandler)
	})
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	var h history
	cl := newClient(time.Now(), &http.Transport{}, &h)
	ask := func() outcome {
		c := call{Kind: publish}
		cl.send(t.Context(), &c, "http://"+listener.Addr().String(), request{method: http.MethodGet, path: "/", header: http.Header{}})
		return c.Outcome
	}
	for _, want := range []outcome{done, unknown, failed} {
		if got := ask(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestPlanIsTheSeeds: a seed repeats its plan, and another one is another.
func TestPlanIsTheSeeds(t *testing.T) {
	names := []string{"kill", "pause"}
	one, again, other := randomPlan(1, time.Minute, names), randomPlan(1, time.Minute, names), randomPlan(2, time.Minute, names)
	if !reflect.DeepEqual(one, again) || reflect.DeepEqual(one, other) || len(one) < 5 {
		t.Errorf("%+v\n%+v\n%+v", one, again, other)
	}
	for name, plan := range scenarios {
		for _, e := range plan {
			f, ok := faults[e.Fault]
			if !ok {
				f, ok = containerFaults[e.Fault]
			}
			if !ok || f.end != nil && e.For == 0 {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// TestLinks: what a way carries waits while it is cut, and arrives when it is healed;
// the way back is another one; reset breaks the connection.
func TestLinks(t *testing.T) {
	l, err := newLinks()
	if err != nil {
		t.Skip(err)
	}
	served := make(chan string, 10)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		_, _ = io.WriteString(w, "heard")
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	defer l.close()
	l.runs("me", os.Getpid())
	addr, err := l.before(t.Context(), "other", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, 10)
	ask := func(path string) {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			text = []byte(err.Error())
		}
		answers <- string(text)
	}
	ask("/plain")
	if got := <-answers; got != "heard" || <-served != "/plain" {
		t.Fatalf("over a good way: %s", got)
	}
	l.set("other", "me", quality{cut: true})
	go ask("/back")
	if got := <-served; got != "/back" {
		t.Errorf("the way there is cut, too: %s", got)
	}
	select {
	case got := <-answers:
		t.Errorf("over a way that is cut: %s", got)
	case <-time.After(5 * cutLook): // long enough for an answer to pass by mistake
	}
	l.set("other", "me", quality{})
	if got := <-answers; got != "heard" {
		t.Errorf("after it was healed: %s", got)
	}
	l.set("me", "other", quality{cut: true})
	go ask("/there")
	for len(served) == 0 && len(answers) == 0 {
		_ = l.reset("me")            // links always can
		time.Sleep(time.Millisecond) // until the connection is there to be broken
	}
	if got := <-answers; got == "heard" || len(served) > 0 {
		t.Errorf("a connection was reset, and the answer is %s", got)
	}
}

func TestGap(t *testing.T) {
	e := event{Nodes: []string{"n1"}, Begin: 10, End: 20}
	acknowledged := []*call{{Node: "n2", End: 9}, {Node: "n2", End: 12}, {Node: "n1", End: 13}, {Node: "n3", End: 19}, {Node: "n2", End: 21}}
	if _, got := gap(&e, math.MaxInt64, acknowledged); got != 7 {
		t.Errorf("%d, want 7", got)
	}
	late := []*call{{Node: "n1", End: 15}, {Node: "n2", End: e.End + 2*afterFault}, {Node: "n2", End: e.End + 9*afterFault}}
	if _, got := gap(&e, math.MaxInt64, late); got != 10+2*afterFault {
		t.Errorf("%v, want %v: nothing was acknowledged until then", got, 10+2*afterFault)
	}
}

// TestNothingWasBroken: a run without a fault proves nothing, whatever its checks say.
func TestNothingWasBroken(t *testing.T) {
	const ok, skipped, void = "", "skipped: no fault of the plan can be carried out here", "void: no fault was carried out"
	cannot, left := event{Note: skippedNote + "no disk"}, event{Note: "left out: no majority"}
	for _, tc := range []struct {
		what  string
		plan  []event
		error string
		want  string
	}{
		{"there is no plan", nil, "", ok},
		{"one of two faults was carried out", []event{cannot, {Fault: "kill"}}, "", ok},
		{"the machine can do none", []event{cannot, cannot}, "", skipped},
		{"the machine can do none, and the run ended early", []event{cannot}, "no leader", ""},
		{"none was to be done", []event{left}, "", void},
		{"none was done", []event{cannot, left}, "", void},
	} {
		r := report{Plan: tc.plan, Error: tc.error, Before: time.Second}
		err := r.finish(&options{out: t.TempDir()}, "place")
		if got := fmt.Sprint(err); got != cmp.Or(tc.want, "<nil>") || errors.Is(err, errSkipped) != (tc.want == skipped) {
			t.Errorf("%s: %s, want %q", tc.what, got, tc.want)
		}
		if failed := len(r.Failed) > 0; failed != (tc.want == void || tc.error != "") {
			t.Errorf("%s: %q", tc.what, r.Failed)
		}
	}
	r := report{Plan: []event{cannot}, Verdicts: []verdict{{Name: "strong", Findings: []finding{{Text: "old"}}}}, Before: time.Second}
	if err := r.finish(&options{out: t.TempDir()}, "place"); err == nil || errors.Is(err, errSkipped) {
		t.Errorf("a check failed in a run without a fault: %v", err)
	}
}

// TestGapOfTheNext: what a fault does is not the gap of the one before.
func TestGapOfTheNext(t *testing.T) {
	r := report{Before: 1, Plan: []event{{Begin: 10, End: 12}, {Begin: 20, End: 22}, {Begin: 25, Note: "left out"}}}
	for _, end := range []time.Duration{9, 13, 19, 40, 41} {
		r.calls = append(r.calls, call{Kind: publish, Outcome: done, End: end})
	}
	r.figures()
	if one, two := r.Plan[0].Gap, r.Plan[1].Gap; one != 6 || two != 20 {
		t.Errorf("gaps %d and %d, want 6 and 20", one, two)
	}
}

func TestPageHoldsWhatFailed(t *testing.T) {
	r := report{Name: "a <name>", Seed: 7, Before: time.Second, Length: time.Second, calls: []call{{Kind: publish, Outcome: done, End: time.Millisecond}}}
	r.Plan = []event{{Fault: "kill", Nodes: []string{"n1"}, Begin: time.Millisecond, End: 2 * time.Millisecond}}
	r.Leads = []lead{{0, "n1", 3}}
	r.Verdicts = []verdict{{Name: "jobs", Looked: 1, Findings: []finding{{"no order explains it", []call{{Client: "recorder-9"}}}}}}
	r.figures()
	place := t.TempDir() + "/r"
	if err := r.write(place); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(place + ".html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a &lt;name&gt;", "Seed 7", "no order explains it", "recorder-9", "n1, term 3", "<polyline", "kill n1"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(data), "http://") || strings.Contains(string(data), "https://") {
		t.Error("the page has external parts")
	}
}
