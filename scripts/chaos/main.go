// Command chaos breaks a cluster on purpose while recorded clients work with it, checks
// every answer against what was promised, and writes a report. It starts three voters
// and a reader as processes on this machine, with proxies between them that cut, delay
// and narrow the ways, and knows the product by its flags and its doors alone.
// scripts/chaos.sh builds and runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// What stands between nodes.
const (
	proxied = "proxies"
	spaced  = "namespaces"
)

const (
	voters = 3
	// steady is how long clients work before the first fault, and enoughWrites what
	// they have to write then in a second: less proves nothing.
	steady       = 5 * time.Second
	enoughWrites = 100
	// afterwards is how long they work on after the last fault.
	afterwards = 3 * time.Second
	// limitedRate is the limit of writes a minute of each agent and sender, in the runs
	// that have one: more than a lane does.
	limitedRate, limitedBurst = 3000, 200
	// killEvery and killFor are the pace of -kills: a node is back, and has caught up,
	// before the next one goes.
	killEvery, killFor = 6 * time.Second, time.Second
)

// options are what a run is told.
type options struct {
	binary, dir, out string
	seed             uint64
	random           time.Duration
	only             string
	pause            time.Duration
	least            float64
	network          string
	flags            []string
	kills            int
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the commons binary")
	flag.StringVar(&o.dir, "dir", "", "directory for data and logs")
	flag.StringVar(&o.out, "out", "", "directory for the report")
	flag.Uint64Var(&o.seed, "seed", 1, "what the random plan, and what clients do, depends on")
	flag.DurationVar(&o.random, "random", 0, "play a random plan of this length in place of a scenario")
	flag.StringVar(&o.only, "scenario", "", "names of scenarios, with commas between; list shows them; default: all")
	flag.DurationVar(&o.pause, "pause", 20*time.Millisecond, "pause of each of the 24 clients after each call")
	flag.Float64Var(&o.least, "least", enoughWrites, "writes a second before the first fault, below which a run is void")
	flag.StringVar(&o.network, "network", proxied, "what stands between nodes: "+proxied+", or "+spaced+" with a switch that loses packets, too")
	flag.IntVar(&o.kills, "kills", 0, "kill the leader so many times, in place of a scenario")
	flag.Func("set", "name=value of a flag of commons serve; may be repeated", func(text string) error {
		o.flags = append(o.flags, text)
		if !strings.Contains(text, "=") {
			return errors.New("want name=value")
		}
		return nil
	})
	flag.Parse()
	if o.only == "list" {
		fmt.Println(strings.Join(slices.Sorted(keys(scenarios)), "\n"))
		return
	}
	if o.binary == "" || o.dir == "" || o.out == "" {
		fmt.Fprintln(os.Stderr, "chaos: -binary, -dir and -out are needed; scripts/chaos.sh gives them")
		os.Exit(2)
	}
	ctx, stop := untilSignal(context.Background())
	err := o.runAll(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: FAILED:", err)
		os.Exit(1)
	}
}

// untilSignal ends a context at Ctrl-C and SIGTERM.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
}

// runAll plays what was asked for, each plan with a cluster of its own.
func (o *options) runAll(ctx context.Context) error {
	network, err := o.connect(ctx)
	if err != nil {
		fmt.Printf("skipped: no %s here: %v\n", o.network, err)
		return nil
	}
	network.close()
	switch {
	case o.random > 0:
		return o.run(ctx, "random", randomPlan(o.seed, o.random))
	case o.kills > 0:
		return o.run(ctx, strconv.Itoa(o.kills)+" leaders killed", repeated(o.kills, killEvery, event{For: killFor, Fault: "kill", Target: leader}))
	}
	names := slices.Sorted(keys(scenarios))
	if o.only != "" {
		names = strings.Split(o.only, ",")
	}
	var failed []error
	for _, name := range names {
		plan, ok := scenarios[name]
		if !ok {
			return fmt.Errorf("there is no scenario %q; -scenario list shows them", name)
		}
		if err := o.run(ctx, name, slices.Clone(plan)); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// connect makes what stands between nodes. An error says why this machine cannot.
func (o *options) connect(ctx context.Context) (n network, err error) {
	switch o.network {
	case spaced:
		n, err = newNamespaces(ctx)
		return n, err
	case proxied:
		n, err = newLinks()
		return n, err
	}
	return nil, fmt.Errorf("it is %s or %s", proxied, spaced)
}

// bench is one run.
type bench struct {
	o       *options
	run     *harness.Run
	voters  []*harness.Node
	nodes   []*harness.Node // the voters, then the reader
	network network
	watch   *watch
	began   time.Time

	down    map[string]bool         // whose process does not run at the moment
	weak    map[string]bool         // who cannot take part in a majority at the moment
	hungry  map[string]func() error // ends the starvation of a node
	last    []string                // whom the last fault was for
	spoiled *harness.Node           // whose disk was lost or damaged
	filled  bool                    // a disk is, or was, full

	images  string           // where the disks lie; empty: nowhere
	disks   map[string]*disk // by node
	noDisks string           // why disks cannot be broken here
	damaged int              // files
}

// run plays a plan and reports on it.
func (o *options) run(ctx context.Context, name string, plan []event) (err error) {
	fmt.Printf("-- %s, seed %d\n", name, o.seed)
	place := strings.ReplaceAll(strings.ReplaceAll(name, "'", ""), " ", "-")
	b := &bench{
		o: o, run: harness.NewRun(ctx, o.binary, o.dir), down: map[string]bool{}, weak: map[string]bool{},
		hungry: map[string]func() error{}, disks: map[string]*disk{},
	}
	if b.network, err = o.connect(ctx); err != nil {
		return err
	}
	defer b.network.close()
	defer b.takeDisks()
	defer b.run.End()
	defer b.release()
	if o.network == spaced {
		b.run.Host = nodeHost
	}
	r := report{Name: name, Seed: o.seed, Started: time.Now(), Plan: plan}
	err = harness.Try(func() { b.inParts(ctx, place, &r) })
	if err != nil {
		b.run.WriteLogs(os.Stderr)
		return err
	}
	return r.finish(o, place)
}

// release lets everything run on that waits: nothing else can end.
func (b *bench) release() {
	b.thawDisks()
	for _, feed := range b.hungry {
		complain(feed())
	}
}

// moderatorToken makes a moderator.
func (b *bench) moderatorToken() string {
	var made struct{ Token string }
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		_, out, problem := b.run.Command(nil, "mod", "token", "create", "chaos", "--json",
			"--cluster-addr", b.voters[0].Private, "--secret-file", b.voters[0].Flags["secret-file"])
		if err := json.Unmarshal([]byte(out), &made); err != nil {
			return fmt.Errorf("no moderator is made: %s: %w", problem, err)
		}
		return nil
	}))
	return made.Token
}

