package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// target says which nodes a fault is for. They are chosen when the fault begins.
type target string

// The targets.
const (
	leader   target = "leader"
	follower target = "follower"
	reader   target = "reader" // the node without a vote
	all      target = "all"
	// cluster is the target of procedures that clients must not notice. Other targets are
	// names of nodes.
	cluster target = "cluster"
)

// event is one fault of a plan.
type event struct {
	At     time.Duration // since the first fault
	For    time.Duration
	Fault  string
	Target target
	Hard   bool // even if it leaves no majority
	// InTurn makes the event wait until all nodes are well after the one before. The events of
	// a plan are all in turn, or all at their times.
	InTurn bool
	// The result:
	Nodes    []string
	Begin    time.Duration // since the run began
	End      time.Duration
	Well     time.Duration // when all nodes were well again, if the event is in turn
	Note     string        // why it was left out
	Minority bool          // too few voters were left to write
	Leaders  int           // how many began to lead meanwhile
	Gap      time.Duration // longest time without an acknowledged write on other nodes
	ReadGap  time.Duration // the same for reads that need no leader
	Writes   slowness      // of other nodes
	Reads    slowness
}

// skippedNote begins the note of an event that this machine cannot carry out.
const skippedNote = "skipped: "

// slowness is the 99th percentile of call times: before the first fault, and during a
// fault.
type slowness struct {
	Usual, Meanwhile time.Duration
}

func (s slowness) String() string {
	return fmt.Sprintf("%v (%v)", s.Meanwhile.Round(time.Millisecond), s.Usual.Round(time.Millisecond))
}

// manyVoters is the number of voters in scenarios whose names contain ofFive.
const (
	manyVoters = 5
	ofFive     = "of five"
)

func repeated(n int, every time.Duration, e event) []event {
	plan := make([]event, n)
	for i := range plan {
		e.At = time.Duration(i) * every
		plan[i] = e
	}
	return plan
}

// inTurn is a plan of events that do not overlap.
func inTurn(plan ...event) []event {
	for i := range plan {
		plan[i].InTurn = true
	}
	return plan
}

// randomPlan spreads some of the named faults over a time; some overlap. The seed decides
// everything.
func randomPlan(seed uint64, length time.Duration, names []string) []event {
	const shortest, longest, pause = 500 * time.Millisecond, 9 * time.Second, 4 * time.Second
	random := rand.New(rand.NewPCG(seed, 0))
	targets := []target{leader, leader, leader, follower, follower, reader}
	var plan []event
	for at := time.Duration(0); at < length; at += pause/4 + time.Duration(random.Int64N(int64(2*pause))) {
		e := event{At: at, Fault: names[random.IntN(len(names))], Target: targets[random.IntN(len(targets))]}
		e.For = shortest + time.Duration(random.Int64N(int64(longest-shortest)))
		e.Hard = random.IntN(5) == 0
		if e.Fault == "kill" && random.IntN(12) == 0 {
			e.Target, e.For, e.Hard = all, 2*time.Second, true
		}
		plan = append(plan, e)
	}
	return plan
}

const (
	voters = 3
	// usualPause is the pause of each of the 24 clients after each call.
	usualPause = 20 * time.Millisecond
	// steady is how long clients work before the first fault. If they write less than enoughWrites
	// times a second meanwhile, the run is void.
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
	later     string // the binary of a later version
	seed      uint64
	random    time.Duration
	only      string
	pause     time.Duration
	least     float64
	contained bool // the nodes are containers of the compose file, behind its balancer
	voters    int
	flags     map[string]string // of the nodes
	env       []string          // of the nodes
	kills     int
}

// limited reports whether the run has limits of writes.
func (o *options) limited() bool { return o.seed%2 == 0 }
