package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// runAll plays the chosen plans, each with its own cluster.
func (o *options) runAll(outer *harness.Run) {
	if o.random > 0 {
		o.run(outer, "random", randomPlan(o.seed, o.random, slices.Sorted(maps.Keys(faults))))
		return
	}
	if o.kills > 0 {
		o.run(outer, strconv.Itoa(o.kills)+" leaders killed", repeated(o.kills, killEvery, event{For: killFor, Fault: "kill", Target: leader}))
		return
	}
	names := slices.Sorted(maps.Keys(scenarios))
	if o.only != "" {
		names = strings.Split(o.only, ",")
	}
	var failed []error
	skipped := 0
	for _, name := range names {
		plan, ok := scenarios[name]
		if !ok {
			harness.Failf("there is no scenario %q; -scenario list shows them", name)
		}
		if err := harness.Try(func() { o.run(outer, name, slices.Clone(plan)) }); errors.Is(err, harness.ErrSkipped) {
			fmt.Printf("-- %s: %v\n", name, err)
			skipped++
		} else if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
		if outer.Ctx.Err() != nil {
			break
		}
	}
	if skipped == len(names) {
		harness.Must(harness.ErrSkipped)
	}
	harness.Must(errors.Join(failed...))
}

// forScenario returns the options with the settings of a scenario. An error says why this
// machine, or the other options, do not allow it.
func (o options) forScenario(name string) (*options, error) {
	switch {
	case name == belowLimits:
		o.pause, o.flags = closePause, writeLimits(closeRate, closeBurst)
	case name == strangersScenario: // the clients call through a proxy, and the strangers do not
		o.env = []string{"GOMEMLIMIT=750MiB"} // as in the compose file
		o.flags = writeLimits(limitedRate, limitedBurst)
		o.flags["trusted-proxies"] = "127.0.0.1/32"
	case strings.HasPrefix(name, behindBalancer):
		o.contained, o.pause, o.least = true, balancedPause, min(o.least, balancedLeast)
	case strings.HasPrefix(name, laterVersion) && o.later == "":
		return nil, fmt.Errorf("%w: it takes -later", harness.ErrSkipped)
	case strings.Contains(name, ofFive) && o.voters < manyVoters:
		return nil, fmt.Errorf("%w: it takes -voters %d", harness.ErrSkipped, manyVoters)
	}
	return &o, nil
}

// writeLimits returns the flags of nodes with limits of writes.
func writeLimits(rate, burst int) map[string]string {
	return map[string]string{"write-rate": strconv.Itoa(rate), "write-burst": strconv.Itoa(burst)}
}

// run plays a plan and reports on it.
func (o *options) run(outer *harness.Run, name string, plan []event) {
	ctx, place := outer.Ctx, fmt.Sprintf("%s-%d", strings.NewReplacer(" ", "-", "'", "").Replace(name), o.seed)
	o = harness.Got(o.forScenario(name))
	b := &testbed{
		o: o, run: harness.NewRun(ctx, outer.Binary, outer.Dir), down: map[string]bool{}, weak: map[string]bool{},
		undo: map[string]func() error{}, disks: map[string]*disk{},
	}
	if o.contained {
		b.containers = newContainers(ctx, o)
	} else {
		b.links = harness.Got(newLinks())
	}
	fmt.Printf("-- %s, seed %d\n", name, o.seed)
	defer b.close()
	began := time.Now()
	r := report{name: name, plan: plan}
	r.err = harness.Try(func() { b.inParts(ctx, place, &r) })
	if b.containers != nil {
		complain(harness.Try(func() { b.containers.keepLogs(b.nodes, began) }))
	}
	if r.err != nil {
		b.run.WriteLogs(os.Stderr)
	}
	harness.Must(r.finish(o.least))
}

// close ends everything that the run has started and mounted.
func (b *testbed) close() {
	b.release()
	b.run.End()
	b.takeDisks()
	if b.containers == nil {
		return
	}
	b.containers.close()
	if err := os.Remove(b.secret()); !errors.Is(err, fs.ErrNotExist) { // the copy of the project's
		complain(err)
	}
}

// moderatorToken makes a moderator.
func (b *testbed) moderatorToken() string {
	var made struct{ Token string }
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		out, err := harness.Operate(b.run.Ctx, b.voters[:1], "mod", "token", "create", "chaos", "--json")
		if err == nil {
			err = json.Unmarshal(out, &made)
		}
		return err
	}))
	return made.Token
}

