package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// report is the result of a run.
type report struct {
	Name     string          `json:"name"`
	Seed     uint64          `json:"seed"`
	Error    string          `json:"error,omitempty"` // the reason if the run ended early
	Started  time.Time       `json:"started"`
	Before   time.Duration   `json:"before"` // the first fault
	Length   time.Duration   `json:"length"`
	Rate     float64         `json:"writesPerSecondBefore"`
	Plan     []event         `json:"faults"`
	Leads    []lead          `json:"leaders"`
	Verdicts []check.Verdict `json:"verdicts"`
	Failed   []string        `json:"failed"` // the reasons why the run failed; empty if it passed or was skipped

	calls []record.Call
}

// finish writes the report, and returns an error if the run failed. A run whose faults
// this machine cannot carry out is skipped.
func (r *report) finish(o *options, place string) error {
	failed := []error{}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		fmt.Println("  ", v.Summary())
		if len(v.Findings) > 0 {
			failed = append(failed, errors.New(v.Summary()))
			printCalls(v.Findings[0].Calls)
		}
	}
	if r.Error == "" && r.Rate < o.least {
		failed = append(failed, fmt.Errorf("void: %.0f writes/s before the first fault, want %.0f", r.Rate, o.least))
	}
	nothing := len(r.Plan) > 0 && !slices.ContainsFunc(r.Plan, func(e event) bool { return e.Note == "" })
	skipped := nothing && !slices.ContainsFunc(r.Plan, func(e event) bool { return !strings.HasPrefix(e.Note, skippedNote) })
	if nothing && !skipped {
		failed = append(failed, errors.New("void: no fault was carried out"))
	}
	for _, err := range failed {
		r.Failed = append(r.Failed, err.Error())
	}
	if r.Error != "" {
		r.Failed = append(r.Failed, r.Error)
	}
	name := filepath.Join(o.out, reportName(place, o.seed))
	if err := errors.Join(os.MkdirAll(o.out, 0o755), r.write(name)); err != nil {
		return err
	}
	left := 0
	for _, e := range r.Plan {
		if e.Note != "" {
			left++
		} else {
			fmt.Printf("   %s of %s: no write acknowledged on other nodes for %v at most%s\n", e.Fault, cmp.Or(strings.Join(e.Nodes, ", "), string(e.Target)), e.Gap.Round(time.Millisecond), e.remark())
		}
	}
	if many := r.gaps(); len(many) >= enoughGaps {
		fmt.Printf("   gaps of %d: p50 %v, p90 %v, p99 %v, longest %v\n", len(many), percentile(many, 50), percentile(many, 90), percentile(many, 99), many[len(many)-1])
	}
	fmt.Printf("   %.0f writes/s before the first fault; %d calls; %d faults left out; report: %s.json\n", r.Rate, len(r.calls), left, name)
	if skipped && len(r.Failed) == 0 {
		return fmt.Errorf("%w: no fault of the plan can be carried out here", errSkipped)
	}
	return errors.Join(failed...)
}

// printCalls prints the first calls of a finding as JSON. CI keeps the output of a run, not its
// report.
func printCalls(calls []record.Call) {
	for i := range calls[:min(len(calls), check.MaxShown)] {
		if line, err := json.Marshal(&calls[i]); err == nil {
			fmt.Printf("     %s\n", line)
		}
	}
}

// reportName is the file name of a run's report, without the extension.
func reportName(place string, seed uint64) string { return fmt.Sprintf("chaos-%s-%d", place, seed) }

// enoughGaps is how many gaps are needed to describe their distribution.
const enoughGaps = 10

// gaps returns the gaps of all faults that left enough voters, shortest first.
func (r *report) gaps() (gaps []time.Duration) {
	for _, e := range r.Plan {
		if e.Note == "" && !e.Minority {
			gaps = append(gaps, e.Gap.Round(time.Millisecond))
		}
	}
	slices.Sort(gaps)
	return gaps
}

