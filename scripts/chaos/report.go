package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed report.html
var page string

// report is what is left of a run.
type report struct {
	Name     string        `json:"name"`
	Seed     uint64        `json:"seed"`
	Started  time.Time     `json:"started"`
	Before   time.Duration `json:"before"` // the first fault
	Length   time.Duration `json:"length"`
	Rate     float64       `json:"writesPerSecondBefore"`
	Counts   []count       `json:"calls"`
	Plan     []event       `json:"faults"`
	Leads    []lead        `json:"leaders"`
	Verdicts []verdict     `json:"verdicts"`

	calls []call
}

// count is how many calls of a kind had an outcome.
type count struct {
	Kind    kind    `json:"kind"`
	Outcome outcome `json:"outcome"`
	N       int     `json:"n"`
}

// finish works out the figures, writes the report, and returns what is wrong.
func (r *report) finish(o *options, place string) error {
	r.figures()
	name := filepath.Join(o.out, fmt.Sprintf("chaos-%s-%d", place, o.seed))
	if err := errors.Join(os.MkdirAll(o.out, 0o755), r.write(name)); err != nil {
		return err
	}
	var failed []error
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		fmt.Println("  ", v.summary())
		if len(v.Findings) > 0 {
			failed = append(failed, errors.New(v.summary()))
		}
	}
	left := 0
	for _, e := range r.Plan {
		if e.Note != "" {
			left++
		} else {
			fmt.Printf("   %s of %s: no write acknowledged on other nodes for %v at most%s\n", e.Fault, strings.Join(e.Nodes, ", "), e.Gap.Round(time.Millisecond), e.remark())
		}
	}
	if many := r.gaps(); len(many) >= enoughGaps {
		fmt.Printf("   gaps of %d: p50 %v, p90 %v, p99 %v, longest %v\n", len(many), percentile(many, 50), percentile(many, 90), percentile(many, 99), many[len(many)-1])
	}
	fmt.Printf("   %.0f writes/s before the first fault; %d calls; %d faults left out; report: %s.html\n", r.Rate, len(r.calls), left, name)
	if r.Rate < o.least {
		failed = append(failed, fmt.Errorf("void: %.0f writes/s before the first fault, want %.0f", r.Rate, o.least))
	}
	return errors.Join(failed...)
}

// enoughGaps is how many say something of their distribution.
const enoughGaps = 10

// gaps are those of all faults that left enough voters, shortest first.
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

// remark says what explains a gap.
func (e *event) remark() string {
	remark := ""
	if e.Leaders > 0 {
		remark = fmt.Sprintf("; %d times a node began to lead meanwhile", e.Leaders)
	}
	if e.Minority {
		remark += "; too few voters were left"
	}
	return remark
}

// figures counts, and finds the longest gap of each fault.
func (r *report) figures() {
	counts := map[count]int{}
	var acknowledged []*call
	early := 0
	for i := range r.calls {
		c := &r.calls[i]
		counts[count{Kind: c.Kind, Outcome: c.Outcome}]++
		if c.Kind.writes() && c.Outcome == done {
			acknowledged = append(acknowledged, c)
			if c.End < r.Before {
				early++
			}
		}
	}
	r.Rate = float64(early) / r.Before.Seconds()
	for c, n := range counts {
		c.N = n
		r.Counts = append(r.Counts, c)
	}
	slices.SortFunc(r.Counts, func(a, b count) int {
		return strings.Compare(string(a.Kind)+string(a.Outcome), string(b.Kind)+string(b.Outcome))
	})
	slices.SortFunc(acknowledged, func(a, b *call) int { return int(a.End - b.End) })
	for i := range r.Plan {
		r.Plan[i].Gap = gap(&r.Plan[i], r.next(i), acknowledged)
		r.Plan[i].Leaders = 0
		for _, l := range r.Leads {
			if e := &r.Plan[i]; e.Begin <= l.At && l.At <= e.End {
				e.Leaders++
			}
		}
	}
}

// afterFault is how long after its end a fault is looked at.
const afterFault = 5 * time.Second

// next returns when the first fault after the end of another one begins: what it does is
// not the other's.
func (r *report) next(i int) time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, e := range r.Plan {
		if e.Note == "" && e.Begin > r.Plan[i].End {
			next = min(next, e.Begin)
		}
	}
	return next
}

// gap is the longest time around a fault, before the next one, in which nodes that it was
// not for acknowledged no write.
func gap(e *event, next time.Duration, acknowledged []*call) (longest time.Duration) {
	last := e.Begin
	for _, c := range acknowledged {
		if c.End > next {
			return max(longest, next-last)
		}
		if c.End < e.Begin || len(e.Nodes) == 1 && c.Node == e.Nodes[0] {
			continue
		}
		longest, last = max(longest, c.End-last), c.End
		if c.End > e.End+afterFault {
			break
		}
	}
	return longest
}

// write writes the page and the summary.
func (r *report) write(name string) error {
	summary := *r
	summary.Verdicts = nil
	for _, v := range r.Verdicts {
		v.Findings = v.Findings[:min(len(v.Findings), maxShown)]
		summary.Verdicts = append(summary.Verdicts, v)
	}
	data, err := json.MarshalIndent(summary, "", "  ")
	if err != nil {
		return err
	}
	t, err := template.New("report").Funcs(template.FuncMap{
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) },
		"json": func(v any) (string, error) {
			data, err := json.Marshal(v)
			return string(data), err
		},
	}).Parse(page)
	if err != nil {
		return err
	}
	var html strings.Builder
	if err := t.Execute(&html, map[string]any{"Report": &summary, "Charts": r.charts(), "Lanes": r.faultLanes(), "Width": width}); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name+".json", data, 0o644), os.WriteFile(name+".html", []byte(html.String()), 0o644))
}
