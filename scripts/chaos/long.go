package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// partTimeout is how long one part may run before it counts as hanging. partGrace is
	// the time that it then has to clean up.
	partTimeout, partGrace = 20 * time.Minute, 2 * time.Minute
	// randomFor is how long each random plan of a long run is.
	randomFor = 3 * time.Minute
	// aroundPlan is about how long a run takes in addition to its plan, and
	// aroundContainers the further time that containers take.
	aroundPlan       = steady + afterwards + 7*time.Second
	aroundContainers = 15 * time.Second
	// aroundTurn is about how long an event in turn takes in addition.
	aroundTurn = 8 * time.Second
	keptLog    = 4 << 20 // bytes of the end of each log of a run that failed
	manyKills  = 100
	fastKills  = 50
)

// part is one run within a long run.
type part struct {
	options
	name   string
	length time.Duration // approximate
}

// fixedParts are every scenario in each network that makes a difference to it, and a run
// that kills many leaders.
func (o *options) fixedParts() (parts []part) {
	add := func(network string, voters int, names ...string) {
		for _, name := range names {
			p := part{options: *o, name: name, length: aroundPlan}
			p.network, p.voters, p.only = network, voters, name
			if network == contained {
				p.length += aroundContainers
			}
			around := p.length
			for _, e := range scenarios[name] {
				if e.InTurn {
					p.length += e.For + aroundTurn
				}
				p.length = max(p.length, e.At+e.For+around)
			}
			if p.cannot(name) == "" {
				parts = append(parts, p)
			}
		}
	}
	all := slices.Sorted(maps.Keys(scenarios))
	add(contained, voters, all...)
	add(spaced, voters, slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !slices.ContainsFunc(scenarios[name], func(e event) bool { return faults[e.Fault].lossy }) // proxies show the others
	})...)
	add(proxied, manyVoters, slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.Contains(name, ofFive) })...)
	add(proxied, voters, all...)
	kills := func(n int, set ...string) {
		p := part{options: *o, name: killsName(n), length: time.Duration(n)*killEvery + aroundPlan}
		p.network, p.kills, p.flags = proxied, n, append(slices.Clone(o.flags), set...)
		parts = append(parts, p)
	}
	kills(manyKills)
	kills(fastKills, "heartbeat=300ms")
	return parts
}

// randomParts are a random plan with one seed in each network, and with five voters.
func (o *options) randomParts(seed uint64) (parts []part) {
	for _, kind := range []struct {
		network string
		voters  int
	}{{proxied, voters}, {contained, voters}, {proxied, manyVoters}} {
		p := part{options: *o, name: "random", length: randomFor + aroundPlan}
		p.seed, p.network, p.voters, p.random = seed, kind.network, kind.voters, randomFor
		if p.network == contained {
			p.length += aroundContainers
		}
		parts = append(parts, p)
	}
	return parts
}

// args are the arguments of a run.
func (o *options) args() []string {
	sets := make([]string, 0, 2*len(o.flags))
	for _, set := range o.flags {
		sets = append(sets, "-set", set)
	}
	return append([]string{
		"-binary", o.binary, "-later", o.later, "-dir", o.dir, "-out", o.out, "-seed", strconv.FormatUint(o.seed, 10), "-network", o.network,
		"-voters", strconv.Itoa(o.voters), "-pause", o.pause.String(), "-least", strconv.FormatFloat(o.least, 'f', -1, 64),
		"-random", o.random.String(), "-kills", strconv.Itoa(o.kills), "-scenario", o.only,
	}, sets...)
}

// row is the index's entry for a run.
type row struct {
	Name    string          `json:"name"`
	Network string          `json:"network"`
	Voters  int             `json:"voters"`
	Seed    uint64          `json:"seed"`
	Verdict string          `json:"verdict"` // passed, failed or skipped
	Why     []string        `json:"why"`     // reasons for a failure
	Rate    float64         `json:"writesPerSecondBefore"`
	Faults  int             `json:"faults"`
	Left    int             `json:"faultsLeftOut"`
	Median  time.Duration   `json:"gapMedian"` // for faults that left enough voters
	Longest time.Duration   `json:"gapLongest"`
	Length  time.Duration   `json:"length"`
	Report  string          `json:"report,omitempty"`
	Logs    string          `json:"logs,omitempty"`
	Gaps    []time.Duration `json:"gaps"`
}

