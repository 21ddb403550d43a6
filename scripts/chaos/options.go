package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// errSkipped is the error of a run that this machine cannot carry out, and exitSkipped the
// exit code if it can carry out none.
var errSkipped = errors.New("skipped")

const exitSkipped = 77

const (
	voters = 3
	// usualPause is the pause of each of the 24 clients after each call.
	usualPause = 20 * time.Millisecond
	// steady is how long clients work before the first fault, and enoughWrites how many
	// writes a second they must reach in that time: with fewer, a run is void.
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
	binary, dir string
	later       string // the binary of a later version
	seed        uint64
	random      time.Duration
	only        string
	pause       time.Duration
	least       float64
	contained   bool // the nodes are containers of the compose file, behind its balancer
	voters      int
	flags, env  []string // of the nodes
	kills       int
}

// limited reports whether the run has limits of writes.
func (o *options) limited() bool { return o.seed%2 == 0 }

// place is the name of the directory of a run.
func (o *options) place(name string) string {
	return fmt.Sprintf("%s-%d", strings.NewReplacer(" ", "-", "'", "").Replace(name), o.seed)
}
