package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// TestWhatALongRunPlays: every scenario is played somewhere, in each network, and only
// where its faults are.
func TestWhatALongRunPlays(t *testing.T) {
	o := options{seed: 1, voters: voters}
	if o.network = proxied; o.cannot(laterVersion) == "" {
		t.Error("nodes are upgraded without a later version")
	}
	o.later = "commons-later"
	played, networks := map[string]bool{}, map[string]bool{}
	for _, p := range o.fixedParts() {
		played[p.only], networks[p.network] = true, true
		if p.length < aroundPlan {
			t.Errorf("%s takes %v", p.name, p.length)
		}
	}
	for name := range scenarios {
		if !played[name] {
			t.Errorf("%s is played nowhere", name)
		}
	}
	for _, network := range []string{proxied, spaced, contained} {
		if !networks[network] {
			t.Errorf("nothing is played with %s", network)
		}
	}
	for _, tc := range []struct {
		network, name string
		voters        int
		cannot        bool
	}{
		{proxied, "leader moved", voters, true},
		{contained, "leader moved", voters, false},
		{contained, "leader's disk hangs", voters, true},
		{contained, "reader killed", voters, true},
		{contained, behindBalancer, voters, false},
		{contained, behindBalancer, manyVoters, true},
		{proxied, behindBalancer, voters, true},
		{contained, "what operators do", voters, true},
		{proxied, "two of five killed", voters, true},
		{proxied, "two of five killed", manyVoters, false},
	} {
		o.network, o.voters = tc.network, tc.voters
		if why := o.cannot(tc.name); (why != "") != tc.cannot {
			t.Errorf("%s with %d %s: %q", tc.name, tc.voters, tc.network, why)
		}
	}
}

// TestLongRunGoesOn: a run that fails is a row of the index, with its logs, and so is one
// that is skipped; data is gone.
func TestLongRunGoesOn(t *testing.T) {
	dir := t.TempDir()
	o := options{dir: filepath.Join(dir, "run"), out: filepath.Join(dir, "out"), seed: 3, voters: voters, network: proxied}
	play := func(script string) row {
		p := part{options: o, name: "random"}
		return p.play(t.Context(), []string{"sh", "-c", "mkdir -p " + o.dir + "/part/c; echo bad >" + o.dir + "/part/c/n1.log; echo data >" + o.dir + "/part/c/raft.db; " + script})
	}
	// Its start is after that of each run, on a machine of any speed.
	good := report{Name: "random", Started: time.Now().Add(time.Hour), Rate: 150, Failed: []string{}, Plan: []event{{Gap: 3 * time.Second}, {Gap: time.Second}, {Note: "left out"}, {Gap: 2 * time.Second}}}
	write := func(r *report) {
		t.Helper()
		must.Do(t, errors.Join(os.MkdirAll(o.out, 0o700), r.write(filepath.Join(o.out, "chaos-random-3"))))
	}
	failed := play("exit 1")
	write(&good)
	passed := play("exit 0")
	good.Failed = []string{"n1 lacks <e1>"}
	write(&good)
	rejected := play("exit 1")
	rows := []row{failed, passed, rejected, play("exit 77")}
	for i, want := range []string{failedRun, passedRun, failedRun, skippedRun} {
		check.Equal(t, rows[i].Verdict, want, "run %d: %+v", i, rows[i])
	}
	if passed.Faults != 3 || passed.Left != 1 || passed.Median != 2*time.Second || passed.Longest != 3*time.Second || passed.Report == "" || len(failed.Why) == 0 {
		t.Errorf("%+v\n%+v", passed, failed)
	}
	if log, err := os.ReadFile(filepath.Join(o.out, failed.Logs, "n1.log")); err != nil || string(log) != "bad\n" {
		t.Errorf("%q, %v", log, err)
	}
	if left, err := filepath.Glob(dir + "/*/*/*/raft.db"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := ended(rows); err == nil {
		t.Error("a run failed, and all are good")
	}
	check.Err(t, ended(rows[1:2]), nil, "ended")
	must.Do(t, writeIndex(o.out, rows))
	index := string(must.Get(os.ReadFile(filepath.Join(o.out, "index.json")))(t))
	for _, want := range []string{"chaos-random-3.json", "n1 lacks", passedRun, failedRun, skippedRun} {
		if !strings.Contains(index, want) {
			t.Errorf("the index lacks %q", want)
		}
	}
}

// TestGapsAreExplained by what nodes logged around them.
func TestGapsAreExplained(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := &harness.Node{Name: "n1", Log: filepath.Join(t.TempDir(), "n1.log")}
	log := `{"time":"2026-01-02T03:04:06Z","level":"WARN","msg":"too early"}
{"time":"2026-01-02T03:04:09.9Z","level":"INFO","msg":"election won","node":"n1-x","part":"raft","term":3}
{"time":"2026-01-02T03:04:10Z","level":"INFO","msg":"a delivery"}
not JSON
{"time":"2026-01-02T03:04:11Z","level":"WARN","msg":"a write of the log was slow","took":"1.2s"}
{"time":"2026-01-02T03:04:12Z","level":"WARN","msg":"a write of the log was slow","took":"1.2s"}
{"time":"2026-01-02T03:04:20Z","level":"WARN","msg":"too late"}
`
	must.Do(t, os.WriteFile(n.Log, []byte(log), 0o600))
	r := report{Plan: []event{{Silent: 5 * time.Second, Gap: 3 * time.Second}, {Silent: 5 * time.Second, Gap: time.Second}}}
	r.explain([]*harness.Node{n}, began)
	want := []string{"   4.90 s  n1: election won term=3", "   6.00 s  n1: a write of the log was slow took=1.2s (2 times)"}
	if !slices.Equal(r.Plan[0].Why, want) || r.Plan[1].Why != nil {
		t.Errorf("%q, %q", r.Plan[0].Why, r.Plan[1].Why)
	}
}

// TestSlowness is that of the nodes that a fault was not for.
func TestSlowness(t *testing.T) {
	r := report{Before: 100}
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
	check.Equal(t, r.slowness(&e, calls), (slowness{Usual: 15, Meanwhile: 31}), "result")
}
