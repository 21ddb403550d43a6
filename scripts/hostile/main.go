// Command hostile attacks a node of a cluster as a stranger with a handful of
// addresses would, each attack for a while beside an honest client, and fails when a
// node ends or grows too large, when the honest client waits more than three times as
// long as beside as many honest clients, or when something was written under a name that
// another key owns.
// scripts/hostile.sh builds and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The limits that nodes must keep during attacks, and how long attacks take.
const (
	clusterSize = 3
	shortAttack = 2500 * time.Millisecond
	longAttack  = time.Minute
	// memoryMB is the memory that a node may use, and goMemory the goal of its garbage
	// collector, both as in the compose file.
	memoryMB = 1024
	goMemory = "GOMEMLIMIT=750MiB"
	// slower is the factor by which the honest client's 99th percentile may grow during
	// an attack, and leastP99 the lowest value that counts as usual.
	slower   = 3
	leastP99 = 10 * time.Millisecond
	tries    = 3
	// honestPause is the pause between two calls of the honest client.
	honestPause = 10 * time.Millisecond
	// attackPause is the pause between two steps of an attacker: attacks and nodes share
	// the processor, and a mere flood is not what we test.
	attackPause = 20 * time.Millisecond
	// honestAddress is where it calls from, and attackers where the attacks come from.
	honestAddress = "127.0.1.1"
)

// attackers is the number of addresses that each attack uses, in its own network. Honest
// load comes from other networks.
const (
	attackers      = 16
	firstAttackers = 16
	honestLoad     = "127.0.4.%d"
)

// bench is one run.
type bench struct {
	*harness.Cluster
	target *harness.Node

	mu    sync.Mutex
	found error // the first finding of an attack

	// The owner's entry and jobs, and its edit_key.
	entry, job, claimed, key string
}

func main() { harness.Main("hostile", run) }

func run(r *harness.Run) {
	c := r.NewCluster("hostile", clusterSize)
	for _, n := range c.Nodes {
		n.Env = []string{goMemory}
		// The default limits of writes apply to the attackers.
		delete(n.Flags, "write-rate")
		delete(n.Flags, "write-burst")
		n.Flags["house-agents"] = owner
	}
	serveTLS(c)
	c.Start()
	b := &bench{Cluster: c, target: c.Nodes[0]}
	b.prepare()
	scenarios := make([]harness.Scenario[*bench], 0, len(attacks))
	for i, a := range attacks {
		a.addresses = fmt.Sprintf("127.0.%d.%%d", firstAttackers+i)
		scenarios = append(scenarios, harness.Scenario[*bench]{Name: a.name, Run: func(b *bench) { b.attack(a) }})
	}
	harness.Play(r, b, scenarios...)
}

// from returns a client that calls from an address of this machine.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{
		Timeout:   harness.CallTimeout,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64},
	}
}

// attack runs one attack beside the honest client, and checks the effects. If the honest
// client was slow, the machine may be the reason: the attack is tried again.
func (b *bench) attack(a attack) {
	var slow error
	for range tries {
		if slow = b.attackOnce(a); slow == nil {
			return
		}
	}
	harness.Must(slow)
}

// attackOnce returns an error if the honest client was slow.
func (b *bench) attackOnce(a attack) error {
	// The usual value is measured again each time, beside as much honest load: attackers,
	// nodes and other programs on this machine share the processor.
	usual, _ := b.beside(attack{name: "honest load", clients: a.clients, step: honestStep, addresses: honestLoad}, b.length()/2)
	beside, made := b.beside(a, b.length())
	most := b.healthy()
	fmt.Printf("   %d steps; p99 of an honest client %v, beside it %v; at most %d MB\n", made, usual.Round(time.Millisecond), beside.Round(time.Millisecond), most)
	if bound := slower * max(usual, leastP99); beside > bound {
		return fmt.Errorf("the honest client's p99 was %v, more than %v", beside, bound)
	}
	return nil
}

// beside runs the clients of an attack, half of them at the node that the honest client
// calls and the others at all three. It returns the honest client's 99th percentile
// meanwhile, and the number of steps.
func (b *bench) beside(a attack, length time.Duration) (p99 time.Duration, steps int64) {
	ctx, cancel := context.WithTimeout(b.Run.Ctx, length)
	defer cancel()
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range a.clients {
		address := fmt.Sprintf(a.addresses, 1+i%attackers)
		at := stranger{from(address), b.target, address}
		if i%2 == 1 {
			at.node = b.Nodes[i/2%len(b.Nodes)]
		}
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a.step(ctx, b, at, i<<20|n)
				made.Add(1)
				harness.Pause(ctx, attackPause)
			}
			at.CloseIdleConnections()
		})
	}
	p99, err := b.honest(ctx, length)
	cancel()
	group.Wait()
	if err != nil {
		harness.Failf("the honest client beside %s: %w", a.name, err)
	}
	return p99, made.Load()
}

// honestPaths are the paths that honest clients read.
var honestPaths = []string{"/livez", "/readyz", "/api/entries?limit=10", "/api/home?for=honest", "/api/entries?q=tide"}

// honestStep reads as agents do, and writes now and then.
func honestStep(ctx context.Context, _ *bench, at stranger, n int) {
	if n%20 == 0 {
		at.publish(ctx, "honest", fmt.Sprintf("The tide comes in, for the %dth time.", n))
	}
	_, _ = raw.Do(ctx, at.Client, http.MethodGet, at.node.URL+honestPaths[n%len(honestPaths)], "")
}

func (b *bench) length() time.Duration {
	if b.Run.Long {
		return longAttack
	}
	return shortAttack
}

// honest calls health, lists and home for a while and returns the 99th percentile of the
// times of calls. It returns an error unless every call succeeds.
func (b *bench) honest(ctx context.Context, length time.Duration) (time.Duration, error) {
	client := from(honestAddress)
	defer client.CloseIdleConnections()
	var took []time.Duration
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(honestPause) {
		path := honestPaths[len(took)%len(honestPaths)]
		begun := time.Now()
		res, err := raw.Do(b.Run.Ctx, client, http.MethodGet, b.target.URL+path, "")
		if err == nil && res.Status != http.StatusOK {
			err = fmt.Errorf("status %d", res.Status)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
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
func (b *bench) healthy() (most uint64) {
	for _, n := range b.Nodes {
		if !n.Running() {
			harness.Failf("%s has ended", n.Name)
		}
		most = max(most, harness.Got(n.Memory())>>20)
	}
	if most > memoryMB {
		harness.Failf("a node holds %d MB, more than %d", most, memoryMB)
	}
	harness.Must(b.WaitReady(harness.ReadyTimeout, b.Nodes...))
	b.nameIsSafe()
	return most
}