// purge purges an entry as an operator does.
func (b *testbed) purge(id string) error {
	_, err := harness.Operate(b.run.Ctx, b.voters, "mod", "purge", id, "--reason", "chaos", "--yes")
	return err
}

// inParts has three parts: clients alone, the plan, and clients alone again. Then every
// node must be healthy, and the entries of all nodes are read.
func (b *testbed) inParts(ctx context.Context, place string, r *report) {
	b.prepare(place)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	b.began = time.Now()
	b.watch = watchLeaders(watching, b.nodes, b.run.HTTP, b.began)
	token, onlyPublish := "", r.name == belowLimits || r.name == spamScenario
	if r.name != spamScenario {
		token = b.moderatorToken()
	}
	var newest struct{ LastEventID string }
	harness.Must(b.nodes[0].Do(http.MethodGet, "/api/events", nil, &newest))
	var h record.History
	b.caller = record.NewCaller(b.began, b.run.HTTP, &h)
	crowd := &record.Crowd{
		Client: b.caller, Nodes: b.nodes, Balancer: b.balancer,
		Seed: b.o.seed, Pause: b.o.pause, Token: token, From: newest.LastEventID,
		Purge: b.purge, OnlyPublish: onlyPublish,
	}
	if b.o.contained {
		crowd.Nodes, crowd.Wait = []*harness.Node{b.balancer}, true
	}
	endCrowd := crowd.Begin(ctx)
	harness.Pause(ctx, steady)
	r.before = time.Since(b.began)
	harness.Must(b.play(ctx, r.plan))
	harness.Pause(ctx, afterwards)
	well := harness.Try(b.settle)
	endCrowd()
	r.calls, r.leads = h.Calls, b.watch.all()
	r.figures()
	stop()
	if well != nil && ctx.Err() == nil { // the nodes' entries cannot be read
		r.verdicts = []check.Verdict{{Name: "every node is well again", Looked: len(b.nodes), Findings: []check.Finding{{Text: well.Error()}}}}
		b.run.WriteLogs(os.Stderr)
		return
	}
	harness.Must(well)
	f := b.read(&h)
	r.verdicts = append(check.All(h.Calls, &f), r.slowLeaders(), r.uninterrupted(), r.living(), r.unbothered(), r.spared())
	if b.o.contained {
		b.kept = f.Entries[b.nodes[0].Name]
		harness.Must(b.play(ctx, afterwardsBalanced()))
		b.containers.manual.allFollowed()
	}
}

// prepare starts the cluster, or finds it.
func (b *testbed) prepare(place string) {
	if b.o.contained {
		b.prepareContainers(place)
		return
	}
	c := b.run.NewCluster(place, b.o.voters+1)
	b.cluster, b.nodes, b.voters = c, c.Nodes, c.Nodes[:b.o.voters]
	b.giveDisks(b.run.Ctx)
	for i, n := range c.Nodes {
		b.links.add(b.run.Ctx, n)
		n.Env = b.o.env
		n.Flags["trusted-proxies"] = "127.0.0.0/8"
		n.Flags["bootstrap-expect"] = strconv.Itoa(b.o.voters)
		if b.o.limited() {
			maps.Copy(n.Flags, writeLimits(limitedRate, limitedBurst))
		}
		if i >= b.o.voters {
			n.Flags["non-voter"], n.Flags["bootstrap-expect"] = "true", "1"
		}
		maps.Copy(n.Flags, b.o.flags)
		b.start(n)
	}
	b.settle()
}

// read returns the entries and digests of all nodes.
func (b *testbed) read(h *record.History) (f check.Final) {
	f.Entries, f.Began = map[string][]check.Entry{}, b.began
	index := uint64(0)
	for i := range h.Calls {
		index = max(index, h.Calls[i].Index)
	}
	for _, n := range b.nodes {
		f.Entries[n.Name] = harness.Got(n.List(index, client.EntryQuery{}))
		slices.Reverse(f.Entries[n.Name]) // oldest first
	}
	out, _ := harness.Operate(b.run.Ctx, b.voters[:1], "digest", "--json") // fails if the digests differ
	var comparison struct {
		Equal   bool
		Digests []check.Digest
	}
	harness.Must(json.Unmarshal(out, &comparison))
	f.Digests, f.Equal = comparison.Digests, comparison.Equal
	return f
}