// The verdicts on a run.
const (
	passedRun  = "passed"
	failedRun  = "failed"
	skippedRun = "skipped"
)

// runLong plays one run after the other, each in its own process, until the time is over:
// first the fixed ones, then random ones. A failed run does not stop the others.
func (o *options) runLong(ctx context.Context, length time.Duration, apart []string) error {
	fixed, total := o.fixedParts(), time.Duration(0)
	for _, p := range fixed {
		total += p.length
	}
	fmt.Printf("%d fixed runs, about %v; then random plans until %v are over\n", len(fixed), total.Round(time.Minute), length)
	began := time.Now()
	var rows []row
	for seed := o.seed; ; seed++ {
		parts := fixed
		if seed > o.seed {
			parts = o.randomParts(seed)
		}
		for _, p := range parts {
			if time.Since(began)+p.length > length {
				return ended(rows)
			}
			r := p.play(ctx, apart)
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), ended(rows))
			}
			rows = append(rows, r)
			if err := writeIndex(o.out, rows); err != nil {
				return err
			}
		}
	}
}

// ended prints the result of all runs.
func ended(rows []row) error {
	counts := verdicts(rows)
	fmt.Printf("%d runs passed, %d failed, %d were skipped\n", counts[passedRun], counts[failedRun], counts[skippedRun])
	if counts[failedRun] > 0 || counts[passedRun] == 0 {
		return fmt.Errorf("%d of %d runs failed", counts[failedRun], len(rows))
	}
	return nil
}

// verdicts counts the runs of each verdict, including verdicts without runs.
func verdicts(rows []row) map[string]int {
	counts := map[string]int{passedRun: 0, failedRun: 0, skippedRun: 0}
	for i := range rows {
		counts[rows[i].Verdict]++
	}
	return counts
}

// play plays one run. It keeps only the report and, if the run failed, its logs.
func (p *part) play(ctx context.Context, apart []string) row {
	r := row{Name: p.name, Network: p.network, Voters: p.voters, Seed: p.seed, Verdict: passedRun}
	p.dir = filepath.Join(p.dir, "part")
	defer func() { complain(os.RemoveAll(p.dir)) }()
	bounded, stop := context.WithTimeout(ctx, partTimeout)
	defer stop()
	command := append([]string{os.Args[0]}, p.args()...)
	if p.network != contained { // containers are in the engine's own namespaces
		command = append(slices.Clone(apart), command...)
	}
	cmd := exec.CommandContext(bounded, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = partGrace
	began := time.Now()
	err := cmd.Run()
	r.Length = time.Since(began)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitSkipped {
		r.Verdict = skippedRun
		return r
	}
	name := reportName(p.place(p.name), p.seed)
	if readErr := r.read(filepath.Join(p.out, name+".json"), began); readErr == nil {
		r.Report = name + ".json"
	} else {
		err = cmp.Or(err, readErr)
	}
	if err != nil {
		r.Verdict = failedRun
		if len(r.Why) == 0 {
			r.Why = []string{err.Error()}
		}
		r.Logs = name + "-logs"
		complain(keepLogs(p.dir, filepath.Join(p.out, r.Logs)))
	}
	return r
}

// read takes the figures from a report that was written since an instant.
func (r *row) read(name string, since time.Time) error {
	var of report
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &of)
	}
	if err == nil && of.Started.Before(since.Add(-time.Second)) {
		err = fmt.Errorf("%s is older", name)
	}
	if err != nil {
		return err
	}
	r.Why, r.Rate, r.Gaps = of.Failed, of.Rate, of.gaps()
	for _, e := range of.Plan {
		if e.Note == "" {
			r.Faults++
		} else {
			r.Left++
		}
	}
	if len(r.Gaps) > 0 {
		const half = 50
		r.Median, r.Longest = percentile(r.Gaps, half), r.Gaps[len(r.Gaps)-1]
	}
	return nil
}

// keepLogs copies the end of each log below a directory to another one.
func keepLogs(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		log, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, filepath.Base(path)), log[max(0, len(log)-keptLog):], 0o644))
	})
}

// writeIndex writes the rows of all runs.
func writeIndex(out string, rows []row) error {
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(filepath.Join(out, "index.json"), data, 0o644))
}
