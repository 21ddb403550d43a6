// Command chaos breaks a cluster on purpose while recorded clients work with it, checks
// every answer against what was promised, and writes a report. It starts three voters
// and a reader as processes on this machine, with proxies between them that cut
// connections, delay data and limit the bandwidth, or uses containers of the compose
// file. It knows only the flags and interfaces of the product.
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

// The networks between nodes.
const (
	proxied   = "proxies"
	spaced    = "namespaces"
	contained = "containers" // the engine's own network, and the balancer
)

// exitSkipped means that nothing was run, because this machine cannot.
const exitSkipped = 77

var errSkipped = errors.New("skipped")

const (
	voters = 3
	// steady is how long clients work before the first fault, and enoughWrites how many
	// writes a second they must reach in that time: fewer would prove nothing.
	steady       = 5 * time.Second
	enoughWrites = 100
	// afterwards is how long they work on after the last fault.
	afterwards = 3 * time.Second
	// limitedRate is the limit of writes a minute for each agent and sender, in runs
	// with limits. It is more than a lane writes.
	limitedRate, limitedBurst = 3000, 200
	// killEvery and killFor are the pace of -kills: a node is back, and has caught up,
	// before the next one is killed.
	killEvery, killFor = 6 * time.Second, time.Second
)

// options are the settings of a run.
type options struct {
	binary, dir, out string
	seed             uint64
	random           time.Duration
	only             string
	pause            time.Duration
	least            float64
	network          string
	project          string // of Compose, that runs already
	voters           int
	flags            []string
	kills            int
}

// limited reports whether the run has limits of writes.
func (o *options) limited() bool { return o.seed%2 == 0 }

// faults returns the faults that the network can carry out.
func (o *options) faults() map[string]fault {
	if o.network == contained {
		return containerFaults
	}
	return faults
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
	flag.StringVar(&o.network, "network", proxied, "what stands between nodes: "+proxied+"; "+spaced+" with a switch that loses packets, too; or "+contained+" of "+composeFile)
	flag.StringVar(&o.project, "project", "", "break the containers of this project of Compose, which runs already")
	flag.IntVar(&o.voters, "voters", voters, "voters; containers can be "+strconv.Itoa(voters)+" or "+strconv.Itoa(manyVoters))
	long := flag.Duration("long", 0, "play all there is in all networks, and then random plans until so much time is over; arguments are a command that runs one of them apart")
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
	if err := o.problem(*long); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if o.project != "" {
		o.network = contained
	}
	ctx, stop := untilSignal(context.Background())
	var err error
	if *long > 0 {
		err = o.runLong(ctx, *long, flag.Args())
	} else {
		err = o.runAll(ctx)
	}
	stop()
	if errors.Is(err, errSkipped) {
		fmt.Println(err)
		os.Exit(exitSkipped)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: FAILED:", err)
		os.Exit(1)
	}
}

// problem says what is wrong with the options of a run, or of a long one.
func (o *options) problem(long time.Duration) (err error) {
	if o.binary == "" || o.dir == "" || o.out == "" {
		err = errors.New("-binary, -dir and -out are needed; scripts/chaos.sh gives them")
	}
	if long > 0 && o.project != "" {
		err = errors.Join(err, errors.New("-long makes its own clusters, and -project takes one that runs: leave one of them out"))
	}
	return err
}

// untilSignal ends a context at Ctrl-C and SIGTERM.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
}

