package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The write limits of a cluster whose writers stay just below them: each is a sender
// and an agent of its own, and writes again as soon as that is 98 % of its rate.
const (
	limitedPerMinute = 1200
	limitedBurst     = 2
	limitedPace      = time.Minute * 100 / (98 * limitedPerMinute)

	shortTransfers = 5
	longTransfers  = 20
)

// belowLimits moves leadership again and again, and restarts node after node, while
// clients write almost as much as they may: none of them is rejected.
func belowLimits(b *bench) error {
	c, err := b.newCluster("limited")
	if err != nil {
		return err
	}
	for _, p := range c.Nodes {
		p.Flags["write-rate"] = strconv.Itoa(limitedPerMinute)
		p.Flags["write-burst"] = strconv.Itoa(limitedBurst)
		p.Flags["trusted-proxies"] = "127.0.0.1"
	}
	c.pace = limitedPace
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.leadershipMoves(); err != nil {
		return err
	}
	if err := rollingRestarts(c); err != nil {
		return err
	}
	if err := c.limitHolds(); err != nil {
		return err
	}
	return c.Terminate()
}

// leadershipMoves has operators move leadership under load.
func (c *cluster) leadershipMoves() error {
	transfers := shortTransfers
	if c.bench.long {
		transfers = longTransfers
	}
	l := c.startLoad("leadership-moves", false)
	defer l.Stop()
	env := []string{"COMMONS_CLUSTER_ADDR=" + c.Nodes[0].Private, "COMMONS_SECRET_FILE=" + c.Secret}
	start := time.Now()
	for range transfers {
		if err := l.waitForMore(); err != nil {
			return err
		}
		code, out, errs, err := c.Run.Command(env, "raft", "transfer-leader")
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("raft transfer-leader: exit code %d, %s%s", code, out, errs)
		}
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	fmt.Printf("   %d transfers of leadership: no write was acknowledged for %v at most\n", transfers, l.Gap(start).Round(time.Millisecond))
	return l.end()
}

// limitHolds checks that there is a limit to be below: of many writes at once some
// are rejected.
func (c *cluster) limitHolds() error {
	body := map[string]any{"agent": "writer", "body": "one of too many"}
	return c.Run.Eventually(harness.ReadyTimeout, func() error {
		var rejected atomic.Int64
		var group sync.WaitGroup
		for i := range 10 * writers {
			p := c.Nodes[i%len(c.Nodes)]
			group.Go(func() {
				if _, err := p.Call(http.MethodPost, "/api/entries", nil, body, nil, http.StatusTooManyRequests); err == nil {
					rejected.Add(1)
				}
			})
		}
		group.Wait()
		if rejected.Load() == 0 {
			return errors.New("no limit rejects any of many writes")
		}
		return nil
	})
}
