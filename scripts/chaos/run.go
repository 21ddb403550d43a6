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
func (o *options) runAll(ctx context.Context) error {
	switch {
	case o.random > 0:
		return o.run(ctx, "random", randomPlan(o.seed, o.random, slices.Sorted(maps.Keys(faults))))
	case o.kills > 0:
		return o.run(ctx, strconv.Itoa(o.kills)+" leaders killed", repeated(o.kills, killEvery, event{For: killFor, Fault: "kill", Target: leader}))
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
			return fmt.Errorf("there is no scenario %q; -scenario list shows them", name)
		}
		if err := o.run(ctx, name, slices.Clone(plan)); errors.Is(err, errSkipped) {
			fmt.Printf("-- %s: %v\n", name, err)
			skipped++
		} else if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if skipped == len(names) {
		return errSkipped
	}
	return errors.Join(failed...)
}

// forScenario returns the options with the settings of a scenario. An error says why this
// machine, or the other options, do not allow it.
func (o options) forScenario(name string) (*options, error) {
	switch {
	case name == belowLimits:
		o.pause, o.flags = closePause, []string{"write-rate=" + strconv.Itoa(closeRate), "write-burst=" + strconv.Itoa(closeBurst)}
	case name == strangersScenario: // the clients call through a proxy, and the strangers do not
		o.env = []string{"GOMEMLIMIT=750MiB"} // as in the compose file
		o.flags = []string{"trusted-proxies=127.0.0.1/32", "write-rate=" + strconv.Itoa(limitedRate), "write-burst=" + strconv.Itoa(limitedBurst)}
	case strings.HasPrefix(name, behindBalancer):
		o.contained, o.pause, o.least = true, balancedPause, min(o.least, balancedLeast)
	case strings.HasPrefix(name, laterVersion) && o.later == "":
		return nil, fmt.Errorf("%w: it takes -later", errSkipped)
	case strings.Contains(name, ofFive) && o.voters < manyVoters:
		return nil, fmt.Errorf("%w: it takes -voters %d", errSkipped, manyVoters)
	}
	return &o, nil
}

// run plays a plan and reports on it.
func (o *options) run(ctx context.Context, name string, plan []event) (err error) {
	place := o.place(name)
	if o, err = o.forScenario(name); err != nil {
		return err
	}
	b := &testbed{
		o: o, run: harness.NewRun(ctx, o.binary, o.dir), down: map[string]bool{}, weak: map[string]bool{},
		hungry: map[string]func() error{}, disks: map[string]*disk{},
	}
	if o.contained {
		b.containers, err = newContainers(ctx, o)
	} else {
		b.links, err = newLinks()
	}
	if err != nil {
		return err
	}
	fmt.Printf("-- %s, seed %d\n", name, o.seed)
	defer b.close()
	began := time.Now()
	r := report{name: name, plan: plan}
	r.err = harness.Try(func() { b.inParts(ctx, place, &r) })
	if b.containers != nil {
		complain(b.containers.keepLogs(b.nodes, began))
	}
	r.figures()
	if r.err != nil {
		b.run.WriteLogs(os.Stderr)
	}
	return r.finish(o.least)
}

// close ends everything that the run has started and mounted.
func (b *testbed) close() {
	b.release()
	b.run.End()
	b.takeDisks()
	if b.links != nil {
		b.links.close()
		return
	}
	b.containers.close()
	if err := os.Remove(b.secret()); !errors.Is(err, fs.ErrNotExist) { // the copy of the project's
		complain(err)
	}
}

// release lets frozen disks and starved nodes continue, so that processes can end.
func (b *testbed) release() {
	b.thawDisks()
	for _, feed := range b.hungry {
		complain(feed())
	}
}

// moderatorToken makes a moderator.
func (b *testbed) moderatorToken() string {
	var made struct{ Token string }
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		_, out, problem := b.run.Command(nil, "mod", "token", "create", "chaos", "--json", "--cluster-addr", b.voters[0].Private, "--secret-file", b.voters[0].Flags["secret-file"])
		if err := json.Unmarshal([]byte(out), &made); err != nil {
			return fmt.Errorf("no moderator is made: %s: %w", problem, err)
		}
		return nil
	}))
	return made.Token
}

// purge purges an entry as an operator does.
func (b *testbed) purge(id string) error {
	addrs := make([]string, len(b.voters))
	for i, n := range b.voters {
		addrs[i] = n.Private
	}
	code, _, problem := b.run.Command(nil, "mod", "purge", id, "--reason", "chaos", "--yes",
		"--cluster-addr", strings.Join(addrs, ","), "--secret-file", b.voters[0].Flags["secret-file"])
	if code != 0 {
		return fmt.Errorf("mod purge ends with %d: %s", code, problem)
	}
	return nil
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
	since := int64(0)
	if first := harness.Got(b.nodes[0].Client(0).EntryPage(ctx, client.EntryQuery{Limit: 1})).Items; len(first) > 0 {
		since = first[0].CreatedAt
	}
	var h record.History
	b.caller = record.NewCaller(b.began, b.run.HTTP, &h)
	crowd := &record.Crowd{
		Client: b.caller, Nodes: b.nodes, Balancer: b.balancer,
		Seed: b.o.seed, Pause: b.o.pause, Token: token, From: newest.LastEventID, Since: since,
		Purge: b.purge, OnlyPublish: onlyPublish,
	}
	if b.o.contained {
		crowd.Nodes, crowd.Wait = []*harness.Node{b.balancer}, true
	}
	crowd.Begin(ctx)
	harness.Pause(ctx, steady)
	r.before = time.Since(b.began)
	harness.Must(b.play(ctx, r.plan))
	harness.Pause(ctx, afterwards)
	well := harness.Try(b.settle)
	crowd.End()
	r.calls, r.leads = h.Calls, b.watch.all()
	stop()
	if well != nil && ctx.Err() == nil { // the nodes' entries cannot be read
		r.verdicts = []check.Verdict{{Name: "every node is well again", Looked: len(b.nodes), Findings: []check.Finding{{Text: well.Error()}}}}
		b.run.WriteLogs(os.Stderr)
		return
	}
	harness.Must(well)
	f := b.read(&h)
	r.figures()
	r.verdicts = append(check.All(h.Calls, &f), r.slowLeaders(), r.living(), r.unbothered(), r.spared())
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
		harness.Must(b.links.add(b.run.Ctx, n))
		n.Env = b.o.env
		n.Flags["trusted-proxies"] = "127.0.0.0/8"
		n.Flags["bootstrap-expect"] = strconv.Itoa(b.o.voters)
		if b.o.limited() {
			n.Flags["write-rate"], n.Flags["write-burst"] = strconv.Itoa(limitedRate), strconv.Itoa(limitedBurst)
		}
		if i >= b.o.voters {
			n.Flags["non-voter"], n.Flags["bootstrap-expect"] = "true", "1"
		}
		for _, set := range b.o.flags {
			name, value, _ := strings.Cut(set, "=")
			n.Flags[name] = value
		}
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
	_, out, _ := b.run.Command(nil, "digest", "--json", "--cluster-addr", b.voters[0].Private, "--secret-file", b.voters[0].Flags["secret-file"])
	var comparison struct {
		Equal   bool
		Digests []check.Digest
	}
	harness.Must(json.Unmarshal([]byte(out), &comparison))
	f.Digests, f.Equal = comparison.Digests, comparison.Equal
	return f
}