// runAll plays the chosen plans, each with its own cluster.
func (o *options) runAll(ctx context.Context) error {
	network, err := o.connect(ctx)
	if err != nil {
		return fmt.Errorf("%w: no %s here: %w", errSkipped, o.network, err)
	}
	network.close()
	switch {
	case o.random > 0:
		return o.run(ctx, "random", randomPlan(o.seed, o.random, slices.Sorted(keys(o.faults()))))
	case o.kills > 0:
		return o.run(ctx, killsName(o.kills), repeated(o.kills, killEvery, event{For: killFor, Fault: "kill", Target: leader}))
	}
	names := slices.Sorted(keys(scenarios))
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
		if why := o.cannot(name); why != "" {
			fmt.Printf("-- %s: skipped: %s\n", name, why)
			skipped++
			continue
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
	if skipped > 0 {
		fmt.Printf("%d of %d scenarios skipped\n", skipped, len(names))
	}
	if skipped == len(names) {
		return errSkipped
	}
	return errors.Join(failed...)
}

func killsName(n int) string { return strconv.Itoa(n) + " leaders killed" }

// cannot says why a scenario cannot run with these nodes; empty: it can.
func (o *options) cannot(name string) string {
	for _, e := range scenarios[name] {
		if _, ok := o.faults()[e.Fault]; !ok {
			return o.network + " have no fault " + e.Fault
		}
		if e.Target == reader && o.network == contained {
			return contained + " have no reader"
		}
	}
	if strings.Contains(name, ofFive) && o.voters < manyVoters {
		return "it takes -voters " + strconv.Itoa(manyVoters)
	}
	return ""
}

// connect makes the network between nodes. An error says why this machine cannot.
func (o *options) connect(ctx context.Context) (n network, err error) {
	switch o.network {
	case spaced:
		n, err = newNamespaces(ctx)
		return n, err
	case proxied:
		n, err = newLinks()
		return n, err
	case contained:
		n, err = newContainers(ctx, o)
		return n, err
	}
	return nil, fmt.Errorf("it is %s, %s or %s", proxied, spaced, contained)
}

// bench is one run.
type bench struct {
	o       *options
	run     *harness.Run
	voters  []*harness.Node
	nodes   []*harness.Node // the voters, then the reader
	network network

	balancer  *harness.Node   // in front of the nodes; nil: there is none
	transport *http.Transport // of all calls

	watch *watch
	began time.Time

	down    map[string]bool         // nodes whose process does not run at the moment
	weak    map[string]bool         // nodes that cannot take part in a majority at the moment
	hungry  map[string]func() error // ends the starvation of a node
	last    []string                // targets of the last fault
	spoiled *harness.Node           // the node whose disk was lost or damaged
	filled  bool                    // a disk is, or was, full

	images  string           // directory of the disk images; empty: there are none
	disks   map[string]*disk // by node
	noDisks string           // why disks cannot be broken here
	damaged int              // files

	prefix string          // of the names of agents, and of the moderator
	token  bool            // the moderator may have one
	found  map[string]bool // ids of the entries that existed before
}

// run plays a plan and reports on it.
func (o *options) run(ctx context.Context, name string, plan []event) (err error) {
	fmt.Printf("-- %s, seed %d\n", name, o.seed)
	place := o.place(name)
	b := &bench{
		transport: &http.Transport{MaxIdleConnsPerHost: idleConns},
		o:         o, run: harness.NewRun(ctx, o.binary, o.dir), down: map[string]bool{}, weak: map[string]bool{},
		hungry: map[string]func() error{}, disks: map[string]*disk{},
	}
	if b.network, err = o.connect(ctx); err != nil {
		return err
	}
	defer b.forget() // when all nodes are healthy again
	defer b.network.close()
	defer b.takeDisks()
	defer b.run.End()
	defer b.release()
	if o.network == spaced {
		b.run.Host = nodeHost
	}
	r := report{Name: name, Network: o.network, Voters: o.voters, Seed: o.seed, Started: time.Now(), Plan: plan}
	err = harness.Try(func() { b.inParts(ctx, place, &r) })
	if p, ok := b.network.(*containers); ok {
		complain(p.keepLogs(b.nodes, r.Started))
	}
	r.figures()
	if err != nil {
		b.run.WriteLogs(os.Stderr)
		r.Error = err.Error()
		return errors.Join(err, r.finish(o, place))
	}
	r.explain(b.nodes, b.began)
	return r.finish(o, place)
}

// place is a name for files.
func (o *options) place(name string) string {
	place := strings.ReplaceAll(strings.NewReplacer("'", "", ",", "").Replace(name), " ", "-")
	if o.network != proxied {
		place = o.network + "-" + place
	}
	if o.voters != voters {
		place = strconv.Itoa(o.voters) + "-" + place
	}
	return place
}

// release lets frozen disks and starved nodes continue: otherwise nothing could end.
func (b *bench) release() {
	b.thawDisks()
	for _, feed := range b.hungry {
		complain(feed())
	}
}

// moderatorToken makes a moderator.
func (b *bench) moderatorToken() string {
	var made struct{ Token string }
	b.token = true
	harness.Must(b.run.Eventually(harness.ReadyTimeout, func() error {
		_, out, problem := b.moderatorCommand("create", b.voters[0])
		if err := json.Unmarshal([]byte(out), &made); err != nil {
			return fmt.Errorf("no moderator is made: %s: %w", problem, err)
		}
		return nil
	}))
	return made.Token
}

// moderatorCommand creates or revokes the moderator's token.
func (b *bench) moderatorCommand(verb string, n *harness.Node) (code int, stdout, stderr string) {
	return b.run.Command(nil, "mod", "token", verb, b.prefix+"chaos", "--json", "--cluster-addr", n.Private, "--secret-file", n.Flags["secret-file"])
}

// inParts has three parts: clients alone, the plan, and clients alone again. Then every
// node must be healthy, and the entries of all nodes are read.
func (b *bench) inParts(ctx context.Context, place string, r *report) {
	b.prepare(place)
	r.Voters = len(b.voters)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	b.began = time.Now()
	b.watch = watchLeaders(watching, b.nodes, b.transport, b.began)
	var h history
	crowd := &crowd{
		client: newClient(b.began, b.transport, &h), nodes: b.nodes, balancer: b.balancer,
		seed: b.o.seed, pause: b.o.pause, token: b.moderatorToken(), prefix: b.prefix, from: b.newestEvent(),
	}
	crowd.begin(ctx)
	rest(ctx, steady)
	r.Before = time.Since(b.began)
	harness.Must(b.play(ctx, r.Plan))
	rest(ctx, afterwards)
	well := harness.Try(b.recover)
	crowd.end()
	r.Length = time.Since(b.began)
	r.calls, r.Leads = h.calls, b.watch.all()
	stop()
	if well != nil && ctx.Err() == nil { // the nodes' entries cannot be read
		r.Verdicts = []verdict{{Name: "every node is well again", Looked: len(b.nodes), Findings: []finding{{Text: well.Error()}}}}
		b.run.WriteLogs(os.Stderr)
		return
	}
	harness.Must(well)
	f := b.read(&h)
	r.Verdicts = append(checkAll(h.calls, &f), r.slowLeaders())
}

// prepare starts the cluster, or finds it.
func (b *bench) prepare(place string) {
	if p, ok := b.network.(*containers); ok {
		b.prepareContainers(p, place)
		return
	}
	c := harness.Got(b.run.NewCluster(place, b.o.voters+1))
	b.nodes, b.voters = c.Nodes, c.Nodes[:b.o.voters]
	b.giveDisks(b.run.Ctx)
	for i, n := range c.Nodes {
		harness.Must(b.network.add(b.run.Ctx, n, i+1))
		n.Flags["trusted-proxies"] = "127.0.0.0/8," + subnet + "0/24"
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
		harness.Must(b.start(n))
	}
	b.settled()
}

// settled waits until every node is ready, and the voters vote.
func (b *bench) settled() {
	c := &harness.Cluster{Run: b.run, Nodes: b.voters}
	harness.Must(c.WaitReady(harness.ReplaceTimeout, b.nodes...))
	harness.Must(c.WaitVoters())
}

// recover waits until every node runs, is ready, and the voters vote.
func (b *bench) recover() {
	b.settled()
	harness.Must(b.run.Eventually(harness.ReplaceTimeout, func() error {
		for _, n := range b.voters { // the old server of a name may still have its vote
			if s, err := n.Status(); err != nil || !slices.Contains(s.Voters, s.Node) {
				return fmt.Errorf("%s does not vote yet: %+v, %w", n.Name, s, err)
			}
		}
		return nil
	}))
}

// newestEvent returns the id of the newest event.
func (b *bench) newestEvent() string {
	var answer struct{ LastEventID string }
	harness.Got(b.nodes[0].Call(http.MethodGet, followed, nil, nil, &answer, http.StatusOK))
	return answer.LastEventID
}

// read returns what every node holds.
func (b *bench) read(h *history) (f final) {
	f.entries, f.began = map[string][]entry{}, b.began
	index := uint64(0)
	for i := range h.calls {
		index = max(index, h.calls[i].Index)
	}
	for _, n := range b.nodes {
		f.entries[n.Name] = slices.DeleteFunc(harness.Got(b.entries(n, index)), func(e entry) bool { return b.found[e.ID] })
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
