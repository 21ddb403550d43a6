package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

func TestGap(t *testing.T) {
	e := event{Nodes: []string{"n1"}, Begin: 10, End: 20}
	acknowledged := []*record.Call{{Node: "n2", End: 9}, {Node: "n2", End: 12}, {Node: "n1", End: 13}, {Node: "n3", End: 19}, {Node: "n2", End: 21}}
	if got := gap(&e, math.MaxInt64, acknowledged); got != 7 {
		t.Errorf("%d, want 7", got)
	}
	late := []*record.Call{{Node: "n1", End: 15}, {Node: "n2", End: e.End + 2*afterFault}, {Node: "n2", End: e.End + 9*afterFault}}
	if got := gap(&e, math.MaxInt64, late); got != 10+2*afterFault {
		t.Errorf("%v, want %v: nothing was acknowledged until then", got, 10+2*afterFault)
	}
}

// TestNothingWasBroken: a run without a fault is void or skipped, whatever its checks find.
func TestNothingWasBroken(t *testing.T) {
	const ok, skipped, void = "", "skipped: no fault of the plan can be carried out here", "void: no fault was carried out"
	cannot, left := event{Note: skippedNote + "no disk"}, event{Note: "left out: no majority"}
	for _, tc := range []struct {
		what string
		plan []event
		err  error
		want string
	}{
		{"there is no plan", nil, nil, ok},
		{"one of two faults was carried out", []event{cannot, {Fault: "kill"}}, nil, ok},
		{"the machine can do none", []event{cannot, cannot}, nil, skipped},
		{"the machine can do none, and the run ended early", []event{cannot}, errors.New("no leader"), "no leader"},
		{"none was to be done", []event{left}, nil, void},
		{"none was done", []event{cannot, left}, nil, void},
	} {
		r := report{plan: tc.plan, err: tc.err}
		err := r.finish(0)
		if got := fmt.Sprint(err); got != cmp.Or(tc.want, "<nil>") || errors.Is(err, harness.ErrSkipped) != (tc.want == skipped) {
			t.Errorf("%s: %s, want %q", tc.what, got, tc.want)
		}
	}
	r := report{plan: []event{cannot}, verdicts: []check.Verdict{{Name: "strong", Findings: []check.Finding{{Text: "old"}}}}}
	if err := r.finish(0); err == nil || errors.Is(err, harness.ErrSkipped) {
		t.Errorf("a check failed in a run without a fault: %v", err)
	}
}

// TestGapOfTheNext: what a fault does is not the gap of the one before.
func TestGapOfTheNext(t *testing.T) {
	r := report{before: 1, plan: []event{{Begin: 10, End: 12}, {Begin: 20, End: 22}, {Begin: 25, Note: "left out"}}}
	for _, end := range []time.Duration{9, 13, 19, 40, 41} {
		r.calls = append(r.calls, record.Call{Kind: record.Publish, Outcome: record.Done, End: end})
	}
	r.figures()
	if one, two := r.plan[0].Gap, r.plan[1].Gap; one != 6 || two != 20 {
		t.Errorf("gaps %d and %d, want 6 and 20", one, two)
	}
}

// TestSlowness is that of the nodes that a fault was not for.
func TestSlowness(t *testing.T) {
	r := report{before: 100}
	e := event{Nodes: []string{"n1"}, Begin: 200, End: 300}
	calls := []*record.Call{
		{Node: "n2", Begin: 10, End: 20},
		{Node: "n2", Begin: 30, End: 45},
		{Node: "n1", Begin: 10, End: 90},
		{Node: "n2", Begin: 150, End: 190},
		{Node: "n2", Begin: 190, End: 220},
		{Node: "n1", Begin: 210, End: 290},
		{Node: "n3", Begin: 299, End: 330},
	}
	if got, want := r.slowness(&e, calls), (slowness{Usual: 15, Meanwhile: 31}); got != want {
		t.Errorf("slowness %v, want %v", got, want)
	}
}

func TestUninterrupted(t *testing.T) {
	r := report{plan: []event{{Gap: longestGap}, {Minority: true, Gap: 2 * longestGap}, {Fault: "kill", Nodes: []string{"n1"}, Gap: longestGap + 1}}}
	if v := r.uninterrupted(); v.Looked != 2 || len(v.Findings) != 1 {
		t.Errorf("%+v", v)
	}
}
