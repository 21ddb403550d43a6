package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// The networks between nodes.
const (
	proxied   = "proxies"
	spaced    = "namespaces"
	contained = "containers" // the engine's own network, and the balancer
)

var errSkipped = errors.New("skipped")

const (
	voters = 3
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
	binary, dir, out string
	later            string // the binary of a later version
	seed             uint64
	random           time.Duration
	only             string
	pause            time.Duration
	least            float64
	network          string
	voters           int
	flags, env       []string // of the nodes
	kills            int
	logsOnDisks      bool // each voter's log is a file on its own disk
	unread           bool // the log of each node is a pipe that is not read
	keep             bool
}

// limited reports whether the run has limits of writes.
func (o *options) limited() bool { return o.seed%2 == 0 }

// problem returns an error if an option of a run is missing.
func (o *options) problem() error {
	if o.binary == "" || o.dir == "" || o.out == "" {
		return errors.New("-binary, -dir and -out are needed; scripts/chaos.sh gives them")
	}
	return nil
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

// exitSkipped is the exit code if this machine can run no scenario.
const exitSkipped = 77
