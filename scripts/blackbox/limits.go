package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
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
// clients write almost as much as they may: none of them is refused.
func belowLimits(b *bench, _ *cluster) error {
	c, err := b.newCluster("limited")
	if err != nil {
		return err
	}
	for _, p := range c.nodes {
		p.args[slices.Index(p.args, "--write-rate")+1] = strconv.Itoa(limitedPerMinute)
		p.args[slices.Index(p.args, "--write-burst")+1] = strconv.Itoa(limitedBurst)
		p.args = append(p.args, "--trusted-proxies", "127.0.0.1")
	}
	c.pace = limitedPace
	if err := c.startAll(); err != nil {
		return err
	}
	if err := c.leadershipMoves(); err != nil {
		return err
	}
	if err := rollingRestarts(b, c); err != nil {
		return err
	}
	if err := c.limitHolds(); err != nil {
		return err
	}
	return c.terminateAll()
}

// leadershipMoves has operators move leadership under load.
func (c *cluster) leadershipMoves() error {
	transfers := shortTransfers
	if c.bench.long {
		transfers = longTransfers
	}
	l := c.startLoad("leadership-moves", false)
	defer l.cancel()
	env := []string{"COMMONS_CLUSTER_ADDR=" + c.nodes[0].private, "COMMONS_SECRET_FILE=" + c.secret}
	start := time.Now()
	for range transfers {
		if err := l.waitForMore(); err != nil {
			return err
		}
		code, out, errs, err := c.bench.command(env, "raft", "transfer-leader")
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
	fmt.Printf("   %d transfers of leadership: no write was acknowledged for %v at most\n", transfers, l.gap(start).Round(time.Millisecond))
	return l.end()
}

// limitHolds checks that there is a limit to be below: of many writes at once some
// are refused.
func (c *cluster) limitHolds() error {
	body, err := json.Marshal(map[string]any{"agent": "writer", "body": "one of too many"})
	if err != nil {
		return err
	}
	return c.bench.eventually(readyTimeout, func() error {
		var refused atomic.Int64
		var group sync.WaitGroup
		for i := range 10 * writers {
			p := c.nodes[i%len(c.nodes)]
			group.Go(func() {
				if _, err := call(c.bench.ctx, http.MethodPost, p.url+"/api/entries", nil, body, http.StatusTooManyRequests, nil); err == nil {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		if refused.Load() == 0 {
			return errors.New("no limit refuses any of many writes")
		}
		return nil
	})
}