// percentile returns the smallest value that p of 100 values do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	const hundred = 100
	return sorted[(len(sorted)*p+hundred-1)/hundred-1]
}

// remark says what else a fault did, with the usual values in brackets.
func (e *event) remark() string {
	remark := fmt.Sprintf(" (reads %v); 99%% of writes there within %v, of reads within %v", e.ReadGap.Round(time.Millisecond), e.Writes, e.Reads)
	if e.Leaders > 0 {
		remark += fmt.Sprintf("; %d times a node began to lead meanwhile", e.Leaders)
	}
	if e.Minority {
		remark += "; too few voters were left, or the service was interrupted on purpose"
	}
	return remark
}

// figures counts calls, and finds what each fault did to other nodes.
func (r *report) figures() {
	var writes, reads []*record.Call // the answered ones
	early := 0
	for i := range r.calls {
		c := &r.calls[i]
		switch {
		case c.Outcome != record.Done:
		case c.Kind.Writes():
			writes = append(writes, c)
			if c.End < r.Before {
				early++
			}
		case c.Kind == record.Plain:
			reads = append(reads, c)
		}
	}
	r.Rate = float64(early) / max(r.Before, time.Second).Seconds()
	byEnd := func(a, b *record.Call) int { return int(a.End - b.End) }
	slices.SortFunc(writes, byEnd)
	slices.SortFunc(reads, byEnd)
	for i := range r.Plan {
		e, next := &r.Plan[i], r.next(i)
		e.Gap, e.ReadGap = gap(e, next, writes), gap(e, next, reads)
		e.Writes, e.Reads = r.slowness(e, writes), r.slowness(e, reads)
		e.Leaders = 0
		for _, l := range r.Leads {
			if e.Begin <= l.At && l.At <= e.End {
				e.Leaders++
			}
		}
	}
}

// slowness is measured on the nodes that were not targets of the fault.
func (r *report) slowness(e *event, calls []*record.Call) (s slowness) {
	var usual, meanwhile []time.Duration
	for _, c := range calls {
		switch took := c.End - c.Begin; {
		case slices.Contains(e.Nodes, c.Node):
		case c.End < r.Before:
			usual = append(usual, took)
		case e.Begin <= c.End && c.Begin <= e.End:
			meanwhile = append(meanwhile, took)
		}
	}
	const most = 99
	for times, into := range map[*[]time.Duration]*time.Duration{&usual: &s.Usual, &meanwhile: &s.Meanwhile} {
		if len(*times) > 0 {
			slices.Sort(*times)
			*into = percentile(*times, most)
		}
	}
	return s
}

// afterFault is how long after its end the effects of a fault are measured.
const afterFault = 5 * time.Second

// next returns when the first fault after the end of fault i begins: its effects do not
// count for fault i.
func (r *report) next(i int) time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, e := range r.Plan {
		if e.Note == "" && e.Begin > r.Plan[i].End {
			next = min(next, e.Begin)
		}
	}
	return next
}

// gap returns the longest time around a fault, before the next one, without an answer of the
// nodes that were not its target.
func gap(e *event, next time.Duration, answered []*record.Call) (longest time.Duration) {
	last := e.Begin
	silent := func(until time.Duration) { longest, last = max(longest, until-last), until }
	for _, c := range answered {
		if c.End > next {
			silent(next)
			break
		}
		if c.End < e.Begin || len(e.Nodes) == 1 && c.Node == e.Nodes[0] {
			continue
		}
		if silent(c.End); c.End > e.End+afterFault {
			break
		}
	}
	return longest
}

// write writes the report, with the first findings of each check.
func (r *report) write(name string) error {
	summary := *r
	summary.Verdicts = nil
	for _, v := range r.Verdicts {
		v.Findings = v.Findings[:min(len(v.Findings), check.MaxShown)]
		summary.Verdicts = append(summary.Verdicts, v)
	}
	if r.Failed == nil {
		summary.Failed = []string{}
	}
	data, err := json.MarshalIndent(summary, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name+".json", data, 0o644)
}
