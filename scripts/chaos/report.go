package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// report is the result of a run.
type report struct {
	name     string
	before   time.Duration // the first fault
	rate     float64       // of writes a second before the first fault
	plan     []event
	leads    []lead
	verdicts []check.Verdict
	err      error // the reason if the run ended early
	calls    []record.Call
}

// finish prints the report, and returns an error if the run failed. A run whose faults
// this machine cannot carry out is skipped.
func (r *report) finish(least float64) error {
	failed := []error{r.err}
	for i := range r.verdicts {
		v := &r.verdicts[i]
		fmt.Println("  ", v.Summary())
		if len(v.Findings) > 0 {
			failed = append(failed, errors.New(v.Summary()))
			printFindings(v.Findings)
		}
	}
	if r.err == nil && r.rate < least {
		failed = append(failed, fmt.Errorf("void: %.0f writes/s before the first fault, want %.0f", r.rate, least))
	}
	nothing := len(r.plan) > 0 && !slices.ContainsFunc(r.plan, func(e event) bool { return e.Note == "" })
	skipped := nothing && !slices.ContainsFunc(r.plan, func(e event) bool { return !strings.HasPrefix(e.Note, skippedNote) })
	if nothing && !skipped {
		failed = append(failed, errors.New("void: no fault was carried out"))
	}
	left, many := 0, []time.Duration(nil) // the gaps of faults that left enough voters
	for _, e := range r.plan {
		if e.Note != "" {
			left++
		} else {
			if !e.Minority {
				many = append(many, e.Gap.Round(time.Millisecond))
			}
			fmt.Printf("   %s of %s: no write acknowledged on other nodes for %v at most%s\n", e.Fault, cmp.Or(strings.Join(e.Nodes, ", "), string(e.Target)), e.Gap.Round(time.Millisecond), e.remark())
		}
	}
	if len(many) >= enoughGaps {
		fmt.Printf("   gaps of %d: p50 %v, p90 %v, p99 %v, longest %v\n", len(many), percentile(many, 50), percentile(many, 90), percentile(many, 99), percentile(many, 100))
	}
	fmt.Printf("   %.0f writes/s before the first fault; %d calls; %d faults left out\n", r.rate, len(r.calls), left)
	if err := errors.Join(failed...); err != nil || !skipped {
		return err
	}
	return fmt.Errorf("%w: no fault of the plan can be carried out here", harness.ErrSkipped)
}

// printFindings prints the first findings of a check, and the first calls of each as JSON.
func printFindings(findings []check.Finding) {
	for _, finding := range findings[:min(len(findings), check.MaxShown)] {
		fmt.Println("    ", finding.Text)
		for _, c := range finding.Calls[:min(len(finding.Calls), check.MaxShown)] {
			fmt.Printf("       %s\n", harness.Got(json.Marshal(c)))
		}
	}
}

// enoughGaps is how many gaps are needed to describe their distribution.
const enoughGaps = 10

// percentile returns the smallest value that p of 100 values do not exceed, 0 without values. It
// sorts them.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)*p+99)/100-1]
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
			if c.End < r.before {
				early++
			}
		case c.Kind == record.Plain:
			reads = append(reads, c)
		}
	}
	r.rate = float64(early) / max(r.before, time.Second).Seconds()
	byEnd := func(a, b *record.Call) int { return int(a.End - b.End) }
	slices.SortFunc(writes, byEnd)
	slices.SortFunc(reads, byEnd)
	for i := range r.plan {
		e, next := &r.plan[i], r.next(i)
		e.Gap, e.ReadGap = gap(e, next, writes), gap(e, next, reads)
		e.Writes, e.Reads = r.slowness(e, writes), r.slowness(e, reads)
		for _, l := range r.leads {
			if e.Begin <= l.At && l.At <= e.End {
				e.Leaders++
			}
		}
	}
}

// longestGap is how long the other nodes may acknowledge no write while enough voters are left.
const longestGap = 20 * time.Second

// uninterrupted checks that writes go on.
func (r *report) uninterrupted() check.Verdict {
	v := check.Verdict{Name: "writes go on"}
	for i := range r.plan {
		if e := &r.plan[i]; e.Note == "" && !e.Minority {
			v.Looked++
			if e.Gap > longestGap {
				v.Add(fmt.Sprintf("%s of %s: no write was acknowledged for %v", e.Fault, strings.Join(e.Nodes, ", "), e.Gap))
			}
		}
	}
	return v
}

// slowness is measured on the nodes that were not targets of the fault.
func (r *report) slowness(e *event, calls []*record.Call) slowness {
	var usual, meanwhile []time.Duration
	for _, c := range calls {
		switch took := c.End - c.Begin; {
		case slices.Contains(e.Nodes, c.Node):
		case c.End < r.before:
			usual = append(usual, took)
		case e.Begin <= c.End && c.Begin <= e.End:
			meanwhile = append(meanwhile, took)
		}
	}
	return slowness{Usual: percentile(usual, 99), Meanwhile: percentile(meanwhile, 99)}
}

// afterFault is how long after its end the effects of a fault are measured.
const afterFault = 5 * time.Second

// next returns when the first fault after the end of fault i begins: its effects do not
// count for fault i.
func (r *report) next(i int) time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, e := range r.plan {
		if e.Note == "" && e.Begin > r.plan[i].End {
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