// inParts has three parts: clients alone, the plan, and clients alone again. Then every
// node is well, and what they hold is read.
func (b *bench) inParts(ctx context.Context, place string, r *report) {
	b.prepare(place)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	b.began = time.Now()
	b.watch = watchLeaders(watching, b.nodes, b.began)
	var h history
	crowd := &crowd{client: newClient(b.began, &h), nodes: b.nodes, seed: b.o.seed, pause: b.o.pause, token: b.moderatorToken()}
	crowd.begin(ctx)
	rest(ctx, steady)
	r.Before = time.Since(b.began)
	harness.Must(b.play(ctx, r.Plan))
	rest(ctx, afterwards)
	b.recover()
	crowd.end()
	r.Length = time.Since(b.began)
	r.calls, r.Leads = h.calls, b.watch.all()
	stop()
	f := b.read(&h)
	r.Verdicts = checkAll(h.calls, &f)
}

// prepare starts the cluster.
func (b *bench) prepare(place string) {
	c := harness.Got(b.run.NewCluster(place, voters+1))
	b.nodes, b.voters = c.Nodes, c.Nodes[:voters]
	b.giveDisks(b.run.Ctx)
	for i, n := range c.Nodes {
		harness.Must(b.network.add(b.run.Ctx, n, i+1))
		n.Flags["trusted-proxies"] = "127.0.0.0/8," + subnet + "0/24"
		n.Flags["bootstrap-expect"] = strconv.Itoa(voters)
		if b.o.seed%2 == 0 {
			n.Flags["write-rate"], n.Flags["write-burst"] = strconv.Itoa(limitedRate), strconv.Itoa(limitedBurst)
		}
		if i >= voters {
			n.Flags["non-voter"], n.Flags["bootstrap-expect"] = "true", "1"
		}
		for _, set := range b.o.flags {
			name, value, _ := strings.Cut(set, "=")
			n.Flags[name] = value
		}
		harness.Must(b.start(n))
	}
	harness.Must(c.WaitReady(harness.ReadyTimeout, c.Nodes...))
	c.Nodes = b.voters
	harness.Must(c.WaitVoters())
	c.Nodes = b.nodes
}

// recover waits until every node runs, is ready, and the voters vote.
func (b *bench) recover() {
	c := &harness.Cluster{Run: b.run, Nodes: b.nodes}
	harness.Must(c.WaitReady(harness.ReplaceTimeout, b.nodes...))
	c.Nodes = b.voters
	harness.Must(c.WaitVoters())
	harness.Must(b.run.Eventually(harness.ReplaceTimeout, func() error {
		for _, n := range b.voters { // the old server of a name may still have its vote
			if s, err := n.Status(); err != nil || !slices.Contains(s.Voters, s.Node) {
				return fmt.Errorf("%s does not vote yet: %+v, %w", n.Name, s, err)
			}
		}
		return nil
	}))
}

// read returns what every node holds.
func (b *bench) read(h *history) (f final) {
	f.entries, f.began = map[string][]entry{}, b.began
	index := uint64(0)
	for i := range h.calls {
		index = max(index, h.calls[i].Index)
	}
	for _, n := range b.nodes {
		f.entries[n.Name] = harness.Got(b.entries(n, index))
	}
	_, out, _ := b.run.Command(nil, "digest", "--json", "--cluster-addr", b.voters[0].Private, "--secret-file", b.voters[0].Flags["secret-file"])
	var comparison struct {
		Equal   bool
		Digests []digest
	}
	harness.Must(json.Unmarshal([]byte(out), &comparison))
	f.digests, f.equal = comparison.Digests, comparison.Equal
	return f
}

// entries returns what a node lists at an index or a later one, oldest first.
func (b *bench) entries(n *harness.Node, index uint64) ([]entry, error) {
	header := http.Header{"X-Commons-Min-Index": {strconv.FormatUint(index, 10)}}
	var found []entry
	for cursor := ""; ; {
		var page struct {
			Entries    []entry
			NextCursor string
		}
		if _, err := n.Call(http.MethodGet, "/api/entries?limit=100"+cursor, header, nil, &page, http.StatusOK); err != nil {
			return nil, err
		}
		found = append(found, page.Entries...)
		if page.NextCursor == "" {
			slices.Reverse(found)
			return found, nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
}
