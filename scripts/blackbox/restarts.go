package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// How often all nodes are restarted in the short and in the long run.
const (
	shortRestarts = 1
	longRestarts  = 20
)

// How long the leader is stopped; in the long run for longer than a write may hang.
const (
	shortPause = 5 * time.Second
	longPause  = harness.HangTimeout + 10*time.Second
)

// rollingRestarts restarts node after node in good order while clients of the
// others write and poll, as an upgrade does. No request may fail.
func rollingRestarts(c *cluster) error {
	rounds := shortRestarts
	if c.bench.long {
		rounds = longRestarts
	}
	l := c.startLoad("rolling-restarts", false)
	defer l.Stop()
	var ends, gaps []time.Duration
	for range rounds {
		for _, p := range c.Nodes {
			gap, err := nodeLost(c, l, p, func(p *harness.Node) error {
				start := time.Now()
				defer func() { ends = append(ends, time.Since(start)) }()
				return p.Terminate()
			})
			if err != nil {
				return err
			}
			gaps = append(gaps, gap)
		}
	}
	fmt.Printf("   %d restarts: a node ended after %v at most, no write was acknowledged for %v at most\n",
		len(ends), slices.Max(ends).Round(time.Millisecond), slices.Max(gaps).Round(time.Millisecond))
	return l.end()
}

// leaderPaused stops the leader's process and lets it go on, as a paused container
// does: another one leads meanwhile, nobody is removed, and the process takes up
// its place again instead of believing that its disk hung.
func leaderPaused(c *cluster) error {
	pause := shortPause
	if c.bench.long {
		pause = longPause
	}
	leader, others, err := c.Leader()
	if err != nil {
		return err
	}
	l := c.startLoad("leader-paused", false)
	defer l.Stop()
	if err := c.route.use(c.Run, others); err != nil {
		return err
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	stopped := time.Now()
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for time.Since(stopped) < pause {
		if err := l.waitForMore(); err != nil {
			return err
		}
		if s, err := others[0].Status(); err != nil || len(s.Voters) < clusterSize {
			return fmt.Errorf("%s says that %v vote, while %s is only stopped (%w)", others[0].Name, s.Voters, leader.Name, err)
		}
	}
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := c.WaitReady(harness.ReadyTimeout, leader); err != nil {
		return err
	}
	fmt.Printf("   no write was acknowledged for %v\n", l.Gap(stopped).Round(time.Millisecond))
	if err := c.route.use(c.Run, c.Nodes); err != nil {
		return err
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	return l.end()
}
