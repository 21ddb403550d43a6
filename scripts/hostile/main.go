// Command hostile attacks a node of a cluster as a stranger with a handful of
// addresses would, each attack for a while beside an honest client, and fails when a
// node ends or grows too large, when the honest client waits more than three times as
// long as usual, or when something was written under a name that another key owns.
// scripts/hostile.sh builds and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// What the attacks are held against, and how long they take.
const (
	clusterSize = 3
	shortAttack = 4 * time.Second
	longAttack  = time.Minute
	// memoryMB is what a node may hold, goMemory the goal of its collector: those of
	// the compose file.
	memoryMB = 1024
	goMemory = "GOMEMLIMIT=750MiB"
	// slower is by how much the honest client's 99th percentile may grow, and
	// leastP99 what counts as usual at least: below it a busy machine alone does more.
	slower   = 3
	leastP99 = 60 * time.Millisecond
	// honestPause is between two calls of the honest client.
	honestPause = 10 * time.Millisecond
	// attackPause is between two steps of an attacker: attacks and nodes share the
	// processor, and what is looked for is more than a flood.
	attackPause = 20 * time.Millisecond
	// honestAddress is where it calls from, and attackers where the attacks come from.
	honestAddress = "127.0.1.1"
)

var attackers = []string{"127.0.2.1", "127.0.2.2", "127.0.2.3", "127.0.2.4"}

// bench is one run.
type bench struct {
	*harness.Cluster
	target *harness.Node
	long   bool

	mu    sync.Mutex
	found error // what an attack found wrong
}

func main() {
	binary := flag.String("binary", "", "the commons binary")
	dir := flag.String("dir", "", "directory for data and logs")
	long := flag.Bool("long", false, "attack for longer")
	only := flag.String("only", "", "run this attack alone")
	flag.Parse()
	if *binary == "" || *dir == "" {
		fmt.Fprintln(os.Stderr, "hostile: -binary and -dir are needed; scripts/hostile.sh gives them")
		os.Exit(2)
	}
	if err := run(*binary, *dir, *only, *long); err != nil {
		fmt.Fprintln(os.Stderr, "hostile: FAILED:", err)
		os.Exit(1)
	}
}

func run(binary, dir, only string, long bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := harness.NewRun(ctx, binary, dir)
	defer func() {
		r.End()
		if err != nil {
			r.WriteLogs(os.Stderr)
		}
	}()
	c, err := r.NewCluster("hostile", clusterSize)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		n.Env = []string{goMemory}
		// The limits of writes as they are by default: the attackers are bound by them.
		delete(n.Flags, "write-rate")
		delete(n.Flags, "write-burst")
	}
	if err := c.Start(); err != nil {
		return err
	}
	b := &bench{Cluster: c, target: c.Nodes[0], long: long}
	if err := b.prepare(); err != nil {
		return err
	}
	scenarios := make([]harness.Scenario[*bench], 0, len(attacks))
	for _, a := range attacks {
		scenarios = append(scenarios, harness.Scenario[*bench]{Name: a.name, Run: func(b *bench) error { return b.attack(a) }})
	}
	return harness.Play(ctx, b, only, scenarios...)
}

// from returns a client that calls from an address of this machine.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{
		Timeout:   harness.CallTimeout,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64},
	}
}

// attack runs one attack beside the honest client, and looks at what it did.
func (b *bench) attack(a attack) error {
	// The usual is measured anew each time: the machine may be busier than before.
	usual, err := b.honest(b.Run.Ctx, b.length()/2)
	if err != nil {
		return fmt.Errorf("before the attack: %w", err)
	}
	ctx, cancel := context.WithTimeout(b.Run.Ctx, b.length())
	defer cancel()
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range a.clients {
		client := from(attackers[i%len(attackers)])
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a.step(ctx, b, client, attackers[i%len(attackers)], i<<20|n)
				made.Add(1)
				select {
				case <-time.After(attackPause):
				case <-ctx.Done():
				}
			}
			client.CloseIdleConnections()
		})
	}
	beside, err := b.honest(ctx, b.length())
	cancel()
	group.Wait()
	if err != nil {
		return fmt.Errorf("the honest client: %w", err)
	}
	most, err := b.healthy()
	fmt.Printf("   %d steps; p99 of an honest client %v, beside it %v; at most %d MB\n", made.Load(), usual.Round(time.Millisecond), beside.Round(time.Millisecond), most)
	if bound := slower * max(usual, leastP99); beside > bound {
		err = errors.Join(err, fmt.Errorf("the honest client's p99 was %v, more than %v", beside, bound))
	}
	return err
}

func (b *bench) length() time.Duration {
	if b.long {
		return longAttack
	}
	return shortAttack
}

// honest calls health, lists and home for a while and returns the 99th percentile of
// what a call took. Errors: a call that was not answered as it should be.
func (b *bench) honest(ctx context.Context, length time.Duration) (time.Duration, error) {
	client := from(honestAddress)
	defer client.CloseIdleConnections()
	paths := []string{"/livez", "/readyz", "/api/entries?limit=10", "/api/home?for=honest", "/api/entries?q=tide"}
	var took []time.Duration
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(honestPause) {
		path := paths[len(took)%len(paths)]
		begun := time.Now()
		status, err := get(b.Run.Ctx, client, b.target.URL+path)
		if err != nil || status != http.StatusOK {
			return 0, fmt.Errorf("%s: status %d, %w", path, status, err)
		}
		took = append(took, time.Since(begun))
	}
	if len(took) == 0 {
		return 0, errors.New("made no call")
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}

// healthy fails when a node has ended, holds too much, or let a stranger write under
// the owner's name; it returns how many MB the largest holds.
func (b *bench) healthy() (most int64, err error) {
	for _, n := range b.Nodes {
		if !n.Running() {
			return 0, fmt.Errorf("%s has ended", n.Name)
		}
		held, err := n.Memory()
		if err != nil {
			return 0, err
		}
		most = max(most, int64(held.Resident>>20))
	}
	if most > memoryMB {
		err = fmt.Errorf("a node holds %d MB, more than %d", most, memoryMB)
	}
	return most, errors.Join(err, b.WaitReady(harness.ReadyTimeout, b.Nodes...), b.nameIsSafe())
}
